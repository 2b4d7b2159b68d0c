r"""Conditional distributions of an outcome with back-off to shorter contexts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from torch_geometric_cgt.baselines.table_model import Tables

TABLES = ('key', 'ptr', 'outcome', 'count')


class _Level(Tables):
    r"""Counts of outcomes after each context of one length."""

    key: Tensor  # [K] contexts, sorted
    ptr: Tensor  # [K + 1]
    outcome: Tensor  # [E] distinct outcomes of each context, sorted
    count: Tensor  # [E] how often each occurred

    def __init__(self, num_outcomes: int) -> None:
        super().__init__()
        self.num_outcomes = num_outcomes
        self.add_tables(TABLES)

    def fit(self, context: Tensor, outcome: Tensor) -> None:
        pairs, count = (context * self.num_outcomes + outcome).unique(return_counts=True)
        owner = pairs // self.num_outcomes
        key, types = owner.unique_consecutive(return_counts=True)
        ptr = torch.cat([types.new_zeros(1), types.cumsum(0)])
        self.set_tables(key=key, ptr=ptr, outcome=pairs % self.num_outcomes, count=count)

    def find(self, context: Tensor) -> tuple[Tensor, Tensor]:
        r"""The place of each context among the keys, and whether it was seen."""
        if self.key.numel() == 0:
            return torch.zeros_like(context), torch.zeros_like(context, dtype=torch.bool)
        place = torch.searchsorted(self.key, context).clamp(max=self.key.numel() - 1)
        return place, self.key[place] == context

    def counts(self, context: Tensor, outcome: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r"""For each pair: how often the context occurred, the number of its distinct
        outcomes, and how often the outcome occurred after it.
        """
        place, seen = self.find(context)
        if self.key.numel() == 0:
            return (torch.zeros_like(context),) * 3
        total = torch.cat([self.count.new_zeros(1), self.count.cumsum(0)])
        first, last = self.ptr[place], self.ptr[place + 1]
        owner = torch.arange(self.key.numel(), device=context.device)
        owner = owner.repeat_interleave(self.ptr.diff())
        pairs = owner * self.num_outcomes + self.outcome
        wanted = place * self.num_outcomes + outcome
        at = torch.searchsorted(pairs, wanted).clamp(max=pairs.numel() - 1)
        found = self.count[at] * (pairs[at] == wanted)
        return (total[last] - total[first]) * seen, (last - first) * seen, found * seen

    def draw(self, place: Tensor, uniform: Tensor) -> Tensor:
        r"""Draws outcomes after seen contexts, in proportion to their counts."""
        total = torch.cat([self.count.new_zeros(1), self.count.cumsum(0)])
        first, last = total[self.ptr[place]], total[self.ptr[place + 1]]
        at = first + (uniform * (last - first)).long()
        at = torch.minimum(at, last - 1)
        return self.outcome[torch.searchsorted(total, at, right=True) - 1]


class Backoff(Tables):
    r"""The distribution of an outcome given a context, interpolated with shorter
    contexts as by `Witten and Bell (1991) <https://doi.org/10.1109/18.87000>`_:

    .. math::
        p(w \mid h) = \frac{c(h, w) + t(h) \, p(w \mid h')}{c(h) + t(h)},

    where :math:`c` counts, :math:`t(h)` is the number of distinct outcomes that
    occurred after :math:`h`, and :math:`h'` is the next shorter context. The
    shortest context backs off to the uniform distribution.

    Args:
        num_outcomes (int): The number of outcomes.
        num_levels (int): The number of contexts of different lengths.
    """

    def __init__(self, num_outcomes: int, num_levels: int) -> None:
        super().__init__()
        self.num_outcomes = num_outcomes
        self.num_levels = num_levels
        self._levels = nn.ModuleList(_Level(num_outcomes) for _ in range(num_levels))

    @property
    def levels(self) -> list[_Level]:
        return cast(list[_Level], list(self._levels))

    def fit(self, contexts: Sequence[Tensor], outcome: Tensor) -> None:
        r"""Counts observations.

        Args:
            contexts (list[torch.Tensor]): The context of each observation as an
                integer, ``[n]``, for each level from the longest to the shortest.
            outcome (torch.Tensor): The outcomes, ``[n]``.
        """
        for level, context in zip(self.levels, contexts, strict=True):
            level.fit(context, outcome)

    def prob(
        self, contexts: Sequence[Tensor], outcome: Tensor, leave_out: Tensor | None = None
    ) -> Tensor:
        r"""The probability of each outcome, ``[n]``.

        Args:
            contexts (list[torch.Tensor]): As in :meth:`fit`.
            outcome (torch.Tensor): The outcomes, ``[n]``.
            leave_out (torch.Tensor, optional): Whether to leave one occurrence of
                each pair out of its own counts, ``[n]``. Such pairs must be
                among those of :meth:`fit`. (default: :obj:`None`)
        """
        prob = torch.full(
            outcome.size(), 1 / self.num_outcomes, dtype=torch.float64, device=outcome.device
        )
        for level, context in zip(reversed(self.levels), reversed(contexts), strict=True):
            total, types, count = level.counts(context, outcome)
            if leave_out is not None:
                types = types - ((count == 1) & leave_out).long()
                total, count = total - leave_out.long(), count - leave_out.long()
            seen = total > 0
            mixed = (count + types * prob) / (total + types).clamp(min=1)
            prob = torch.where(seen, mixed, prob)
        return prob

    def sample(
        self, contexts: Sequence[Tensor], generator: torch.Generator | None = None
    ) -> Tensor:
        r"""Draws an outcome after each context, ``[n]``.

        Args:
            contexts (list[torch.Tensor]): As in :meth:`fit`.
            generator (torch.Generator, optional): The source of randomness.
                (default: :obj:`None`)
        """
        size, device = contexts[0].size(), contexts[0].device

        def uniform() -> Tensor:
            return torch.rand(size, dtype=torch.float64, device=device, generator=generator)

        outcome = (uniform() * self.num_outcomes).long()
        waiting = torch.ones(size, dtype=torch.bool, device=device)
        for level, context in zip(self.levels, contexts, strict=True):
            place, seen = level.find(context)
            total, types, _ = level.counts(context, torch.zeros_like(context))
            stops = uniform() * (total + types) < total
            drawn, chosen = uniform(), waiting & seen & stops
            outcome[chosen] = level.draw(place[chosen], drawn[chosen])
            waiting &= ~chosen
        return outcome
