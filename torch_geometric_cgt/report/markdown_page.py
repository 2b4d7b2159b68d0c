r"""The Markdown page of a benchmark."""

from __future__ import annotations

from collections.abc import Iterable

from torch_geometric_cgt.report.agreement import MIN_PAIRS, AgreementSummary
from torch_geometric_cgt.report.benchmark_results import Results
from torch_geometric_cgt.report.claim_verdicts import COMPARED
from torch_geometric_cgt.report.experiment_tables import ExperimentTable, rows_not_run
from torch_geometric_cgt.report.table_formats import escape_markdown, to_markdown
from torch_geometric_cgt.report.text_tables import (
    MEASURE_NAMES,
    TextTable,
    number,
    to_text_table,
)

INTRODUCTION = f"""\
A row of an experiment is a pair of scores: one GNN on the original and on the generated graph,
averaged over seeds. Scores are accuracies unless a section says otherwise. *Paper, same rows*: the
paper's numbers on the rows that were run here. In brackets: 95 % bootstrap intervals over seeds, if
every row has several. **Bold**: better than the paper on the same rows; the whole interval is
better or, without an interval, there are at least {MIN_PAIRS} pairs. *Top-1*: how often the model
that is best on the generated graph is best on the original."""


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
