"""The README of a release: sentences of the card, tensors and files."""

import pytest

from tests.helpers.exported import NAMES, RECORDED, projected, with_edge_values
from torch_geometric_cgt.release import read_release
from torch_geometric_cgt.release.readme import describe
from torch_geometric_cgt.release.shards import Shards


def sections(text):
    """The text below each heading."""
    parts = text.split('\n## ')[1:]
    return dict(part.split('\n', 1) for part in parts)


@pytest.mark.parametrize('name', [*NAMES, 'supported', 'dp_sgd'])
def test_every_sentence_of_the_card_is_below_its_heading(name):
    release = read_release(RECORDED / name)
    text = describe(release)
    found = sections(text)
    for heading, sentences in [
        ('What is guaranteed', release.privacy.guaranteed),
        ('What is not guaranteed', release.privacy.not_guaranteed),
    ]:
        assert [line[2:] for line in found[heading].splitlines() if line[:2] == '- '] == [
            *sentences
        ]
    assert f'Unit: {release.privacy.unit}. In short: {release.privacy.summary}.' in text
    rows, slots = release.trees.tokens.shape
    assert f'`tokens` [{rows}, {slots}]' in found['Files'] and f'{rows:,} synthetic' in text


def test_the_codebook_is_called_what_it_is():
    private, groups = (
        sections(describe(read_release(RECORDED / name)))['Files']
        for name in ('nodes', 'k_anonymous')
    )
    assert 'the noisy mean feature vector' in private
    assert 'mean feature vector' in groups and 'noisy' not in groups


def test_tensors_that_some_releases_have():
    plain, edges, lower = (
        sections(describe(release))['Files']
        for release in (read_release(RECORDED / 'nodes'), with_edge_values(), projected())
    )
    assert '`edge_tokens`' in edges and '`edge_weight` and `edge_attr`' in edges
    assert '`projection`' in lower
    assert not any(name in plain for name in ('edge_tokens', 'projection', 'mean_degree'))


def test_files_of_shards_are_named():
    release = read_release(RECORDED / 'k_anonymous')
    shards = Shards(len(release.trees), len(release.trees) // 3)
    text = sections(describe(release, shards))['Files']
    assert shards.names[0] in text and shards.names[-1] in text
    assert f'{shards.trees_per_shard:,} trees in each file' in text
    assert 'trees in each file' not in describe(release)
