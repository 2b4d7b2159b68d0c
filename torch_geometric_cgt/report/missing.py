r"""What was not run, said in few words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from torch_geometric_cgt.report.tables import ExperimentTable, Row


def not_run(table: ExperimentTable) -> str:
    r"""The rows of a table that were not run, such as ``PubMed (all); Cora, CS
    (noisy edges 2, 4)``; empty if all were.

    Args:
        table (ExperimentTable): The table.
    """
    names: dict[str, list[str]] = defaultdict(list)  # by what is missing of them
    for dataset in table.datasets:
        rows = [row for row in table.rows if row.key.dataset == dataset]
        if all(row.is_run for row in rows):
            continue
        variants = dict.fromkeys(row.key.variant for row in rows)
        parts = {v: _missing(table, [r for r in rows if r.key.variant == v]) for v in variants}
        if len(set(parts.values())) == 1:
            names[next(iter(parts.values()))].append(dataset)
            continue
        for what in filter(None, dict.fromkeys(parts.values())):
            found = [v or 'default' for v, part in parts.items() if part == what]
            names[what].append(f'{dataset} [{", ".join(found)}]')
    return '; '.join(f'{", ".join(who)} ({what})' for what, who in names.items())


def _missing(table: ExperimentTable, rows: Sequence[Row]) -> str:
    r"""What is missing of one dataset and variant."""
    missing = [row for row in rows if not row.is_run]
    if len(missing) in (0, len(rows)):
        return 'all' if missing else ''
    levels: dict[str, str] = {}
    for level in dict.fromkeys(row.key.level for row in missing):
        models = [row.key.model for row in missing if row.key.level == level]
        whole = len(models) == sum(row.key.level == level for row in rows)
        levels[level] = '' if whole else ', '.join(models)
    if len({row.key.level for row in rows}) == 1:
        return next(iter(levels.values()))
    found = [f'{level} with {models}' if models else level for level, models in levels.items()]
    return f'{table.experiment.level_name} {", ".join(found)}'
