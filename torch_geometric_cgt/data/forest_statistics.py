r"""Statistics of a forest that know which nodes are roots."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric_cgt.data.token_trees import TokenTrees, masks_of


@dataclass(frozen=True)
class ForestStatistics:
    r"""The size and shape of a forest of computation graphs.

    Only roots have labels. :meth:`torch_geometric.utils.homophily` compares
    the labels of both ends of an edge, and on a forest it counts edges between
    two nodes without a label as agreement. :obj:`root_homophily` does not.

    Args:
        num_trees (int): The number of computation graphs, and of roots.
        num_nodes (int): The number of nodes of all trees.
        num_edges (int): The number of edges from children to parents.
        num_neighbors (tuple[int, ...]): The largest number of children per
            layer.
        num_tokens (int): The number of rows of the codebook.
        num_classes (int): The number of labels.
        trees_per_class (tuple[int, ...]): The roots with each label.
        trees_per_split (dict[str, int]): The roots in each split;
            :obj:`"none"` counts roots without one.
        nodes_per_depth (tuple[float, ...]): The mean number of nodes of a tree
            at each depth; the first is the root.
        root_degree_mean (float): The mean number of children of a root.
        root_degree_max (int): The largest number of children of a root.
        isolated_roots (int): The number of roots without children.
        root_homophily (float): The expected share of the children of roots
            that have the label of their root. The label of a child is unknown.
            It counts as drawn from the labels of the roots with the same
            token. This uses the token of the child alone, and is therefore
            lower than the homophily of the source where clusters contain
            several labels. :obj:`nan` if no child has a token of a root.
    """

    num_trees: int
    num_nodes: int
    num_edges: int
    num_neighbors: tuple[int, ...]
    num_tokens: int
    num_classes: int
    trees_per_class: tuple[int, ...]
    trees_per_split: dict[str, int]
    nodes_per_depth: tuple[float, ...]
    root_degree_mean: float
    root_degree_max: int
    isolated_roots: int
    root_homophily: float

    @classmethod
    def of(cls, trees: TokenTrees) -> ForestStatistics:
        r"""Counts the statistics of some trees."""
        real, shape = trees.real, trees.shape
        children = shape.layer_slice(1)
        degree = real[:, children].sum(dim=1)
        per_slot = real.sum(dim=0)
        num_nodes = int(per_slot.sum())
        splits = {name.removesuffix('_mask'): mask for name, mask in masks_of(trees.split).items()}
        splits['none'] = trees.split == 0
        return cls(
            num_trees=len(trees),
            num_nodes=num_nodes,
            num_edges=num_nodes - len(trees),
            num_neighbors=shape.num_neighbors,
            num_tokens=trees.num_tokens,
            num_classes=trees.num_classes,
            trees_per_class=tuple(_counts(trees.y.long(), trees.num_classes).tolist()),
            trees_per_split={name: int(mask.sum()) for name, mask in splits.items()},
            nodes_per_depth=tuple(
                float(per_slot[shape.layer_slice(layer)].sum()) / max(1, len(trees))
                for layer in range(shape.depth + 1)
            ),
            root_degree_mean=float(degree.double().mean()),
            root_degree_max=int(degree.max()),
            isolated_roots=int((degree == 0).sum()),
            root_homophily=root_homophily(trees),
        )

    def to_dict(self) -> dict[str, Any]:
        r"""The statistics as a dictionary."""
        return asdict(self)

    def __str__(self) -> str:
        return '\n'.join(f'{name:17} {value}' for name, value in self.to_dict().items())


def root_homophily(trees: TokenTrees) -> float:
    r"""The expected share of children with the label of their root; see
    :class:`ForestStatistics`.

    Args:
        trees (TokenTrees): The trees.
    """
    m, num_classes = trees.num_tokens, trees.num_classes
    y = trees.y.long()
    cell = trees.tokens[:, 0].long() * num_classes + y
    count = _counts(cell, m * num_classes).view(m, num_classes)
    total = count.sum(dim=1)
    share = F.pad(count.double() / total.clamp(min=1)[:, None], (0, 0, 0, 1))  # [m + 1, C]
    child = trees.tokens[:, trees.shape.layer_slice(1)].long()
    known = F.pad(total > 0, (0, 1))[child]  # null slots are not known
    return float(share[child, y[:, None]][known].mean())


def _counts(value: Tensor, size: int) -> Tensor:
    return torch.bincount(value, minlength=size)
