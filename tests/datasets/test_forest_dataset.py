"""The views of a synthetic dataset, and PyG's tools on it."""

import pickle
from pathlib import Path

import pytest
import torch
import torch_geometric.transforms as T
from torch_geometric.loader import DataLoader, NeighborLoader, PrefetchLoader

from torch_geometric_cgt import SyntheticCGTDataset, TreeNeighborSampler
from torch_geometric_cgt.transforms import LookUpFeatures


@pytest.fixture
def dataset(graph, cached) -> SyntheticCGTDataset:
    return SyntheticCGTDataset(graph, **cached)


def test_another_split_is_followed_by_all_views(dataset):
    other = dataset.split(num_val=0.2, num_test=0.3, seed=1)
    assert other.statistics().trees_per_split == {'train': 60, 'val': 24, 'test': 36, 'none': 0}
    assert int(other[0].val_mask.sum()) == len(other.loader('val', batch_size=1)) == 24
    assert len(other.dense_loader('test', batch_size=36)) == 1
    assert torch.equal(other.tokens, dataset.tokens)
    before = dataset.statistics().trees_per_split
    assert before != other.statistics().trees_per_split  # the first dataset keeps its split
    per_class = dataset.split(10, 20, num_train_per_class=4).statistics().trees_per_split
    assert per_class == {'train': 12, 'val': 10, 'test': 20, 'none': 78}
    assert 'seed 1' in other.card['source']['splits']
    with pytest.raises(ValueError, match=r"'num_val' must be.*120 \(got 121\)"):
        dataset.split(num_val=121)


def test_a_dataset_with_another_split_is_saved_and_loaded(dataset, tmp_path):
    other = dataset.split(seed=5)
    other.save(tmp_path / 'release')
    loaded = SyntheticCGTDataset.load(tmp_path / 'release')
    assert torch.equal(loaded[0].train_mask, other[0].train_mask)


def test_splits_of_pyg_know_roots(graph, cached):
    split = T.RandomLinkSplit(0.1, 0.2, is_undirected=True)
    dataset = SyntheticCGTDataset(
        graph, **cached, transform=T.Compose([T.NormalizeFeatures(), split])
    )
    train, _, test = dataset[0]
    assert (test.depth[test.edge_label_index] == torch.tensor([[1], [0]])).all()
    assert train.edge_index.size(1) < dataset.data.num_edges
    assert dataset.num_features == 8 and dataset.num_classes == 3
    nodes = SyntheticCGTDataset(
        graph, **cached, transform=T.RandomNodeSplit(num_val=10, num_test=20)
    )
    assert int(nodes[0].train_mask.sum()) == 90 and (nodes[0].y[nodes[0].train_mask] >= 0).all()


def test_link_split_is_repeatable(dataset):
    one, other = dataset.link_split(), dataset.link_split(neg_sampling_ratio=0.5)
    assert torch.equal(dataset.link_split()[2].edge_label_index, one[2].edge_label_index)
    assert other[2].edge_label.mean() > one[2].edge_label.mean()


def test_compact_features_are_the_same_features(dataset):
    data = dataset.compact()
    assert data.x.dtype == torch.long and data.x.shape == (data.num_nodes,)
    look_up = LookUpFeatures(dataset.codebook)
    assert torch.equal(look_up(data).x, dataset[0].x)
    sampler = TreeNeighborSampler(data, [3, 2])
    loader = NeighborLoader(
        data,
        [3, 2],
        input_nodes=data.root_mask,
        batch_size=120,
        neighbor_sampler=sampler,
        transform=look_up,
    )
    batch = next(iter(loader))
    assert torch.equal(batch.x, dataset[0].x[batch.n_id])


def test_paths_are_those_of_the_build_or_the_release(dataset, tmp_path):
    assert Path(dataset.processed_dir).parent == Path(dataset.root)
    assert all(Path(path).is_file() for path in dataset.processed_paths)
    assert dataset.raw_paths == []
    dataset.save(tmp_path / 'release')
    loaded = SyntheticCGTDataset.load(tmp_path / 'release')
    assert loaded.processed_dir == str(tmp_path / 'release')
    assert len(loaded.processed_paths) == 3
    with pytest.raises(ValueError, match=r'not in a folder.*save\(folder\)'):
        loaded.split().processed_paths  # noqa: B018


def test_the_joined_graph_is_a_dataset_of_pyg(dataset):
    split = T.RandomLinkSplit(0.1, 0.2, is_undirected=True)
    joined = dataset.joined(T.Compose([T.NormalizeFeatures(), split]), seed=3)
    train, _, test = joined[0]
    graph = dataset.to_graph(3)
    assert len(joined) == 1 and torch.equal(joined._data.edge_index, graph.edge_index)
    assert joined.num_features == 8 and joined.num_classes == dataset.num_classes
    assert repr(joined) == f'JoinedGraph({graph.num_nodes}, edges={graph.num_edges})'
    half = graph.num_edges // 2
    assert train.num_edges == 2 * (half - int(0.1 * half) - int(0.2 * half))  # the stock split
    assert test.edge_label_index.size(1) == 2 * int(0.2 * half)
    few = dataset.joined()  # a label that no root has is still a class
    few._data.y.zero_()
    assert few.num_classes == dataset.num_classes == 3
    assert torch.equal(dataset.joined(T.RandomNodeSplit(num_val=10, num_test=20))[0].y, graph.y)


def test_pre_transform_is_applied_once(graph, cached):
    calls = []

    def count(data):
        calls.append(data.num_nodes)
        data.x = data.x + 1
        return data

    dataset = SyntheticCGTDataset(graph, **cached, pre_transform=count)
    assert torch.equal(dataset[0].x, dataset[0].x) and len(calls) == 1
    assert torch.equal(dataset[0].x, dataset.codebook[dataset[0].cluster] + 1)
    with pytest.raises(ValueError, match="'pre_filter' chooses among graphs"):
        SyntheticCGTDataset(graph, **cached, pre_filter=lambda data: True)


def test_loaders_pin_memory_for_a_gpu_and_can_be_prefetched(dataset, monkeypatch):
    assert not dataset.loader('val').pin_memory
    monkeypatch.setattr(torch.accelerator, 'is_available', lambda: True)
    assert dataset.loader('val').pin_memory
    assert not dataset.loader('val', pin_memory=False).pin_memory
    loader = dataset.loader('val', 8, pin_memory=False)
    batches = list(PrefetchLoader(loader, device='cpu'))
    assert len(batches) == len(loader) > 1
    for batch, other in zip(batches, loader, strict=True):
        assert torch.equal(batch.x, other.x) and torch.equal(batch.edge_index, other.edge_index)


def test_loader_samples_fewer_neighbours(dataset):
    few = next(iter(dataset.loader('all', 120, num_neighbors=[2, 1])))
    assert torch.bincount(few.edge_index[1])[:120].max() == 2
    one_layer = next(iter(dataset.loader('all', 120, num_neighbors=[-1])))
    assert one_layer.num_nodes == int((dataset[0].depth < 2).sum())
    whole = next(iter(dataset.loader('all', 120, num_neighbors=[100, -1])))
    assert whole.num_nodes == dataset[0].num_nodes
    for wrong in ([5, 5, 5], [0, 1], [], [-2, 1]):
        with pytest.raises(ValueError, match=r'the trees have 2 layers, \[3, 2\]'):
            dataset.loader(num_neighbors=wrong)


def test_tools_of_pyg_work_on_the_forest(dataset):
    data = dataset[0]
    assert data.validate() and not data.is_undirected() and not data.has_self_loops()
    assert T.ToUndirected()(dataset[0]).is_undirected()
    assert T.AddSelfLoops()(dataset[0]).num_edges == data.num_edges + data.num_nodes
    assert T.ToSparseTensor()(dataset[0]).adj_t.sum() == data.num_edges
    assert dataset[:1][0].num_nodes == dataset.shuffle()[0].num_nodes == data.num_nodes
    assert next(iter(DataLoader(dataset))).num_graphs == 1
    assert dataset.data.num_nodes == data.num_nodes and dataset.num_edge_features == 0
    assert torch.equal(dataset[0].x, data.x)  # no transform has changed the forest


def test_attributes_and_devices_are_those_of_an_in_memory_dataset(dataset):
    data = dataset[0]
    for name in ('x', 'y', 'edge_index', 'train_mask', 'val_mask', 'test_mask', 'root_mask'):
        assert getattr(dataset, name) is data[name]
    with pytest.raises(AttributeError, match="'SyntheticCGTDataset' has no attribute 'pos'"):
        _ = dataset.pos
    assert dataset.to('meta') is dataset and dataset[0].x.is_meta and dataset.y.is_meta
    assert not pickle.loads(pickle.dumps(dataset.split(seed=1))).x.is_meta
