r"""One layer of the two-stream Transformer."""

from __future__ import annotations

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

    def _split(self, h: Tensor) -> Tensor:
        return h.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # [B, H, P, D / H]

    def _drop(self, h: Tensor) -> Tensor:
        return dropout(h, self.dropout, self.training)
