r"""One layer of the two-stream Transformer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_geometric_cgt.nn.dropout import dropout


class TwoStreamBlock(nn.Module):
    r"""Contexts attend to contexts, queries attend to contexts, with the same
    weights. Both streams go through each module in one call.

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
            mask (torch.Tensor): The contexts each of them may see, ``[C + Q, C]``.
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
        self, h: Tensor, ancestors: Tensor, is_ancestor: Tensor, keep_contexts: bool
    ) -> Tensor:
        r"""The same update where each position has one path of its own.

        Args:
            h (torch.Tensor): The context and the query of each prefix,
                ``[2, N, D]``.
            ancestors (torch.Tensor): The prefixes that a prefix sees, ``[N, A]``.
            is_ancestor (torch.Tensor): Which of them it may see, ``[N, A]``.
            keep_contexts (bool): Whether the contexts are needed afterwards;
                if not, only the ``[1, N, D]`` queries are computed.
        """
        normed = self.norm_attention(h)
        key_value = F.embedding(ancestors, self.key_value(normed[0]))  # [N, A, 2 D]
        key, value = (self._split(part) for part in key_value.chunk(2, dim=-1))  # [N, H, A, D / H]
        if not keep_contexts:
            h, normed = h[1:], normed[1:]
        query = self._split(self.query(normed).transpose(0, 1))  # [N, H, 1 or 2, D / H]
        score = query @ key.transpose(2, 3) / query.size(-1) ** 0.5
        weight = score.masked_fill(~is_ancestor[:, None, None], -torch.inf).softmax(dim=-1)
        attended = (weight @ value).permute(2, 0, 1, 3).flatten(2)  # [1 or 2, N, D]
        h = h + self._drop(self.out(attended))
        return h + self._drop(self.contract(F.gelu(self.expand(self.norm_mlp(h)))))

    def _split(self, h: Tensor) -> Tensor:
        return h.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # [B, H, P, D / H]

    def _drop(self, h: Tensor) -> Tensor:
        return dropout(h, self.dropout, self.training)
