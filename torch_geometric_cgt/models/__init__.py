r"""Models of token trees with one common interface, scenes, and the support rule."""

from torch_geometric_cgt.models.histograms import PrivateHistograms
from torch_geometric_cgt.models.mixing import PrivateMixing
from torch_geometric_cgt.models.transformer import PrivateGenerator, TransformerModel
from torch_geometric_cgt.models.tree_model import (
    FitContext,
    PrivateTreeModel,
    TokenGraph,
    TreeModel,
    TreeSource,
)

PRIVATE_MODELS: dict[str, type[TreeModel]] = {
    model.name: model for model in (PrivateMixing, PrivateHistograms, PrivateGenerator)
}
TREE_MODELS: dict[str, type[TreeModel]] = {
    TransformerModel.name: TransformerModel,
    **PRIVATE_MODELS,
}

__all__ = [
    'PRIVATE_MODELS',
    'TREE_MODELS',
    'FitContext',
    'PrivateGenerator',
    'PrivateHistograms',
    'PrivateMixing',
    'PrivateTreeModel',
    'TokenGraph',
    'TransformerModel',
    'TreeModel',
    'TreeSource',
]
