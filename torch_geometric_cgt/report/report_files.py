r"""Writes the files of a report: JSON always, tables and pages with the :obj:`report` extra."""

from __future__ import annotations

import importlib.util
import json
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_geometric_cgt.audit import Audit
from torch_geometric_cgt.report.benchmark_results import Results
from torch_geometric_cgt.report.claim_verdicts import COMPARED
from torch_geometric_cgt.report.experiment_tables import (
    MIN_PAIRS,
    AgreementSummary,
    ExperimentTable,
    rows_not_run,
)
from torch_geometric_cgt.report.publication import publication_of
from torch_geometric_cgt.report.text_tables import (
    MEASURE_NAMES,
    TextTable,
    number,
    to_text_table,
)
from torch_geometric_cgt.report.zoo_tables import graphs_table
from torch_geometric_cgt.utils.files import write_text

if TYPE_CHECKING:
    import pandas as pd

# pandas escapes all other special characters of LaTeX.
LATEX = str.maketrans(
    {'<': r'\textless{}', '>': r'\textgreater{}', '|': r'\textbar{}', '±': r'$\pm$'}
)
INTRODUCTION = f"""\
A row of an experiment is a pair of scores: one GNN on the original and on the generated graph,
averaged over seeds. Scores are accuracies unless a section says otherwise. *Paper, same rows*: the
paper's numbers on the rows that were run here. In brackets: 95 % bootstrap intervals over seeds, if
every row has several. **Bold**: better than the paper on the same rows; the whole interval is
better or, without an interval, there are at least {MIN_PAIRS} pairs. *Top-1*: how often the model
that is best on the generated graph is best on the original."""
EXTRA = ('matplotlib', 'jinja2', 'pandas', 'tabulate')


def write_evaluation(folder: Path, evaluation: dict[str, Any]) -> list[Path]:
    r"""Writes :obj:`report.json` and, with the :obj:`report` extra,
    :obj:`report.html`.

    Args:
        folder (Path): Where to write.
        evaluation (dict): The content of an
            :class:`~torch_geometric_cgt.benchmark.Evaluation`, with the card of
            the release under :obj:`card` and, if known, the history of the fit
            under :obj:`fit`. A notice says whether it may be published.
    """
    paths = [folder / 'report.json']
    content = {**publication_of(evaluation), **evaluation}
    write_text(paths[0], json.dumps(content, indent=2) + '\n')
    if has_extra('report.html'):
        from torch_geometric_cgt.report.html_pages import render_evaluation

        paths.append(folder / 'report.html')
        write_text(paths[1], render_evaluation(evaluation))
    return paths


def write_graphs(folder: Path, graphs: Sequence[tuple[str, dict[str, Any]]]) -> list[Path]:
    r"""Writes the comparison of several graphs: :obj:`zoo.json` and, with the
    :obj:`report` extra, :obj:`zoo.md` and :obj:`zoo.html`.

    Args:
        folder (Path): Where to write.
        graphs (list): The name and the measures of each graph, see
            :func:`~torch_geometric_cgt.report.zoo_tables.read_judged`.
    """
    paths = [folder / 'zoo.json']
    content = [{'source': name, **judged} for name, judged in graphs]
    write_text(paths[0], json.dumps(content, indent=2) + '\n')
    if has_extra('zoo.html'):
        from torch_geometric_cgt.report.html_pages import render_graphs

        table = graphs_table(graphs)
        notes = ''.join(f'\n{escape_markdown(note)}\n' for note in table.notes)
        paths += [folder / 'zoo.md', folder / 'zoo.html']
        write_text(paths[1], f'# {table.title}\n\n{to_markdown(table)}\n{notes}')
        write_text(paths[2], render_graphs(table))
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


def render_markdown(results: Results) -> str:
    r"""The page of a benchmark.

    Args:
        results (Results): The results.
    """
    parts = ['# The benchmark, measured', _header(results), _commands(results), INTRODUCTION]
    parts += ['## The experiments against the paper', to_markdown(results.headline())]
    parts += ['## Graph by graph', "Each measure is followed by the paper's on the same rows."]
    parts.append(to_markdown(_graph_by_graph(results)))
    for table in results.tables:
        parts += _section(results, table)
    return '\n\n'.join(part for part in parts if part) + '\n'


def _header(results: Results) -> str:
    runs = results.runs
    dates = sorted({run[end][:10] for run in runs for end in ('first', 'last') if run[end]})
    facts = [
        f'{sum(run["cells"] for run in runs)} cells',
        f'seeds {_unique(seed for run in runs for seed in run["seeds"])}',
        ' to '.join(dict.fromkeys(dates[:1] + dates[-1:])),
        f'commits {_unique(run["commit"] for run in runs)}',
        f'version {_unique(run["version"] for run in runs)}',
    ]
    gnns, graphs = (sum(run[name] for run in runs) / 3600 for name in ('seconds', 'build_seconds'))
    return (
        f'{", ".join(fact for fact in facts if fact)}; settings: '
        f'{"; ".join(dict.fromkeys(run["settings"] for run in runs))}. GNNs took {gnns:.1f} hours, '
        f'graphs {graphs:.1f} hours. Each section lists the rows that were not run.'
    )


def _commands(results: Results) -> str:
    commands = dict.fromkeys(' '.join(run['command'].split()) for run in results.runs)
    return '\n'.join(['```text', *filter(None, commands), '```'])


def _section(results: Results, table: ExperimentTable) -> list[str]:
    e = table.experiment
    title = f'{e.title} (scenario {e.scenario})' if e.scenario else e.title
    run, asked = sum(row.is_run for row in table.rows), len(table.rows)
    missing = f' Not run: {escape_markdown(rows_not_run(table))}.' if 0 < run < asked else ''
    parts = [
        f'## {escape_markdown(title)}',
        f'{run} of {asked} rows were run.{missing}',
        table.remark,
    ]
    verdicts, notes = results.comments_on(table)
    parts.append('\n'.join(f'- {escape_markdown(str(verdict))}' for verdict in verdicts))
    for note in notes:
        parts.append(f'{note.dataset}: {note.text}' if note.dataset else note.text)
    if not run:
        return parts
    if e.compares_methods or table.kind != 'pairs':
        shown = to_text_table(table)
        parts.append(to_markdown(shown))
        parts += [note for note in shown.notes if note != table.remark]
    elif table.variants != ['']:
        parts.append(to_markdown(_variants(results, table)))
    else:
        parts.append(to_markdown(results.summary(table)))
    return parts


def _graph_by_graph(results: Results) -> TextTable:
    r"""The agreement of the default generator on each dataset that was run."""
    body = []
    for table in results.tables:
        if table.kind == 'pairs' and table.experiment.variants == ('',):
            for summary in results.summaries[table.experiment.name]:
                if summary.dataset and not summary.variant and summary.run:
                    body.append([table.experiment.name, summary.dataset, *_beside(summary)])
    header = ['Experiment', 'Graph', 'Pairs', *_measures()]
    return TextTable('Graph by graph', header, body)


def _variants(results: Results, table: ExperimentTable) -> TextTable:
    r"""The agreement of all variants on each dataset that was run."""
    body = []
    for dataset in table.datasets:
        for summary in results.summaries[table.experiment.name]:
            if summary.dataset == dataset and summary.run:
                body.append([dataset, summary.variant or 'default', *_beside(summary)])
    name = table.experiment.variant_name.capitalize()
    return TextTable(table.experiment.title, ['Graph', name, 'Pairs', *_measures()], body)


def _measures() -> list[str]:
    return [text for name in COMPARED for text in (MEASURE_NAMES[name], 'Paper')]


def _beside(summary: AgreementSummary) -> list[str]:
    r"""The number of pairs and each measure beside the paper's, on rows that both
    have or, if there are none, on all rows.
    """
    both = summary.num_same > 0
    out = [str(summary.num_same if both else summary.run)]
    for name in COMPARED:
        digits = 4 if name == 'mse' else 3
        out.append(number((summary.common if both else summary.ours)[name].value, digits))
        out.append(number(summary.same[name].value, digits) if both else '')
    return out


def _unique(values: Iterable[object]) -> str:
    return ', '.join(str(value) for value in dict.fromkeys(values) if value != '')


def to_csv(records: Sequence[Mapping[str, Any]]) -> str:
    r"""Records of numbers with all digits. Missing numbers are empty."""
    import pandas as pd

    # Columns of objects: counts beside missing numbers stay integers.
    return pd.DataFrame(records, dtype=object).to_csv(index=False, lineterminator='\n')


def to_latex(table: TextTable) -> str:
    r"""A ``tabular`` with the rules of ``booktabs``, and a rule between groups."""
    columns = ''.join(side[0] for side in table.alignment)
    text = _frame(table).to_latex(index=False, escape=True, column_format=columns)
    lines = text.translate(LATEX).splitlines()
    head, rows, end = lines[:4], lines[4:-2], lines[-2:]
    body = []
    for i, row in enumerate(rows):
        # LaTeX reads a leading [ or * as an argument of the command before it.
        protected = f'{{{row[0]}}}{row[1:]}' if row[0] in '[*' else row
        body += [r'\midrule'] * table.starts_group(i) + [protected]
    title = f'% {_one_line(table.title)}; needs \\usepackage{{booktabs}}'
    notes = [f'% {_one_line(note)}' for note in table.notes]
    return '\n'.join([title, *head, *body, *end, *notes]) + '\n'


def to_markdown(table: TextTable) -> str:
    r"""A table with pipes. Cells that are marked as better are bold."""
    frame = _frame(table).rename(columns=escape_markdown).map(escape_markdown)
    for (row, column), mark in table.marks.items():
        if mark == 'better':
            frame.iloc[row, column] = f'**{frame.iloc[row, column]}**'
    alignment = table.alignment if table.body else None  # tabulate 0.9 cannot align an empty table
    return frame.to_markdown(index=False, colalign=alignment, disable_numparse=True)


def escape_markdown(text: str) -> str:
    r"""Escapes all characters that Markdown or HTML would interpret."""
    return re.sub(r'([\\|<>*_`])', r'\\\1', _one_line(text))


def _frame(table: TextTable) -> pd.DataFrame:
    import pandas as pd

    body = [[_one_line(text) for text in row] for row in table.grouped]
    return pd.DataFrame(body, columns=[_one_line(name) for name in table.header], dtype=object)


def _one_line(text: str) -> str:
    return ' '.join(text.split())
