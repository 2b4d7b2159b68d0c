r"""A forest as PyG feature store and graph store, computed batch by batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import EdgeAttr, FeatureStore, GraphStore, TensorAttr
from torch_geometric.data.graph_store import EdgeLayout

from torch_geometric_cgt.data.token_trees import MASKS, TokenTrees, masks_of

COUNT_BLOCK = 1 << 16  # trees per block
_READ_ONLY = 'The stores of a synthetic dataset are read-only'


@dataclass(frozen=True)
class LazyForest:
    r"""The nodes and edges of :meth:`TokenTrees.forest`, computed on request.
    Only one number per tree is stored.

    Nodes are numbered tree by tree and breadth-first inside a tree, so that the
    children of a node have consecutive numbers.

    Args:
        trees (TokenTrees): The trees. Their tokens may be memory-mapped.
        ptr (torch.Tensor): The first node of each tree, followed by the total
            number of nodes, ``[n + 1]``.
    """

    trees: TokenTrees
    ptr: Tensor

    @classmethod
    def of(cls, trees: TokenTrees) -> LazyForest:
        r"""Counts the nodes of each tree."""
        counts = [part.real.sum(dim=1) for part in trees.blocks(COUNT_BLOCK)]
        ptr = torch.zeros(len(trees) + 1, dtype=torch.long)
        torch.cumsum(torch.cat([torch.zeros(0, dtype=torch.long), *counts]), 0, out=ptr[1:])
        return cls(trees, ptr)

    @property
    def num_nodes(self) -> int:
        return int(self.ptr[-1])

    @property
    def root(self) -> Tensor:
        r"""The root of each tree, ``[n]``."""
        return self.ptr[:-1]

    def tree_of(self, node: Tensor) -> Tensor:
        r"""The tree of each node."""
        return torch.searchsorted(self.ptr, node, right=True) - 1

    def token_of(self, node: Tensor) -> Tensor:
        r"""The token of each node."""
        tree = self.tree_of(node)
        rows = self.trees.tokens[tree]
        slot = self._slot(rows, node - self.ptr[tree])
        return rows.gather(1, slot[:, None])[:, 0].long()

    def edge_token_of(self, node: Tensor) -> Tensor:
        r"""The edge token of each node, for its edge to its parent. Trees without
        edge values have none.
        """
        assert self.trees.edge_tokens is not None
        tree = self.tree_of(node)
        slot = self._slot(self.trees.tokens[tree], node - self.ptr[tree])
        return self.trees.edge_tokens[tree].gather(1, slot[:, None])[:, 0].long()

    def children(self, node: Tensor) -> tuple[Tensor, Tensor]:
        r"""The first child of each node and the number of its children."""
        shape, tree = self.trees.shape, self.tree_of(node)
        rows = self.trees.tokens[tree]
        slot = self._slot(rows, node - self.ptr[tree])
        before = torch.cat(  # the number of non-null slots before each slot
            [torch.zeros_like(slot)[:, None], (rows != self.trees.num_tokens).cumsum(dim=1)], dim=1
        )
        begin, end = (bound[slot][:, None] for bound in shape.children)
        first = before.gather(1, begin)[:, 0]
        return self.ptr[tree] + first, before.gather(1, end)[:, 0] - first

    def edge_of(self, node: Tensor) -> Tensor:
        r"""The index of the edge from each node to its parent. Roots have no
        such edge, so a tree has one edge fewer than it has nodes.
        """
        return node - self.tree_of(node) - 1

    def _slot(self, rows: Tensor, rank: Tensor) -> Tensor:
        r"""The slot of the node with the given rank within its tree."""
        nodes_up_to = (rows != self.trees.num_tokens).cumsum(dim=1)
        return (nodes_up_to <= rank[:, None]).sum(dim=1)


class CodebookFeatureStore(FeatureStore):
    r"""The node attributes of a forest. The features :obj:`x` are looked up in
    the codebook for each request.

    The store holds the tokens of the trees, which may be memory-mapped. It
    never holds :obj:`x` for all nodes.

    PyG asks a feature store for nodes only. A node of a forest that is not a root
    has one edge, to its parent, so that :obj:`edge_weight` and :obj:`edge_attr`
    are those of the given nodes without roots, in their order. This is the order
    of the edges of a batch if all seeds are roots of different trees; other
    batches raise an error.

    Args:
        forest (LazyForest): The nodes of the trees.
        codebook (torch.Tensor): The mean feature vector of each cluster.
    """

    def __init__(self, forest: LazyForest, codebook: Tensor) -> None:
        super().__init__()
        self.forest = forest
        self.codebook = codebook
        values = forest.trees.edge_values
        self.edge_names = () if values is None else values.form.names

    def _get_tensor(self, attr: TensorAttr) -> Tensor | None:
        if attr.attr_name in self.edge_names:
            return self._edge_values(attr.attr_name, attr.index)
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

    def _edge_values(self, name: str, index: Tensor | slice | None) -> Tensor:
        node, values = self._nodes(index), self.forest.trees.edge_values
        assert values is not None
        is_root = self.forest.ptr[self.forest.tree_of(node)] == node
        one_by_one = node.unique().numel() == node.numel()
        roots_first = bool(is_root[: int(is_root.sum())].all())
        if isinstance(index, Tensor) and not (one_by_one and roots_first):
            raise ValueError(
                f"'{name}' is known for batches whose seeds are roots of different trees: use "
                f"'dataset.loader(split)', or 'input_nodes=root_nodes(forest, split)'"
            )
        return values.take(self.forest.edge_token_of(node[~is_root]))[name]

    def _nodes(self, index: Tensor | slice | None) -> Tensor:
        if isinstance(index, Tensor):
            return index.nonzero().view(-1) if index.dtype == torch.bool else index
        return torch.arange(self.forest.num_nodes)[slice(None) if index is None else index]

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        if attr.attr_name == 'x':
            return self.forest.num_nodes, self.codebook.size(1)
        if attr.attr_name in self.edge_names:
            return self._edge_values(attr.attr_name, None).shape
        return (self.forest.num_nodes,) if attr.attr_name in ('y', *MASKS) else None

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        names = ('x', 'y', *MASKS, *self.edge_names)
        return [TensorAttr(group_name=None, attr_name=name) for name in names]

    def _put_tensor(self, tensor: Tensor, attr: TensorAttr) -> bool:
        raise TypeError(_READ_ONLY)

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        raise TypeError(_READ_ONLY)

    def __len__(self) -> int:
        return 2 + len(MASKS) + len(self.edge_names)


class ForestGraphStore(GraphStore):
    r"""The edges of a forest, child to parent, computed on request.
    :class:`~torch_geometric_cgt.sampler.TreeNeighborSampler` does not need
    them to find the children of a node.

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
