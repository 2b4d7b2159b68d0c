r"""Distributions over tokens: one softmax or cells first, and the histograms they start from."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.nn.batch_plan import TILE, Tiling

MEMBER_CHANNELS = 32
FLAT_UP_TO = 512  # tokens; above, two softmaxes are several times cheaper than one
# Pseudo-counts of the common histogram that are added to each special one. With the last one, all
# histograms are equal.
SMOOTHING = (3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e12)


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

    @property
    def output(self) -> nn.Linear:
        r"""The layer whose outputs are the logits of tokens."""
        return self.out

    def outputs_of(self, token: Tensor) -> Tensor:
        r"""The output of each token: the token itself."""
        return token

    def tiling(self, row: Tensor, token: Tensor) -> Tiling | None:
        r"""Returns :obj:`None`: a flat vocabulary needs no tiling."""
        return None

    def log_prob(
        self,
        logits: Tensor,
        q: Tensor,
        row: Tensor,
        token: Tensor,
        tiling: Tiling | None = None,
    ) -> Tensor:
        r"""The log-probability of some tokens, ``[M, K]``.

        Args:
            logits (torch.Tensor): The logits of each row and type,
                ``[N, K, num_outputs]``.
            q (torch.Tensor): The input of each row that all types share,
                ``[N, D]``; a flat vocabulary does not use it.
            row (torch.Tensor): The row of each token, ``[M]``.
            token (torch.Tensor): The tokens, ``[M]``.
            tiling (Tiling, optional): What :meth:`tiling` returned for them.
                (default: :obj:`None`)
        """
        return pick(log_softmax(logits), row, token)

    def last_log_prob(self, logits: Tensor, q: Tensor) -> Tensor:
        r"""The log-probability of the last token, ``[N]``, given logits
        ``[N, num_outputs]``.
        """
        return log_softmax(logits)[:, -1]

    def sample(
        self,
        logits: Tensor,
        q: Tensor,
        num_samples: int,
        generator: torch.Generator | None,
    ) -> Tensor:
        r"""Samples tokens with replacement, ``[M, num_samples]``.

        Args:
            logits (torch.Tensor): The logits of each row, ``[M, num_outputs]``.
            q (torch.Tensor): The input of each row that all types share,
                ``[M, D]``; a flat vocabulary does not use it.
            num_samples (int): The number of tokens per row.
            generator (torch.Generator, optional): The source of randomness.
        """
        return sample_categorical(log_softmax(logits), num_samples, generator)


class CellVocabulary(nn.Module):
    r"""Two softmaxes of about :math:`\sqrt{m}` outputs each: first the cell of
    a token, then the token among the members of the cell. A cell holds tokens
    with consecutive numbers. The type of a tree changes the distribution over
    cells only.

    Args:
        channels (int): The width of the input.
        num_tokens (int): The number of tokens.
        cell_size (int): The number of tokens of a cell; the last cell may have
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

    @property
    def output(self) -> nn.Linear:
        r"""The layer whose outputs are the logits of cells."""
        return self.cell

    def outputs_of(self, token: Tensor) -> Tensor:
        r"""The cell of each token."""
        return token.div(self.cell_size, rounding_mode='floor')

    def tiling(self, row: Tensor, token: Tensor) -> Tiling:
        r"""Groups some tokens by cell; see :meth:`FlatVocabulary.log_prob` for
        the arguments.
        """
        return Tiling.of(row, self.outputs_of(token), self.num_outputs)

    def log_prob(
        self,
        logits: Tensor,
        q: Tensor,
        row: Tensor,
        token: Tensor,
        tiling: Tiling | None = None,
    ) -> Tensor:
        r"""See :meth:`FlatVocabulary.log_prob`."""
        cell = self.outputs_of(token)
        of_cell = pick(log_softmax(logits), row, cell)
        tiling = tiling or self.tiling(row, token)
        members = self._members(self.ask(q)[tiling.row], tiling)
        return of_cell + members[tiling.pair, token - cell * self.cell_size][:, None]

    def last_log_prob(self, logits: Tensor, q: Tensor) -> Tensor:
        r"""See :meth:`FlatVocabulary.last_log_prob`."""
        first = (self.num_outputs - 1) * self.cell_size
        weight = self.member.weight[first : self.num_tokens]
        members = self.ask(q) @ weight.t() + self.member_base.weight[first : self.num_tokens, 0]
        return log_softmax(logits)[:, -1] + log_softmax(members)[:, -1]

    def sample(
        self,
        logits: Tensor,
        q: Tensor,
        num_samples: int,
        generator: torch.Generator | None,
    ) -> Tensor:
        r"""See :meth:`FlatVocabulary.sample`."""
        cell = sample_categorical(log_softmax(logits), num_samples, generator).flatten()
        row = torch.arange(q.size(0), device=q.device).repeat_interleave(num_samples)
        tiling = Tiling.of(row, cell, self.num_outputs)
        members = self._members(self.ask(q)[tiling.row], tiling)
        member = sample_categorical(members[tiling.pair], 1, generator)
        return (cell * self.cell_size + member[:, 0]).view(-1, num_samples)

    def _members(self, ask: Tensor, tiling: Tiling) -> Tensor:
        r"""The log-probability of each member of a cell, ``[U, cell_size]``,
        for each pair of a row and a cell.
        """
        tiled = ask.new_zeros(tiling.cell_of_tile.numel() * TILE, ask.size(1))
        tiled = tiled.index_copy(0, tiling.place, ask)
        weight = F.embedding(tiling.cell_of_tile, self.member.weight.view(self.num_outputs, -1))
        weight = weight.unflatten(1, (self.cell_size, -1))  # [tiles, S, R]
        # In this order of the factors, the gradient of the weights needs no copy.
        logits = weight @ tiled.unflatten(0, (-1, TILE)).transpose(1, 2)  # [tiles, S, TILE]
        logits = logits.transpose(1, 2).flatten(0, 1)
        base = self.member_base.weight.view(self.num_outputs, -1)
        logits = logits[tiling.place] + base[tiling.cell]
        number = torch.arange(self.cell_size, device=logits.device)
        number = tiling.cell[:, None] * self.cell_size + number
        return log_softmax(logits.masked_fill(number >= self.num_tokens, -torch.inf))


class CellEmbedding(nn.Module):
    r"""Embeds a token as the sum of a vector of its cell and a projected narrow
    vector of its own.

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


Vocabulary = FlatVocabulary | CellVocabulary


def make_vocabulary(
    vocabulary: str, num_tokens: int, num_outcomes: int, channels: int
) -> tuple[nn.Module, Vocabulary]:
    r"""Makes the embedding of tokens and the distribution over them.

    Args:
        vocabulary (str): :obj:`"flat"`, :obj:`"cells"` or :obj:`"auto"`, see
            :class:`~torch_geometric_cgt.nn.CGTGenerator`.
        num_tokens (int): The number of tokens; the embedding also has the null
            one.
        num_outcomes (int): The number of outcomes of the distribution.
        channels (int): The width.
    """
    if vocabulary == 'cells' or (vocabulary == 'auto' and num_tokens > FLAT_UP_TO):
        cell_size = max(1, round(num_tokens**0.5))
        embedding = CellEmbedding(num_tokens + 1, channels, cell_size)
        return embedding, CellVocabulary(channels, num_outcomes, cell_size)
    return nn.Embedding(num_tokens + 1, channels), FlatVocabulary(channels, num_outcomes)


def log_softmax(logits: Tensor) -> Tensor:
    r"""The log-softmax over the last dimension, never in half precision."""
    if logits.dtype in (torch.bfloat16, torch.float16):
        logits = logits.float()
    return logits.log_softmax(dim=-1)


def pick(log_prob: Tensor, row: Tensor, output: Tensor) -> Tensor:
    r"""Picks entries ``[M, K]`` of a table ``[N, K, V]``, by row and output."""
    num_types, num_outputs = log_prob.shape[1:]
    if num_types == 1:
        return log_prob.view(-1)[row * num_outputs + output][:, None]
    table = log_prob.transpose(1, 2).reshape(-1, num_types)  # one row per entry: a cheap gather
    return F.embedding(row * num_outputs + output, table)


def sample_categorical(
    log_prob: Tensor, num_samples: int, generator: torch.Generator | None
) -> Tensor:
    r"""Samples from each row with replacement, ``[M, num_samples]``. Entries with
    probability zero are never drawn.
    """
    prob = log_prob.exp()
    if num_samples > 1:
        return torch.multinomial(prob, num_samples, replacement=True, generator=generator)
    # For one sample, PyTorch takes a random number per entry: searching is four times as fast.
    cumulative = prob.cumsum(dim=-1)
    total = cumulative[:, -1:]
    below = torch.nextafter(total, torch.zeros_like(total))  # a product may round up to the total
    draw = torch.rand(total.shape, generator=generator, dtype=total.dtype, device=total.device)
    return torch.searchsorted(cumulative, torch.minimum(draw * total, below), right=True)


@dataclass(frozen=True)
class Marginals:
    r"""Log-frequencies of tokens and of numbers of children in some trees.

    Tokens are counted by the output of the vocabulary, :math:`V` in all. Below
    the children of a root, the histograms depend on the scene, but not on the
    label: if every slot by itself were drawn given the label, the generated
    graphs would be too easy to classify.

    Args:
        root (torch.Tensor): Roots by scene and label, ``[S * C, V]``.
        child (torch.Tensor): Their children, ``[S * C, V]``.
        below (torch.Tensor): All deeper layers by layer and scene,
            ``[(L - 1) * S, V]``.
        num_children (torch.Tensor): Numbers of real children by layer and
            scene, ``[L * S, f + 1]``, for the largest fan-out :math:`f`.
    """

    root: Tensor
    child: Tensor
    below: Tensor
    num_children: Tensor

    @classmethod
    def of(
        cls,
        tokens: Tensor,
        condition: Tensor,
        vocabulary: Vocabulary,
        shape: TreeShape,
        num_tokens: int,
        num_classes: int,
        num_scenes: int,
    ) -> Marginals:
        r"""Counts some trees.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            condition (torch.Tensor): The label of each tree, plus the number
                of labels times its scene, ``[B]``.
            vocabulary (FlatVocabulary or CellVocabulary): What maps tokens to
                outputs.
            shape (TreeShape): The geometry of the trees.
            num_tokens (int): The number of tokens, which is also the null one.
            num_classes (int): The number of labels.
            num_scenes (int): The number of scenes.
        """
        tokens, condition = tokens.cpu().long(), condition.cpu().long()
        rng = torch.Generator().manual_seed(0)
        half = torch.randperm(condition.numel(), generator=rng) % 2
        by_scene = (half * num_scenes + condition // num_classes)[:, None]
        by_label = (half * num_scenes * num_classes + condition)[:, None]
        scenes, labels = (num_scenes, 1), (num_scenes, num_classes)
        num_outputs = vocabulary.num_outputs

        output = vocabulary.outputs_of(tokens[:, 0])
        root = _histograms(by_label[:, 0], output, labels, num_outputs)
        tables, num_children = [], []
        for layer in range(shape.depth):
            above = tokens[:, shape.layer_slice(layer)] != num_tokens
            slots = tokens[:, shape.layer_slice(layer + 1)]
            real = slots != num_tokens
            output = vocabulary.outputs_of(slots[real])
            group, groups = (by_label, labels) if layer == 0 else (by_scene, scenes)
            group = group.expand_as(slots)[real]
            tables.append(_histograms(group, output, groups, num_outputs))
            count = real.unflatten(1, (-1, shape.num_neighbors[layer])).sum(dim=2)
            group, size = by_scene.expand_as(above)[above], max(shape.num_neighbors) + 1
            num_children.append(_histograms(group, count[above], scenes, size))
        child, *below = tables
        return cls(root, child, torch.cat([child[:0], *below]), torch.cat(num_children))


def _histograms(group: Tensor, value: Tensor, groups: tuple[int, int], num_values: int) -> Tensor:
    r"""Smoothed log-frequencies of values per scene and label, ``[S * C, V]``.

    Args:
        group (torch.Tensor): The scene and label of each value, plus the
            number of groups in the second half of the trees.
        value (torch.Tensor): The values.
        groups (tuple[int, int]): The numbers :math:`S` and :math:`C` of scenes
            and labels.
        num_values (int): The number of distinct values :math:`V`.
    """
    size = 2 * groups[0] * groups[1] * num_values
    count = torch.bincount(group * num_values + value, minlength=size).double()
    return smooth_histograms(count.view(2, *groups, num_values))


def smooth_histograms(count: Tensor) -> Tensor:
    r"""Smoothed log-frequencies of values per scene and label, ``[S * C, V]``.

    The histogram of a scene is smoothed by the overall one, and the histogram
    of a label by that of its scene. The strength of smoothing is the one under
    which the histograms of one half of the trees make the other half most
    likely. Where scenes or labels carry no information, all histograms become
    equal.

    Args:
        count (torch.Tensor): The number of values in each half of the trees,
            ``[2, S, C, V]``.
    """
    strength = [SMOOTHING[0], SMOOTHING[-1]]
    for i in range(2 if count.size(2) > 1 else 1):
        likelihood = {}
        for strength[i] in reversed(SMOOTHING):
            halves = zip(count, count.flip(0), strict=True)
            likelihood[strength[i]] = sum(
                float((held_out * _smoothed(seen, *strength)).sum()) for held_out, seen in halves
            )
        strength[i] = max(likelihood, key=likelihood.__getitem__)
    return _smoothed(count.sum(dim=0), *strength).flatten(0, 1).float()


def _smoothed(count: Tensor, by_all: float, by_scene: float) -> Tensor:
    r"""Log-frequencies, ``[S, C, V]``."""
    overall = count.sum(dim=(0, 1)) + 0.5
    scene = count.sum(dim=1, keepdim=True) + by_all * overall / overall.sum()
    label = count + by_scene * scene / scene.sum(dim=2, keepdim=True)
    return (label / label.sum(dim=2, keepdim=True)).log().clamp(min=-math.log(1e9))
