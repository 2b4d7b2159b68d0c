r"""Store views of a forest: features are looked up when a batch asks for them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import EdgeAttr, FeatureStore, GraphStore, TensorAttr
from torch_geometric.data.graph_store import EdgeLayout

from torch_geometric_cgt.data.lazy_forest import LazyForest
from torch_geometric_cgt.data.split import MASKS, masks_of
from torch_geometric_cgt.data.token_trees import TokenTrees

_READ_ONLY = 'The stores of a synthetic dataset are read-only'


class CodebookFeatureStore(FeatureStore):
    r"""The node attributes of a forest, with :obj:`x` decoded on request.

    What is held are the tokens of the trees, which may be mapped from a file;
    a row of :obj:`x` exists only in the batch that asked for it.

    Args:
        forest (LazyForest): The nodes of the trees.
        codebook (torch.Tensor): The mean feature vector of each cluster.
    """

    def __init__(self, forest: LazyForest, codebook: Tensor) -> None:
        super().__init__()
        self.forest = forest
        self.codebook = codebook

    def _get_tensor(self, attr: TensorAttr) -> Tensor | None:
        if attr.attr_name not in ('x', 'y', *MASKS):
            return None
        node = self._nodes(attr.index)
        if attr.attr_name == 'x':
            return self.codebook[self.forest.token_of(node)]
        trees, tree = self.forest.trees, self.forest.tree_of(node)
        is_root = self.forest.ptr[tree] == node
        if attr.attr_name == 'y':
            return torch.where(is_root, trees.y[tree].long(), -1)
        return masks_of(trees.split[tree])[attr.attr_name] & is_root

    def _nodes(self, index: Tensor | slice | None) -> Tensor:
        if isinstance(index, Tensor):
            return index.nonzero().view(-1) if index.dtype == torch.bool else index
        return torch.arange(self.forest.num_nodes)[slice(None) if index is None else index]

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        if attr.attr_name == 'x':
            return self.forest.num_nodes, self.codebook.size(1)
        return (self.forest.num_nodes,) if attr.attr_name in ('y', *MASKS) else None

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        return [TensorAttr(group_name=None, attr_name=name) for name in ('x', 'y', *MASKS)]

    def _put_tensor(self, tensor: Tensor, attr: TensorAttr) -> bool:
        raise TypeError(_READ_ONLY)

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        raise TypeError(_READ_ONLY)

    def __len__(self) -> int:
        return 2 + len(MASKS)


class ForestGraphStore(GraphStore):
    r"""The edges of a forest, child to parent. They are made when they are
    asked for; :class:`~torch_geometric_cgt.sampler.TreeNeighborSampler` finds
    the children of a node without them.

    Args:
        forest (LazyForest): The nodes of the trees.
    """

    def __init__(self, forest: LazyForest) -> None:
        super().__init__()
        self.forest = forest
        self.size = (forest.num_nodes, forest.num_nodes)

    def _get_edge_index(self, edge_attr: EdgeAttr) -> tuple[Tensor, Tensor] | None:
        if edge_attr.layout is not EdgeLayout.COO:
            return None
        edge_index = self.forest.trees.forest().edge_index
        return edge_index[0], edge_index[1]

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        return [EdgeAttr(edge_type=None, layout=EdgeLayout.COO, size=self.size)]

    def _put_edge_index(self, edge_index: tuple[Tensor, Tensor], edge_attr: EdgeAttr) -> bool:
        raise TypeError(_READ_ONLY)

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:
        raise TypeError(_READ_ONLY)


def root_nodes(forest: LazyForest, split: str) -> Tensor:
    r"""The forest nodes that are roots of one split.

    Args:
        forest (LazyForest): The nodes of the trees.
        split (str): One of :obj:`"train"`, :obj:`"val"`, :obj:`"test"`, or
            :obj:`"all"`.
    """
    trees: TokenTrees = forest.trees
    masks = {name.removesuffix('_mask'): mask for name, mask in masks_of(trees.split).items()}
    masks['all'] = torch.ones(len(trees), dtype=torch.bool)
    if split not in masks:
        raise ValueError(f"'split' must be one of {list(masks)} (got '{split}')")
    return forest.root[masks[split]]
