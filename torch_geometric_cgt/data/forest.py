r"""The forest view: token trees as one disconnected PyG graph."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_geometric_cgt.data.tree import TreeShape


@dataclass(frozen=True)
class Forest:
    r"""The nodes and edges of :math:`n` trees without their null slots.

    Nodes are numbered tree by tree and breadth-first inside a tree.
    """

    slot: Tensor  # [num_nodes] flat position ``tree * T + slot`` of each node
    edge_index: Tensor  # [2, num_edges] child -> parent
    root: Tensor  # [n] the node that is the root of each tree
    depth: Tensor  # [num_nodes] layer of each node

    @property
    def num_nodes(self) -> int:
        return self.slot.numel()

    def lift(self, value: Tensor, fill: bool | int) -> Tensor:
        r"""Writes one value per tree at its root and :obj:`fill` elsewhere."""
        out = value.new_full((self.num_nodes,), fill)
        out[self.root] = value
        return out

    @property
    def root_mask(self) -> Tensor:
        return self.depth == 0


def build_forest(real: Tensor, shape: TreeShape) -> Forest:
    r"""Makes the forest of a batch of trees.

    Args:
        real (torch.Tensor): Whether each slot is not null, ``[n, T]``. A
            non-null slot below a null slot raises an error.
        shape (TreeShape): The geometry of the trees.
    """
    if real.dim() != 2 or real.size(1) != shape.num_slots:
        raise ValueError(
            f'Expected trees of {shape.num_slots} slots for {shape.num_neighbors} '
            f'(got {list(real.shape)})'
        )
    if not shape.check_nulls(real):
        raise ValueError('A root is null, or a slot below a null slot is not null')
    num_trees, num_slots = real.shape
    slot = real.reshape(-1).nonzero().view(-1)
    tree, local = slot // num_slots, slot % num_slots
    node = torch.full((num_trees * num_slots,), -1, device=real.device)
    node[slot] = torch.arange(slot.numel(), device=real.device)

    child = (local > 0).nonzero().view(-1)
    parent = shape.parent.to(real.device)[local[child]]
    edge_index = torch.stack([child, node[tree[child] * num_slots + parent]])
    root = node.view(num_trees, num_slots)[:, 0]
    return Forest(slot, edge_index, root, shape.layer.to(real.device)[local])
