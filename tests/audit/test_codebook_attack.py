"""The codebook attack finds members by exact means, and hardly by protected ones."""

import math
import sys

import pytest
import torch

from torch_geometric_cgt.audit.codebook_attack import (
    SCORES,
    attack_codebook,
    codebook_scores,
    feature_kind,
)
from torch_geometric_cgt.quantizer import cluster_means, protected_means


def topics(kind, num_rows=600, num_features=400, seed=0):
    """Rows of ten topics, of which the first half are members, grouped by their topic."""
    rng = torch.Generator().manual_seed(seed)
    topic = torch.arange(num_rows) % 10
    rate = 0.02 + 0.4 * (torch.rand(10, num_features, generator=rng) < 0.05)
    has = torch.rand(num_rows, num_features, generator=rng) < rate[topic]
    value = {
        'binary': has.float(),
        'count': has * torch.randint(1, 5, has.shape, generator=rng).float(),
        'sparse': has * (0.5 + torch.rand(has.shape, generator=rng)),
        'dense': rate[topic] + torch.randn(has.shape, generator=rng),
    }[kind]
    is_member = torch.arange(num_rows) < num_rows // 2
    cluster = topic[is_member] * 2 + (torch.arange(int(is_member.sum())) // 150)
    return value, is_member, cluster


@pytest.mark.parametrize('kind', ['binary', 'count', 'sparse', 'dense'])
def test_kinds_are_recognised(kind):
    x, _, _ = topics(kind, 60)
    assert feature_kind(x) == kind
    assert feature_kind(x.to_sparse()) == kind
    assert feature_kind(torch.zeros(3, 2)) == 'binary'
    assert feature_kind(torch.tensor([[0.0, 0.25], [0.25, 0.0]])) == 'binary'
    assert feature_kind(torch.tensor([[-1.0, 0.0], [0.0, 2.0]])) == 'sparse'


def test_likelihood_by_hand():
    population = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])  # 1/4 each
    codebook = torch.tensor([[0.5, 0.0], [0.0, 0.5]])
    rows = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    found = codebook_scores(codebook, rows, population, 'cautious')
    absent = SCORES['cautious'] / 4
    alone = math.log(0.5 / 0.25) + math.log((1 - absent) / 0.75)
    both = math.log(0.5 / 0.25) + math.log(absent / 0.25)
    assert found.tolist() == pytest.approx([alone, both])


def test_difference_by_hand():
    population = torch.tensor([[0.0], [2.0], [0.0], [2.0]])
    # One codeword: expected is 1 and the variance 1, both with and without all rows again.
    found = codebook_scores(
        torch.tensor([[1.5]]), torch.tensor([[2.0], [0.0]]), population, 'difference', 'dense'
    )
    assert found.tolist() == pytest.approx([0.5, -0.5])


@pytest.mark.parametrize('kind', ['binary', 'count', 'sparse', 'dense'])
def test_exact_means_show_who_is_in_the_source(kind):
    x, is_member, cluster = topics(kind)
    codebook = cluster_means(x[is_member], cluster, 20)
    found = attack_codebook(codebook, x, is_member)
    assert all(attack.kind == kind for attack in found.values())
    best = max(attack.area.value for attack in found.values())
    assert best > 0.9
    if kind == 'binary':  # all words of a member are in one codeword
        assert found['likelihood'].area.value > 0.9


@pytest.mark.parametrize('kind', ['binary', 'count', 'sparse'])
def test_protected_means_hardly_show_it(kind):
    x, is_member, cluster = topics(kind)
    codebook = protected_means(x[is_member], cluster, 20, 5, 1 / 3)
    found = attack_codebook(codebook, x, is_member)
    assert max(attack.area.value for attack in found.values()) < 0.65


def test_a_codebook_of_strangers_shows_nothing():
    x, is_member, cluster = topics('binary')
    strangers, _, _ = topics('binary', seed=1)
    codebook = cluster_means(strangers[is_member], cluster, 20)
    found = attack_codebook(codebook, x, is_member)
    assert all(0.4 < attack.area.value < 0.6 for attack in found.values())


def test_sparse_rows_and_small_blocks_give_the_same(monkeypatch):
    x, _, _ = topics('sparse', 100)
    codebook = cluster_means(x, torch.arange(100) % 10, 10)
    module = sys.modules[codebook_scores.__module__]
    for score in SCORES:
        whole = codebook_scores(codebook, x, x, score)
        with monkeypatch.context() as patch:
            patch.setattr(module, 'rows_per_block', lambda _: 7)
            blocks = codebook_scores(codebook, x.to_sparse_csr(), x.to_sparse(), score)
        assert torch.allclose(whole, blocks)


def test_results_go_to_json():
    x, is_member, cluster = topics('binary')
    codebook = cluster_means(x[is_member], cluster, 20)
    found = attack_codebook(codebook, x, is_member)['likelihood'].to_dict()
    assert found['num_members'] == found['num_others'] == 300
    assert found['true_positives']['0.001'] is None  # of 300 others
    assert 0 <= found['true_positives']['0.01']['low'] <= found['true_positives']['0.01']['value']


@pytest.mark.parametrize(
    'wrong, message',
    [
        ({'score': 'luck'}, "'score' must be one of"),
        ({'kind': 'words'}, "'kind' must be one of"),
        ({'rows': torch.zeros(2, 3)}, r'same features \(got \[2, 3, 2\]\)'),
    ],
)
def test_bad_arguments(wrong, message):
    right = {'codebook': torch.zeros(1, 2), 'rows': torch.zeros(2, 2), 'population': torch.eye(2)}
    with pytest.raises(ValueError, match=message):
        codebook_scores(**{**right, **wrong})
