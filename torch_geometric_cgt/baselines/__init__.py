r"""Other generators of computation graphs and graphs, to compare with."""

from torch_geometric_cgt.baselines.block_graphs import (
    ConfigurationModel,
    ConfigurationTrees,
    DegreeCorrectedSBM,
    DegreeCorrectedSBMTrees,
)
from torch_geometric_cgt.baselines.graph_af import GraphAF
from torch_geometric_cgt.baselines.graph_df import GraphDF
from torch_geometric_cgt.baselines.graph_ebm import GraphEBM
from torch_geometric_cgt.baselines.graph_model import GraphModel
from torch_geometric_cgt.baselines.graph_vae import GraphVAE
from torch_geometric_cgt.baselines.ngram import Independent, NGram
from torch_geometric_cgt.baselines.resampled import Resampled
from torch_geometric_cgt.baselines.table_model import TableModel
from torch_geometric_cgt.baselines.tree_diffusion import TreeDiffusion
from torch_geometric_cgt.baselines.vgae import VGAE
from torch_geometric_cgt.models import TreeModel

BASELINES: dict[str, type[TreeModel]] = {
    NGram.name: NGram,
    Independent.name: Independent,
    Resampled.name: Resampled,
    ConfigurationTrees.name: ConfigurationTrees,
    DegreeCorrectedSBMTrees.name: DegreeCorrectedSBMTrees,
    VGAE.name: VGAE,
    GraphVAE.name: GraphVAE,
    GraphAF.name: GraphAF,
    GraphDF.name: GraphDF,
    GraphEBM.name: GraphEBM,
    TreeDiffusion.name: TreeDiffusion,
}

__all__ = [
    'BASELINES',
    'VGAE',
    'ConfigurationModel',
    'ConfigurationTrees',
    'DegreeCorrectedSBM',
    'DegreeCorrectedSBMTrees',
    'GraphAF',
    'GraphDF',
    'GraphEBM',
    'GraphModel',
    'GraphVAE',
    'Independent',
    'NGram',
    'Resampled',
    'TableModel',
    'TreeDiffusion',
]
