r"""Tables of a comparison of generators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch_geometric_cgt.benchmark.generator_verdicts import DISTANCES
from torch_geometric_cgt.benchmark.judge import CEILING
from torch_geometric_cgt.report.text_tables import NOT_AVAILABLE, TextTable, number
from torch_geometric_cgt.report.zoo_tables import METRIC_NAMES
from torch_geometric_cgt.utils.limited_process import FAILED, FINISHED

NAMES = {CEILING: 'ceiling', 'quantized': 'quantized'}
NOT_SHOWN = '-'
GIB = 1 << 30
SCORES = ['MSE', 'x ceiling', 'Pearson', 'Spearman', 'Top-1', 'Regret', 'Transfer']
FACTS = ['W zero', 'W dup.', 'Attack AUC', 'CPU min', 'GiB', 'Guaranteed']
OVERALL = ['Graphs', 'MSE', 'Pearson', 'Spearman', 'Spearman within']
MAX_TEXT = 60  # characters of an error in a table


def generator_table(comparison: Mapping[str, Any]) -> TextTable:
    r"""The measures of each generator on each graph.

    Args:
        comparison (dict): The output of
            :func:`~torch_geometric_cgt.benchmark.generator_verdicts.compare_results`.
    """
    body = [
        [graph['graph'], *_line(column, found)]
        for graph in comparison['graphs']
        for column, found in graph['columns'].items()
    ]
    header = ['Graph', 'Generator', *SCORES, *FACTS]
    return TextTable('Generators, graph by graph', header, body, 1, _notes(comparison['graphs']))


def overall_table(comparison: Mapping[str, Any]) -> TextTable:
    r"""The agreement of the scores of all models on all graphs.

    Args:
        comparison (dict): As in :func:`generator_table`.
    """
    total = len(comparison['graphs'])
    body = [
        [
            NAMES.get(column, column),
            f'{found["num_graphs"]} of {total}',
            number(found['mse'], 5),
            number(found['pearson']),
            number(found['spearman']),
            number(found['spearman_within'], missing=NOT_SHOWN),
        ]
        for column, found in comparison['overall'].items()
    ]
    notes = [
        'MSE, Pearson and Spearman are over the scores of all models on all graphs. '
        "'Spearman within' is the mean of the correlations inside of graphs."
    ]
    return TextTable('Generators, all graphs together', ['Generator', *OVERALL], body, 0, notes)


def _line(column: str, found: Mapping[str, Any]) -> list[str]:
    status = found.get('status', FINISHED)
    scores = [status_text(found)] + [''] * (len(SCORES) - 1)
    if status == FINISHED and 'mse' in found:
        correlations = [
            _estimate(found['correlations'].get(name)) for name in ('pearson', 'spearman')
        ]
        scores = [
            number(found['mse'], 5),
            number(found['multiple'], 1),
            *correlations,
            number(found['top1'], 2),
            number(found['regret']),
            number(found.get('transfer'), missing=''),
        ]
    facts = [''] * len(FACTS)
    if 'status' in found:
        distances = found.get('wasserstein') or {}
        facts = [
            *(number(distances.get(name), 2, '') for name in DISTANCES),
            _attack(found.get('attack')),
            _minutes(found['seconds']),
            f'{found["peak_bytes"] / GIB:.1f}',
            found.get('guaranteed', ''),
        ]
    return [NAMES.get(column, column), *scores, *facts]


def status_text(found: Mapping[str, Any]) -> str:
    r"""How a build ended, with the error of a failed one.

    Args:
        found (dict): The facts of a generator on one graph.
    """
    status = str(found.get('status', NOT_AVAILABLE))
    if status == FINISHED:
        return NOT_AVAILABLE
    message = str(found.get('message', ''))
    short = message if len(message) <= MAX_TEXT else f'{message[:MAX_TEXT]}...'
    return f'{status}: {short}' if status == FAILED else status


def _estimate(found: Mapping[str, float | None] | None) -> str:
    if found is None:
        return NOT_SHOWN
    text = number(found['value'], 2)
    if found['low'] is None or found['high'] is None:
        return text
    return f'{text} [{found["low"]:.2f}, {found["high"]:.2f}]'


def _minutes(seconds: float | None) -> str:
    return NOT_SHOWN if seconds is None else f'{seconds / 60:.1f}'


def _attack(found: Mapping[str, Any] | str | None) -> str:
    if found is None:
        return NOT_SHOWN
    if isinstance(found, str):
        return found if len(found) <= MAX_TEXT else f'{found[:MAX_TEXT]}...'
    return f'{found["area"]:.2f} [{found["low"]:.2f}, {found["high"]:.2f}]'


def _notes(graphs: Sequence[Mapping[str, Any]]) -> list[str]:
    notes = [
        f'{graph["graph"]}: no correlations, {graph["no_correlations"]}.'
        for graph in graphs
        if graph['no_correlations']
    ]
    metrics = ' or '.join(dict.fromkeys(METRIC_NAMES[graph['metric']] for graph in graphs))
    models = ' to '.join(str(n) for n in sorted({len(graph['models']) for graph in graphs}))
    seeds = ' to '.join(str(n) for n in sorted({graph['num_seeds'] for graph in graphs}))
    return [
        *notes,
        f'Scores are {metrics} on test roots; models: {models}, seeds: {seeds}. The ceiling is the '
        f'original with another split, other sampled neighbours and another seed. Correlations are '
        f'inside of a graph. Regret is the score on the original that is lost by choosing the '
        f'model that is best on the generated graph. Transfer: trained on generated, tested on '
        f'original computation graphs.',
        "'W zero' and 'W dup.' are the Wasserstein distances to the quantized graph of the number "
        'of null slots and of repeated tokens in a tree. CPU min and GiB are the processor time '
        'and the largest memory of the process of the build, with quantization.',
        'Attack AUC: a second build learns the computation graphs of a random half of the roots. '
        'An attacker who knows all edges and the token of every node tells this half from the '
        'other one, by the released trees and by the model; 0.5 is a blind guess. The strongest of '
        'several attacks on all roots is shown, and the interval holds for all of them together. '
        'Generators of whole graphs learn the edges of both halves and the labels of one.',
    ]
