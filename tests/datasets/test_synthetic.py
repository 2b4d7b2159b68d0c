"""The dataset: what it holds, and when it is built."""

import time

import pytest
import torch
from torch_geometric.loader import NeighborLoader

from tests.helpers.builds import builds, plain, promised
from tests.helpers.graphs import random_graph
from torch_geometric_cgt import FitConfig, KAnonymity, SyntheticCGTDataset
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.datasets import Digits, synthetic
from torch_geometric_cgt.errors import NotEnoughMemoryError, NotWritableError
from torch_geometric_cgt.quantizer import cluster_means, protected_means
from torch_geometric_cgt.utils import checks


def test_a_dataset_of_one_forest(graph, cached):
    dataset = SyntheticCGTDataset(graph, **cached)
    data = dataset[0]
    data.validate()
    assert len(dataset) == 1 and dataset.num_classes == 3 and dataset.num_features == 8
    assert int(data.root_mask.sum()) == 120 == len(dataset.tokens)
    assert [int(data[m].sum()) for m in ('train_mask', 'val_mask', 'test_mask')] == [60, 12, 48]
    assert (data.y[data.root_mask] >= 0).all() and (data.y[~data.root_mask] == -1).all()
    assert (data.x.unsqueeze(1) == dataset.codebook).all(dim=2).any(dim=1).all()
    assert TreeShape.of([3, 2]).check_nulls(dataset.trees.real)
    assert dataset.privacy.k == 10 <= dataset.privacy.k_reached
    assert torch.bincount(dataset.cluster).min() == dataset.privacy.k_reached
    assert dataset.generator.num_tokens == len(dataset.codebook)
    assert dataset.card['source']['splits'] == 'random 50/10/40'


def test_codebook_rows_are_means_of_at_least_k_source_nodes(graph, quick):
    exact = plain(quick, min_value_support=None, rounding=None)
    dataset = SyntheticCGTDataset(graph, **exact)
    for i, row in enumerate(dataset.codebook):
        members = graph.x[dataset.cluster == i]
        assert len(members) >= 10 and torch.allclose(row, members.mean(dim=0), atol=1e-5)


def test_codebook_rows_are_protected_as_the_card_says(graph, cached):
    dataset = SyntheticCGTDataset(graph, **cached)
    card, cluster = dataset.privacy, dataset.cluster
    assert card.min_value_support > 1 and card.rounding > 0
    sizes = (card.num_clusters, card.min_value_support, card.rounding)
    assert torch.equal(dataset.codebook, protected_means(graph.x, cluster, *sizes))
    assert not torch.allclose(dataset.codebook, cluster_means(graph.x, cluster, sizes[0]))


def test_same_seed_same_bytes(graph, quick, finished_build):
    SyntheticCGTDataset(graph, **quick)
    files = []
    for root in (finished_build, quick['root']):
        (folder,) = builds(root)
        files.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert files[0] == files[1] and len(files[0]) == 5
    tokens = [SyntheticCGTDataset(graph, **plain(quick), seed=seed).tokens for seed in (0, 1)]
    assert not torch.equal(*tokens)


def test_second_construction_loads_without_training(graph, quick, monkeypatch):
    arguments = plain(quick)
    first = SyntheticCGTDataset(graph, **arguments)
    monkeypatch.setattr(synthetic, 'build', lambda *_: pytest.fail('trained again'))
    started = time.monotonic()
    second = SyntheticCGTDataset(graph.clone(), **arguments)
    assert time.monotonic() - started < 2
    assert torch.equal(first[0].x, second[0].x)
    y = torch.tensor([0, 1, 2])
    samples = [
        d.generator.sample(y, torch.Generator().manual_seed(0), scene=torch.ones_like(y))
        for d in (first, second)
    ]
    assert torch.equal(*samples)


def test_force_reload_trains_again(graph, quick, monkeypatch):
    arguments = plain(quick)
    SyntheticCGTDataset(graph, **arguments)
    calls, build = [], synthetic.build
    monkeypatch.setattr(synthetic, 'build', lambda *a: calls.append(1) or build(*a))
    SyntheticCGTDataset(graph, **arguments, force_reload=True)
    assert calls == [1]


@pytest.mark.usefixtures('short_networks')
def test_num_samples_and_splits_of_the_source(graph, quick):
    graph.train_mask = torch.arange(120) < 30
    graph.test_mask = torch.arange(120) >= 90
    graph.y[40:60] = -1
    dataset = SyntheticCGTDataset(graph, **quick, num_samples=300)
    data = dataset[0]
    assert int(data.root_mask.sum()) == 300
    assert int(data.train_mask.sum()) == int(data.test_mask.sum()) == 90
    assert not data.val_mask.any()


def test_unlabelled_nodes_are_no_roots(graph, quick):
    graph.y[:20] = -1
    dataset = SyntheticCGTDataset(graph, **plain(quick))
    assert len(dataset.tokens) == 100 and dataset.cluster.numel() == 120


@pytest.mark.parametrize('fan_outs', [[3], [2, 1, 2], [2, 2, 1, 1]])
def test_any_depth_on_a_directed_graph_with_loops_and_isolated_nodes(quick, fan_outs):
    graph = random_graph(num_nodes=60, num_edges=40)
    graph.edge_index = torch.cat([torch.randint(30, (2, 60)), torch.arange(30).repeat(2, 1)], dim=1)
    arguments = promised({**quick, 'num_neighbors': fan_outs}, task_weight=0.0)
    dataset = SyntheticCGTDataset(graph, **arguments)
    assert dataset.tokens.size(1) == TreeShape.of(fan_outs).num_slots
    assert int(dataset[0].depth.max()) <= len(fan_outs)


def test_a_pyg_dataset_as_source(tmp_path):
    dataset = SyntheticCGTDataset(
        Digits(),
        privacy=KAnonymity(30, task_weight=0.0),
        root=tmp_path,
        log=False,
        generator={'hidden_channels': 16, 'num_layers': 1, 'num_scenes': 0},
        fit=FitConfig(epochs=1),
    )
    assert dataset.card['source'] == {
        'name': 'Digits',
        'num_nodes': 1797,
        'num_edges': Digits()[0].num_edges,
        'num_features': 64,
        'num_classes': 10,
        'num_labelled': 1797,
        'splits': 'of the source',
    }
    assert repr(dataset) == 'SyntheticCGTDataset(Digits, k=30, trees=1797)'


def test_sparse_features(quick):
    graph = random_graph(num_features=40)
    graph.x = (graph.x > 3).float()
    dense = SyntheticCGTDataset(graph, **quick)
    graph.x = graph.x.to_sparse()
    sparse = SyntheticCGTDataset(graph, **quick)
    assert len(builds(quick['root'])) == 2
    assert torch.equal(dense.tokens, sparse.tokens)
    assert torch.allclose(dense.codebook, sparse.codebook)


def test_l_and_task_weight_are_stated_in_the_card(graph, quick):
    arguments = promised(plain(quick) | {'k': 10}, l=2, task_weight=0.5)
    dataset = SyntheticCGTDataset(graph, **arguments)
    assert dataset.privacy.l_reached >= 2 and dataset.privacy.homogeneous == 0
    assert dataset.privacy.task_weight == 0.5
    assert 'at least 2 distinct labels' in ' '.join(dataset.privacy.guaranteed)
    assert 'weight 0.50' in ' '.join(dataset.privacy.not_guaranteed)
    assert dataset.card['parameters']['l'] == 2


def test_transform_is_applied_on_access(graph, cached):
    def add(data):
        data.seen = True
        return data

    dataset = SyntheticCGTDataset(graph, **cached, transform=add)
    assert dataset[0].seen and 'seen' not in dataset.get(0)


def test_loader_without_native_extensions(graph, cached):
    dataset = SyntheticCGTDataset(graph, **cached)
    data = dataset[0]
    nodes = 0
    for split in ['train', 'val', 'test']:
        for batch in dataset.loader(split, batch_size=16):
            assert torch.equal(batch.x, data.x[batch.n_id])
            assert batch[f'{split}_mask'][: batch.batch_size].all()
            assert (batch.y[: batch.batch_size] >= 0).all()
            nodes += batch.num_nodes
    assert nodes == data.num_nodes


def test_a_forest_too_large_for_memory_is_refused_with_the_ways_out(graph, cached, monkeypatch):
    dataset = SyntheticCGTDataset(graph, **cached)
    monkeypatch.setattr(checks, 'available_memory', lambda *_: 50_000)
    with pytest.raises(NotEnoughMemoryError, match=r'nodes with 8 features.*loader.*stores\(\)'):
        dataset[0]
    assert sum(batch.batch_size for batch in dataset.loader('all')) == len(dataset.trees)


def test_stores_feed_a_neighbor_loader_by_hand(graph, cached):
    from torch_geometric_cgt import TreeNeighborSampler

    dataset = SyntheticCGTDataset(graph, **cached)
    data, stores = dataset[0], dataset.stores()
    loader = NeighborLoader(
        stores,
        num_neighbors=[3, 2],
        neighbor_sampler=TreeNeighborSampler(stores, [3, 2]),
        input_nodes=data.root_mask.nonzero().view(-1),
        batch_size=50,
    )
    assert sum(batch.num_nodes for batch in loader) == data.num_nodes


def test_progress_names_the_phases(graph, quick, capsys):
    SyntheticCGTDataset(graph, **{**quick, 'log': True})
    shown = capsys.readouterr().err
    phases = ['quantize', 'encode', 'fit', 'match views', 'sample']
    assert all(phase in shown for phase in phases)
    SyntheticCGTDataset(graph, **plain(quick))
    assert capsys.readouterr().err == ''


def test_unwritable_root(graph, quick, tmp_path, monkeypatch):
    (tmp_path / 'file').write_text('')
    monkeypatch.setattr(synthetic, 'build', lambda *_: pytest.fail('trained before the error'))
    with pytest.raises(NotWritableError, match='file'):
        SyntheticCGTDataset(graph, **{**quick, 'root': tmp_path / 'file' / 'root'})


def test_trees_are_joined_from_the_release_alone(graph, cached, tmp_path):
    dataset = SyntheticCGTDataset(graph, **cached)
    dataset.save(tmp_path / 'release')
    built, loaded = dataset.to_graph(3), SyntheticCGTDataset.load(tmp_path / 'release').to_graph(3)
    assert built.keys() == loaded.keys()
    assert all(torch.equal(value, loaded[key]) for key, value in built.items())
    assert built.num_nodes == len(dataset.trees) and built.num_edges > 100
    assert torch.equal(built.x, dataset.codebook[dataset.tokens[:, 0].long()])
    assert torch.equal(built.y, dataset.trees.y.long())
    assert not torch.equal(built.edge_index, dataset.to_graph(4).edge_index)
