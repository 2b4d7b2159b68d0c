r"""Writes the files of a report: JSON always, tables and pages with the :obj:`report` extra."""

from __future__ import annotations

import importlib.util
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch_geometric_cgt.audit import Audit
from torch_geometric_cgt.report.benchmark_results import Results
from torch_geometric_cgt.report.text_tables import TextTable, to_text_table
from torch_geometric_cgt.utils.files import write_text

EXTRA = ('matplotlib', 'jinja2', 'pandas', 'tabulate')


def write_evaluation(folder: Path, evaluation: dict[str, Any]) -> list[Path]:
    r"""Writes :obj:`report.json` and, with the :obj:`report` extra,
    :obj:`report.html`.

    Args:
        folder (Path): Where to write.
        evaluation (dict): The content of an
            :class:`~torch_geometric_cgt.benchmark.Evaluation`, with the card of
            the release under :obj:`card` and, if known, the history of the fit
            under :obj:`fit`.
    """
    paths = [folder / 'report.json']
    write_text(paths[0], json.dumps(evaluation, indent=2) + '\n')
    if has_extra('report.html'):
        from torch_geometric_cgt.report.html_pages import render_evaluation

        paths.append(folder / 'report.html')
        write_text(paths[1], render_evaluation(evaluation))
    return paths


def write_audit(folder: Path, audit: Audit) -> list[Path]:
    r"""Writes :obj:`audit.json` and, with the :obj:`report` extra,
    :obj:`audit.html`.

    Args:
        folder (Path): Where to write.
        audit (Audit): The audit.
    """
    content = audit.to_dict()
    paths = [folder / 'audit.json']
    write_text(paths[0], json.dumps(content, indent=2) + '\n')
    if has_extra('audit.html'):
        from torch_geometric_cgt.report.html_pages import render_audit

        paths.append(folder / 'audit.html')
        write_text(paths[1], render_audit(content))
    return paths


def write_results(folder: Path, results: Results) -> list[Path]:
    r"""Writes :obj:`report.json` and, with the :obj:`report` extra,
    :obj:`report.md`, :obj:`report.html` and all tables as CSV and LaTeX.

    Args:
        folder (Path): Where to write.
        results (Results): The results of a benchmark.
    """
    paths = [folder / 'report.json']
    write_text(paths[0], to_json(results.to_dict()))
    if has_extra('report.md, report.html and tables'):
        from torch_geometric_cgt.report.html_pages import render_benchmark
        from torch_geometric_cgt.report.markdown_page import render_markdown

        paths += [folder / 'report.md', folder / 'report.html']
        write_text(paths[1], render_markdown(results))
        write_text(paths[2], render_benchmark(results))
        paths += write_tables(folder / 'tables', _tables(results))
    return paths


def write_tables(
    folder: Path, tables: Mapping[str, tuple[Sequence[dict[str, Any]], TextTable]]
) -> list[Path]:
    r"""Writes each table as CSV and as LaTeX.

    Args:
        folder (Path): Where to write.
        tables (dict): For each name, the numbers for CSV and the text for
            LaTeX. A name may hold any characters; files are named after its
            letters and digits.
    """
    from torch_geometric_cgt.report.table_formats import to_csv, to_latex

    paths: list[Path] = []
    for name, (records, table) in tables.items():
        stem = re.sub(r'[^A-Za-z0-9_]+', '-', name).strip('-')[:60] or 'table'
        while folder / f'{stem}.csv' in paths:
            stem += '-'
        for ending, text in [('csv', to_csv(records)), ('tex', to_latex(table))]:
            paths.append(folder / f'{stem}.{ending}')
            write_text(paths[-1], text)
    return paths


def to_json(content: Any) -> str:
    r"""Standard JSON: NaN is an error."""
    return json.dumps(content, indent=2, allow_nan=False) + '\n'


def has_extra(files: str) -> bool:
    r"""Whether the :obj:`report` extra is installed. Warns if it is not.

    Args:
        files (str): The files that cannot be written without it.
    """
    missing = [name for name in EXTRA if importlib.util.find_spec(name) is None]
    if missing:
        warnings.warn(
            f'Cannot write {files} without {", ".join(missing)}: '
            "pip install 'torch-geometric-cgt[report]'",
            stacklevel=3,
        )
    return not missing


def _tables(results: Results) -> dict[str, tuple[list[dict[str, Any]], TextTable]]:
    r"""The numbers and the text of each table in :obj:`tables/`."""
    summaries = [s.record() for found in results.summaries.values() for s in found]
    tables = {'summary': (summaries, results.headline())}
    for table in results.tables:
        name = table.experiment.name
        tables[name] = (table.records(), to_text_table(table))
        if table.kind == 'pairs':
            found = [summary.record() for summary in results.summaries[name]]
            tables[f'{name} agreement'] = (found, results.summary(table))
    return tables
