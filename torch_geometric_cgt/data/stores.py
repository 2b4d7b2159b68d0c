r"""Store views of a forest: features are looked up when a batch asks for them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import EdgeAttr, FeatureStore, GraphStore, TensorAttr
from torch_geometric.data.graph_store import EdgeLayout

from torch_geometric_cgt.data.forest import Forest
from torch_geometric_cgt.data.split import masks_of
from torch_geometric_cgt.data.token_trees import TokenTrees

_READ_ONLY = 'The stores of a synthetic dataset are read-only'


class CodebookFeatureStore(FeatureStore):
    r"""The node attributes of a forest, with :obj:`x` decoded on request.

    What is held per node is one token; a row of :obj:`x` exists only in the
    batch that asked for it.

    Args:
        trees (TokenTrees): The trees.
        forest (Forest): The nodes and edges of the trees.
        codebook (torch.Tensor): The mean feature vector of each cluster.
    """

    def __init__(self, trees: TokenTrees, forest: Forest, codebook: Tensor) -> None:
        super().__init__()
        self.codebook = codebook
        self.token = trees.tokens.reshape(-1)[forest.slot]
        self.columns = {'y': forest.lift(trees.y.long(), fill=-1)}
        for name, mask in masks_of(trees.split).items():
            self.columns[name] = forest.lift(mask, fill=False)

    def _get_tensor(self, attr: TensorAttr) -> Tensor | None:
        index = slice(None) if attr.index is None else attr.index
        if attr.attr_name == 'x':
            return self.codebook[self.token[index].long()]
        column = self.columns.get(attr.attr_name)
        return None if column is None else column[index]

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        if attr.attr_name == 'x':
            return self.token.numel(), self.codebook.size(1)
        column = self.columns.get(attr.attr_name)
        return None if column is None else tuple(column.shape)

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        return [TensorAttr(group_name=None, attr_name=name) for name in ('x', *self.columns)]

    def _put_tensor(self, tensor: Tensor, attr: TensorAttr) -> bool:
        raise TypeError(_READ_ONLY)

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        raise TypeError(_READ_ONLY)

    def __len__(self) -> int:
        return 1 + len(self.columns)


class ForestGraphStore(GraphStore):
    r"""The edges of a forest, child to parent.

    Args:
        forest (Forest): The nodes and edges of the trees.
    """

    def __init__(self, forest: Forest) -> None:
        super().__init__()
        self.edge_index = forest.edge_index
        self.size = (forest.num_nodes, forest.num_nodes)

    def _get_edge_index(self, edge_attr: EdgeAttr) -> tuple[Tensor, Tensor] | None:
        if edge_attr.layout is not EdgeLayout.COO:
            return None
        return self.edge_index[0], self.edge_index[1]

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        return [EdgeAttr(edge_type=None, layout=EdgeLayout.COO, size=self.size)]

    def _put_edge_index(self, edge_index: tuple[Tensor, Tensor], edge_attr: EdgeAttr) -> bool:
        raise TypeError(_READ_ONLY)

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:
        raise TypeError(_READ_ONLY)


def root_nodes(trees: TokenTrees, forest: Forest, split: str) -> Tensor:
    r"""The forest nodes that are roots of one split.

    Args:
        trees (TokenTrees): The trees.
        forest (Forest): The nodes and edges of the trees.
        split (str): One of :obj:`"train"`, :obj:`"val"`, :obj:`"test"`, or
            :obj:`"all"`.
    """
    masks = {name.removesuffix('_mask'): mask for name, mask in masks_of(trees.split).items()}
    masks['all'] = torch.ones(len(trees), dtype=torch.bool)
    if split not in masks:
        raise ValueError(f"'split' must be one of {list(masks)} (got '{split}')")
    return forest.root[masks[split]]
