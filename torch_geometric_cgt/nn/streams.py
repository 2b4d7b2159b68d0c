r"""The two-stream Transformer: from tokens on a path to the query of what follows."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torch_geometric_cgt.nn.block import TwoStreamBlock
from torch_geometric_cgt.nn.dropout import dropout
from torch_geometric_cgt.nn.layout import Layout
from torch_geometric_cgt.nn.prefixes import Prefixes


class TwoStreams(nn.Module):
    r"""Contexts carry the tokens of a path, queries carry the label and where
    to predict; queries never see the token they predict.

    The same numbers can be had in two ways: :meth:`rows` evaluates each tree
    by itself, :meth:`paths` each distinct path of a batch once.

    Args:
        token (torch.nn.Module): Embeds tokens.
        num_classes (int): The number of labels; zero if they are not seen.
        num_scenes (int): The number of scenes; zero if they are not seen.
        num_positions (int): The number of position embeddings.
        channels (int): The width.
        num_layers (int): The number of layers.
        num_heads (int): The number of attention heads.
        dropout (float): The dropout probability.
    """

    def __init__(
        self,
        token: nn.Module,
        num_classes: int,
        num_scenes: int,
        num_positions: int,
        channels: int,
        num_layers: int,
        num_heads: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.token = token
        self.where = nn.Embedding(num_positions, channels)
        self.start_query = nn.Embedding(1, channels)
        self.label = nn.Embedding(num_classes, channels) if num_classes else None
        self.scene = nn.Embedding(num_scenes, channels) if num_scenes else None
        self.blocks = nn.ModuleList(
            TwoStreamBlock(channels, num_heads, dropout) for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(channels)

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

    def paths(self, prefixes: Prefixes) -> Tensor:
        r"""The query of each prefix, ``[N, D]``."""
        context = self.token(prefixes.token).masked_fill((prefixes.level == 0)[:, None], 0.0)
        context = context + self.where(prefixes.level)
        query = self._ask(prefixes.y, prefixes.scene) + self.where(prefixes.level + 1)
        h = dropout(torch.stack([context, query]), self.dropout, self.training)
        for i, block in enumerate(self.blocks):
            assert isinstance(block, TwoStreamBlock)
            last = i + 1 == len(self.blocks)
            h = block.on_paths(h, prefixes.ancestors, prefixes.is_ancestor, keep_contexts=not last)
        return self.norm(h[-1])

    def _embed_rows(
        self, tokens: Tensor, y: Tensor, scene: Tensor | None, layout: Layout
    ) -> Tensor:
        r"""The initial contexts and queries, ``[B, C + Q, D]``."""
        # One row per tree, although all are the same: gradients are clipped row by row.
        position = torch.cat([layout.context_position, layout.query_position])
        where = self.where(position.repeat(y.numel(), 1))  # [B, C + Q, D]
        context = self.token(tokens[:, layout.context_slot].long())  # [B, C - 1, D]
        start = torch.zeros_like(where[:, :1])
        query = self._ask(y, scene)[:, None].expand(-1, layout.query_position.numel(), -1)
        h = torch.cat([start, context, query], dim=1) + where
        return dropout(h, self.dropout, self.training)

    def _ask(self, y: Tensor, scene: Tensor | None) -> Tensor:
        r"""What is known of the root: its label and its scene."""
        query = self.start_query(torch.zeros_like(y).long())
        if self.label is not None:
            query = query + self.label(y.long())
        if self.scene is not None and scene is not None:
            query = query + self.scene(scene.long())
        return query
