r"""Verdicts: sentences that say whether the results support a claim.

The claims are: the full generator beats its ablations, broken graphs (controls)
score clearly worse, and no measure is worse than the paper's. Two sides are
always compared on the rows and seeds that both have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch_geometric_cgt.benchmark.metrics import Pair, measure
from torch_geometric_cgt.benchmark.variants import PAPER
from torch_geometric_cgt.report.experiment_tables import (
    LOWER_IS_BETTER,
    MIN_PAIRS,
    AgreementSummary,
    ExperimentTable,
)
from torch_geometric_cgt.report.text_tables import MEASURE_NAMES, number

COMPARED = ('mse', 'pearson', 'spearman')
# A control is clearly worse if its MSE is 10 times that of the default and at least 0.01, which is
# a difference of 0.1 in every score.
MIN_RATIO, MIN_MSE = 10, 0.01
MAX_DIGITS = 8

Runs = dict[tuple[str, ...], dict[int, tuple[float, float]]]  # dataset, level, model; seed


@dataclass(frozen=True)
class Verdict:
    r"""A sentence about a claim, and whether the claim holds."""

    experiment: str
    datasets: tuple[str, ...]  # in the sentence; empty if it is about all together
    holds: bool
    text: str

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        return asdict(self)

    def __str__(self) -> str:
        return f'{"holds" if self.holds else "missed"}: {self.text}'


@dataclass(frozen=True)
class Comparison:
    r"""The MSE of two generators on the rows and seeds that both have."""

    mse: float
    reference: float
    rows: int
    seeds: int  # of the row with the fewest seeds

    def describe(self, reference_first: bool = False) -> str:
        r"""Both numbers, and how many rows and seeds they are computed from."""
        a, b = _apart(self.mse, self.reference, 4)
        a, b = (b, a) if reference_first else (a, b)
        return f'{a} against {b}, {_count(self.rows, "row")} x {_count(self.seeds, "seed")}'


def judge_claims(
    tables: Sequence[ExperimentTable], summaries: Mapping[str, Sequence[AgreementSummary]]
) -> list[Verdict]:
    r"""The verdicts on all claims that some tables can decide.

    Args:
        tables (list[ExperimentTable]): The tables.
        summaries (dict): The summaries of each experiment, by its name.
    """
    out = []
    for table in tables:
        if table.kind != 'pairs':
            continue
        if table.experiment.name == 'ablation':
            out += _ablation(table, '') + _ablation(table, PAPER)
        if table.experiment.name == 'control':
            out += _controls(table, tables)
        out += _against_paper(table, summaries[table.experiment.name])
    return out


def _ablation(table: ExperimentTable, reference: str) -> list[Verdict]:
    r"""Whether the reference generator has a smaller MSE than its ablations."""
    whole = reference or 'the full model'
    others = [v for v in table.variants if v not in ('', reference)]
    out = []
    for dataset in table.datasets:
        better = []
        for variant in others:
            found = _compare(_runs([table], variant, dataset), _runs([table], reference, dataset))
            if found and found.reference < found.mse:
                better.append(f'{variant} ({found.describe(reference_first=True)})')
            elif found:
                how = 'the same MSE as' if found.reference == found.mse else 'a smaller MSE than'
                text = f'{dataset}: {variant} has {how} {whole} ({found.describe()}).'
                out.append(Verdict(table.experiment.name, (dataset,), False, text))
        if better:
            text = f'{dataset}: {whole} has a smaller MSE than {_listed(better)}.'
            out.append(Verdict(table.experiment.name, (dataset,), True, text))
    return out


def _controls(table: ExperimentTable, tables: Sequence[ExperimentTable]) -> list[Verdict]:
    r"""Whether broken graphs are clearly worse than the default generator, which
    may be in any table with the same kind of levels.
    """
    same = [t for t in tables if t.experiment.level_name == table.experiment.level_name]
    out = []
    for dataset in table.datasets:
        for variant in filter(None, table.variants):
            found = _compare(_runs([table], variant, dataset), _runs(same, '', dataset))
            if found is None:
                continue
            holds = found.mse >= max(MIN_MSE, MIN_RATIO * found.reference)
            how = 'clearly worse' if holds else 'not clearly worse'
            text = f'{dataset}: {variant} is {how} than the default in MSE ({found.describe()}).'
            if not holds:
                text += f' Clearly worse means {MIN_RATIO} times as large and at least {MIN_MSE}.'
            out.append(Verdict(table.experiment.name, (dataset,), holds, text))
    return out


def _against_paper(table: ExperimentTable, summaries: Iterable[AgreementSummary]) -> list[Verdict]:
    r"""Where measures are worse than the paper's on the same rows."""
    out, good, datasets = [], [], []
    for summary in summaries:
        if not summary.is_claim or not summary.num_same:
            continue
        if not summary.dataset and len(table.datasets) == 1:
            continue  # the same as the summary of the only dataset
        who = summary.dataset or 'all graphs together'
        who += f', {summary.variant or "default"}' if table.variants != [''] else ''
        rows = _count(summary.num_same, 'row')
        if worse := [_worse(summary, name) for name in COMPARED if _is_worse(summary, name)]:
            few = ', too few for a reliable correlation,' * (summary.num_same < MIN_PAIRS)
            text = f'{who}: worse than the paper on the same {rows}{few} in {_listed(worse)}.'
            text = text[0].upper() + text[1:]
            about = (summary.dataset,) * bool(summary.dataset)
            out.append(Verdict(table.experiment.name, about, False, text))
        else:
            good.append(f'{who} ({rows})')
            datasets += [summary.dataset] if summary.dataset else []
    if good:
        names = _listed([MEASURE_NAMES[name] for name in COMPARED])
        text = f'No worse than the paper on the same rows in {names}: {_listed(good)}.'
        about = tuple(dict.fromkeys(datasets))
        out.append(Verdict(table.experiment.name, about, True, text))
    return out


def _is_worse(summary: AgreementSummary, name: str) -> bool:
    ours, theirs = summary.common[name].value, summary.same[name].value
    if theirs is None:
        return False
    if ours is None:  # undefined since all our scores are equal, while the paper's differ
        return True
    return ours > theirs if name in LOWER_IS_BETTER else ours < theirs


def _worse(summary: AgreementSummary, name: str) -> str:
    ours, theirs = summary.common[name].value, summary.same[name].value
    a, b = _apart(ours, theirs, 4 if name == 'mse' else 3)
    return f'{MEASURE_NAMES[name]} ({a}, paper {b})'


def _apart(a: float | None, b: float | None, digits: int) -> tuple[str, str]:
    r"""Two numbers with enough digits to differ."""
    if a != b:
        while digits < MAX_DIGITS and number(a, digits) == number(b, digits):
            digits += 1
    return number(a, digits, 'not defined'), number(b, digits, 'not defined')


def _runs(tables: Iterable[ExperimentTable], variant: str, dataset: str) -> Runs:
    r"""The pairs of scores of a variant on one dataset, by row and seed."""
    out: Runs = {}
    for table in tables:
        for row in table.rows:
            if (row.key.variant, row.key.dataset) == (variant, dataset) and (pair := row.pair()):
                key = (dataset, row.key.level, row.key.model)
                out[key] = {**pair.runs, **out.get(key, {})}
    return out


def _compare(ours: Runs, reference: Runs) -> Comparison | None:
    r"""Compares two generators on the rows and seeds that both have, if any."""
    seeds = {key: sorted(ours[key].keys() & reference.get(key, {}).keys()) for key in ours}
    seeds = {key: common for key, common in seeds.items() if common}
    if not seeds:
        return None
    mse = []
    for runs in (ours, reference):
        pairs = [Pair(key, {s: runs[key][s] for s in common}) for key, common in seeds.items()]
        mse.append(measure(pairs)['mse'] or 0.0)
    return Comparison(mse[0], mse[1], len(seeds), min(map(len, seeds.values())))


def _count(number: int, name: str) -> str:
    return f'{number} {name}{"" if number == 1 else "s"}'


def _listed(parts: Sequence[str]) -> str:
    return ' and '.join(filter(None, [', '.join(parts[:-1]), parts[-1]]))
