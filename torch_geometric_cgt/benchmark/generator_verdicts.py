r"""What the results of a comparison of generators say, graph by graph and over all graphs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from torch_geometric_cgt.benchmark.generator_comparison import ATTACK, BUILD, STATISTICS
from torch_geometric_cgt.benchmark.generator_runs import SHARED
from torch_geometric_cgt.benchmark.judge import judge
from torch_geometric_cgt.benchmark.metrics import agreement
from torch_geometric_cgt.benchmark.zoo import FLOOR
from torch_geometric_cgt.utils.limited_process import FAILED, FINISHED

Result = dict[str, Any]
Runs = dict[str, dict[str, list[float]]]  # column, model, seeds
DISTANCES = ('zero vectors', 'duplicates')
NOT_MODELS = (BUILD, STATISTICS, ATTACK)


def compare_results(results: Sequence[Result]) -> dict[str, Any]:
    r"""Judges all generators.

    Args:
        results (list[dict]): The output of
            :meth:`~torch_geometric_cgt.benchmark.generator_comparison.Comparison.run`.

    Returns:
        ``graphs``, a list of one dictionary per graph with its columns, and
        ``overall``, the agreement of all scores of all graphs by column. All of it can
        be written as JSON.
    """
    names = list(dict.fromkeys(result['graph'] for result in results))
    graphs = [judge_graph([r for r in results if r['graph'] == name]) for name in names]
    return {'graphs': graphs, 'overall': judge_overall(graphs)}


def judge_graph(results: Sequence[Result]) -> dict[str, Any]:
    r"""Judges all columns of one graph.

    Args:
        results (list[dict]): The results of this graph.
    """
    scores, transfer = _runs(results, 'score'), _runs(results, 'transfer')
    models = [m for m in scores.get('original', {}) if m not in FLOOR]
    columns = list(dict.fromkeys(r['column'] for r in results if r['column'] != 'original'))
    # A column counts if it has all models of the original, with as many seeds.
    whole = [c for c in columns if _is_whole(scores, c)]
    resolution, verdicts = judge(scores, whole, FLOOR) if models else (None, {})
    reason = None
    if resolution is not None and not resolution.is_resolved:
        reason = resolution.text()
    found: dict[str, Any] = {}
    for column in columns:
        own = [r for r in results if r['column'] == column]
        found[column] = {} if column in SHARED else _facts(own)
        if column in verdicts:
            found[column].update(asdict(verdicts[column]))
            if column in transfer:
                counted = [v for m in models for v in transfer[column].get(m, [])]
                found[column]['transfer'] = statistics.fmean(counted) if counted else None
        elif column not in SHARED and found[column]['status'] == FINISHED:
            found[column] |= _broken(own)
    metrics = [r['value']['metric'] for r in results if 'metric' in (r['value'] or {})]
    original = [v for m in models for v in scores['original'][m]]
    return {
        'graph': results[0]['graph'],
        'metric': metrics[0] if metrics else 'accuracy',
        'models': models,
        'num_seeds': max((len(runs) for runs in scores.get('original', {}).values()), default=0),
        'original': statistics.fmean(original) if original else None,
        'resolution': None if resolution is None else asdict(resolution),
        'no_correlations': reason,
        'columns': found,
        'means': {
            column: {m: statistics.fmean(scores[column][m]) for m in models}
            for column in ['original', *whole]
            if models
        },
    }


def judge_overall(graphs: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    r"""The agreement of the scores of all models on all graphs, by column. A column that
    lacks a graph is judged on the others, which it states as :obj:`num_graphs`.

    Args:
        graphs (list[dict]): The output of :meth:`judge_graph` for each graph.
    """
    columns = list(dict.fromkeys(c for g in graphs for c in g['means'] if c != 'original'))
    out = {}
    for column in columns:
        own = [g['means'] for g in graphs if column in g['means']]
        original = [means['original'][m] for means in own for m in means['original']]
        other = [means[column][m] for means in own for m in means['original']]
        out[column] = {**agreement(original, other), 'num_graphs': len(own)}
        inside = [
            g['columns'][column]['correlations']['spearman']['value']
            for g in graphs
            if g['columns'].get(column, {}).get('correlations')
        ]
        known = [value for value in inside if value is not None]
        out[column]['spearman_within'] = statistics.fmean(known) if known else None
    return out


def _runs(results: Sequence[Result], name: str) -> Runs:
    r"""The scores or transfers by column and model, in the order of seeds."""
    out: Runs = {}
    for result in sorted(results, key=lambda r: r['seed']):
        if result['part'] in NOT_MODELS or result['status'] != FINISHED:
            continue
        if name in result['value']:
            column = out.setdefault(result['column'], {})
            column.setdefault(result['part'], []).append(result['value'][name])
    return out


def _is_whole(scores: Runs, column: str) -> bool:
    original, own = scores.get('original', {}), scores.get(column, {})
    return all(len(own.get(model, [])) == len(runs) for model, runs in original.items())


def _broken(results: Sequence[Result]) -> dict[str, Any]:
    r"""The first GNN that failed on the trees of a generator."""
    for result in results:
        if result['part'] not in NOT_MODELS and result['status'] != FINISHED:
            return {
                'status': FAILED,
                'message': f'{result["part"]} on its trees: {result["message"]}',
            }
    return {}


def _facts(results: Sequence[Result]) -> dict[str, Any]:
    r"""The facts of a generator on one graph: how its builds ended, and what was measured."""
    builds = [r for r in results if r['part'] == BUILD]
    wrong = next((r for r in builds if r['status'] != FINISHED), builds[0])
    facts: dict[str, Any] = {
        'status': wrong['status'],
        'message': wrong['message'],
        'seconds': _processor_seconds(builds),
        'peak_bytes': max(r['peak_bytes'] for r in builds),
    }
    if wrong['status'] == FINISHED:
        facts |= wrong['value']
    measured = [r['value'] for r in results if r['part'] == STATISTICS and r['value']]
    if measured:
        facts['histograms'] = measured[0]['histograms']
        facts['wasserstein'] = {
            name: statistics.fmean(v['wasserstein'][name] for v in measured) for name in DISTANCES
        }
    attacks = [r for r in results if r['part'] == ATTACK]
    if attacks:
        strongest = max(attacks, key=lambda r: (r['value'] or {}).get('low', -1.0))
        facts['attack'] = strongest['value'] or _text(strongest)
    return facts


def _processor_seconds(builds: Sequence[Result]) -> float | None:
    r"""The mean over seeds. Results of the first version do not have it."""
    known = [r['processor_seconds'] for r in builds if 'processor_seconds' in r]
    return statistics.fmean(known) if len(known) == len(builds) else None


def _text(result: Result) -> str:
    failed = result['status'] == FAILED
    return f'{result["status"]}: {result["message"]}' if failed else str(result['status'])
