r"""The entries of a ledger: mechanisms, their input for an accountant, and the grid to which their
privacy losses are rounded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch_geometric_cgt.errors import LedgerError
from torch_geometric_cgt.privacy.noise import Noise, SampledGaussian, noise_from_dict
from torch_geometric_cgt.privacy.units import CappedSample, check_unit, group_size

INTERVAL = 1e-3  # grid of privacy losses; losses are rounded up to it
MIXTURE_INTERVAL = 4e-3  # grid for mixtures, which are slow on a finer grid
MANY_LOSSES = 30.0  # the grid grows in proportion to epsilons above this one
MOST_LOSSES = 9_000.0  # losses of one step of DP-SGD with a group, see mixture_losses()
COARSEST = 1.0  # grid for the sake of that number
FAR = 10.0  # standard deviations, beyond which an accountant cuts distributions off
TOGETHER = 50.0  # members of a group that double the time for a privacy loss


@dataclass(frozen=True)
class Entry:
    r"""One mechanism that reads the data, or the reason why a stage costs nothing.

    Args:
        stage (str): The stage of the build that runs the mechanism.
        name (str): What is computed.
        changes (dict[str, float], optional): For each unit of
            :obj:`~torch_geometric_cgt.privacy.UNITS` that the entry is priced
            for, the largest change of the vector that receives noise, as an
            :math:`L_2` norm; zero if the unit does not change it. For DP-SGD,
            the largest number of trees that change. (default: none)
        noise (Noise, optional): The noise. With :obj:`None`, the stage costs
            nothing, and :obj:`note` must give the reason.
            (default: :obj:`None`)
        count (int, optional): The number of runs. (default: :obj:`1`)
        share (float, optional): The share of the budget that calibration gives
            to this entry, relative to the other entries. (default: :obj:`1.0`)
        fixed (bool, optional): Whether calibration keeps the noise, *e.g.*,
            because the mechanism has already run. (default: :obj:`False`)
        note (str, optional): Further information for the reader of a card.
            (default: :obj:`""`)
    """

    stage: str
    name: str
    changes: Mapping[str, float] = field(default_factory=dict)
    noise: Noise | None = None
    count: int = 1
    share: float = 1.0
    fixed: bool = False
    note: str = ''
    unit: str = ''  # of ledgers before format 3: the rows that the sensitivity refers to
    sensitivity: float = 1.0  # of ledgers before format 3: the change by one row

    def __post_init__(self) -> None:
        if self.unit and self.changes:
            raise ValueError(f"'{self.name}' must have either 'changes' or 'unit', not both")
        for unit, change in self.changes.items():
            check_unit(unit)
            if not 0 <= change < math.inf:
                raise ValueError(f"The change of '{unit}' must be finite (got {change!r})")
        for name in ('sensitivity', 'share'):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ValueError(f"'{name}' must be positive and finite (got {value!r})")
        if self.count != int(self.count) or self.count < 1:
            raise ValueError(f"'count' must be a positive integer (got {self.count!r})")
        if self.noise is None and not self.note:
            raise ValueError(
                f"'{self.name}' has no noise: give a 'note' that says why it costs nothing, e.g. "
                f'that it does not read the data'
            )

    @classmethod
    def free(cls, stage: str, name: str, why: str) -> Entry:
        r"""An entry that costs nothing, because it does not read the data or
        reads private results only.
        """
        return cls(stage, name, note=why)

    def loss(self, unit: str, sample: CappedSample | None = None) -> Loss | None:
        r"""The input of an accountant for one unit; :obj:`None` if the entry
        costs nothing.

        Args:
            unit (str): The unit that neighbouring datasets differ in.
            sample (CappedSample, optional): The frozen sample.
                (default: :obj:`None`)
        """
        if self.noise is None:
            return None
        if self.unit:
            group = group_size(self.unit, unit, sample)
            return Loss(self.noise, self.sensitivity, group, self.count) if group else None
        if unit not in self.changes:
            raise LedgerError(
                f"'{self.name}' has no bound on its change by one '{unit}' (it has bounds for "
                f'{", ".join(self.changes) or "no unit"})'
            )
        change = self.changes[unit]
        if change == 0:
            return None
        if isinstance(self.noise, SampledGaussian):
            return Loss(self.noise, 1.0, math.ceil(change), self.count)
        return Loss(self.noise, change, 1, self.count)

    def is_same_as(self, other: Entry) -> bool:
        r"""Whether two entries describe the same mechanism on the same rows.
        The width of the noise is not compared.

        Args:
            other (Entry): The other entry.
        """
        return self._mechanism() == other._mechanism()

    def _mechanism(self) -> tuple[Any, ...]:
        changes = tuple(sorted((unit, float(f'{v:.9g}')) for unit, v in self.changes.items()))
        own = (self.stage, self.name, changes, self.count, self.note, self.unit, self.sensitivity)
        if isinstance(self.noise, SampledGaussian):
            return *own, self.noise.kind, self.noise.sampling_probability, self.noise.steps
        return *own, None if self.noise is None else self.noise.kind

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        content = {name: getattr(self, name) for name in self.__dataclass_fields__}
        content['changes'] = dict(self.changes)
        for name in ('changes',) if self.unit else ('unit', 'sensitivity'):
            del content[name]
        content['noise'] = None if self.noise is None else self.noise.to_dict()
        return content

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Entry:
        r"""The inverse of :meth:`to_dict`. Further keys are ignored."""
        names = set(cls.__dataclass_fields__)
        missing = names - {'changes', 'unit', 'sensitivity'} - content.keys()
        if missing or not ({'changes', 'unit'} & content.keys()):
            raise KeyError(f'an entry without {sorted(missing) or "changes"}')
        fields = {name: content[name] for name in names & content.keys()}
        if fields['noise'] is not None:
            fields['noise'] = noise_from_dict(fields['noise'])
        return cls(**fields)


@dataclass(frozen=True)
class Loss:
    r"""The input of an accountant for one mechanism.

    Args:
        noise (Noise): The noise.
        sensitivity (float): The largest change of the vector when one row is
            removed.
        group (int, optional): The number of rows that are removed together.
            (default: :obj:`1`)
        count (int, optional): The number of runs. (default: :obj:`1`)
    """

    noise: Noise
    sensitivity: float
    group: int = 1
    count: int = 1

    @property
    def shift(self) -> float:
        r"""The largest change of the vector when all rows of the group are removed."""
        return self.group * self.sensitivity


def loss_interval(losses: Sequence[Loss], delta: float) -> float:
    r"""The grid of privacy losses: finer than the digits on a card, and coarse enough to be
    fast. A step of DP-SGD has at most :obj:`MOST_LOSSES` losses on it, unless a single step
    costs an epsilon of hundreds. So a ledger that is written can also be read within
    :obj:`~torch_geometric_cgt.utils.limits.MAX_MIXTURES`.
    """
    rho = sum(
        loss.count * loss.group**2 * loss.noise.concentrated(loss.sensitivity) for loss in losses
    )
    epsilon = rho + 2 * math.sqrt(rho * math.log(1 / delta))
    sampled = [(x.noise, x.group) for x in losses if isinstance(x.noise, SampledGaussian)]
    mixtures = [(noise, group) for noise, group in sampled if group > 1]
    grid = (MIXTURE_INTERVAL if mixtures else INTERVAL) * max(1.0, epsilon / MANY_LOSSES)
    wanted = max((mixture_losses(*mixture, MOST_LOSSES) for mixture in mixtures), default=0.0)
    return max(grid, min(wanted, COARSEST))


def mixture_losses(noise: SampledGaussian, group: int, interval: float) -> float:
    r"""The number of privacy losses that an accountant computes for one step of
    DP-SGD with a group. Each of them takes longer if many members of the group can
    be drawn together. It is the length of a range, divided by the interval; so
    the interval that gives a number of losses is found by dividing by that number.

    Args:
        noise (SampledGaussian): The noise.
        group (int): The number of rows that change together.
        interval (float): The grid of privacy losses.
    """
    if group == 1:
        return 0.0
    drawn = group * noise.sampling_probability
    together = min(group, drawn + FAR * math.sqrt(drawn) + FAR)
    shift = group / noise.noise_multiplier
    return (shift**2 / 2 + FAR * shift) / interval * (1 + together / TOGETHER)
