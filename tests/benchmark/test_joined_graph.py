"""The comparison of a release as one graph with its source."""

import pytest

from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.benchmark import GNNConfig, evaluate_dataset
from torch_geometric_cgt.benchmark.joined_graph import compare_graphs, compare_joined
from torch_geometric_cgt.data import TreeShape, masks_of, random_split
from torch_geometric_cgt.pipeline.source import check_source

QUICK = GNNConfig(epochs=30, patience=30)


def test_a_graph_equals_itself(graph):
    graph.update(masks_of(random_split(graph.y >= 0, 0)))
    shape = TreeShape.of([3, 2])
    found = compare_graphs({'original': graph, 'same': graph}, shape, ['SGC'], 0, QUICK)
    assert found['statistics']['original'] == found['statistics']['same']
    assert found['degree_distance'] == {'original': 0, 'same': 0}
    assert found['scores']['original'] == found['scores']['same']
    assert found['scores']['same']['SGC'] > 0.6


def test_a_graph_without_test_nodes_has_no_scores(graph):
    graph.train_mask = graph.y >= 0
    found = compare_graphs({'only': graph}, TreeShape.of([2]), ['SGC'], 0, QUICK)
    assert found['scores'] == {'only': {}} and found['degree_distance'] == {}


def test_an_evaluation_compares_the_joined_trees(graph, cached):
    dataset = SyntheticCGTDataset(graph, **cached)
    found = compare_joined(check_source(graph), dataset, ['SGC'], QUICK)
    assert list(found['statistics']) == list(found['scores']) == ['original', 'generated']
    source, made = found['statistics'].values()
    assert source['num_nodes'] == made['num_nodes'] == 120
    assert made['tail_start'] == source['tail_start']
    evaluation = evaluate_dataset(graph, [dataset], ['SGC'], QUICK, log=False, graph=True)
    assert evaluation.to_dict()['graph'] == found
    # The scores on trees of the source are those of the section above it.
    assert found['scores']['original']['SGC'] == pytest.approx(
        evaluation.scores['original']['SGC'][0]
    )


def test_without_the_source_only_the_joined_graph_is_described(graph, cached):
    dataset = SyntheticCGTDataset(graph, **cached)
    found = compare_joined(None, dataset, ['SGC'], QUICK)
    assert list(found['statistics']) == ['generated'] and not found['degree_distance']
    assert not evaluate_dataset(None, [dataset], ['SGC'], QUICK, log=False, publishable=True).graph
