r"""The geometry of computation graphs: a balanced tree in breadth-first order, and a forest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from numbers import Integral
from operator import mul

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class TreeShape:
    r"""The balanced tree that duplicate encoding gives to every computation
    graph: each slot of layer :math:`l` has ``num_neighbors[l]`` child slots.

    Slots are numbered breadth-first. The slots of a layer are therefore
    contiguous, and so are the children of a slot.

    Args:
        num_neighbors (tuple[int, ...]): The fan-out of each layer, root first.
    """

    num_neighbors: tuple[int, ...]

    @classmethod
    def of(cls, num_neighbors: Sequence[int]) -> TreeShape:
        r"""Checks the fan-outs that a user gave and returns their shape."""
        if isinstance(num_neighbors, (str, bytes)) or not hasattr(num_neighbors, '__iter__'):
            raise ValueError(
                f"'num_neighbors' must be a list with one fan-out per layer, e.g. [5, 5] "
                f'(got {num_neighbors!r})'
            )
        fan_outs = tuple(num_neighbors)
        if not fan_outs:
            raise ValueError("'num_neighbors' must hold at least one fan-out (got [])")
        if any(isinstance(f, bool) or not isinstance(f, Integral) or f < 1 for f in fan_outs):
            raise ValueError(
                f"Each fan-out in 'num_neighbors' must be an integer >= 1 (got {list(fan_outs)}); "
                f'trees have a fixed size, so that -1 for all neighbours is not possible'
            )
        return cls(tuple(int(f) for f in fan_outs))

    @property
    def depth(self) -> int:
        r"""The number of layers below the root, :math:`L`."""
        return len(self.num_neighbors)

    @cached_property
    def layer_sizes(self) -> tuple[int, ...]:
        r"""The number of slots in each of the :math:`L + 1` layers."""
        return (1, *accumulate(self.num_neighbors, mul))

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        r"""The first slot of each layer, followed by the number of slots."""
        return (0, *accumulate(self.layer_sizes))

    @property
    def num_slots(self) -> int:
        r"""The number of slots in the tree, :math:`T`."""
        return self.offsets[-1]

    @property
    def num_internal(self) -> int:
        r"""The number of slots that have children."""
        return self.offsets[-2]

    def layer_slice(self, layer: int) -> slice:
        r"""The slots of one layer."""
        return slice(self.offsets[layer], self.offsets[layer + 1])

    @cached_property
    def layer(self) -> Tensor:
        r"""The layer of each slot."""
        sizes = torch.tensor(self.layer_sizes, device='cpu')
        return torch.arange(self.depth + 1, device='cpu').repeat_interleave(sizes)

    @cached_property
    def parent(self) -> Tensor:
        r"""The parent of each slot, :obj:`-1` for the root."""
        fan_outs = torch.tensor(self.num_neighbors, dtype=torch.long, device='cpu')
        internal = torch.arange(-1, self.num_internal, device='cpu')  # the only child of -1 is 0
        num_children = F.pad(fan_outs[self.layer[: self.num_internal]], (1, 0), value=1)
        return internal.repeat_interleave(num_children)

    @cached_property
    def children(self) -> tuple[Tensor, Tensor]:
        r"""The first child slot of each slot, and one past its last child slot."""
        fan_outs = torch.tensor((*self.num_neighbors, 0), device='cpu')[self.layer]
        end = 1 + fan_outs.cumsum(dim=0)
        return end - fan_outs, end

    @cached_property
    def is_ancestor(self) -> Tensor:
        r"""Whether slot :math:`j` lies on the path from the root to slot
        :math:`i` (:math:`i` itself included), as a ``[T, T]`` mask.
        """
        mask = torch.eye(self.num_slots, dtype=torch.bool, device='cpu')
        for layer in range(1, self.depth + 1):
            slots = self.layer_slice(layer)
            mask[slots] |= mask[self.parent[slots]]
        return mask

    def parent_values(self, value: Tensor) -> Tensor:
        r"""The value of the parent of each slot below the root, ``[n, T - 1]``.

        It needs no index, which would have to be copied to the device.

        Args:
            value (torch.Tensor): A value per slot, ``[n, T]``.
        """
        layers = [
            value[:, self.layer_slice(layer), None].expand(-1, -1, fan_out).flatten(1)
            for layer, fan_out in enumerate(self.num_neighbors)
        ]
        return torch.cat(layers, dim=1)

    def truncate(self, depth: int) -> TreeShape:
        r"""The shape of the first :obj:`depth` layers below the root."""
        return TreeShape(self.num_neighbors[:depth])

    def sampled(self, num_neighbors: Sequence[int] | None) -> list[int]:
        r"""The number of children that a loader samples in each layer: at most
        those that a slot has.

        Args:
            num_neighbors (list[int], optional): The wanted numbers, from the
                root; :obj:`-1` for all. By default, all layers and children.
        """
        if num_neighbors is None:
            return list(self.num_neighbors)
        wanted = list(num_neighbors)
        if not 0 < len(wanted) <= self.depth or any(f == 0 or f < -1 for f in wanted):
            raise ValueError(
                f"'num_neighbors' must hold 1 to {self.depth} numbers, each -1 or at least 1: the "
                f'trees have {self.depth} layers, {list(self.num_neighbors)} (got {wanted})'
            )
        layers = zip(wanted, self.num_neighbors, strict=False)
        return [own if f == -1 else min(f, own) for f, own in layers]

    def check_nulls(self, real: Tensor) -> bool:
        r"""Whether no root is null and every slot below a null slot is null.

        Args:
            real (torch.Tensor): Whether each slot is not null, ``[n, T]``.
        """
        orphans = real[:, 1:] & ~self.parent_values(real)
        return bool(real[:, 0].all()) and not bool(orphans.any())


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
