r"""The table that compares a release as one graph with its source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch_geometric_cgt.report.text_tables import TextTable, number

NAMES = {
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
COLUMN_NAMES = {'original': 'Original', 'generated': 'Joined trees'}


def joined_table(graph: Mapping[str, Any]) -> TextTable:
    r"""Statistics of graphs and the accuracies of GNNs on them, side by side.

    Args:
        graph (dict): The output of
            :func:`~torch_geometric_cgt.benchmark.joined_graph.compare_graphs`.
    """
    columns = list(graph['statistics'])
    body = []
    for key, name in NAMES.items():
        values = [
            graph['degree_distance'].get(column)
            if key == 'degree_distance'
            else graph['statistics'][column][key]
            for column in columns
        ]
        if key != 'degree_distance' or graph['degree_distance']:
            body.append([name, *map(_text, values)])
    for model in dict.fromkeys(m for scores in graph['scores'].values() for m in scores):
        scores = [graph['scores'][column].get(model) for column in columns]
        body.append([f'{model}, accuracy', *map(_text, scores)])
    start = graph['statistics'][columns[0]]['tail_start']
    notes = [
        f'The exponent is that of a discrete power law, fitted to degrees of at least {start} by '
        f'maximum likelihood. GNNs are trained and tested inside of each graph.'
    ]
    header = ['', *(COLUMN_NAMES.get(column, column) for column in columns)]
    return TextTable('As one graph', header, body, 0, notes)


def _text(value: float | None) -> str:
    if isinstance(value, int):
        return f'{value:,}'
    return number(value, missing='')
