r"""Sensitivity: does removing a real unit change any answer by more than its bound?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.audit.check import Check, verdict
from torch_geometric_cgt.audit.neighbours import neighbour_of, undirected_pairs
from torch_geometric_cgt.audit.replay import Replay, Replayed
from torch_geometric_cgt.pipeline.source import Source

ROUNDING = 1e-6  # of a bound
NUM_NEIGHBOURS = 40


@dataclass(frozen=True)
class LargestChange:
    r"""The largest change of the answers of one entry.

    Args:
        entry (str): The ledger entry.
        bound (float): The bound that the ledger states.
        change (float): The largest change that was observed.
        unit (str): The unit whose removal caused it.
        num_units (int): The number of units that were removed, one at a time.
    """

    entry: str
    bound: float
    change: float
    unit: str
    num_units: int

    @property
    def is_above(self) -> bool:
        r"""Whether the change exceeds the bound by more than rounding."""
        return self.change > self.bound * (1 + ROUNDING) + 1e-12


@dataclass(frozen=True)
class Sensitivity:
    r"""The largest changes of all entries.

    Args:
        changes (list[LargestChange]): One per entry.
        leaks (dict[str, str], optional): The results that changed although all
            answers were the same, each with the unit that changed it.
            (default: none)
    """

    changes: Sequence[LargestChange]
    leaks: dict[str, str] = field(default_factory=dict)

    def checks(self) -> list[Check]:
        r"""The check of the bounds, and that of the results."""
        return [self.check(), self.check_results()]

    def check_results(self) -> Check:
        r"""Above the limit if a result depends on the data in another way than
        through answers with noise.
        """
        number = self.changes[0].num_units
        says = (
            f'The number of results that change if one of {number} real units is removed while '
            f'all answers stay the same. Whatever is computed from the answers alone does not '
            f'change; what changes reads the data without noise.'
        )
        if self.leaks:
            says += f' {"; ".join(f"{name} without {unit}" for name, unit in self.leaks.items())}.'
        return Check(
            'Results follow from answers',
            verdict(False, bool(self.leaks)),
            float(len(self.leaks)),
            says,
            0.0,
            'only answers with noise may depend on the data',
        )

    def check(self) -> Check:
        r"""Above the limit if a change exceeds its bound. Changes below the bound
        are what the noise is for: they are not findings.
        """
        above = [c for c in self.changes if c.is_above]
        worst = max(self.changes, key=lambda c: _ratio(c.change, c.bound))
        says = (
            f'{worst.num_units} real units were removed from the source, one at a time and those '
            f'with the most neighbours first, and all {len(self.changes)} entries of the ledger '
            f'were computed again. The value is the largest change divided by the bound that the '
            f"ledger states, reached by '{worst.entry}' without {worst.unit}: "
            f'{worst.change:.4g} of {worst.bound:.4g}.'
        )
        if above:
            names = '; '.join(
                f"'{c.entry}' by {c.change:.4g} instead of {c.bound:.4g}" for c in above
            )
            says += f' More than the bound: {names}.'
        return Check(
            'Sensitivity of every answer',
            verdict(False, bool(above)),
            min(_ratio(worst.change, worst.bound), 1e9),
            says,
            1.0,
            'the bounds of the ledger',
            details={'above': [asdict(c) for c in above]},
        )

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        return {'changes': [asdict(c) for c in self.changes], 'leaks': self.leaks}


def audit_sensitivity(
    source: Source,
    replay: Replay,
    unit: str,
    num_neighbours: int = NUM_NEIGHBOURS,
    seed: int = 0,
    max_degree: int | None = None,
) -> Sensitivity:
    r"""Removes real units one at a time, and measures how much each answer changes.

    Args:
        source (Source): The checked source graph.
        replay (callable): Computes all answers on a graph, with the earlier
            outputs of the audited build as inputs of later queries.
        unit (str): The unit of the claim.
        num_neighbours (int, optional): The number of units to remove. Half of
            them are those with the most neighbours. (default: :obj:`40`)
        seed (int, optional): The seed of the random half. (default: :obj:`0`)
        max_degree (int, optional): The largest number of edges into a node that
            the claim protects. (default: :obj:`None`)
    """
    base = replay(source)
    graphs = real_neighbours(source, unit, num_neighbours, seed, max_degree)
    return largest_changes(base, ((name, replay(graph)) for name, graph in graphs))


def largest_changes(base: Replayed, others: Iterable[tuple[str, Replayed]]) -> Sensitivity:
    r"""The largest change of each entry, and the results that change.

    Args:
        base (Replayed): The answers and results on the source.
        others (list): For each neighbour of the source, its name and the
            answers and results on it.
    """
    largest: dict[str, LargestChange] = {}
    for answer in base.answers:
        largest.setdefault(answer.name, LargestChange(answer.name, answer.bound, 0.0, '', 0))
    if (trees := base.trees) is not None:
        largest[trees.name] = LargestChange(trees.name, trees.bound, 0.0, '', 0)
    num_units, leaks = 0, dict[str, str]()
    for unit, other in others:
        num_units += 1
        names = [answer.name for answer in other.answers]
        if names != [answer.name for answer in base.answers]:
            raise ValueError(
                f'Without {unit}, other queries were asked than on the source: {names}'
            )
        changes = [
            (one.name, float((one.exact.double() - two.exact.double()).norm()))
            for one, two in zip(base.answers, other.answers, strict=True)
        ]
        if trees is not None and other.trees is not None:  # the entry is a number of trees
            changes.append((trees.name, float(trees.num_changed(other.trees))))
        for name, change in changes:
            if change > largest[name].change or not largest[name].unit:
                largest[name] = replace(largest[name], change=change, unit=unit)
        for name, value in base.results.items():
            if not _is_same(value, other.results[name]):
                leaks.setdefault(name, unit)
    if not (largest and num_units):
        raise ValueError('There is nothing to compare: no answer, or no neighbour of the source')
    found = [replace(change, num_units=num_units) for change in largest.values()]
    return Sensitivity(found, leaks)


def _is_same(one: Tensor, two: Tensor) -> bool:
    same = one.shape == two.shape and one.dtype == two.dtype
    return same and torch.allclose(one.double(), two.double(), rtol=1e-5, atol=1e-7)


def real_neighbours(
    source: Source,
    unit: str,
    num_neighbours: int = NUM_NEIGHBOURS,
    seed: int = 0,
    max_degree: int | None = None,
) -> Iterator[tuple[str, Source]]:
    r"""The source without one of its units, several times: those with the most
    neighbours first, then random ones.

    Args:
        source (Source): The checked source graph.
        unit (str): What is removed, see
            :meth:`~torch_geometric_cgt.audit.neighbours.neighbour_of`.
        num_neighbours (int, optional): The number of units.
            (default: :obj:`40`)
        seed (int, optional): The seed of the random ones. (default: :obj:`0`)
        max_degree (int, optional): Leave out nodes with more edges into them,
            which a claim may not protect. (default: :obj:`None`)
    """
    if num_neighbours < 1:
        raise ValueError(f"'num_neighbours' must be at least 1 (got {num_neighbours})")
    rng = torch.Generator().manual_seed(seed)
    degree = torch.bincount(
        source.data.edge_index.view(-1), minlength=int(source.data.num_nodes or 0)
    )
    if unit == 'edge':
        candidate = undirected_pairs(source.data)
        weight = degree[candidate].sum(dim=1)
    else:
        candidate = torch.arange(degree.numel()) if unit == 'node' else source.root
        if max_degree is not None:
            into = torch.bincount(source.data.edge_index[1], minlength=degree.numel())
            candidate = candidate[into[candidate] <= max_degree]
        weight = degree[candidate]
    order = weight.argsort(descending=True, stable=True)
    hubs = order[: (num_neighbours + 1) // 2]
    rest = order[hubs.numel() :]
    rest = rest[torch.randperm(rest.numel(), generator=rng)[: num_neighbours - hubs.numel()]]
    for place in torch.cat([hubs, rest]).tolist():
        chosen = candidate[place]
        name = f'{unit.replace("_", " ")} {"-".join(map(str, chosen.view(-1).tolist()))}'
        yield (
            name,
            neighbour_of(source, unit, chosen.view(1, -1) if unit == 'edge' else chosen.view(1)),
        )


def _ratio(change: float, bound: float) -> float:
    return change / bound if bound > 0 else 0.0 if change == 0 else float('inf')
