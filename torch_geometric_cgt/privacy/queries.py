r"""Noisy answers to queries on the data: each is paid for by a ledger entry, and kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from torch_geometric_cgt.errors import LedgerError
from torch_geometric_cgt.privacy.ledger import Entry
from torch_geometric_cgt.privacy.mechanisms import GRID_BITS, check_index, sums_on_grid
from torch_geometric_cgt.privacy.noise import Gaussian, discrete_gaussian


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
