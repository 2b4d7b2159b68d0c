"""Licence, contact, intended use and names of labels: on the card, in the README, and verified."""

import json

import pytest

from tests.helpers.graphs import random_graph
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.release import (
    Terms,
    export_release,
    read_release,
    with_class_names,
    with_terms,
    write_release,
)

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


def test_names_of_labels_are_published_by_consent_alone(graph, cached, tmp_path):
    dataset = SyntheticCGTDataset(graph, **cached)
    dataset.save(tmp_path / 'plain')
    assert SyntheticCGTDataset.load(tmp_path / 'plain').class_names is None
    assert 'class_names' not in json.loads((tmp_path / 'plain' / 'card.json').read_text())
    names = ('fine', 'fraud', 'not <sure>')
    dataset.save(tmp_path / 'release', class_names=names)
    loaded = SyntheticCGTDataset.load(tmp_path / 'release')
    assert loaded.class_names == names and dataset.class_names is None
    text = (tmp_path / 'release' / 'README.md').read_text()
    assert 'guarantee does not cover them' in text and '\n- 1: fraud\n' in text
    loaded.save(tmp_path / 'again')  # the consent stays with the release
    for name in ('card.json', 'README.md'):
        again = (tmp_path / 'again' / name).read_bytes()
        assert again == (tmp_path / 'release' / name).read_bytes()
    export_release(tmp_path / 'release', tmp_path / 'export', 'huggingface')
    assert '\n- 1: fraud\n' in (tmp_path / 'export' / 'README.md').read_text()
    tables = json.loads((tmp_path / 'export' / 'croissant.json').read_text())['recordSet']
    assert 'Labels: 0 = fine, 1 = fraud' in tables[0]['description']
    assert 'fraud' not in json.dumps(tables[1:])


def test_names_of_labels_of_a_private_release_are_taken_to_be_public(tmp_path):
    private = SyntheticCGTDataset(random_graph(), epsilon=20, root=tmp_path, log=False)
    private.save(tmp_path / 'release', class_names=['a', 'b', 'c'])
    assert 'no entry of the ledger pays' in (tmp_path / 'release' / 'README.md').read_text()


@pytest.mark.parametrize(
    'names', ['abc', ['a', 'b'], ['a', 'b', 'b'], ['a', 'b', ''], ['a', 'b', 'c\nd'], ['a', 'b', 3]]
)
def test_names_of_labels_are_one_line_each(graph, cached, names):
    with pytest.raises(ValueError, match="'class_names' of the card must"):
        with_class_names(SyntheticCGTDataset(graph, **cached).release, names)


def test_a_card_with_wrong_names_of_labels_is_refused(graph, cached, tmp_path):
    release = SyntheticCGTDataset(graph, **cached).release
    release.card['class_names'] = ['one', 'two']
    (tmp_path / 'bad').mkdir()
    write_release(tmp_path / 'bad', release)
    with pytest.raises(CorruptFileError, match='a list of 3 names'):
        read_release(tmp_path / 'bad')
