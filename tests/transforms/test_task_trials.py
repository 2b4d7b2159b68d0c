"""Quantization and scenes by processes that share the rows of a graph."""

import pytest
import torch

from tests.helpers.processes import in_a_world
from tests.helpers.shared_graph import NUM_NODES, K, graph, statistics
from torch_geometric_cgt.training import World
from torch_geometric_cgt.transforms.task_trials import sharing
from torch_geometric_cgt.transforms.task_weight import WEIGHTS


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
