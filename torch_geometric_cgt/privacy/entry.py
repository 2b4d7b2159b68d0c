r"""One line of a privacy ledger: a mechanism, and what it costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch_geometric_cgt.privacy.accounting import Loss
from torch_geometric_cgt.privacy.noise import Noise, SampledGaussian, noise_from_dict
from torch_geometric_cgt.privacy.units import CappedSample, check_unit, group_size


@dataclass(frozen=True)
class Entry:
    r"""One mechanism that touches the data, or the reason why a stage does not.

    Args:
        stage (str): The stage of the build that it belongs to.
        name (str): What is computed, for a reader.
        unit (str, optional): What the rows are that the sensitivity speaks of:
            :obj:`"record"` (one computation graph), :obj:`"node"` (its features
            and its label), or :obj:`"edge"`. (default: :obj:`"record"`)
        sensitivity (float, optional): How far the vector that noise is added
            to moves when one row is left out: an :math:`L_2` norm, for
            :class:`~torch_geometric_cgt.privacy.Laplace` an :math:`L_1` norm,
            for DP-SGD the clipping norm. (default: :obj:`1.0`)
        noise (Noise, optional): The noise. :obj:`None` is for a stage that
            does not look at the data; then :obj:`note` must say why.
            (default: :obj:`None`)
        count (int, optional): How often it runs. (default: :obj:`1`)
        share (float, optional): Its part of the budget, relative to others,
            when noise is sought. (default: :obj:`1.0`)
        fixed (bool, optional): Whether its noise stays as it is when noise is
            sought, because it has run already, say. (default: :obj:`False`)
        note (str, optional): What else a reader should know.
            (default: :obj:`""`)
    """

    stage: str
    name: str
    unit: str = 'record'
    sensitivity: float = 1.0
    noise: Noise | None = None
    count: int = 1
    share: float = 1.0
    fixed: bool = False
    note: str = ''

    def __post_init__(self) -> None:
        check_unit(self.unit)
        for name in ('sensitivity', 'share'):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ValueError(f"'{name}' must be positive and finite (got {value!r})")
        if self.count != int(self.count) or self.count < 1:
            raise ValueError(f"'count' must be a positive integer (got {self.count!r})")
        if self.noise is None and not self.note:
            raise ValueError(
                f"'{self.name}' has no noise: give a 'note' that says why it is free, e.g. "
                f'that it does not look at the data'
            )

    @classmethod
    def free(cls, stage: str, name: str, why: str) -> Entry:
        r"""A stage that costs nothing, because it does not look at the data or
        looks at private results only.
        """
        return cls(stage, name, note=why)

    def loss(self, unit: str, sample: CappedSample | None = None) -> Loss | None:
        r"""What an accountant has to know, for one unit; :obj:`None` if nothing.

        Args:
            unit (str): What is left out of neighbouring data.
            sample (CappedSample, optional): The frozen sample.
                (default: :obj:`None`)
        """
        if self.noise is None:
            return None
        group = group_size(self.unit, unit, sample)
        return Loss(self.noise, self.sensitivity, group, self.count) if group else None

    def is_same_as(self, other: Entry) -> bool:
        r"""Whether two entries speak of the same mechanism on the same rows,
        however wide its noise is.

        Args:
            other (Entry): The other one.
        """
        return self._mechanism() == other._mechanism()

    def _mechanism(self) -> tuple[Any, ...]:
        own = (self.stage, self.name, self.unit, self.sensitivity, self.count, self.note)
        if isinstance(self.noise, SampledGaussian):
            return *own, self.noise.kind, self.noise.sampling_probability, self.noise.steps
        return *own, None if self.noise is None else self.noise.kind

    def to_dict(self) -> dict[str, Any]:
        r"""All of it, for a JSON file."""
        content = {name: getattr(self, name) for name in self.__dataclass_fields__}
        content['noise'] = None if self.noise is None else self.noise.to_dict()
        return content

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Entry:
        r"""The inverse of :meth:`to_dict`; further keys are ignored."""
        fields = {name: content[name] for name in cls.__dataclass_fields__}
        if fields['noise'] is not None:
            fields['noise'] = noise_from_dict(fields['noise'])
        return cls(**fields)
