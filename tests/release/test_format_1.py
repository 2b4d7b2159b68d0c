"""Releases that version 0.1.0 wrote in format 1 can still be read."""

import shutil
from pathlib import Path

import pytest
import torch

from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.utils.files import read_sealed_json, write_sealed_json

FOLDER = Path(__file__).parents[1] / 'recorded' / 'format_1'
RELEASES = {  # mechanism, trees, clusters
    'k_anonymous': ('k-anonymity', 120, 12),
    'supported': ('k-anonymity', 120, 12),
    'private_clusters': ('private clusters', 120, None),
    'histograms': ('differential privacy', 40, None),
    'dp_sgd': ('differential privacy', 40, None),
    'nodes': ('differential privacy', 40, None),
}


@pytest.mark.parametrize('name', RELEASES)
def test_releases_of_format_1_load(name):
    mechanism, num_trees, num_clusters = RELEASES[name]
    dataset = SyntheticCGTDataset.load(FOLDER / name)
    assert dataset.card['format'] == 1
    assert dataset.privacy.mechanism == dataset.card['privacy']['mechanism'] == mechanism
    assert len(dataset.trees) == num_trees
    assert num_clusters in (None, dataset.codebook.size(0))
    data = dataset[0]
    assert data.root_mask.sum() == num_trees and bool(torch.isfinite(data.x).all())
    assert dataset.privacy.guaranteed and dataset.privacy.not_guaranteed


def test_facts_of_format_1_are_understood():
    privacy = SyntheticCGTDataset.load(FOLDER / 'supported').privacy
    assert (privacy.k, privacy.min_support) == (10, 3) and privacy.l_reached >= 2
    privacy = SyntheticCGTDataset.load(FOLDER / 'nodes').privacy
    assert (privacy.protects, privacy.k) == ('node', None) and 0 < privacy.epsilon <= 20
    privacy = SyntheticCGTDataset.load(FOLDER / 'private_clusters').privacy
    assert 0 < privacy.cluster_epsilon <= 40 and privacy.epsilon is None


def test_a_damaged_release_of_format_1_is_refused(tmp_path):
    folder = tmp_path / 'release'
    shutil.copytree(FOLDER / 'histograms', folder)
    card = folder / 'card.json'
    card.write_text(card.read_text().replace('"epsilon": 20', '"epsilon": 10'))
    with pytest.raises(CorruptFileError):
        SyntheticCGTDataset.load(folder)


def altered(folder, name, change):
    """A copy of a release whose card was changed and sealed again."""
    shutil.copytree(FOLDER / name, folder)
    card = read_sealed_json(folder / 'card.json')
    files = list(card.pop('files'))
    card.pop('checksum')
    change(card)
    write_sealed_json(folder / 'card.json', card, files)
    return folder


def claim_more(card):
    card['privacy']['guaranteed'].append('Nothing can be learned.')


def call_it_newer(card):
    card['format'] = 2


def hide_a_limit(card):
    card['privacy']['not_guaranteed'].pop()


@pytest.mark.parametrize('change', [claim_more, call_it_newer, hide_a_limit])
@pytest.mark.parametrize('name', ['histograms', 'nodes'])
def test_other_words_than_those_of_format_1_are_refused(tmp_path, name, change):
    with pytest.raises(CorruptFileError, match='it was altered'):
        SyntheticCGTDataset.load(altered(tmp_path / 'release', name, change))


def test_a_format_that_nobody_wrote_is_refused(tmp_path):
    folder = altered(tmp_path / 'release', 'k_anonymous', lambda card: card.update(format=99))
    with pytest.raises(CorruptFileError, match=r'has format 99; this version reads \[1, 2, 3, 4\]'):
        SyntheticCGTDataset.load(folder)
