r"""The codebook attack: who is in the source, judged from the feature vectors of a release alone.

The attacker has the codebook, the features of a candidate, and rows of the population that the
source comes from. There are three scores, which are high for members:

- ``likelihood``: the log-likelihood of the candidate under the best codeword, minus that under the
  population. What a codeword does not show is nearly impossible: all values of a member are in an
  exact mean.
- ``cautious``: the same for protected means. What a codeword does not show is less likely than in
  the population, but possible.
- ``difference``: the attacker computes what each codeword should be from rows of the population
  (Homer et al., 2008). The score is the scalar product of two deviations: that of the candidate and
  that of the codeword.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_geometric_cgt.audit.estimates import Estimate, area, threshold_of, true_positives
from torch_geometric_cgt.utils.rows import row_blocks, rows_per_block

KINDS = ('binary', 'count', 'sparse', 'dense')
SCORES = {'likelihood': 1e-4, 'cautious': 0.5, 'difference': 0.5}  # and the share of what is absent
FALSE_POSITIVES = (0.01, 0.001)
SHRINKAGE = 10.0  # rows of the whole population that are added to those of each codeword
HIGHEST, LOWEST = 1 - 1e-3, 1e-12  # probabilities
LEAST_VARIANCE = 0.01  # of the mean variance of all features


def feature_kind(x: Tensor) -> str:
    r"""How features are distributed: :obj:`"binary"` (zero or one value),
    :obj:`"count"` (non-negative integers), :obj:`"sparse"` (at least half are
    zero) or :obj:`"dense"`.

    Args:
        x (torch.Tensor): The features, dense or sparse, ``[N, F]``.
    """
    nonzero, low, high, whole = 0, float('inf'), -float('inf'), True
    for block in _dense_blocks(x):
        value = block[block != 0]
        if value.numel():
            nonzero += value.numel()
            low, high = min(low, float(value.min())), max(high, float(value.max()))
            whole = whole and bool((value == value.round()).all())
    if nonzero == 0 or low == high:
        return 'binary'
    if whole and low > 0:
        return 'count'
    return 'sparse' if 2 * nonzero <= x.size(0) * x.size(1) else 'dense'


def codebook_scores(
    codebook: Tensor,
    rows: Tensor,
    population: Tensor,
    score: str = 'likelihood',
    kind: str | None = None,
) -> Tensor:
    r"""Scores candidates by how much one codeword knows about them, ``[n]``.

    Args:
        codebook (torch.Tensor): The codewords of a release, ``[m, F]``.
        rows (torch.Tensor): The features of the candidates, dense or sparse,
            ``[n, F]``.
        population (torch.Tensor): Rows of the population, dense or sparse,
            ``[p, F]``. They may hold the candidates if they hold members and
            others alike.
        score (str, optional): One of :obj:`"likelihood"`, :obj:`"cautious"` and
            :obj:`"difference"`. (default: :obj:`"likelihood"`)
        kind (str, optional): How features are distributed, see
            :meth:`feature_kind`. By default, it is found from the population.
            (default: :obj:`None`)
    """
    kind = feature_kind(population) if kind is None else kind
    if score not in SCORES:
        raise ValueError(f"'score' must be one of {tuple(SCORES)} (got {score!r})")
    if kind not in KINDS:
        raise ValueError(f"'kind' must be one of {KINDS} (got {kind!r})")
    if not codebook.size(1) == rows.size(1) == population.size(1):
        sizes = [codebook.size(1), rows.size(1), population.size(1)]
        raise ValueError(f'Codebook, rows and population need the same features (got {sizes})')
    codebook = codebook.double()
    model = _ratio(kind, codebook, population, SCORES[score])
    if score != 'difference':
        return torch.cat([model(block).max(dim=1).values for block in _dense_blocks(rows)])
    expected, variance = _expected_codebook(model, population, codebook.size(0))
    slope = (codebook - expected) / variance  # [m, F]
    offset = (slope * expected).sum(dim=1)
    parts = []
    for block in _dense_blocks(rows):
        best = model(block).argmax(dim=1)
        parts.append((block * slope[best]).sum(dim=1) - offset[best])
    return torch.cat(parts)


class _Ratio(NamedTuple):
    r"""Log-likelihood ratios of rows under each codeword and under the population. They are
    linear in presences (binary, sparse), values (count), or values and squares (dense).
    """

    kind: str
    weight: Tensor  # [m, F or 2 F]
    bias: Tensor  # [m]

    def __call__(self, x: Tensor) -> Tensor:
        r"""The log-likelihood ratios of dense rows, ``[n, m]``."""
        if self.kind in ('binary', 'sparse'):
            x = (x != 0).double()
        elif self.kind == 'dense':
            x = torch.cat([x, x.square()], dim=1)
        return x @ self.weight.t() + self.bias


def _ratio(kind: str, codebook: Tensor, population: Tensor, absent: float) -> _Ratio:
    r"""Values that a codeword does not show have :obj:`absent` times their probability in the
    population.
    """
    num_rows = population.size(0)
    total = torch.zeros(3, codebook.size(1), dtype=torch.double)  # presences, values, squares
    for block in _dense_blocks(population):
        total += torch.stack([(block != 0).sum(dim=0), block.sum(dim=0), block.square().sum(dim=0)])
    share, mean, square = total / num_rows
    if kind == 'dense':
        return _gaussian_ratio(codebook, population, mean, square - mean.square())
    if kind == 'count':
        base = mean.clamp(min=LOWEST)
        rate = torch.where(codebook > 0, codebook, absent * base).clamp(min=LOWEST)
        return _Ratio(kind, (rate / base).log(), (base - rate).sum(dim=1))
    base = share.clamp(LOWEST, HIGHEST)
    typical = torch.where(share > 0, mean / share.clamp(min=LOWEST), 1.0)  # of those who have it
    found = codebook / torch.where(typical == 0, 1.0, typical)
    rate = torch.where(found > 0, found, absent * base).clamp(LOWEST, HIGHEST)
    weight = (rate / base).log() - ((1 - rate) / (1 - base)).log()
    return _Ratio(kind, weight, ((1 - rate) / (1 - base)).log().sum(dim=1))


def _gaussian_ratio(codebook: Tensor, population: Tensor, mean: Tensor, square: Tensor) -> _Ratio:
    r"""Gaussians around codewords and around the mean of the population. The variance around
    codewords is that of rows of the population around the nearest one.
    """
    wide = square.clamp(min=LEAST_VARIANCE * max(float(square.mean()), LOWEST))
    scaled, spread = codebook / wide.sqrt(), torch.zeros_like(wide)
    for block in _dense_blocks(population):
        nearest = torch.cdist(block / wide.sqrt(), scaled).argmin(dim=1)
        spread += (block - codebook[nearest]).square().sum(dim=0)
    narrow = torch.minimum(torch.maximum(spread / population.size(0), LEAST_VARIANCE * wide), wide)
    squares = (0.5 / wide - 0.5 / narrow).expand_as(codebook)
    weight = torch.cat([codebook / narrow - mean / wide, squares], dim=1)
    constant = 0.5 * (mean.square() / wide + (wide / narrow).log()).sum()
    return _Ratio('dense', weight, constant - 0.5 * (codebook.square() / narrow).sum(dim=1))


def _expected_codebook(
    model: _Ratio, population: Tensor, num_codewords: int
) -> tuple[Tensor, Tensor]:
    r"""The mean and the variance of the rows of a population that belong to each codeword, drawn
    towards those of all rows, ``[m, F]`` each.
    """
    size = (num_codewords, population.size(1))
    total, square = torch.zeros(size, dtype=torch.double), torch.zeros(size, dtype=torch.double)
    count = torch.zeros(num_codewords, dtype=torch.double)
    for block in _dense_blocks(population):
        best = model(block).argmax(dim=1)
        total.index_add_(0, best, block)
        square.index_add_(0, best, block.square())
        count += torch.bincount(best, minlength=num_codewords)
    weight = count[:, None] + SHRINKAGE
    expected = (total + SHRINKAGE * total.sum(dim=0) / population.size(0)) / weight
    residual = square - 2 * expected * total + count[:, None] * expected.square()
    of_all = residual.sum(dim=0) / population.size(0)
    variance = (residual.clamp(min=0.0) + SHRINKAGE * of_all) / weight
    least = LEAST_VARIANCE * max(float(of_all.mean()), LOWEST)
    return expected, variance.clamp(min=least)


def _dense_blocks(x: Tensor) -> Iterator[Tensor]:
    r"""The rows in dense blocks of bounded size, in double precision."""
    for _, _, block in row_blocks(x, rows_per_block(4 * x.size(1))):
        dense = block if block.layout == torch.strided else block.to_dense()
        yield dense.cpu().double()


@dataclass(frozen=True)
class CodebookAttack:
    r"""How well one score of a codebook tells members from others.

    Args:
        score (str): The score, see :meth:`codebook_scores`.
        kind (str): How features are distributed, see :meth:`feature_kind`.
        num_members (int): The number of members.
        num_others (int): The number of others.
        area (Estimate): The area under the ROC curve.
        true_positives (dict): The share of members that are found, by the
            share of others that are wrongly accused; :obj:`None` where there
            are too few others.
    """

    score: str
    kind: str
    num_members: int
    num_others: int
    area: Estimate
    true_positives: dict[float, Estimate | None]

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        rates = {
            f'{rate:g}': None if found is None else asdict(found)
            for rate, found in self.true_positives.items()
        }
        return {**asdict(self), 'true_positives': rates}


def attack_codebook(
    codebook: Tensor,
    rows: Tensor,
    is_member: Tensor,
    population: Tensor | None = None,
    kind: str | None = None,
    confidence: float = 0.95,
) -> dict[str, CodebookAttack]:
    r"""Measures how well each score of a codebook tells members from others.

    Args:
        codebook (torch.Tensor): The codewords of a release, ``[m, F]``.
        rows (torch.Tensor): The features of members and others, dense or
            sparse, ``[n, F]``.
        is_member (torch.Tensor): The mask of the members, ``[n]``.
        population (torch.Tensor, optional): Rows of the population. By default,
            all candidates, members and others alike. (default: :obj:`None`)
        kind (str, optional): How features are distributed. By default, it is
            found from the population. (default: :obj:`None`)
        confidence (float, optional): The probability that each interval covers
            its share. (default: :obj:`0.95`)
    """
    population = rows if population is None else population
    kind = feature_kind(population) if kind is None else kind
    found = {}
    for score in SCORES:
        value = codebook_scores(codebook, rows, population, score, kind)
        member, other = value[is_member], value[~is_member]
        rates: dict[float, Estimate | None] = {}
        for rate in FALSE_POSITIVES:
            high = threshold_of(other, rate)
            known = None if high is None else true_positives(member, other, high, confidence)
            rates[rate] = None if known is None else known.share
        found[score] = CodebookAttack(
            score, kind, len(member), len(other), area(member, other, confidence), rates
        )
    return found
