r"""The part of the evaluation of a batch that does not depend on the weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.utils.devices import to_device

TILE = 16  # rows of one cell that are multiplied at once
T = TypeVar('T', bound='TensorDataclass')


class TensorDataclass:
    r"""A base class for frozen dataclasses of tensors, which move to a device
    together.
    """

    def to(self: T, device: torch.device | str) -> T:
        r"""Returns a copy on another device. Tensors in tuples and in fields
        that are a :class:`TensorDataclass` move as well.
        """
        return self.map(Tensor, lambda value: to_device(value, device))

    def map(self: T, kind: type, change: Callable[[Any], Any]) -> T:
        r"""Returns a copy in which a function replaced all values of one type,
        *e.g.*, of :class:`torch.Tensor`, in all fields, tuples and inner objects.

        Args:
            kind (type): The type.
            change (callable): The function.
        """
        values = {f.name: _map(getattr(self, f.name), kind, change) for f in fields(self)}  # type: ignore[arg-type]
        return replace(self, **values)  # type: ignore[type-var]


def _map(value: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, TensorDataclass):
        return value.map(kind, change)
    if isinstance(value, tuple):
        return tuple(_map(item, kind, change) for item in value)
    return value


@dataclass(frozen=True)
class BatchPlan(TensorDataclass):
    r"""The queries that a batch needs, and the slots that each query predicts.

    A plan is made on the CPU, where sizes that depend on the data cost
    nothing, and moved to the device of the model. The evaluation on a GPU then
    never waits for the host.

    Args:
        paths (DistinctPaths or None): The distinct paths of the batch;
            :obj:`None` if each tree is evaluated by itself.
        root_query (torch.Tensor): The query that predicts each root, ``[B]``.
        child_query (torch.Tensor): The query that predicts the children of
            each root, ``[B]``.
        root_token (torch.Tensor): The token of each root, ``[B]``.
        layers (tuple[ParentsWithChildren, ...]): Parents and children, layer
            by layer.
        tilings (tuple[Tiling or None, ...]): For the roots and for the
            children of each layer, how
            :class:`~torch_geometric_cgt.nn.vocabulary.CellVocabulary` groups
            their tokens.
    """

    paths: DistinctPaths | None
    root_query: Tensor
    child_query: Tensor
    root_token: Tensor
    layers: tuple[ParentsWithChildren, ...]
    tilings: tuple[Tiling | None, ...]


@dataclass(frozen=True)
class DistinctPaths(TensorDataclass):
    r"""The distinct (label, scene, path) triples of a batch, level by level.

    A path of level :math:`d` holds :math:`d` tokens, root first; the path of
    level zero holds none. Under the ancestor mask, a path determines one
    context, that of its last token, and one query, which predicts all children
    of that token. Null parents have no path and cost nothing. A context sees
    neither the label nor the scene, so that there is one per distinct path of
    tokens.

    Args:
        level (torch.Tensor): The level of each path, ``[N]``.
        y (torch.Tensor): The label of each path, ``[N]``.
        scene (torch.Tensor): The scene of each path, ``[N]``.
        context (torch.Tensor): The context of each path, ``[N]``.
        context_token (torch.Tensor): The last token of each context, ``[M]``;
            the null token at level zero.
        context_level (torch.Tensor): The level of each context, ``[M]``.
        ancestors (torch.Tensor): The contexts of the prefixes of each context,
            shortest first and the context itself last, ``[M, L + 1]``. Shorter
            rows are padded with the context itself.
        is_ancestor (torch.Tensor): Which entries of :obj:`ancestors` are not
            padding, ``[M, L + 1]``.
        index (tuple[torch.Tensor, ...]): For each level, the path of each
            parent slot, ``[B, P]``, counted within the level; :obj:`-1`
            where the slot is null.
        sizes (tuple[int, ...]): The number of paths of each level.
    """

    level: Tensor
    y: Tensor
    scene: Tensor
    context: Tensor
    context_token: Tensor
    context_level: Tensor
    ancestors: Tensor
    is_ancestor: Tensor
    index: tuple[Tensor, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(
        cls, tokens: Tensor, y: Tensor, scene: Tensor, shape: TreeShape, num_tokens: int
    ) -> DistinctPaths:
        r"""Finds the paths to the internal slots of some trees.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
            scene (torch.Tensor): The scene of each root, ``[B]``.
            shape (TreeShape): The geometry of the trees.
            num_tokens (int): The number of tokens, which is also the null one.
        """
        num_scenes = scene.max() + 1 if scene.numel() else 1
        key, start = (y.long() * num_scenes + scene.long()).unique(return_inverse=True)
        index, labels, scenes = [start[:, None]], [key // num_scenes], [key % num_scenes]
        contexts = [torch.zeros_like(key)]  # within their level
        token = [torch.full_like(key[:1], num_tokens)]
        ancestors, first, begins = [torch.zeros_like(key[:1])[:, None]], 0, [0]
        for layer in range(shape.depth):
            slots = tokens[:, shape.layer_slice(layer)].long()
            above = index[-1]
            if layer > 0:
                above = above.repeat_interleave(shape.num_neighbors[layer - 1], dim=1)
            real = (slots != num_tokens) & (above >= 0)  # nothing is below a null slot
            path = above * (num_tokens + 1) + slots
            key, inverse = path[real].unique(return_inverse=True)
            index.append(torch.full_like(slots, -1).masked_scatter(real, inverse))
            parent = key.div(num_tokens + 1, rounding_mode='floor')
            labels.append(labels[-1][parent])
            scenes.append(scenes[-1][parent])
            last = key - parent * (num_tokens + 1)
            key, inverse = (contexts[-1][parent] * (num_tokens + 1) + last).unique(
                return_inverse=True
            )
            first += ancestors[-1].size(0)
            contexts.append(inverse)
            begins.append(first)
            parent = key.div(num_tokens + 1, rounding_mode='floor')
            token.append(key - parent * (num_tokens + 1))
            own = torch.arange(first, first + key.numel(), device=key.device)
            ancestors.append(torch.cat([ancestors[-1][parent], own[:, None]], dim=1))
        level, context_level = _levels(labels), _levels(token)
        width = shape.depth + 1
        return cls(
            level=level,
            y=torch.cat(labels),
            scene=torch.cat(scenes),
            context=torch.cat([c + begin for c, begin in zip(contexts, begins, strict=True)]),
            context_token=torch.cat(token),
            context_level=context_level,
            ancestors=torch.cat(
                [torch.cat([a, a[:, -1:].expand(-1, width - a.size(1))], dim=1) for a in ancestors]
            ),
            is_ancestor=torch.arange(width, device=y.device) <= context_level[:, None],
            index=tuple(index),
            sizes=tuple(t.numel() for t in labels),
        )


def _levels(parts: list[Tensor]) -> Tensor:
    r"""The level of each row of all levels."""
    return torch.cat([torch.full_like(part, level) for level, part in enumerate(parts)])


def query_per_parent(tokens: Tensor, shape: TreeShape, num_tokens: int) -> tuple[Tensor, ...]:
    r"""The counterpart of :obj:`DistinctPaths.index` where paths are not
    shared: each parent slot of each tree has its own query.

    Args:
        tokens (torch.Tensor): Token trees, ``[B, T]``.
        shape (TreeShape): The geometry of the trees.
        num_tokens (int): The number of tokens, which is also the null one.
    """
    index = []
    for level in range(shape.depth + 1):
        width = 1 if level == 0 else shape.layer_sizes[level - 1]
        own = torch.arange(tokens.size(0) * width, device=tokens.device).view(-1, width)
        if level > 0:
            own = own.masked_fill(tokens[:, shape.layer_slice(level - 1)] == num_tokens, -1)
        index.append(own)
    return tuple(index)


@dataclass(frozen=True)
class Parents(TensorDataclass):
    r"""The real slots of one layer that has a layer below.

    Args:
        layer (int): Their layer.
        tree (torch.Tensor): The tree of each parent, ``[M]``.
        slot (torch.Tensor): Its position within the layer, ``[M]``.
        query (torch.Tensor): The row of the query that predicts its children,
            ``[M]``.
        layer_tokens (torch.Tensor): The tokens of its layer in its tree, null
            ones included, ``[M, P]``.
        grandparent (torch.Tensor): The token above it, ``[M]``; the null token
            above the root.
    """

    layer: int
    tree: Tensor
    slot: Tensor
    query: Tensor
    layer_tokens: Tensor
    grandparent: Tensor

    @classmethod
    def of(
        cls, tokens: Tensor, index: Tensor, layer: int, shape: TreeShape, num_tokens: int
    ) -> Parents:
        r"""Lists the parents of one layer.

        Args:
            tokens (torch.Tensor): Token trees, filled down to this layer at
                least, ``[B, T]``.
            index (torch.Tensor): The row of the query of each slot of the
                layer, ``[B, P]``, negative where the slot is null.
            layer (int): The layer.
            shape (TreeShape): The geometry of the trees.
            num_tokens (int): The number of tokens, which is also the null one.
        """
        tree, slot = (index >= 0).nonzero(as_tuple=True)
        if layer == 0:
            grandparent = torch.full_like(tree, num_tokens)
        else:
            above = slot.div(shape.num_neighbors[layer - 1], rounding_mode='floor')
            grandparent = tokens[tree, shape.offsets[layer - 1] + above].long()
        return cls(
            layer=layer,
            tree=tree,
            slot=slot,
            query=index[tree, slot],
            layer_tokens=tokens[:, shape.layer_slice(layer)][tree].long(),
            grandparent=grandparent,
        )


@dataclass(frozen=True)
class ParentsWithChildren(TensorDataclass):
    r"""The :math:`M` parents of one layer with their :math:`R` real children.

    Args:
        layer (int): The layer of the parents.
        tree (torch.Tensor): The tree of each parent, ``[M]``.
        query (torch.Tensor): The row of the query that predicts its children,
            ``[M]``.
        num_children (torch.Tensor): The number of its real children, ``[M]``.
        child_slots (torch.Tensor): The tokens of its child slots, null ones
            included, ``[M, f]``.
        parent (torch.Tensor): The parent of each real child, ``[R]``.
        token (torch.Tensor): Its token, ``[R]``.
        child_query (torch.Tensor): The row of the query that predicts it,
            ``[R]``.
        is_grandparent (torch.Tensor): Whether its token is the one above its
            parent, ``[R]``.
        layer_share (torch.Tensor): The share of its parent's layer that has
            its token, ``[R]``.
        num_equal_before (torch.Tensor): The number of earlier siblings with
            its token, ``[R]``.
        num_before (torch.Tensor): The number of earlier real siblings, ``[R]``.
    """

    layer: int
    tree: Tensor
    query: Tensor
    num_children: Tensor
    child_slots: Tensor
    parent: Tensor
    token: Tensor
    child_query: Tensor
    is_grandparent: Tensor
    layer_share: Tensor
    num_equal_before: Tensor
    num_before: Tensor

    @classmethod
    def of(
        cls, tokens: Tensor, index: Tensor, layer: int, shape: TreeShape, num_tokens: int
    ) -> ParentsWithChildren:
        r"""Lists parents and children; see :meth:`Parents.of`."""
        parents = Parents.of(tokens, index, layer, shape, num_tokens)
        below = tokens[:, shape.layer_slice(layer + 1)].long()
        slots = below.unflatten(1, (-1, shape.num_neighbors[layer]))[parents.tree, parents.slot]
        real = slots != num_tokens
        parent, place = real.nonzero(as_tuple=True)
        token = slots[parent, place]
        layer_tokens = parents.layer_tokens[parent]
        num_peers = (parents.layer_tokens != num_tokens).sum(dim=1)[parent]
        earlier = torch.ones(2 * (real.size(1),), dtype=torch.bool, device=real.device).tril(-1)
        num_equal_before = ((slots[:, :, None] == slots[:, None]) & earlier).sum(dim=2)
        return cls(
            layer=layer,
            tree=parents.tree,
            query=parents.query,
            num_children=real.sum(dim=1),
            child_slots=slots,
            parent=parent,
            token=token,
            child_query=parents.query[parent],
            is_grandparent=parents.grandparent[parent] == token,
            layer_share=(layer_tokens == token[:, None]).sum(dim=1).double() / num_peers,
            num_equal_before=num_equal_before[parent, place],
            num_before=(real.cumsum(dim=1) - 1)[parent, place],
        )


@dataclass(frozen=True)
class Tiling(TensorDataclass):
    r"""The distinct (row, cell) pairs of some tokens, sorted by cell.

    The pairs lie in tiles of :obj:`TILE` rows, each of which belongs to one
    cell, so that one batched product serves all cells.

    Args:
        row (torch.Tensor): The row of each pair, ``[U]``.
        cell (torch.Tensor): The cell of each pair, ``[U]``.
        pair (torch.Tensor): The pair of each token, ``[M]``.
        place (torch.Tensor): The position of each pair in the tiles, ``[U]``.
        cell_of_tile (torch.Tensor): The cell of each tile.
    """

    row: Tensor
    cell: Tensor
    pair: Tensor
    place: Tensor
    cell_of_tile: Tensor

    @classmethod
    def of(cls, row: Tensor, cell: Tensor, num_cells: int) -> Tiling:
        r"""Arranges some tokens in tiles.

        Args:
            row (torch.Tensor): The row of each token, ``[M]``.
            cell (torch.Tensor): The cell of each token, ``[M]``.
            num_cells (int): The number of cells.
        """
        num_rows = int(row.max()) + 1 if row.numel() else 1
        key, pair = (cell * num_rows + row).unique(return_inverse=True)
        cell = key.div(num_rows, rounding_mode='floor')
        count = torch.bincount(cell, minlength=num_cells)
        tiles = (count + TILE - 1).div(TILE, rounding_mode='floor')
        rank = torch.arange(cell.numel(), device=cell.device) - F.pad(count.cumsum(0), (1, 0))[cell]
        return cls(
            row=key - cell * num_rows,
            cell=cell,
            pair=pair,
            place=F.pad(tiles.cumsum(0), (1, 0))[cell] * TILE + rank,
            cell_of_tile=torch.arange(num_cells, device=cell.device).repeat_interleave(tiles),
        )
