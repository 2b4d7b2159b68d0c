"""Measures of generators, from results with given scores."""

import json

import pytest

from tests.helpers.comparisons import SCORES, compared, result, results
from torch_geometric_cgt.benchmark.generator_verdicts import judge_graph


def test_columns_are_compared_with_the_original():
    graph = compared()['graphs'][0]
    columns = graph['columns']
    assert list(columns) == ['ceiling', 'quantized', 'CGT', 'NGram', 'VGAE', 'Broken']
    assert columns['CGT']['mse'] == pytest.approx(0.02**2 / 3)
    assert columns['CGT']['multiple'] == pytest.approx(2.0)
    assert columns['CGT']['correlations']['spearman']['value'] == pytest.approx(1)
    assert columns['NGram']['correlations']['spearman']['value'] == pytest.approx(-1)
    assert columns['NGram']['top1'] == 0 and columns['NGram']['regret'] == pytest.approx(0.4)
    assert columns['CGT']['transfer'] == pytest.approx(sum(SCORES['CGT']) / 3 - 0.1)
    assert columns['CGT']['wasserstein'] == {'zero vectors': 0.25, 'duplicates': 0.5}
    assert columns['CGT']['seconds'] == 60 and columns['CGT']['attack']['area'] == 0.6
    assert 'seconds' not in columns['ceiling'] and graph['original'] == pytest.approx(0.7)


def test_what_did_not_finish_has_no_scores():
    columns = compared()['graphs'][0]['columns']
    assert columns['VGAE']['status'] == 'out of memory' and 'mse' not in columns['VGAE']
    broken = columns['Broken']
    assert (broken['status'], broken['message']) == (
        'failed',
        'MLP on its trees: ValueError: no roots',
    )


def test_equal_scores_have_no_correlations():
    flat = {column: [0.7, 0.701, 0.7] for column in SCORES}
    flat['ceiling'] = [0.6, 0.8, 0.7]
    graph = judge_graph(results(scores=flat))
    assert 'below the noise of seeds' in graph['no_correlations']
    assert graph['columns']['CGT']['correlations'] == {}


def test_all_graphs_are_one_set_of_points():
    found = compared()
    assert [graph['graph'] for graph in found['graphs']] == ['<b>', 'lower']
    overall = found['overall']
    assert overall['CGT']['mse'] == pytest.approx(0.02**2 / 3)
    assert overall['NGram']['spearman_within'] == pytest.approx(-1)
    assert overall['NGram']['spearman'] > -0.5  # graphs differ in the same way
    assert overall['CGT']['num_graphs'] == 2 and 'VGAE' not in overall
    json.dumps(found, allow_nan=False)


def test_seeds_are_averaged_and_a_missing_one_counts_as_unfinished():
    flat = {column: [0.7, 0.7, 0.7] for column in SCORES}
    higher = {column: [0.7, 0.7, 0.7] for column in SCORES} | {'CGT': [0.9, 0.9, 0.9]}
    again = [{**r, 'seed': 1} for r in results(scores=higher)]
    lost = [r for r in again if (r['column'], r['part']) != ('NGram', 'GCN')]
    columns = judge_graph([*results(scores=flat), *lost])['columns']
    assert columns['CGT']['mse'] == pytest.approx(0.1**2) and 'mse' not in columns['NGram']
    worse = [result('CGT', 'build', None, status='out of time', seed=1)]
    columns = judge_graph([*results(scores=flat), *worse])['columns']
    assert columns['CGT']['status'] == 'out of time'
