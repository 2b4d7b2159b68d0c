"""The sentences of a card: what is guaranteed, and what is not."""

import pytest

from tests.helpers.cards import card
from tests.helpers.private import private_dataset
from torch_geometric_cgt import SyntheticCGTDataset


def test_noise_with_a_seed_guarantees_nothing(graph, tmp_path):
    seeded = private_dataset(graph, tmp_path, noise_seed=0)
    card = seeded.privacy
    assert len(card.guaranteed) == 1 and card.guaranteed[0].startswith('Nothing is guaranteed')
    assert 'same build would be' in card.not_guaranteed[0]
    assert card.summary.startswith('no guarantee') and 'no guarantee' in repr(seeded)
    with pytest.raises(ValueError, match=r'drawn from a seed.*accept_seeded_noise=True'):
        seeded.save(tmp_path / 'release')
    assert not (tmp_path / 'release').exists()
    seeded.save(tmp_path / 'release', accept_seeded_noise=True)
    readme = (tmp_path / 'release' / 'README.md').read_text()
    assert 'Nothing is guaranteed' in readme and 'any computing power' not in readme
    assert SyntheticCGTDataset.load(tmp_path / 'release').privacy == card


def test_secret_noise_has_a_guarantee(graph, tmp_path):
    secret = private_dataset(graph, tmp_path)
    assert 'differentially private' in secret.privacy.guaranteed[0]
    sentences = secret.privacy.guaranteed + secret.privacy.not_guaranteed
    assert not any('seed' in sentence for sentence in sentences)
    secret.save(tmp_path / 'release')
    readme = (tmp_path / 'release' / 'README.md').read_text()
    assert 'edges' not in readme.split('##')[0].replace('edge of it', '')
    assert 'differentially private' in readme
    assert secret.card['source']['num_edges'] is None
    loaded = SyntheticCGTDataset.load(tmp_path / 'release')
    assert loaded.privacy.epsilon <= 20 and loaded.generator is None


@pytest.mark.usefixtures('short_networks')
def test_a_card_for_edges_says_that_features_are_not_covered(graph, tmp_path):
    edge = private_dataset(graph, tmp_path, unit='edge').privacy.not_guaranteed
    assert any('Features and labels are not covered' in sentence for sentence in edge)
    node = private_dataset(graph, tmp_path, unit='node').privacy.not_guaranteed
    assert not any('not covered' in sentence for sentence in node)


def test_sentences_carry_the_numbers():
    assert 'at least 3 source nodes' in card().guaranteed[0]
    text = ' '.join(card().not_guaranteed)
    assert '33% of its nodes' in text and '1 of 2 groups' in text
    assert 'not differential privacy' in text
