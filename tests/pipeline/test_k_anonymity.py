"""k-anonymity: the protection of means, and what needs a word of consent."""

import warnings

import pytest
import torch

from tests.helpers.builds import plain, promised
from tests.helpers.graphs import random_graph
from torch_geometric_cgt import KAnonymity, SyntheticCGTDataset
from torch_geometric_cgt.pipeline import BuildConfig
from torch_geometric_cgt.quantizer import cluster_means, protected_means, value_support
from torch_geometric_cgt.quantizer.protected_means import unsupported


@pytest.mark.parametrize(
    'k, support, step',
    [(2, 2, 0.5), (5, 5, 0.5), (10, 5, 0.5), (18, 6, 0.3333), (30, 10, 0.3333), (1000, 10, 0.01)],
)
def test_the_default_depends_on_k(k, support, step):
    promise = KAnonymity(k)
    assert (promise.value_support, promise.step) == (support, step)


def test_rules_can_be_set_and_switched_off():
    promise = KAnonymity(30, min_value_support=5, rounding=0.1)
    assert (promise.value_support, promise.step) == (5, 0.1)
    assert KAnonymity(30, min_value_support=5).step == 0.1667
    assert KAnonymity(30, min_value_support=None).step == 0.3333
    promise = KAnonymity(30, min_value_support=None, rounding=None)
    assert (promise.value_support, promise.step) == (None, None)
    private = KAnonymity(cluster_epsilon=5.0)  # noise protects the means
    assert (private.value_support, private.step) == (None, None)


@pytest.mark.parametrize(
    'wrong, message',
    [
        ({'min_value_support': 1}, r"'min_value_support' must be .* from 2 to k = 30 \(got 1\)"),
        ({'min_value_support': 31}, r'got 31'),
        ({'min_value_support': 2.5}, r'got 2.5'),
        ({'min_value_support': True}, r'got True'),
        ({'rounding': 0.0}, r"'rounding' must be .* \(got 0.0\)"),
        ({'rounding': 2.0}, r'at most 1 \(got 2.0\)'),
        ({'rounding': 'fine'}, r"got 'fine'"),
        ({'cluster_epsilon': 5.0, 'rounding': 0.1}, "'rounding' is not for 'cluster_epsilon'"),
        ({'k': 1}, r'KAnonymity\(k=1, accept_no_anonymity=True\)'),
    ],
)
def test_bad_arguments(wrong, message):
    with pytest.raises(ValueError, match=message):
        KAnonymity(**wrong)


@pytest.mark.parametrize(
    'promise',
    [
        KAnonymity(),
        KAnonymity(10, min_value_support=3, rounding=0.2),
        KAnonymity(10, min_value_support=None, rounding=None),
        KAnonymity(1, accept_no_anonymity=True),
        KAnonymity(60, accept_one_group=True),
        KAnonymity(cluster_epsilon=3.0),
    ],
)
def test_files_hold_the_promise(promise):
    config = BuildConfig(privacy=promise)
    assert BuildConfig.from_dict(config.to_dict()) == config


def test_builds_with_other_rules_have_other_parameters():
    kinds = [{}, {'min_value_support': 5}, {'rounding': 0.1}, {'min_value_support': None}]
    kinds.append({'min_value_support': None, 'rounding': None})
    found = [str(BuildConfig(privacy=KAnonymity(**kind)).to_dict()) for kind in kinds]
    assert len(set(found)) == len(kinds)


def bag_of_words():
    graph = random_graph(num_features=40)
    rng = torch.Generator().manual_seed(0)
    graph.x = (torch.rand(graph.x.shape, generator=rng) < graph.x.sigmoid() * 0.3).float()
    return graph


def test_the_codebook_of_a_build_is_protected(quick):
    graph = bag_of_words()
    dataset = SyntheticCGTDataset(graph, **plain(quick))
    arguments = (graph.x, dataset.cluster, len(dataset.codebook))
    support, rare = value_support(*arguments), unsupported(*arguments, 5)
    assert ((support > 0) & rare).any() and not dataset.codebook[rare].any()
    assert set(dataset.codebook[support >= 5].unique().tolist()) <= {0.0, 0.5, 1.0}
    of_neighbours = dataset.codebook[support < 5] * 8  # multiples of a quarter of the rounding
    assert torch.equal(of_neighbours, of_neighbours.round())
    expected = protected_means(graph.x, dataset.cluster, len(dataset.codebook), 5, 0.5)
    assert torch.equal(dataset.codebook, expected)
    assert (dataset.privacy.min_value_support, dataset.privacy.rounding) == (5, 0.5)
    assert dataset.card['parameters']['min_value_support'] == 'auto'


def test_without_rules_the_codebook_holds_exact_means(quick):
    graph = bag_of_words()
    arguments = plain(quick, min_value_support=None, rounding=None)
    dataset = SyntheticCGTDataset(graph, **arguments)
    means = cluster_means(graph.x, dataset.cluster, len(dataset.codebook))
    assert torch.equal(dataset.codebook, means)
    assert 'rounding' not in dataset.card['parameters'] and dataset.privacy.rounding is None
    assert any('often with near certainty' in s for s in dataset.privacy.not_guaranteed)


def test_one_group_needs_consent(graph, quick):
    with pytest.raises(ValueError, match=r'k=61 leaves one group of 120 nodes.*k <= 60'):
        SyntheticCGTDataset(graph, **{**quick, 'k': 61})
    accepted = promised({**quick, 'k': 61}, accept_one_group=True)
    dataset = SyntheticCGTDataset(graph, **accepted)
    assert len(dataset.codebook) == 1
    assert any('one group only' in sentence for sentence in dataset.privacy.guaranteed)


def test_a_graph_that_is_too_small_for_two_groups_is_not_told_to_use_k_1():
    with pytest.raises(ValueError, match=r'k=2 leaves one group of 3 nodes.*4 nodes or more'):
        KAnonymity(2).check_groups(3)
    KAnonymity(2).check_groups(4)


@pytest.mark.parametrize('generator, fails', [({}, True), ({'num_scenes': 0}, False)])
def test_a_scene_needs_k_labelled_nodes(graph, quick, generator, fails):
    graph.y[9:] = -1  # k is 10
    arguments = {**plain(quick), 'generator': {**quick['generator'], **generator}}
    if not fails:
        assert len(SyntheticCGTDataset(graph, **arguments)) == 1
        return
    with pytest.raises(ValueError, match=r"Only 9 nodes .*k=10.*'num_scenes': 0"):
        SyntheticCGTDataset(graph, **arguments)
    assert not quick['root'].exists()


def test_feature_vectors_that_are_all_the_same_give_a_warning(graph, quick):
    graph.x = torch.eye(graph.num_nodes)  # one feature per node, as in PyG's KarateClub
    with pytest.warns(UserWarning, match='All feature vectors of the release are the same'):
        dataset = SyntheticCGTDataset(graph, **plain(quick))
    assert (dataset.codebook == 0).all()
    graph.x = torch.ones(graph.num_nodes, 2)  # nothing is lost
    with warnings.catch_warnings():
        warnings.filterwarnings('error', 'All feature vectors')
        SyntheticCGTDataset(graph, **plain(quick))


def test_k_1_with_consent_claims_nothing(graph, quick, tmp_path):
    with pytest.raises(ValueError, match='accept_no_anonymity=True'):
        SyntheticCGTDataset(graph, **{**quick, 'k': 1})
    accepted = plain({**quick, 'k': 1}, accept_no_anonymity=True)
    dataset = SyntheticCGTDataset(graph, **accepted)
    assert torch.equal(dataset.codebook[dataset.cluster], graph.x)
    privacy = dataset.privacy
    nothing, degrees = privacy.guaranteed
    assert nothing == (
        'Nothing is guaranteed about feature vectors: k = 1 was accepted when this release was '
        'made, so they can be those of single source nodes.'
    )
    assert 'Each group has at least 5 nodes' in degrees
    sentences = ' '.join(privacy.not_guaranteed)
    assert 'look them up' in sentences and 'Groups protect' not in sentences
    assert privacy.summary.startswith('no anonymity')
    dataset.save(tmp_path / 'release')
    readme = (tmp_path / 'release' / 'README.md').read_text()
    assert 'can be those of single nodes' in readme and 'no node or edge' not in readme
    assert SyntheticCGTDataset.load(tmp_path / 'release').privacy == privacy


def test_more_labels_than_there_are_cannot_be_in_a_group(graph, quick, tmp_path):
    with pytest.raises(ValueError, match=r"'l' must not exceed the number of labels of .*3 .got 4"):
        SyntheticCGTDataset(graph, **{**quick, 'privacy': KAnonymity(quick['k'], l=4), 'k': None})
