r"""How well scores on generated and original graphs agree, per dataset, ours and the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch_geometric_cgt.benchmark.metrics import MEASURES, Estimate, estimate
from torch_geometric_cgt.report.experiment_tables import ExperimentTable, Row

LOWER_IS_BETTER = ('mse', 'max_abs')
MIN_PAIRS = 8  # without intervals, fewer pairs are not enough to call a result better


@dataclass(frozen=True)
class AgreementSummary:
    r"""The measures of agreement over the rows of one dataset, or of all."""

    experiment: str
    variant: str
    dataset: str  # empty for all
    asked: int  # planned rows
    run: int  # rows that were run
    num_same: int  # rows that were run and that the paper has
    num_paper: int
    ours: dict[str, Estimate]  # measure
    common: dict[str, Estimate]  # ours, on rows that the paper has too
    same: dict[str, Estimate]  # the paper's, on rows that were run
    paper: dict[str, Estimate]  # the paper's, on all of its rows

    @property
    def is_claim(self) -> bool:
        r"""Whether we claim to be better than the paper. Variants are ablations
        and controls, which should be worse, except those of the privacy table.
        """
        return not self.variant or self.experiment == 'privacy'

    def is_better(self, name: str) -> bool:
        r"""Whether a measure is better than the paper's on the same rows."""
        return _is_better(name, self.common[name].value, self.same[name].value)

    def is_clear(self, name: str) -> bool:
        r"""Whether a measure is better with its whole interval. With one seed
        there is no interval, and at least :obj:`MIN_PAIRS` pairs are required.
        """
        ours, theirs = self.common[name], self.same[name].value
        if ours.low is None or ours.high is None:
            return self.is_better(name) and self.num_same >= MIN_PAIRS
        return all(_is_better(name, end, theirs) for end in (ours.low, ours.high))

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        return asdict(self)

    def record(self) -> dict[str, Any]:
        r"""All numbers as one line of a CSV file."""
        out: dict[str, Any] = {
            'experiment': self.experiment,
            'variant': self.variant,
            'dataset': self.dataset or 'all',
            'pairs asked': self.asked,
            'pairs run': self.run,
            'paper pairs same': self.num_same,
            'paper pairs': self.num_paper,
        }
        for name in MEASURES:
            found = self.ours[name]
            out |= {name: found.value, f'{name} low': found.low, f'{name} high': found.high}
            out[f'paper same {name}'] = self.same[name].value
            out[f'paper {name}'] = self.paper[name].value
        return out


def summarize_agreement(table: ExperimentTable) -> list[AgreementSummary]:
    r"""For each variant, a summary of each dataset and then one of all datasets.

    Args:
        table (ExperimentTable): The table.
    """
    out = []
    for variant in table.variants:
        rows = [row for row in table.rows if row.key.variant == variant]
        for dataset in [*dict.fromkeys(row.key.dataset for row in rows), '']:
            part = [row for row in rows if dataset in ('', row.key.dataset)]
            out.append(_summary(table, variant, dataset, part))
    return out


def _summary(
    table: ExperimentTable, variant: str, dataset: str, rows: Sequence[Row]
) -> AgreementSummary:
    is_run = [row.pair() is not None if table.kind == 'pairs' else row.is_run for row in rows]
    has_paper = [row.paper is not None for row in rows]
    ours = [(row, pair) for row in rows if (pair := row.pair())]
    paper = [(row, pair) for row in rows if (pair := row.paper_pair())]
    same = [pair for row, pair in paper if row.pair()]
    return AgreementSummary(
        experiment=table.experiment.name,
        variant=variant,
        dataset=dataset,
        asked=len(rows),
        run=sum(is_run),
        num_same=sum(a and b for a, b in zip(is_run, has_paper, strict=True)),
        num_paper=sum(has_paper),
        ours=estimate([pair for _, pair in ours]),
        common=estimate([pair for row, pair in ours if row.paper_pair()]),
        same=estimate(same),
        paper=estimate([pair for _, pair in paper]),
    )


def _is_better(name: str, ours: float | None, theirs: float | None) -> bool:
    if ours is None or theirs is None:
        return False
    return ours < theirs if name in LOWER_IS_BETTER else ours > theirs
