r"""Tables of an evaluation: how substitutes of one or several graphs rank GNNs, views of trees, and
a release as one graph beside its source.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch_geometric_cgt.benchmark.judge import CEILING, CONTROL, CORRELATIONS
from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.report.text_tables import MEASURE_NAMES, TextTable, number

METRIC_NAMES = {'accuracy': 'accuracy', 'roc_auc': 'ROC AUC'}
COLUMN_NAMES = {
    CEILING: 'Ceiling',
    'quantized': 'Quantized',
    'generated': 'Generated',
    CONTROL: 'Control',
}
NOT_SHOWN = '-'
HEADER = [
    'MSE',
    'x ceiling',
    *(MEASURE_NAMES[name] for name in CORRELATIONS),
    'Top-1',
    'Regret',
    'Transfer',
]
STATISTIC_NAMES = {
    'num_nodes': 'Nodes',
    'num_edges': 'Edges',
    'mean_degree': 'Mean degree',
    'max_degree': 'Largest degree',
    'degree_distance': 'Wasserstein distance of degrees',
    'degree_exponent': 'Exponent of degrees',
    'homophily': 'Homophily of edges',
    'assortativity': 'Assortativity of degrees',
    'clustering': 'Clustering coefficient',
    'transitivity': 'Transitivity',
}
GRAPH_NAMES = {'original': 'Original', 'generated': 'Joined trees'}


def judged_table(judged: Mapping[str, Any]) -> TextTable:
    r"""The measures of each column of one graph.

    Args:
        judged (dict): The output of
            :meth:`~torch_geometric_cgt.benchmark.Evaluation.judged`.
    """
    body = [_line(judged, column) for column in judged['columns']]
    return TextTable('Ranking of models', ['Column', *HEADER], body, 0, _notes([judged]))


def graphs_table(graphs: Sequence[tuple[str, Mapping[str, Any]]]) -> TextTable:
    r"""The measures of several graphs, and their means.

    Args:
        graphs (list): The name and the measures of each graph.
    """
    body = [
        [name, *_line(judged, column)] for name, judged in graphs for column in judged['columns']
    ]
    if len(graphs) > 1:
        body += _means([judged for _, judged in graphs])
    notes = [
        f'{name}: {judged["no_correlations"]}.'
        for name, judged in graphs
        if judged['no_correlations']
    ]
    notes = ['No correlation is shown where models do not differ enough.'] * bool(notes) + notes
    notes += _notes([judged for _, judged in graphs], reasons=False)
    return TextTable('Ranking of models', ['Graph', 'Column', *HEADER], body, 1, notes)


def views_table(views: Mapping[str, Mapping[str, float]]) -> TextTable:
    r"""The accuracy of a small network on each view of a tree.

    Args:
        views (dict): The accuracy by view and column.
    """
    columns = list(dict.fromkeys(column for row in views.values() for column in row))
    body = [[view, *(number(row.get(column)) for column in columns)] for view, row in views.items()]
    header = ['View', *(column[:1].upper() + column[1:] for column in columns)]
    return TextTable('Views', header, body, 0)


def evaluation_tables(evaluation: Mapping[str, Any]) -> list[TextTable]:
    r"""The tables of an evaluation beyond its scores: none, if neither the zoo
    nor views nor one graph were measured.

    Args:
        evaluation (dict): The output of
            :meth:`~torch_geometric_cgt.benchmark.Evaluation.to_dict`.
    """
    judged, views = evaluation.get('judged'), evaluation.get('views')
    tables = [judged_table(judged)] if judged else []
    if views:
        tables.append(views_table(views))
    if evaluation.get('graph'):
        tables.append(joined_table(evaluation['graph']))
    return tables


def read_judged(paths: Sequence[Path]) -> list[tuple[str, dict[str, Any]]]:
    r"""Reads the graphs of files that ``cgt evaluate --zoo`` wrote.

    Args:
        paths (list[Path]): The files :obj:`report.json`.
    """
    out = []
    for path in paths:
        try:
            content = json.loads(path.read_text(encoding='utf-8'))
            name, judged = content['card']['source']['name'], content['judged']
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(f"'{path}' is no report of 'cgt evaluate'") from error
        if judged is None:
            raise ValueError(f"'{path}' has no ceiling: write it with 'cgt evaluate --zoo'")
        out.append((str(name), judged))
    return out


def _line(judged: Mapping[str, Any], column: str) -> list[str]:
    found = judged['columns'][column]
    correlations = [_estimate(found['correlations'].get(name)) for name in CORRELATIONS]
    return [
        COLUMN_NAMES.get(column, column),
        number(found['mse'], 5),
        number(found['multiple'], 1),
        *correlations,
        number(found['top1'], 2),
        number(found['regret']),
        number(found.get('transfer'), missing=''),
    ]


def _estimate(found: Mapping[str, float | None] | None) -> str:
    if found is None:
        return NOT_SHOWN
    text = number(found['value'], 2)
    if found['low'] is None or found['high'] is None:
        return text
    return f'{text} [{found["low"]:.2f}, {found["high"]:.2f}]'


def _means(graphs: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    r"""The means over graphs, of correlations only over those that have them."""
    out = []
    for column in dict.fromkeys(c for judged in graphs for c in judged['columns']):
        rows = [judged['columns'][column] for judged in graphs if column in judged['columns']]
        line = [_mean([row['mse'] for row in rows], 5), _mean([row['multiple'] for row in rows], 1)]
        for name in CORRELATIONS:
            found = [r['correlations'][name]['value'] for r in rows if name in r['correlations']]
            line.append(_mean(found, 2) if found else NOT_SHOWN)
        line += [_mean([row['top1'] for row in rows], 2), _mean([row['regret'] for row in rows])]
        transfer = [row['transfer'] for row in rows if 'transfer' in row]
        line.append(_mean(transfer) if transfer else '')
        out.append(['Mean', COLUMN_NAMES.get(column, column), *line])
    return out


def _mean(values: Sequence[float | None], digits: int = 3) -> str:
    known = [value for value in values if value is not None]
    return number(sum(known) / len(known) if known else None, digits)


def _notes(graphs: Sequence[Mapping[str, Any]], reasons: bool = True) -> list[str]:
    metrics = ' or '.join(dict.fromkeys(METRIC_NAMES[judged['metric']] for judged in graphs))
    models = ' to '.join(str(n) for n in sorted({judged['num_models'] for judged in graphs}))
    seeds = ' to '.join(str(n) for n in sorted({judged['num_seeds'] for judged in graphs}))
    out = []
    if reasons:
        out += [
            f'No correlations: {judged["no_correlations"]}.'
            for judged in graphs
            if judged['no_correlations']
        ]
    return [
        *out,
        f'Scores are {metrics} on test roots; models: {models}, seeds: {seeds}. The ceiling is the '
        f'original with another split, other sampled neighbours and another seed. Regret is the '
        f'score on the original that is lost by choosing the model that is best in the column. '
        f'Transfer is the mean score of models that are trained on the column and tested on the '
        f'original (on the original itself: {_overall(graphs)}). Intervals are 95 % bootstrap '
        f'intervals over models and seeds.',
    ]


def _overall(graphs: Sequence[Mapping[str, Any]]) -> str:
    return _mean([judged['original'] for judged in graphs])


def joined_table(graph: Mapping[str, Any]) -> TextTable:
    r"""Statistics of graphs and the accuracies of GNNs on them, side by side.

    Args:
        graph (dict): The output of
            :func:`~torch_geometric_cgt.benchmark.graph_comparison.compare_graphs`.
    """
    columns = list(graph['statistics'])
    body = []
    for key, name in STATISTIC_NAMES.items():
        values = [
            graph['degree_distance'].get(column)
            if key == 'degree_distance'
            else graph['statistics'][column][key]
            for column in columns
        ]
        if key != 'degree_distance' or graph['degree_distance']:
            body.append([name, *map(_count_or_number, values)])
    for model in dict.fromkeys(m for scores in graph['scores'].values() for m in scores):
        scores = [graph['scores'][column].get(model) for column in columns]
        body.append([f'{model}, accuracy', *map(_count_or_number, scores)])
    start = graph['statistics'][columns[0]]['tail_start']
    notes = [
        f'The exponent is that of a discrete power law, fitted to degrees of at least {start} by '
        f'maximum likelihood. GNNs are trained and tested inside of each graph.'
    ]
    header = ['', *(GRAPH_NAMES.get(column, column) for column in columns)]
    return TextTable('As one graph', header, body, 0, notes)


def _count_or_number(value: float | None) -> str:
    if isinstance(value, int):
        return f'{value:,}'
    return number(value, missing='')
