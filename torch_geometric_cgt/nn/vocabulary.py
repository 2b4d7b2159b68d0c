r"""Distributions over tokens: flat, or a coarse cell first and then its member."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_geometric_cgt.nn.moving import Movable

TILE = 16  # rows of one cell that are multiplied at once
MEMBER_CHANNELS = 32


@dataclass(frozen=True)
class Tiling(Movable):
    r"""Distinct pairs of a row and a cell, sorted by cell and laid into tiles
    of equal size that belong to one cell each, so that one batched product
    serves them all.

    Args:
        node (torch.Tensor): The row of each pair, ``[U]``.
        cell (torch.Tensor): The cell of each pair, ``[U]``.
        pair (torch.Tensor): The pair of each token, ``[M]``.
        place (torch.Tensor): The place of each pair in the tiles, ``[U]``.
        cell_of_tile (torch.Tensor): The cell of each tile.
    """

    node: Tensor
    cell: Tensor
    pair: Tensor
    place: Tensor
    cell_of_tile: Tensor

    @classmethod
    def of(cls, node: Tensor, cell: Tensor, num_cells: int) -> Tiling:
        r"""Lays out some tokens.

        Args:
            node (torch.Tensor): The row of each token, ``[M]``.
            cell (torch.Tensor): The cell of each token, ``[M]``.
            num_cells (int): The number of cells.
        """
        num_nodes = int(node.max()) + 1 if node.numel() else 1
        key, pair = (cell * num_nodes + node).unique(return_inverse=True)
        cell = key.div(num_nodes, rounding_mode='floor')
        count = torch.bincount(cell, minlength=num_cells)
        tiles = (count + TILE - 1).div(TILE, rounding_mode='floor')
        rank = torch.arange(cell.numel(), device=cell.device) - F.pad(count.cumsum(0), (1, 0))[cell]
        return cls(
            node=key - cell * num_nodes,
            cell=cell,
            pair=pair,
            place=F.pad(tiles.cumsum(0), (1, 0))[cell] * TILE + rank,
            cell_of_tile=torch.arange(num_cells, device=cell.device).repeat_interleave(tiles),
        )


class FlatVocabulary(nn.Module):
    r"""One softmax over all tokens.

    Args:
        channels (int): The width of the input.
        num_tokens (int): The number of tokens.
    """

    def __init__(self, channels: int, num_tokens: int) -> None:
        super().__init__()
        self.num_outputs = num_tokens
        self.out = nn.Linear(channels, num_tokens)

    def outputs_of(self, token: Tensor) -> Tensor:
        r"""The output that stands for each token."""
        return token

    def tiling(self, node: Tensor, token: Tensor) -> Tiling | None:
        r"""A flat vocabulary needs none."""
        return None

    def log_prob(
        self,
        h: Tensor,
        q: Tensor,
        base: Tensor,
        node: Tensor,
        token: Tensor,
        tiling: Tiling | None = None,
    ) -> Tensor:
        r"""The log-probability of some tokens, ``[M, K]``.

        Args:
            h (torch.Tensor): What decides, for each type, ``[N, K, D]``.
            q (torch.Tensor): What decides alike for all types, ``[N, D]``.
            base (torch.Tensor): What is added to the outputs, ``[N, num_outputs]``.
            node (torch.Tensor): The row of each token, ``[M]``.
            token (torch.Tensor): The tokens, ``[M]``.
            tiling (Tiling, optional): What :meth:`tiling` returned for them.
        """
        return pick(log_softmax(self.out(h) + base[:, None]), node, token)

    def last_log_prob(self, q: Tensor, base: Tensor) -> Tensor:
        r"""The log-probability of the last token, ``[N]``."""
        return log_softmax(self.out(q) + base)[:, -1]

    def draw(
        self,
        h: Tensor,
        q: Tensor,
        base: Tensor,
        num_draws: int,
        generator: torch.Generator | None,
    ) -> Tensor:
        r"""Draws tokens with replacement, ``[M, num_draws]``.

        Args:
            h (torch.Tensor): What decides, ``[M, D]``.
            q (torch.Tensor): What decides alike for all types, ``[M, D]``.
            base (torch.Tensor): What is added to the outputs, ``[M, num_outputs]``.
            num_draws (int): The number of tokens per row.
            generator (torch.Generator, optional): The source of randomness.
        """
        return draw(log_softmax(self.out(h) + base), num_draws, generator)


class CellVocabulary(nn.Module):
    r"""Two softmaxes of about :math:`\sqrt{m}` outputs: first the cell of a
    token, then the token among the members of the cell. A cell holds tokens
    with consecutive numbers. The type decides on the cell alone.

    Args:
        channels (int): The width of the input.
        num_tokens (int): The number of tokens.
        cell_size (int): The number of tokens of a cell; the last may have
            fewer.
    """

    def __init__(self, channels: int, num_tokens: int, cell_size: int) -> None:
        super().__init__()
        self.num_tokens = num_tokens
        self.cell_size = cell_size
        self.num_outputs = -(-num_tokens // cell_size)
        self.cell = nn.Linear(channels, self.num_outputs)
        self.ask = nn.Linear(channels, MEMBER_CHANNELS)
        padded = self.num_outputs * cell_size
        self.member = nn.Embedding(padded, MEMBER_CHANNELS)
        self.member_base = nn.Embedding(padded, 1)

    def outputs_of(self, token: Tensor) -> Tensor:
        r"""The cell of each token."""
        return token.div(self.cell_size, rounding_mode='floor')

    def tiling(self, node: Tensor, token: Tensor) -> Tiling:
        r"""How to visit some tokens; see :meth:`log_prob` for the arguments."""
        return Tiling.of(node, self.outputs_of(token), self.num_outputs)

    def log_prob(
        self,
        h: Tensor,
        q: Tensor,
        base: Tensor,
        node: Tensor,
        token: Tensor,
        tiling: Tiling | None = None,
    ) -> Tensor:
        r"""See :meth:`FlatVocabulary.log_prob`."""
        cell = self.outputs_of(token)
        of_cell = pick(log_softmax(self.cell(h) + base[:, None]), node, cell)
        tiling = tiling or self.tiling(node, token)
        members = self._members(self.ask(q)[tiling.node], tiling)
        return of_cell + members[tiling.pair, token - cell * self.cell_size][:, None]

    def last_log_prob(self, q: Tensor, base: Tensor) -> Tensor:
        r"""The log-probability of the last token, ``[N]``."""
        first = (self.num_outputs - 1) * self.cell_size
        weight = self.member.weight[first : self.num_tokens]
        logits = self.ask(q) @ weight.t() + self.member_base.weight[first : self.num_tokens, 0]
        return log_softmax(self.cell(q) + base)[:, -1] + log_softmax(logits)[:, -1]

    def draw(
        self,
        h: Tensor,
        q: Tensor,
        base: Tensor,
        num_draws: int,
        generator: torch.Generator | None,
    ) -> Tensor:
        r"""See :meth:`FlatVocabulary.draw`."""
        cell = draw(log_softmax(self.cell(h) + base), num_draws, generator).flatten()
        row = torch.arange(q.size(0), device=q.device).repeat_interleave(num_draws)
        tiling = Tiling.of(row, cell, self.num_outputs)
        member = draw(self._members(self.ask(q)[tiling.node], tiling)[tiling.pair], 1, generator)
        return (cell * self.cell_size + member[:, 0]).view(-1, num_draws)

    def _members(self, ask: Tensor, tiling: Tiling) -> Tensor:
        r"""The log-probability of each member of a cell, ``[U, cell_size]``,
        for each pair of a row and a cell.
        """
        tiled = ask.new_zeros(tiling.cell_of_tile.numel() * TILE, ask.size(1))
        tiled = tiled.index_copy(0, tiling.place, ask)
        weight = F.embedding(tiling.cell_of_tile, self.member.weight.view(self.num_outputs, -1))
        weight = weight.unflatten(1, (self.cell_size, -1))  # [tiles, S, R]
        # In this order, the gradient of the weights needs no copy.
        logits = weight @ tiled.unflatten(0, (-1, TILE)).transpose(1, 2)  # [tiles, S, TILE]
        logits = logits.transpose(1, 2).flatten(0, 1)
        base = self.member_base.weight.view(self.num_outputs, -1)
        logits = logits[tiling.place] + base[tiling.cell]
        number = torch.arange(self.cell_size, device=logits.device)
        number = tiling.cell[:, None] * self.cell_size + number
        return log_softmax(logits.masked_fill(number >= self.num_tokens, -torch.inf))


class CellEmbedding(nn.Module):
    r"""Embeds tokens by their cell and a narrow vector of their own.

    Args:
        num_tokens (int): The number of tokens, the null one included.
        channels (int): The width.
        cell_size (int): The number of tokens of a cell.
    """

    def __init__(self, num_tokens: int, channels: int, cell_size: int) -> None:
        super().__init__()
        self.cell_size = cell_size
        self.cell = nn.Embedding(-(-num_tokens // cell_size), channels)
        self.member = nn.Embedding(num_tokens, MEMBER_CHANNELS)
        self.widen = nn.Linear(MEMBER_CHANNELS, channels)

    def forward(self, token: Tensor) -> Tensor:
        cell = token.div(self.cell_size, rounding_mode='floor')
        return self.cell(cell) + self.widen(self.member(token))


def log_softmax(logits: Tensor) -> Tensor:
    r"""The log-softmax over the last dimension, never in half precision."""
    if logits.dtype in (torch.bfloat16, torch.float16):
        logits = logits.float()
    return logits.log_softmax(dim=-1)


def pick(log_prob: Tensor, node: Tensor, output: Tensor) -> Tensor:
    r"""Picks ``[M, K]`` entries of ``[N, K, V]``."""
    num_types, num_outputs = log_prob.shape[1:]
    if num_types == 1:
        return log_prob.view(-1)[node * num_outputs + output][:, None]
    table = log_prob.transpose(1, 2).reshape(-1, num_types)  # one row per entry: a cheap gather
    return F.embedding(node * num_outputs + output, table)


def draw(log_prob: Tensor, num_draws: int, generator: torch.Generator | None) -> Tensor:
    r"""Draws outputs with replacement, ``[M, num_draws]``."""
    return torch.multinomial(log_prob.exp(), num_draws, replacement=True, generator=generator)
