"""The weight that is found, and quantization and scenes by processes that share rows."""

import pytest
import torch

from tests.helpers.graphs import random_graph
from tests.helpers.processes import in_a_world
from tests.helpers.shared_graph import NUM_NODES, K, graph, statistics
from torch_geometric_cgt.nn import view_networks
from torch_geometric_cgt.training import World
from torch_geometric_cgt.transforms.task_weight import (
    WEIGHTS,
    calibrate_task_weight,
    sharing,
    smallest_good_weight,
)


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    """The labels of these graphs are learned in a quarter of the steps."""
    monkeypatch.setattr(view_networks, 'MIN_STEPS', 45)


def test_the_weight_is_the_smallest_at_which_all_views_are_kept():
    """Clusters of random nodes below a weight of 0.5, one cluster per node from there on."""
    graph = random_graph(num_nodes=200, num_edges=400)
    rng = torch.Generator().manual_seed(99)
    useless = torch.randint(3, (200,), generator=rng)
    useless[:3] = torch.arange(3)
    asked = []

    def quantized(weight):
        asked.append(weight)
        return torch.arange(200) if weight >= 0.5 else useless

    weight = calibrate_task_weight(graph.x, graph.edge_index, graph.y, quantized)
    assert asked == [0.0, 0.4, 0.8, 1.6, 3.2]
    assert weight == 0.8


def test_a_view_that_averages_do_not_see_counts():
    """The label is in the root alone, and neighbours are random: averages over them are poor in
    any case, so that only the view of the root asks for clusters that keep the label."""
    rng = torch.Generator().manual_seed(0)
    y = torch.randint(4, (600,), generator=rng)
    edge_index = torch.randint(600, (2, 12_000), generator=rng)
    x = torch.eye(4)[y] + 0.1 * torch.randn(600, 4, generator=rng)
    blind = torch.randint(6, (600,), generator=rng)

    def quantized(weight):
        return y if weight == 1.6 else blind

    assert calibrate_task_weight(x, edge_index, y, quantized) == 1.6


def test_no_weight_where_nothing_is_lost():
    graph = random_graph()
    every_node = torch.arange(graph.num_nodes)
    assert calibrate_task_weight(graph.x, graph.edge_index, graph.y, lambda _: every_node) == 0.0


@pytest.mark.parametrize('kept, weight', [('unused', 0.4), ('test', 0.0)])
def test_networks_are_tested_on_test_nodes(kept, weight):
    """At a weight of zero, the clusters of one part of the graph do not tell the label. This counts
    if it is the test split, and does not if it is in no split."""
    rng = torch.Generator().manual_seed(0)
    y = torch.randint(4, (900,), generator=rng)
    split = torch.tensor([1, 1, 2, 4, 4, 4, 0, 0, 0])[torch.arange(900) % 9]
    x = torch.eye(4)[y] + 0.1 * torch.randn(900, 4, generator=rng)
    spoilt = split == (4 if kept == 'unused' else 0)
    wrong = torch.where(spoilt, torch.randint(4, (900,), generator=rng), y)

    def quantized(weight):
        return y if weight > 0 else wrong

    assert calibrate_task_weight(x, None, y, quantized, split=split) == weight


def test_of_weights_that_differ_by_noise_the_smallest_is_taken():
    assert smallest_good_weight({0.0: 4e-4, 0.4: 1.3e-4, 0.8: 1e-4, 1.6: 2e-4}) == 0.4
    assert smallest_good_weight({0.0: 4e-4, 0.4: 1.6e-4, 0.8: 1e-4, 1.6: 2e-4}) == 0.8


def test_sparse_features_choose_the_weight_of_dense_ones():
    rng = torch.Generator().manual_seed(0)
    graph = random_graph(num_nodes=300, num_edges=900)
    x = (torch.rand(300, 40, generator=rng) < 0.03).float()
    x[torch.arange(300), graph.y] = 1.0
    useless = torch.randint(4, (300,), generator=rng)
    useless[:4] = torch.arange(4)

    def quantized(weight):
        return graph.y if weight >= 0.8 else useless

    for features in (x, x.to_sparse_csr(), x.to_sparse_coo()):
        assert calibrate_task_weight(features, graph.edge_index, graph.y, quantized) == 0.8


def test_what_training_nodes_do_not_tell_is_not_put_back():
    """Training nodes have wrong labels. Clusters that are the given labels would repair what this
    costs on all other nodes."""
    rng = torch.Generator().manual_seed(0)
    y = torch.randint(4, (800,), generator=rng)
    train = torch.arange(800) < 200
    misled = torch.where(train, (y + 1) % 4, y)
    x = torch.eye(4)[y] + 0.1 * torch.randn(800, 4, generator=rng)
    useless = torch.randint(4, (800,), generator=rng)

    def quantized(weight):
        return misled if weight > 0 else useless

    args = (x, None, misled, quantized)
    assert calibrate_task_weight(*args) > 0
    assert calibrate_task_weight(*args, split=train.long()) == 0


@pytest.fixture(scope='module')
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp('graph')
    for out in in_a_world('tests.helpers.shared_graph', folder):
        assert out.returncode == 0, out.stderr[-3000:]
    return [torch.load(folder / f'{rank}.pt') for rank in range(2)]


def test_all_processes_have_the_same_result(found):
    assert found[0].keys() == found[1].keys()
    for name, value in found[0].items():
        assert torch.equal(value, found[1][name]), name


def test_statistics_of_shares_are_those_of_all_rows(found):
    for name, value in statistics(World()).items():
        torch.testing.assert_close(found[0][name], value, atol=2e-3, rtol=1e-3, msg=name)


def test_clusters_hold_k_of_all_nodes_and_the_codebook_their_means(found):
    for name in ('memory', 'mapped', 'words'):
        cluster = found[0][f'cluster {name}']
        assert cluster.shape == (NUM_NODES,)
        sizes = torch.bincount(cluster)
        assert sizes.numel() == NUM_NODES // K and int(sizes.min()) >= K
    x, cluster = graph().x.half().double(), found[0]['cluster memory']
    means = torch.stack([x[cluster == c].mean(dim=0) for c in range(NUM_NODES // K)])
    assert torch.equal(found[0]['codebook memory'], means.half())
    assert float(found[0]['weight memory']) in [pytest.approx(w) for w in WEIGHTS]


def test_memory_mapped_features_give_the_same_clusters(found):
    for name in ('cluster', 'codebook', 'weight'):
        assert torch.equal(found[0][f'{name} memory'], found[0][f'{name} mapped'])


def test_scenes_hold_k_roots(found):
    sizes = torch.bincount(found[0]['scene'])
    assert int(sizes.sum()) == int((graph().y >= 0).sum())
    assert sizes.numel() == 12 and int(sizes.min()) >= K


def test_only_large_graphs_are_shared():
    world = World(1, 2)
    assert sharing(world, 50_001) is world
    assert sharing(world, 50_000) == World()
