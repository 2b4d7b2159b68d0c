"""Releases of format 2 can still be read: their means are exact, and their words are checked."""

import shutil
from pathlib import Path

import pytest
import torch

from torch_geometric_cgt import KAnonymity, SyntheticCGTDataset
from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.pipeline import BuildConfig
from torch_geometric_cgt.utils.files import read_sealed_json, write_sealed_json

FOLDER = Path(__file__).parents[1] / 'recorded' / 'format_2'
RELEASES = {  # mechanism, trees
    'k_anonymous': ('k-anonymity', 120),
    'supported': ('k-anonymity', 120),
    'private_clusters': ('private clusters', 120),
    'histograms': ('differential privacy', 40),
    'dp_sgd': ('differential privacy', 40),
    'nodes': ('differential privacy', 40),
}


@pytest.mark.parametrize('name', RELEASES)
def test_releases_of_format_2_load_with_their_own_words(name):
    mechanism, num_trees = RELEASES[name]
    dataset = SyntheticCGTDataset.load(FOLDER / name)
    assert dataset.card['format'] == 2 and dataset.privacy.mechanism == mechanism
    assert len(dataset.trees) == num_trees and bool(torch.isfinite(dataset[0].x).all())
    assert dataset.privacy.guaranteed == dataset.card['privacy']['guaranteed']
    assert dataset.privacy.not_guaranteed == dataset.card['privacy']['not_guaranteed']


@pytest.mark.parametrize('name', ['k_anonymous', 'supported'])
def test_means_of_format_2_are_exact(name):
    dataset = SyntheticCGTDataset.load(FOLDER / name)
    assert (dataset.privacy.min_value_support, dataset.privacy.rounding) == (None, None)
    promise = BuildConfig.from_dict(dataset.card['parameters']).k_anonymity
    assert (promise.value_support, promise.step) == (None, None)
    assert promise.to_dict().items() <= dataset.card['parameters'].items()


def test_a_card_of_format_2_may_have_k_1_without_a_word_of_consent():
    parameters = {'k': 1, 'num_clusters': None, 'l': None, 'task_weight': 'auto'}
    assert KAnonymity.from_dict(parameters).k == 1
    with pytest.raises(ValueError, match='accept_no_anonymity=True'):
        KAnonymity(1)


@pytest.mark.parametrize('format', [1, 3])
@pytest.mark.parametrize('name', ['histograms', 'nodes'])
def test_a_private_card_of_format_2_has_no_other_words(tmp_path, name, format):
    shutil.copytree(FOLDER / name, tmp_path / 'release')
    card = read_sealed_json(tmp_path / 'release' / 'card.json')
    files = list(card.pop('files'))
    del card['checksum']
    card['format'] = format
    if format == 3:  # the words of private releases may be those of format 2
        card['privacy']['not_guaranteed'].pop()
    write_sealed_json(tmp_path / 'release' / 'card.json', card, files)
    with pytest.raises(CorruptFileError, match='it was altered'):
        SyntheticCGTDataset.load(tmp_path / 'release')
