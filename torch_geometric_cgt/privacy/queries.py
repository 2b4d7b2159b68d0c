r"""Noisy answers to queries on the data: each is paid for by a ledger entry, and kept. Rows are
summed on a grid, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from torch_geometric_cgt.errors import LedgerError
from torch_geometric_cgt.privacy.entries import Entry
from torch_geometric_cgt.privacy.noise import Gaussian, discrete_gaussian
from torch_geometric_cgt.utils.rows import clip_rows, row_norms

GRID_BITS = 20  # the noise of all answers has a standard deviation of 2^20 grid steps
BLOCK_ELEMENTS = 1 << 24  # elements of dense rows per block
MARGIN = 1 - 1e-9  # for the rounding of norms


@dataclass(frozen=True)
class Answer:
    r"""The answer to one query.

    Args:
        name (str): The name of the ledger entry that paid for it.
        grid (float): The grid of the answer. All values are multiples of it.
        released (torch.Tensor): The noisy values, in steps of the grid.
            Private.
        exact (torch.Tensor, optional): The values without noise, in steps of the
            grid. **Not** private, and kept by a replay only.
    """

    name: str
    grid: float
    released: Tensor
    exact: Tensor | None = None


@dataclass
class Queries:
    r"""Answers queries on the data with the noise of a ledger.

    This is the only way from the data to the results of a private build, with
    the exception of DP-SGD. Each query names its ledger entry. A query without
    an entry, or one more than the entry pays for, raises an error, and nothing is
    released.

    The exact result of a query is an integer vector on a grid of
    :math:`\sigma / 2^{20}`. The noise is discrete Gaussian on the same grid. Up
    to ten standard deviations, its probabilities differ from those of a rounded
    Gaussian by a factor of at most :math:`\exp(100 / 2^{43})` per coordinate.
    :math:`10^5` coordinates therefore add less than :math:`3 \cdot 10^{-6}` to
    :math:`\epsilon`, which is less than the accountant rounds up. So the entry
    is a :class:`~torch_geometric_cgt.privacy.Gaussian`, and any number of
    entries compose to one Gaussian exactly.

    With :obj:`replay`, the queries return the answers of an earlier run instead
    of new noise, and keep the exact results beside them. Running the same code
    on the source, or on the source without one node, then shows the noise that
    was added and how far one node moves each result.

    Args:
        entries (list[Entry]): The entries of the ledger that may be spent.
        generator (torch.Generator, optional): The source of random bits. By
            default, the operating system. (default: :obj:`None`)
        replay (list[Answer], optional): The answers of an earlier run, in the
            order of the queries. (default: :obj:`None`)
    """

    entries: Sequence[Entry]
    generator: torch.Generator | None = None
    replay: Sequence[Answer] | None = None
    answers: list[Answer] = field(default_factory=list)  # in the order of the queries

    def sigma(self, name: str) -> float:
        r"""The standard deviation of the noise of an entry."""
        return self._noise(self._entry(name)).sigma

    def histogram(self, name: str, index: Tensor, num_bins: int) -> Tensor:
        r"""Counts rows per bin, ``[num_bins]``. A row changes one count by one.

        Args:
            name (str): The name of the ledger entry.
            index (torch.Tensor): The bin of each row, ``[n]``. Rows with a
                negative bin are not counted.
            num_bins (int): The number of bins, which must not depend on the
                data except through private results.
        """
        index = check_index(index, num_bins)
        return self.counts(name, torch.bincount(index[index >= 0], minlength=num_bins))

    def counts(self, name: str, exact: Tensor, unit: float = 1.0) -> Tensor:
        r"""Adds noise to a vector of integers. Returns :obj:`float64`.

        Args:
            name (str): The name of the ledger entry.
            exact (torch.Tensor): The integers.
            unit (float, optional): The value of one step of :obj:`exact`.
                (default: :obj:`1.0`)
        """
        grid = self._grid(name)
        steps = int(unit / grid)  # rounded down, so that one count weighs no more than its unit
        if int(exact.abs().max()) * steps >= 1 << 61:
            raise ValueError(f"The noise of '{name}' is too small compared with its counts")
        return self._answer(name, exact.long() * steps, grid)

    def sums(
        self, name: str, rows: Tensor, index: Tensor, num_bins: int, bound: float = 1.0
    ) -> Tensor:
        r"""Sums rows per bin, each clipped to a norm of :obj:`bound`,
        ``[num_bins, d]``. A row moves one sum by at most :obj:`bound`.

        Args:
            name (str): The name of the ledger entry.
            rows (torch.Tensor): The rows, ``[n, d]``, dense or sparse.
            index (torch.Tensor): The bin of each row, ``[n]``. Rows with a
                negative bin are ignored.
            num_bins (int): The number of bins.
            bound (float, optional): The largest :math:`L_2` norm of a row.
                (default: :obj:`1.0`)
        """
        grid = self._grid(name)
        return self._answer(name, sums_on_grid(rows, index, num_bins, bound, grid), grid)

    def median(self, name: str, values: Tensor, low: float, high: float, num_steps: int) -> float:
        r"""Approximates a median by bisection. Each step counts the values below
        the middle of the range. The number of values is public.

        Args:
            name (str): The name of the ledger entry, which pays for each step.
            values (torch.Tensor): The values, ``[n]``.
            low (float): The lower end of the search range.
            high (float): The upper end of the search range.
            num_steps (int): The number of steps. Each step halves the range.
        """
        for _ in range(num_steps):
            middle = (low + high) / 2
            below = float(self.counts(name, (values < middle).sum().view(1)))
            low, high = (middle, high) if 2 * below < values.numel() else (low, middle)
        return (low + high) / 2

    def _answer(self, name: str, exact: Tensor, grid: float) -> Tensor:
        self._check_paid(name)
        if self.replay is None:
            noise = discrete_gaussian(exact.numel(), float(1 << GRID_BITS), self.generator)
            released = exact + noise.view_as(exact)
            self.answers.append(Answer(name, grid, released))
        else:
            released = self._replayed(name, exact)
            self.answers.append(Answer(name, grid, released, exact))
        return released.double() * grid

    def _replayed(self, name: str, exact: Tensor) -> Tensor:
        place = len(self.answers)
        given = self.replay[place] if place < len(self.replay or ()) else None  # type: ignore[index]
        if given is None or given.name != name or given.released.shape != exact.shape:
            raise LedgerError(
                f"Query {place}, '{name}' with {list(exact.shape)} values, is not the one that was "
                f'answered ({given and given.name}): the answers belong to another build'
            )
        return given.released

    def _check_paid(self, name: str) -> None:
        entry = self._entry(name)
        asked = sum(answer.name == name for answer in self.answers)
        if asked >= entry.count:
            raise LedgerError(
                f"The ledger pays for {entry.count} runs of '{name}', and one more was asked for"
            )

    def _grid(self, name: str) -> float:
        return self.sigma(name) / (1 << GRID_BITS)

    def _entry(self, name: str) -> Entry:
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise LedgerError(
            f"The ledger has no entry '{name}' (it has {', '.join(e.name for e in self.entries)}): "
            f'the data must not be read'
        )

    @staticmethod
    def _noise(entry: Entry) -> Gaussian:
        if type(entry.noise) is not Gaussian:
            raise LedgerError(f"'{entry.name}' must have Gaussian noise (got {entry.noise!r})")
        return entry.noise


def to_tensors(answers: Iterable[Answer], prefix: str) -> tuple[dict[str, Tensor], list[dict]]:
    r"""Answers as named tensors and a list of facts, for files.

    Args:
        answers (list[Answer]): The answers.
        prefix (str): The prefix of all names.
    """
    tensors, facts = {}, []
    for place, answer in enumerate(answers):
        tensors[f'{prefix}.{place}'] = answer.released
        facts.append({'name': answer.name, 'grid': answer.grid})
    return tensors, facts


def from_tensors(tensors: dict[str, Tensor], facts: list[dict], prefix: str) -> list[Answer]:
    r"""The inverse of :meth:`to_tensors`."""
    return [
        Answer(fact['name'], fact['grid'], tensors[f'{prefix}.{place}'])
        for place, fact in enumerate(facts)
    ]


def sums_on_grid(x: Tensor, index: Tensor, num_bins: int, bound: float, grid: float) -> Tensor:
    r"""Sums clipped rows per bin, in integer steps of a grid, ``[num_bins, d]``.

    Rows are rounded towards zero to the grid, which increases no norm. A margin
    of :math:`10^{-9}` covers the floating-point rounding of norms. So removing
    one row moves one sum by at most :obj:`bound`, exactly.

    Args:
        x (torch.Tensor): The rows, ``[n, d]``, dense or sparse.
        index (torch.Tensor): The bin of each row, ``[n]``. Rows with a negative
            bin are ignored.
        num_bins (int): The number of bins. It must not depend on the data
            except through private results.
        bound (float): The largest :math:`L_2` norm of a row.
        grid (float): The grid.
    """
    index = check_index(index, num_bins)
    if x.dim() != 2 or x.size(0) != index.numel():
        raise ValueError(
            f"'x' must be [n, d] with a row for each of the {index.numel()} bins "
            f'(got {list(x.shape)})'
        )
    for name, value in (('bound', bound), ('grid', grid)):
        if not 0 < value < math.inf:
            raise ValueError(f"'{name}' must be positive and finite (got {value!r})")
    norms = row_norms(x)
    if not bool(norms.isfinite().all()):
        raise ValueError("'x' must be finite (got NaN, infinite or too large values)")
    if x.size(0) * bound / grid >= 1 << 61:
        raise ValueError(f"'grid' is too small compared with 'bound' (got {grid} and {bound})")
    scale = (bound / norms.clamp(min=1e-300)).clamp(max=1.0) * MARGIN / grid
    total = torch.zeros(num_bins, x.size(1), dtype=torch.long)
    if x.layout != torch.strided:
        x = x.to_sparse_coo().coalesce()
        row, column = x.indices()
        steps = (x.values().double() * scale[row]).trunc().long()
        used = index[row] >= 0
        cell = index[row[used]] * x.size(1) + column[used]
        total.view(-1).index_add_(0, cell, steps[used])
        return total
    block = max(1, BLOCK_ELEMENTS // x.size(1))
    for part in torch.arange(x.size(0)).split(block):
        part = part[index[part] >= 0]
        steps = (x[part].double() * scale[part, None]).trunc().long()
        total.index_add_(0, index[part], steps)
    return total


def noisy_means(sums: Tensor, counts: Tensor, bound: float) -> Tensor:
    r"""Means from noisy sums and noisy counts, clipped to :obj:`bound` like the
    rows. Arithmetic on private results costs nothing.

    Args:
        sums (torch.Tensor): Noisy sums, ``[m, d]``.
        counts (torch.Tensor): Noisy counts, ``[m]``.
        bound (float): The largest :math:`L_2` norm of a row.
    """
    return clip_rows(sums / counts.clamp(min=1)[:, None].to(sums.dtype), bound)


def check_index(index: Tensor, num_bins: int) -> Tensor:
    r"""Raises an error unless the index is a vector of integers below the number of bins."""
    if num_bins < 1:
        raise ValueError(f"'num_bins' must be at least 1 (got {num_bins})")
    if index.dim() != 1 or index.is_floating_point():
        raise ValueError(f"'index' must be a vector of integers (got shape {list(index.shape)})")
    index = index.long()
    if index.numel() > 0 and int(index.max()) >= num_bins:
        raise ValueError(f"'index' must lie below 'num_bins' = {num_bins} (got {int(index.max())})")
    return index
