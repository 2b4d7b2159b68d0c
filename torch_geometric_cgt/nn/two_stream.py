r"""The two-stream Transformer, which computes queries from token trees, and its layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.nn.batch_plan import DistinctPaths, query_per_parent
from torch_geometric_cgt.nn.dropout import dropout
from torch_geometric_cgt.nn.linear_map import linear_map

ROWS = 1024  # queries at a time where no gradients are needed


@dataclass(frozen=True)
class Layout:
    r"""The positions of the two streams for one tree shape.

    Context 0 is the start, which every position sees; the others are token
    slots. All mask rows list the contexts first, then the queries.
    """

    context_slot: Tensor  # [C - 1] the slot whose token each context carries
    context_position: Tensor  # [C] index of the position embedding
    query_position: Tensor  # [Q] index of the position embedding
    query_of_slot: Tensor  # [T] the query that predicts each slot
    mask: Tensor  # [C + Q, C] True where attention is allowed

    @property
    def num_contexts(self) -> int:
        return self.context_position.numel()

    def to(self, device: torch.device) -> Layout:
        return Layout(**{name: value.to(device) for name, value in vars(self).items()})


def num_positions(shape: TreeShape, position: str) -> int:
    r"""The number of position embeddings: the start, then layers or slots."""
    return 1 + (shape.depth + 1 if position == 'layer' else shape.num_slots)


def factorised_layout(shape: TreeShape) -> Layout:
    r"""The exact factorisation of the ancestor mask: all children of a slot
    share one query, so one context and one query per internal slot suffice,
    beside the start and the query of the root.
    """
    internal = shape.num_internal
    layer, parent = shape.layer, shape.parent
    path = shape.is_ancestor[:internal, :internal]
    start = torch.ones(1 + internal, 1, dtype=torch.bool)
    below = torch.cat([torch.zeros(1, internal, dtype=torch.bool), path])
    seen = torch.cat([start, below], dim=1)  # [1 + internal, 1 + internal]
    return Layout(
        context_slot=torch.arange(internal),
        context_position=torch.cat([torch.tensor([0]), 1 + layer[:internal]]),
        query_position=torch.cat([torch.tensor([1]), 2 + layer[:internal]]),
        query_of_slot=1 + parent,
        mask=torch.cat([seen, seen]),
    )


def sequence_layout(shape: TreeShape, position: str, attention: str) -> Layout:
    r"""The whole sequence: one context and one query per slot.

    Args:
        shape (TreeShape): The tree.
        position (str): :obj:`"layer"` or :obj:`"slot"`.
        attention (str): :obj:`"ancestors"` or :obj:`"all"` earlier slots.
    """
    slot = torch.arange(shape.num_slots)
    if attention == 'ancestors':
        context_sees = shape.is_ancestor
    else:
        context_sees = torch.ones(shape.num_slots, shape.num_slots, dtype=torch.bool).tril()
    query_sees = context_sees & ~torch.eye(shape.num_slots, dtype=torch.bool)
    start_sees = torch.zeros(1, shape.num_slots, dtype=torch.bool)
    sees = torch.cat([start_sees, context_sees, query_sees])
    index = 1 + (shape.layer if position == 'layer' else slot)
    return Layout(
        context_slot=slot,
        context_position=torch.cat([torch.tensor([0]), index]),
        query_position=index,
        query_of_slot=slot,
        mask=torch.cat([torch.ones(sees.size(0), 1, dtype=torch.bool), sees], dim=1),
    )


class TwoStreams(nn.Module):
    r"""Contexts carry the tokens of a path. Queries carry the label, the scene
    and the position of the prediction; they never see the token they predict.

    :meth:`paths` evaluates each distinct path of a batch once, :meth:`rows`
    each tree by itself. Both give the same numbers.

    Args:
        token (torch.nn.Module): The embedding of tokens.
        num_tokens (int): The number of tokens, which is also the null one.
        num_classes (int): The number of labels; zero if the model does not see
            labels.
        num_scenes (int): The number of scenes; zero if the model does not see
            scenes.
        shape (TreeShape): The geometry of the trees.
        channels (int): The width.
        num_layers (int): The number of layers.
        num_heads (int): The number of attention heads.
        dropout (float): The dropout probability.
        evaluation (str): :obj:`"paths"`, :obj:`"trees"` or :obj:`"sequence"`,
            see :class:`~torch_geometric_cgt.nn.CGTGenerator`.
        position (str): :obj:`"layer"` or :obj:`"slot"`.
        attention (str): :obj:`"ancestors"` or :obj:`"all"`.
    """

    def __init__(
        self,
        token: nn.Module,
        num_tokens: int,
        num_classes: int,
        num_scenes: int,
        shape: TreeShape,
        channels: int,
        num_layers: int,
        num_heads: int,
        dropout: float,
        evaluation: str,
        position: str,
        attention: str,
    ) -> None:
        super().__init__()
        self.num_tokens = num_tokens
        self.shape = shape
        self.dropout = dropout
        self.evaluation = evaluation
        self.position = position
        self.attention = attention
        self.token = token
        self.where = nn.Embedding(num_positions(shape, position), channels)
        self.start_query = nn.Embedding(1, channels)
        self.label = nn.Embedding(num_classes, channels) if num_classes else None
        self.scene = nn.Embedding(num_scenes, channels) if num_scenes else None
        self.blocks = nn.ModuleList(
            TwoStreamBlock(channels, num_heads, dropout) for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(channels)
        # Plain attributes, not buffers: they follow the inputs, not the weights.
        self._layouts: dict[tuple[int, torch.device], Layout] = {}

    def index(
        self, tokens: Tensor, y: Tensor, scene: Tensor | None, shape: TreeShape
    ) -> tuple[DistinctPaths | None, tuple[Tensor, ...]]:
        r"""Finds the queries that some trees need.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
            scene (torch.Tensor, optional): The scene of each root, ``[B]``.
            shape (TreeShape): The geometry of these trees, which may have
                fewer layers than those of the model.

        Returns:
            The distinct paths, if they are evaluated; and the row of the query
            of each parent slot, level by level ``[B, P]``, negative where the
            slot is null.
        """
        if self.evaluation != 'paths':
            return None, query_per_parent(tokens, shape, self.num_tokens)
        # Labels and scenes that the model does not see must not make paths distinct.
        if self.label is None:
            y = torch.zeros_like(y)
        if self.scene is None or scene is None:
            scene = torch.zeros_like(y)
        paths = DistinctPaths.of(tokens, y, scene, shape, self.num_tokens)
        return paths, paths.index

    def queries(
        self,
        tokens: Tensor,
        y: Tensor,
        scene: Tensor | None,
        shape: TreeShape,
        paths: DistinctPaths | None,
        only_last: bool = False,
    ) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        r"""Computes the queries that :meth:`index` found, level by level
        ``[N, D]``, and returns them with their conditions ``[N]``.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
            scene (torch.Tensor, optional): The scene of each root, ``[B]``.
            shape (TreeShape): The geometry of these trees.
            paths (DistinctPaths, optional): The paths from :meth:`index`.
            only_last (bool, optional): If set to :obj:`True`, other levels than
                the last one may be left out. (default: :obj:`False`)
        """
        if paths is not None:
            conditions = self.condition(paths.y, paths.scene).split(paths.sizes)
            if only_last:
                return [self.paths(paths, only_last)], conditions[-1:]
            return self.paths(paths).split(paths.sizes), conditions
        layout = self.layout(shape.depth, tokens.device)
        rows = self.rows(tokens, y, scene, layout)
        queries = []
        for level in range(shape.depth + 1):  # the query of a parent is that of its first child
            step = 1 if level == 0 else shape.num_neighbors[level - 1]
            first = torch.arange(shape.num_slots, device=y.device)[shape.layer_slice(level)][::step]
            queries.append(rows[:, layout.query_of_slot[first]].flatten(0, 1))
        condition = self.condition(y, scene)
        widths = (1, *shape.layer_sizes[:-1])  # parents of a tree, level by level
        return queries, [condition.repeat_interleave(width) for width in widths]

    def condition(self, y: Tensor, scene: Tensor | None) -> Tensor:
        r"""The label and the scene that the model sees, as one number: the
        label, plus the number of labels times the scene. Without scenes, the
        roots of a label are one scene.
        """
        label = y.long() if self.label is not None else torch.zeros_like(y, dtype=torch.long)
        scene = scene.long() if self.scene is not None and scene is not None else label
        return label + scene * (self.label.num_embeddings if self.label is not None else 1)

    def paths(self, paths: DistinctPaths, only_last: bool = False) -> Tensor:
        r"""The query of each path, ``[N, D]``.

        Args:
            paths (DistinctPaths): The paths.
            only_last (bool, optional): If set to :obj:`True`, only those of the
                last level are computed. (default: :obj:`False`)
        """
        keys = self._context_keys(paths)
        first = sum(paths.sizes[:-1]) if only_last else 0
        rows = (t[first:] for t in (paths.y, paths.scene, paths.level, paths.context))
        # With gradients, all rows must be kept in any case. Without, a few stay in the cache.
        size = max(1, len(paths.y)) if torch.is_grad_enabled() else ROWS
        parts = []
        for y, scene, level, context in zip(*(t.split(size) for t in rows), strict=True):
            h = self._root_embedding(y, scene) + self.where(level + 1)
            h = dropout(h, self.dropout, self.training)
            ancestors, is_ancestor = paths.ancestors[context], paths.is_ancestor[context]
            for block, (key, value) in zip(self.blocks, keys, strict=True):
                assert isinstance(block, TwoStreamBlock)
                normed = block.norm_attention(h)
                h = block.on_paths(h, normed, key, value, ancestors, is_ancestor)
            parts.append(self.norm(h))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _context_keys(self, paths: DistinctPaths) -> list[tuple[Tensor, Tensor]]:
        r"""The keys and the values of all contexts in each layer, ``[M, D]`` each."""
        level = paths.context_level
        h = self.token(paths.context_token).masked_fill((level == 0)[:, None], 0.0)
        h = dropout(h + self.where(level), self.dropout, self.training)
        keys = []
        for i, block in enumerate(self.blocks):
            assert isinstance(block, TwoStreamBlock)
            normed = block.norm_attention(h)
            key, value = linear_map(block.key_value, normed).chunk(2, dim=-1)
            keys.append((key, value))
            if i + 1 < len(self.blocks):
                h = block.on_paths(h, normed, key, value, paths.ancestors, paths.is_ancestor)
        return keys

    def rows(self, tokens: Tensor, y: Tensor, scene: Tensor | None, layout: Layout) -> Tensor:
        r"""The queries of each tree, ``[B, Q, D]``."""
        h = self._embed_rows(tokens, y, scene, layout)
        for i, block in enumerate(self.blocks):
            last = i + 1 == len(self.blocks)
            h = block(h, layout.mask, layout.num_contexts, keep_contexts=not last)
        return self.norm(h)

    def contexts(self, tokens: Tensor, y: Tensor, scene: Tensor | None, layout: Layout) -> Tensor:
        r"""The contexts of each tree that the last layer reads, ``[B, C, D]``."""
        h = self._embed_rows(tokens, y, scene, layout)
        for block in self.blocks[:-1]:
            h = block(h, layout.mask, layout.num_contexts, keep_contexts=True)
        return h[:, : layout.num_contexts]

    def layout(self, depth: int, device: torch.device) -> Layout:
        r"""The layout of the first :obj:`depth` layers below the root, which is
        computed once per device.
        """
        key = (depth, device)
        if key not in self._layouts:
            shape = self.shape.truncate(depth)
            with torch.device('cpu'):  # whatever the default device is
                layout = (
                    sequence_layout(shape, self.position, self.attention)
                    if self.evaluation == 'sequence'
                    else factorised_layout(shape)
                )
            self._layouts[key] = layout.to(device)
        return self._layouts[key]

    def _embed_rows(
        self, tokens: Tensor, y: Tensor, scene: Tensor | None, layout: Layout
    ) -> Tensor:
        r"""The initial contexts and queries, ``[B, C + Q, D]``."""
        # One row per tree, although all rows are equal: DP-SGD clips gradients row by row.
        position = torch.cat([layout.context_position, layout.query_position])
        where = self.where(position.repeat(y.numel(), 1))  # [B, C + Q, D]
        context = self.token(tokens[:, layout.context_slot].long())  # [B, C - 1, D]
        start = torch.zeros_like(where[:, :1])
        query = self._root_embedding(y, scene)[:, None]
        query = query.expand(-1, layout.query_position.numel(), -1)
        h = torch.cat([start, context, query], dim=1) + where
        return dropout(h, self.dropout, self.training)

    def _root_embedding(self, y: Tensor, scene: Tensor | None) -> Tensor:
        r"""The embedding of the label and the scene of each root."""
        query = self.start_query(torch.zeros_like(y).long())
        if self.label is not None:
            query = query + self.label(y.long())
        if self.scene is not None and scene is not None:
            query = query + self.scene(scene.long())
        return query


class TwoStreamBlock(nn.Module):
    r"""One layer: contexts and queries attend to contexts, with the same
    weights. Both streams pass each module in one call.

    Args:
        channels (int): The width of both streams.
        num_heads (int): The number of attention heads.
        dropout (float, optional): The dropout probability.
            (default: :obj:`0.0`)
    """

    def __init__(self, channels: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.dropout = dropout
        self.norm_attention = nn.LayerNorm(channels)
        self.query = nn.Linear(channels, channels)
        self.key_value = nn.Linear(channels, 2 * channels)
        self.out = nn.Linear(channels, channels)
        self.norm_mlp = nn.LayerNorm(channels)
        self.expand = nn.Linear(channels, 4 * channels)
        self.contract = nn.Linear(4 * channels, channels)

    def forward(self, h: Tensor, mask: Tensor, num_contexts: int, keep_contexts: bool) -> Tensor:
        r"""Updates both streams.

        Args:
            h (torch.Tensor): Contexts, then queries, ``[B, C + Q, D]``.
            mask (torch.Tensor): The contexts that each of them attends to,
                ``[C + Q, C]``.
            num_contexts (int): The number of contexts :math:`C`.
            keep_contexts (bool): Whether the contexts are needed afterwards;
                if not, only the ``[B, Q, D]`` queries are computed.
        """
        normed = self.norm_attention(h)
        key, value = self.key_value(normed[:, :num_contexts]).chunk(2, dim=-1)
        if not keep_contexts:
            h, normed, mask = h[:, num_contexts:], normed[:, num_contexts:], mask[num_contexts:]
        attended = F.scaled_dot_product_attention(
            self._split(self.query(normed)), self._split(key), self._split(value), attn_mask=mask
        )
        h = h + self._drop(self.out(attended.transpose(1, 2).flatten(2)))
        return h + self._drop(self.contract(F.gelu(self.expand(self.norm_mlp(h)))))

    def on_paths(
        self,
        h: Tensor,
        normed: Tensor,
        key: Tensor,
        value: Tensor,
        ancestors: Tensor,
        is_ancestor: Tensor,
    ) -> Tensor:
        r"""Updates contexts or queries that attend to the contexts of prefixes.

        Args:
            h (torch.Tensor): The contexts or queries, ``[N, D]``.
            normed (torch.Tensor): What :obj:`norm_attention` made of them, ``[N, D]``.
            key (torch.Tensor): The keys of all contexts, ``[M, D]``.
            value (torch.Tensor): The values of all contexts, ``[M, D]``.
            ancestors (torch.Tensor): The contexts that each of them attends to,
                ``[N, A]``.
            is_ancestor (torch.Tensor): Which of them are not padding,
                ``[N, A]``.
        """
        # Rows attend to two or three contexts: plain products are faster than batched matrices.
        heads = (self.num_heads, -1)
        query = linear_map(self.query, normed).unflatten(-1, heads)[:, None]  # [N, 1, H, D / H]
        score = (query * F.embedding(ancestors, key).unflatten(-1, heads)).sum(dim=-1)  # [N, A, H]
        score = (score / query.size(-1) ** 0.5).masked_fill(~is_ancestor[..., None], -torch.inf)
        weight = score.softmax(dim=1)[..., None]
        attended = (weight * F.embedding(ancestors, value).unflatten(-1, heads)).sum(dim=1)
        h = h + self._drop(linear_map(self.out, attended.flatten(1)))
        expanded = F.gelu(linear_map(self.expand, self.norm_mlp(h)))
        return h + self._drop(linear_map(self.contract, expanded))

    def _split(self, h: Tensor) -> Tensor:
        return h.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # [B, H, P, D / H]

    def _drop(self, h: Tensor) -> Tensor:
        return dropout(h, self.dropout, self.training)
