"""Statistics of graphs, by hand and against a count of all triples, and comparisons of graphs."""

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.special import zeta
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from tests.helpers.graphs import random_graph
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.benchmark import GNNConfig, evaluate_dataset
from torch_geometric_cgt.benchmark import graph_comparison as module
from torch_geometric_cgt.benchmark.graph_comparison import (
    choose_tail,
    clustering,
    compare_graphs,
    compare_joined,
    degree_distance,
    degree_exponent,
    graph_statistics,
)
from torch_geometric_cgt.data import TreeShape, masks_of, random_split
from torch_geometric_cgt.pipeline.source import check_source


def graph_of(edges, y) -> Data:
    edge_index = to_undirected(torch.tensor(edges).t(), num_nodes=len(y))
    return Data(edge_index=edge_index, y=torch.tensor(y), num_nodes=len(y))


@pytest.fixture
def kite():
    """A triangle 0, 1, 2 with a tail 2 - 3 - 4, and node 5 alone."""
    return graph_of([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)], [0, 0, 0, 1, 1, 1])


def test_statistics_by_hand(kite):
    found = graph_statistics(kite, tail_start=1)
    assert (found.num_nodes, found.num_edges, found.max_degree) == (6, 5, 3)
    assert found.mean_degree == pytest.approx(10 / 6)
    assert found.homophily == pytest.approx(4 / 5)
    # Nodes 0 and 1 have one closed pair of one, node 2 one of three, the others none.
    assert found.clustering == pytest.approx((1 + 1 + 1 / 3) / 6)
    assert found.transitivity == pytest.approx(3 / 6)  # pairs: 1 + 1 + 3 + 1
    a, b = [2, 2, 2, 3, 2], [2, 3, 3, 2, 1]
    assert found.assortativity == pytest.approx(np.corrcoef(a + b, b + a)[0, 1])


def test_self_loops_directions_and_unlabelled_nodes_do_not_count(kite):
    kite.y[4] = -1
    one_way = kite.edge_index[:, kite.edge_index[0] < kite.edge_index[1]]
    loops = torch.tensor([[0, 5], [0, 5]])
    other = Data(edge_index=torch.cat([one_way, loops], dim=1), y=kite.y, num_nodes=6)
    found = graph_statistics(other, 1)
    assert found == graph_statistics(kite, 1)
    assert found.homophily == pytest.approx(3 / 4)


def test_clustering_is_that_of_all_triples(monkeypatch):
    monkeypatch.setattr(module, 'BLOCK_PATHS', 50)  # several blocks
    data = random_graph(num_nodes=40, num_edges=150)
    edges = data.edge_index[:, data.edge_index[0] != data.edge_index[1]].unique(dim=1)
    near = {(int(a), int(b)) for a, b in edges.t()}
    shares, closed, pairs = [], 0, 0
    for node in range(40):
        own = [v for u, v in near if u == node]
        hits = sum((a, b) in near for a, b in combinations(own, 2))
        number = len(own) * (len(own) - 1) // 2
        shares.append(hits / number if number else 0)
        closed, pairs = closed + hits, pairs + number
    local, transitivity = clustering(edges, 40)
    assert closed > 50
    assert local == pytest.approx(np.mean(shares)) and transitivity == pytest.approx(closed / pairs)


def test_the_exponent_of_a_power_law_is_found():
    values = np.arange(3, 100_000)
    probs = values**-2.5 / zeta(2.5, 3)
    rng = np.random.default_rng(0)
    drawn = rng.choice(values, 20_000, p=probs / probs.sum())
    assert degree_exponent(drawn, 3) == pytest.approx(2.5, abs=0.05)
    mixed = np.concatenate([drawn, np.full(20_000, 1), np.full(15_000, 2)])
    assert degree_exponent(mixed, 3) == degree_exponent(drawn, 3)
    assert abs(degree_exponent(mixed, 1) - 2.5) > 0.3
    assert choose_tail(mixed) >= 3


def test_a_graph_without_edges():
    data = Data(edge_index=torch.empty(2, 0, dtype=torch.long), y=torch.zeros(3).long())
    data.num_nodes = 3
    found = graph_statistics(data)
    assert found.homophily is None and found.degree_exponent is None
    assert (found.clustering, found.assortativity, found.max_degree) == (0, 0, 0)


def test_the_distance_of_degrees(kite):
    star = graph_of([(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)], [0] * 6)
    assert degree_distance(kite, kite) == 0
    # Sorted: 0 1 2 2 2 3 and 1 1 1 1 1 5.
    assert degree_distance(kite, star) == pytest.approx((1 + 0 + 1 + 1 + 1 + 2) / 6)


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
