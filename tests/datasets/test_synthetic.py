import importlib
import json
import shutil
import threading
import time

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import NeighborLoader

from tests.conftest import random_graph
from torch_geometric_cgt import FitConfig, SyntheticCGTDataset
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.datasets import Digits, cache, synthetic
from torch_geometric_cgt.datasets import build as build_module
from torch_geometric_cgt.datasets.build import draw_roots
from torch_geometric_cgt.datasets.work import exclusive
from torch_geometric_cgt.errors import (
    CorruptFileError,
    NotWritableError,
    SourceError,
    UnsupportedError,
)

fit_module = importlib.import_module('torch_geometric_cgt.training.fit')


def test_a_dataset_of_one_forest(graph, quick):
    dataset = SyntheticCGTDataset(graph, **quick)
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
    dataset = SyntheticCGTDataset(graph, **quick)
    for i, row in enumerate(dataset.codebook):
        members = graph.x[dataset.cluster == i]
        assert len(members) >= 10 and torch.allclose(row, members.mean(dim=0), atol=1e-5)


def test_same_seed_same_bytes(graph, quick, tmp_path):
    files = []
    for root in ['a', 'b']:
        SyntheticCGTDataset(graph, **{**quick, 'root': tmp_path / root})
        (folder,) = (tmp_path / root).iterdir()
        files.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert files[0] == files[1] and len(files[0]) == 5
    other = SyntheticCGTDataset(graph, **quick, seed=1)
    assert not torch.equal(other.tokens, SyntheticCGTDataset(graph, **quick).tokens)


def test_second_construction_loads_without_training(graph, quick, monkeypatch):
    first = SyntheticCGTDataset(graph, **quick)
    monkeypatch.setattr(synthetic, 'build', lambda *_: pytest.fail('trained again'))
    started = time.monotonic()
    second = SyntheticCGTDataset(graph.clone(), **quick)
    assert time.monotonic() - started < 2
    assert torch.equal(first[0].x, second[0].x)
    y = torch.tensor([0, 1, 2])
    samples = [
        d.generator.sample(y, torch.Generator().manual_seed(0), split=torch.ones_like(y))
        for d in (first, second)
    ]
    assert torch.equal(*samples)


def test_force_reload_trains_again(graph, quick, monkeypatch):
    SyntheticCGTDataset(graph, **quick)
    calls, build = [], synthetic.build
    monkeypatch.setattr(synthetic, 'build', lambda *a: calls.append(1) or build(*a))
    SyntheticCGTDataset(graph, **quick, force_reload=True)
    assert calls == [1]


@pytest.mark.parametrize(
    'change',
    [
        {'k': 11},
        {'num_neighbors': [2, 3]},
        {'num_samples': 7},
        {'seed': 1},
        {'num_clusters': 3},
        {'l': 2},
        {'task_weight': 0.5},
        {'fit_config': FitConfig(epochs=1, batch_size=32)},
        {'fit_config': FitConfig(epochs=2, batch_size=32, precision='bfloat16')},
        {'fit_config': FitConfig(epochs=2, batch_size=32, accumulate=2)},
        {'generator_args': {'hidden_channels': 16, 'num_layers': 1, 'num_heads': 1}},
    ],
)
def test_every_parameter_has_a_cache_of_its_own(graph, quick, change):
    SyntheticCGTDataset(graph, **quick)
    SyntheticCGTDataset(graph, **{**quick, **change})
    assert len(list(quick['root'].iterdir())) == 2


@pytest.mark.parametrize('attribute', ['x', 'edge_index', 'y', 'train_mask'])
def test_a_changed_source_has_a_cache_of_its_own(graph, quick, attribute):
    SyntheticCGTDataset(graph, **quick)
    changed = graph.clone()
    if attribute == 'train_mask':
        changed.train_mask = torch.ones(graph.num_nodes, dtype=torch.bool)
    else:
        changed[attribute].view(-1)[0] = (changed[attribute].view(-1)[0] + 1) % 3
    SyntheticCGTDataset(changed, **quick)
    assert len(list(quick['root'].iterdir())) == 2


def test_num_samples_and_splits_of_the_source(graph, quick):
    graph.train_mask = torch.arange(120) < 30
    graph.test_mask = torch.arange(120) >= 90
    dataset = SyntheticCGTDataset(graph, **quick, num_samples=1000)
    data = dataset[0]
    assert int(data.root_mask.sum()) == 1000
    assert int(data.train_mask.sum()) == int(data.test_mask.sum()) == 250
    assert not data.val_mask.any()


def test_unlabelled_nodes_are_no_roots(graph, quick):
    graph.y[:20] = -1
    dataset = SyntheticCGTDataset(graph, **quick)
    assert len(dataset.tokens) == 100 and dataset.cluster.numel() == 120


def test_labels_follow_the_histogram_of_their_split():
    y = torch.tensor([0] * 90 + [1] * 10 + [1] * 50)
    split = torch.tensor([1] * 100 + [4] * 50)
    new_y, new_split = draw_roots(y, split, 30_001, torch.Generator().manual_seed(0))
    assert (new_split == 1).sum() == 20_001 and (new_split == 4).sum() == 10_000
    assert float(new_y[new_split == 1].float().mean()) == pytest.approx(0.1, abs=0.01)
    assert (new_y[new_split == 4] == 1).all()
    assert draw_roots(y, split, 1, torch.Generator())[0].numel() == 1


@pytest.mark.parametrize('fan_outs', [[3], [2, 1, 2], [2, 2, 1, 1]])
def test_any_depth_on_a_directed_graph_with_loops_and_isolated_nodes(quick, fan_outs):
    graph = random_graph(num_nodes=60, num_edges=40)
    graph.edge_index = torch.cat([torch.randint(30, (2, 60)), torch.arange(30).repeat(2, 1)], dim=1)
    dataset = SyntheticCGTDataset(graph, **{**quick, 'num_neighbors': fan_outs})
    assert dataset.tokens.size(1) == TreeShape.of(fan_outs).num_slots
    assert int(dataset[0].depth.max()) <= len(fan_outs)


def test_a_pyg_dataset_as_source(tmp_path):
    dataset = SyntheticCGTDataset(
        Digits(),
        root=tmp_path,
        log=False,
        generator_args={'hidden_channels': 16, 'num_layers': 1},
        fit_config=FitConfig(epochs=1),
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
    assert len(list(quick['root'].iterdir())) == 2
    assert torch.equal(dense.tokens, sparse.tokens)
    assert torch.allclose(dense.codebook, sparse.codebook)


def test_l_and_task_weight_are_stated_in_the_card(graph, quick):
    dataset = SyntheticCGTDataset(graph, **quick, l=2, task_weight=0.5)
    assert dataset.privacy.l_reached >= 2 and dataset.privacy.homogeneous == 0
    assert dataset.privacy.task_weight == 0.5
    assert 'at least 2 distinct labels' in ' '.join(dataset.privacy.guaranteed)
    assert 'weight 0.50' in ' '.join(dataset.privacy.not_guaranteed)
    assert dataset.card['parameters']['l'] == 2


def test_transform_is_applied_on_access(graph, quick):
    def add(data):
        data.seen = True
        return data

    dataset = SyntheticCGTDataset(graph, **quick, transform=add)
    assert dataset[0].seen and 'seen' not in dataset.get(0)


def test_loader_without_native_extensions(graph, quick):
    dataset = SyntheticCGTDataset(graph, **quick)
    data = dataset[0]
    nodes = 0
    for split in ['train', 'val', 'test']:
        for batch in dataset.loader(split, batch_size=16):
            assert torch.equal(batch.x, data.x[batch.n_id])
            assert batch[f'{split}_mask'][: batch.batch_size].all()
            assert (batch.y[: batch.batch_size] >= 0).all()
            nodes += batch.num_nodes
    assert nodes == data.num_nodes


def test_stores_feed_a_neighbor_loader_by_hand(graph, quick):
    from torch_geometric_cgt import TreeNeighborSampler

    dataset = SyntheticCGTDataset(graph, **quick)
    data, stores = dataset[0], dataset.stores()
    loader = NeighborLoader(
        stores,
        num_neighbors=[3, 2],
        neighbor_sampler=TreeNeighborSampler(stores, [3, 2]),
        input_nodes=data.root_mask.nonzero().view(-1),
        batch_size=50,
    )
    assert sum(batch.num_nodes for batch in loader) == data.num_nodes


def test_progress_names_the_four_phases(graph, quick, capsys):
    SyntheticCGTDataset(graph, **{**quick, 'log': True})
    shown = capsys.readouterr().err
    assert all(phase in shown for phase in ['quantize', 'encode', 'fit', 'sample', 'holdout='])
    SyntheticCGTDataset(graph, **{**quick, 'seed': 5})
    assert capsys.readouterr().err == ''


# Releases


def test_release_holds_what_may_leave_and_nothing_else(graph, quick, tmp_path):
    dataset = SyntheticCGTDataset(graph, **quick)
    dataset.save(tmp_path / 'release')
    names = sorted(path.name for path in (tmp_path / 'release').iterdir())
    assert names == ['README.md', 'card.json', 'release.safetensors']
    card = json.loads((tmp_path / 'release' / 'card.json').read_text())
    assert card['source']['num_nodes'] == 120 and card['parameters']['k'] == 10
    assert card['privacy']['k_reached'] >= 10
    assert {'torch', 'torch_geometric', 'torch_geometric_cgt', 'python'} <= set(card['versions'])
    text = (tmp_path / 'release' / 'README.md').read_text()
    assert 'reached k = ' in text and card['created'] in text and '120 nodes' in text
    from safetensors.torch import load_file

    tensors = load_file(tmp_path / 'release' / 'release.safetensors')
    assert set(tensors) == {'tokens', 'y', 'split', 'codebook'}


def test_release_gives_the_same_dataset_without_the_source(graph, quick, tmp_path):
    dataset = SyntheticCGTDataset(graph, **quick)
    dataset.save(tmp_path / 'release')
    shutil.rmtree(quick['root'])
    loaded = SyntheticCGTDataset.load(tmp_path / 'release')
    assert loaded[0].to_dict().keys() == dataset[0].to_dict().keys()
    for key, value in dataset[0].to_dict().items():
        assert torch.equal(loaded[0][key], value)
    assert loaded.num_classes == dataset.num_classes and loaded.privacy == dataset.privacy
    assert loaded.generator is None and loaded.cluster is None
    loaded.save(tmp_path / 'again')
    for path in (tmp_path / 'release').iterdir():
        assert path.read_bytes() == (tmp_path / 'again' / path.name).read_bytes()


def test_a_release_never_overwrites(graph, quick, tmp_path):
    dataset = SyntheticCGTDataset(graph, **quick)
    (tmp_path / 'full').mkdir()
    (tmp_path / 'full' / 'precious').write_text('')
    with pytest.raises(FileExistsError, match='full'):
        dataset.save(tmp_path / 'full')
    with pytest.raises(FileNotFoundError, match='nowhere'):
        SyntheticCGTDataset.load(tmp_path / 'nowhere')


@pytest.mark.parametrize('damage', ['truncate', 'flip', 'remove'])
@pytest.mark.parametrize('name', ['README.md', 'card.json', 'release.safetensors'])
def test_damaged_release_is_refused(graph, quick, tmp_path, name, damage):
    SyntheticCGTDataset(graph, **quick).save(tmp_path / 'release')
    _damage(tmp_path / 'release' / name, damage)
    with pytest.raises(CorruptFileError, match=name.replace('.', r'\.')):
        SyntheticCGTDataset.load(tmp_path / 'release')


@pytest.mark.parametrize('damage', ['truncate', 'flip', 'remove'])
@pytest.mark.parametrize(
    'name', ['card.json', 'private.json', 'release.safetensors', 'private.safetensors']
)
def test_damaged_cache_is_refused_and_can_be_built_again(graph, quick, name, damage):
    before = SyntheticCGTDataset(graph, **quick)
    (folder,) = quick['root'].iterdir()
    _damage(folder / name, damage)
    with pytest.raises(CorruptFileError, match='force_reload=True'):
        SyntheticCGTDataset(graph, **quick)
    again = SyntheticCGTDataset(graph, **quick, force_reload=True)
    assert torch.equal(again.tokens, before.tokens)


def _damage(path, how):
    content = path.read_bytes()
    middle = len(content) // 2
    if how == 'remove':
        path.unlink()
    elif how == 'truncate':
        path.write_bytes(content[:middle])
    else:
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])


def test_a_release_that_lies_about_its_tokens_is_refused(graph, quick, tmp_path):
    """Checksums are right, but the content is not: what a stranger may send."""
    from torch_geometric_cgt.datasets.release import Release, write_release

    release = SyntheticCGTDataset(graph, **quick).release
    tokens = release.trees.tokens.clone()
    tokens[0, 0] = 10_000
    trees = type(release.trees)(**{**vars(release.trees), 'tokens': tokens})
    (tmp_path / 'bad').mkdir()
    write_release(tmp_path / 'bad', Release(trees, release.codebook, release.card))
    with pytest.raises(CorruptFileError, match='token lies outside'):
        SyntheticCGTDataset.load(tmp_path / 'bad')


# Bad input: a clear error before any training, and nothing on disk


def _bad(**changes) -> Data:
    data = random_graph()
    for key, value in changes.items():
        data[key] = value
    return data


def _with_nan() -> Data:
    data = random_graph()
    data.x[3, 1] = float('nan')
    return data


class _Pair(Digits):
    def len(self):
        return 2


def _hetero() -> HeteroData:
    data = HeteroData()
    data['a'].x = torch.zeros(3, 1)
    return data


BAD_SOURCES = {
    'no x': (_bad(x=None), "no node features 'x'"),
    'no y': (_bad(y=None), "no labels 'y'"),
    'float y': (_bad(y=torch.rand(120)), 'integer class labels'),
    'multi-label y': (_bad(y=torch.zeros(120, 4).long()), 'multi-label'),
    'short y': (_bad(y=torch.zeros(7).long()), '120 entries'),
    'nothing labelled': (_bad(y=torch.full((120,), -1)), 'No node'),
    'nan': (_with_nan(), 'row 3, column 1'),
    'inf': (_bad(x=torch.full((120, 2), float('inf'))), 'finite'),
    'no edge_index': (_bad(edge_index=None), "no 'edge_index'"),
    'edge out of range': (_bad(edge_index=torch.tensor([[0], [120]])), 'got 0 to 120'),
    'negative edge': (_bad(edge_index=torch.tensor([[0], [-2]])), 'got -2 to 0'),
    'several masks': (_bad(train_mask=torch.ones(120, 10).bool()), 'select one split'),
    'heterogeneous': (_hetero(), 'homogeneous'),
    'several graphs': (_Pair(), 'one graph .got 2'),
    'empty': (Data(x=torch.zeros(0, 3), edge_index=torch.zeros(2, 0).long()), 'empty'),
    'not a graph': ([1, 2], "got 'list'"),
}


@pytest.mark.parametrize('name', BAD_SOURCES)
def test_bad_source(quick, name):
    source, message = BAD_SOURCES[name]
    with pytest.raises(SourceError, match=message):
        SyntheticCGTDataset(source, **quick)
    assert not quick['root'].exists()


@pytest.mark.parametrize(
    'change, error, message',
    [
        ({'k': 0}, ValueError, 'got 0'),
        ({'k': 121}, ValueError, 'k=121 for 120 nodes'),
        ({'num_clusters': 13}, ValueError, '13 . 10 > 120'),
        ({'num_neighbors': []}, ValueError, 'at least one fan-out'),
        ({'num_neighbors': [5, 0]}, ValueError, 'integer >= 1'),
        ({'num_samples': 0}, ValueError, "'num_samples'"),
        ({'generator_args': {'colour': 'red'}}, ValueError, 'colour'),
        ({'generator_args': {'num_heads': 3}}, ValueError, 'divisible'),
        ({'epsilon': 1.0}, UnsupportedError, 'epsilon=1.0'),
        ({'delta': 1e-5}, UnsupportedError, 'k-anonymity'),
    ],
)
def test_bad_parameter(graph, quick, change, error, message):
    with pytest.raises(error, match=message):
        SyntheticCGTDataset(graph, **{**quick, **change})
    assert not quick['root'].exists()


def test_unwritable_root(graph, quick, tmp_path, monkeypatch):
    (tmp_path / 'file').write_text('')
    monkeypatch.setattr(synthetic, 'build', lambda *_: pytest.fail('trained before the error'))
    with pytest.raises(NotWritableError, match='file'):
        SyntheticCGTDataset(graph, **{**quick, 'root': tmp_path / 'file' / 'root'})


def interrupted(*_, **__):
    raise KeyboardInterrupt


def content(folder) -> dict:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize('phase', ['fit', 'sample', 'write'])
def test_an_interrupted_build_goes_on_where_it_stopped(graph, quick, tmp_path, monkeypatch, phase):
    SyntheticCGTDataset(graph, **{**quick, 'root': tmp_path / 'whole'})
    (whole,) = (tmp_path / 'whole').iterdir()
    with monkeypatch.context() as patch:
        if phase == 'write':
            patch.setattr(cache, 'write_sealed_json', interrupted)
        else:
            patch.setattr(build_module, phase, interrupted)
        with pytest.raises(KeyboardInterrupt):
            SyntheticCGTDataset(graph, **quick)
    (work,) = quick['root'].iterdir()  # nothing half-written
    assert work.name == f'{whole.name}.fit'
    with monkeypatch.context() as patch:
        patch.setattr(build_module, '_quantize', lambda *_: pytest.fail('quantized again'))
        if phase != 'fit':
            patch.setattr(fit_module, 'train_step', lambda *_: pytest.fail('trained again'))
        SyntheticCGTDataset(graph, **quick)
    (folder,) = quick['root'].iterdir()
    assert folder.name == whole.name and content(folder) == content(whole)


@pytest.mark.parametrize('change', [{'resume': False}, {'force_reload': True}])
def test_an_interrupted_build_can_be_thrown_away(graph, quick, monkeypatch, change):
    with monkeypatch.context() as patch:
        patch.setattr(build_module, 'sample', interrupted)
        with pytest.raises(KeyboardInterrupt):
            SyntheticCGTDataset(graph, **quick)
    calls, quantize = [], build_module._quantize
    monkeypatch.setattr(build_module, '_quantize', lambda *a: calls.append(1) or quantize(*a))
    SyntheticCGTDataset(graph, **quick, **change)
    assert calls == [1] and len(list(quick['root'].iterdir())) == 1


def test_how_a_build_is_run_does_not_name_its_cache(graph, quick, monkeypatch):
    SyntheticCGTDataset(graph, **quick)
    monkeypatch.setattr(synthetic, 'build', lambda *_: pytest.fail('trained again'))
    config = FitConfig(epochs=2, batch_size=32, compile=True, checkpoint_minutes=1.0)
    SyntheticCGTDataset(graph, **{**quick, 'fit_config': config})


def test_a_second_build_of_the_same_waits_for_the_first(graph, quick, tmp_path):
    work = tmp_path / 'some.fit'
    order = []

    def second():
        with pytest.warns(UserWarning, match=r'some\.fit.*waiting'), exclusive(work):
            order.append('second')

    with exclusive(work):
        (work / 'quantized').mkdir()
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.3)
        order.append('first')
    thread.join(10)
    assert order == ['first', 'second']
