"""Licence, contact and intended use: on the card, in the README, and verified."""

import json

import pytest

from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.release import Terms, read_release, with_terms, write_release

TERMS = Terms('CC-BY-4.0', 'data@example.org', 'Comparison of GNNs')


def test_terms_are_saved_and_kept(graph, cached, tmp_path):
    dataset = SyntheticCGTDataset(graph, **cached)
    dataset.save(tmp_path / 'plain')
    assert 'terms' not in json.loads((tmp_path / 'plain' / 'card.json').read_text())
    dataset.save(tmp_path / 'release', terms=TERMS)
    loaded = SyntheticCGTDataset.load(tmp_path / 'release')
    assert Terms.of(loaded.card) == TERMS
    text = (tmp_path / 'release' / 'README.md').read_text()
    assert '- License: CC-BY-4.0\n- Contact: data@example.org\n' in text
    assert '- Intended use: Comparison of GNNs\n\n## Files' in text
    without = text.replace('\n'.join(['## Terms', '', *TERMS.lines(), '', '']), '')
    assert without == (tmp_path / 'plain' / 'README.md').read_text()
    loaded.save(tmp_path / 'again')
    for name in ('card.json', 'README.md'):
        again = (tmp_path / 'again' / name).read_bytes()
        assert again == (tmp_path / 'release' / name).read_bytes()


def test_given_terms_replace_those_of_the_card(graph, cached):
    release = with_terms(SyntheticCGTDataset(graph, **cached).release, TERMS)
    assert with_terms(release, Terms()) is release
    changed = Terms.of(with_terms(release, Terms(license='MIT')).card)
    assert changed == Terms('MIT', 'data@example.org', 'Comparison of GNNs')


@pytest.mark.parametrize('value', ['', ' ', 'two\nlines', 'x' * 1001, 4])
def test_terms_are_lines_of_text(value):
    with pytest.raises(ValueError, match='contact'):
        Terms(contact=value)


@pytest.mark.parametrize(
    'terms', [{'license': 'a\nb'}, {'warranty': 'none'}, ['MIT'], None, {'license': None}]
)
def test_a_card_with_other_terms_is_refused(graph, cached, tmp_path, terms):
    release = SyntheticCGTDataset(graph, **cached).release
    release.card['terms'] = {}
    (tmp_path / 'bad').mkdir()
    write_release(tmp_path / 'bad', release)
    assert read_release(tmp_path / 'bad').card['terms'] == {}
    from torch_geometric_cgt.utils.files import write_sealed_json

    path = tmp_path / 'bad' / 'card.json'
    write_sealed_json(path, {**release.card, 'terms': terms}, ['release.safetensors', 'README.md'])
    with pytest.raises(CorruptFileError, match=r"'(terms|license)' of the card"):
        read_release(tmp_path / 'bad')


def test_terms_complete_each_other_and_do_not_contradict():
    stated = Terms(license='MIT')
    assert stated.completed(Terms(license='MIT', contact='me')) == Terms('MIT', 'me')
    with pytest.raises(ValueError, match="'MIT', which is not 'CC0"):
        stated.completed(Terms(license='CC0-1.0'))
