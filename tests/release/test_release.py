"""Releases and the cache of builds: what they hold, and what is refused."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

from tests.helpers.builds import builds, damage, plain
from torch_geometric_cgt import (
    SyntheticCGTDataset,
)
from torch_geometric_cgt.errors import CorruptFileError


def test_release_holds_what_may_leave_and_nothing_else(graph, cached, tmp_path):
    dataset = SyntheticCGTDataset(graph, **cached)
    dataset.save(tmp_path / 'release')
    names = sorted(path.name for path in builds(tmp_path / 'release'))
    assert names == ['README.md', 'card.json', 'release.safetensors']
    card = json.loads((tmp_path / 'release' / 'card.json').read_text())
    assert card['source']['num_nodes'] == 120 and card['parameters']['k'] == 10
    assert card['privacy']['k_reached'] >= 10
    assert {'torch', 'torch_geometric', 'torch_geometric_cgt', 'python'} <= set(card['versions'])
    text = (tmp_path / 'release' / 'README.md').read_text()
    assert 'reached k = ' in text and card['created'] in text and '120 nodes' in text
    from safetensors.torch import load_file

    tensors = load_file(tmp_path / 'release' / 'release.safetensors')
    assert set(tensors) == {'tokens', 'y', 'split', 'codebook', 'mean_degree'}
    assert card['privacy']['profile']['num_groups'] == tensors['mean_degree'].numel() == 12


def test_a_release_without_a_profile(graph, cached, tmp_path):
    dataset = SyntheticCGTDataset(graph, **plain(cached, graph_profile=False))
    assert dataset.release.profile is None and 'profile' not in dataset.card['privacy']
    dataset.save(tmp_path / 'release')
    loaded = SyntheticCGTDataset.load(tmp_path / 'release')
    assert torch.equal(loaded.to_graph().edge_index, dataset.to_graph().edge_index)


def test_release_gives_the_same_dataset_without_the_source(graph, cached, tmp_path):
    dataset = SyntheticCGTDataset(graph, **cached)
    dataset.save(tmp_path / 'release')
    shutil.rmtree(cached['root'])
    loaded = SyntheticCGTDataset.load(tmp_path / 'release')
    assert loaded[0].to_dict().keys() == dataset[0].to_dict().keys()
    for key, value in dataset[0].to_dict().items():
        assert torch.equal(loaded[0][key], value)
    assert loaded.num_classes == dataset.num_classes and loaded.privacy == dataset.privacy
    assert loaded.generator is None and loaded.cluster is None
    loaded.save(tmp_path / 'again')
    for path in builds(tmp_path / 'release'):
        assert path.read_bytes() == (tmp_path / 'again' / path.name).read_bytes()


def test_a_release_never_overwrites(graph, cached, tmp_path):
    dataset = SyntheticCGTDataset(graph, **cached)
    (tmp_path / 'full').mkdir()
    (tmp_path / 'full' / 'precious').write_text('')
    with pytest.raises(FileExistsError, match='full'):
        dataset.save(tmp_path / 'full')
    with pytest.raises(FileNotFoundError, match='nowhere'):
        SyntheticCGTDataset.load(tmp_path / 'nowhere')


@pytest.mark.parametrize('how', ['truncate', 'flip', 'remove'])
@pytest.mark.parametrize('name', ['README.md', 'card.json', 'release.safetensors'])
def test_damaged_release_is_refused(graph, cached, tmp_path, name, how):
    SyntheticCGTDataset(graph, **cached).save(tmp_path / 'release')
    damage(tmp_path / 'release' / name, how)
    with pytest.raises(CorruptFileError, match=name.replace('.', r'\.')):
        SyntheticCGTDataset.load(tmp_path / 'release')


def test_a_release_that_lies_about_its_tokens_is_refused(graph, cached, tmp_path):
    """Checksums are right, but the content is not: what a stranger may send."""
    from torch_geometric_cgt.release.release import write_release

    release = SyntheticCGTDataset(graph, **cached).release
    tokens = release.trees.tokens.clone()
    tokens[0, 0] = 10_000
    trees = type(release.trees)(**{**vars(release.trees), 'tokens': tokens})
    (tmp_path / 'bad').mkdir()
    write_release(tmp_path / 'bad', replace(release, trees=trees))
    with pytest.raises(CorruptFileError, match='token lies outside'):
        SyntheticCGTDataset.load(tmp_path / 'bad')


@pytest.mark.parametrize('how', ['truncate', 'flip', 'remove'])
@pytest.mark.parametrize(
    'name', ['card.json', 'private.json', 'release.safetensors', 'private.safetensors']
)
def test_damaged_cache_is_refused_and_can_be_built_again(graph, quick, name, how):
    arguments = plain(quick)
    before = SyntheticCGTDataset(graph, **arguments)
    (folder,) = builds(quick['root'])
    damage(folder / name, how)
    with pytest.raises(CorruptFileError, match='force_reload=True'):
        SyntheticCGTDataset(graph, **arguments)
    again = SyntheticCGTDataset(graph, **arguments, force_reload=True)
    assert torch.equal(again.tokens, before.tokens)
