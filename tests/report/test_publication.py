"""A page with statistics of the source says that it is not for publication."""

import pytest

from torch_geometric_cgt.report.publication import publication_of


def evaluation(columns, mechanism='differential privacy', **more):
    return {
        'card': {'privacy': {'mechanism': mechanism}},
        'scores': {column: {'GCN': [0.5]} for column in columns},
        'histograms': {'duplicates': {c: [1] for c in columns if c != 'transfer'}},
        **more,
    }


@pytest.mark.parametrize('column', ['original', 'quantized', 'transfer'])
def test_each_column_of_the_source_is_named(column):
    found = publication_of(evaluation(['generated', column]))
    assert not found['publishable'] and found['notice'].startswith('Not for publication.')
    assert f'the accuracies {column}' in found['notice'] and 'epsilon' in found['notice']


def test_histograms_and_the_fit_of_the_source_are_named():
    content = evaluation(['generated'], 'k-anonymity', fit={'train_nll': [1.0]})
    found = publication_of(content)
    assert not found['publishable'] and 'the likelihoods of the fit' in found['notice']
    assert 'k-anonymity of the release does not cover' in found['notice']
    content = evaluation(['generated'])
    content['histograms']['duplicates']['quantized'] = [1]
    assert 'the histograms of the source' in publication_of(content)['notice']


def test_what_follows_from_the_release_may_be_published():
    found = publication_of(evaluation(['generated']))
    assert found['publishable'] and 'from the release alone' in found['notice']
    several = publication_of(evaluation(['generated'], num_builds=3))
    assert several['publishable'] and 'over 3 builds' in several['notice']
    assert 'costs add up' in several['notice']
    several = publication_of(evaluation(['generated'], 'k-anonymity', num_builds=3))
    assert 'can be intersected' in several['notice']
