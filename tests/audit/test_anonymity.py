import pytest
import torch
from torch_geometric.data import Data

from tests.helpers.attacked import records, trees
from torch_geometric_cgt.audit.anonymity import check_groups, path_support
from torch_geometric_cgt.pipeline.measure import measure_groups
from torch_geometric_cgt.quantizer import cluster_means
from torch_geometric_cgt.release.card import Card

X = torch.tensor([[0.0], [2.0], [4.0], [10.0], [12.0], [14.0]])
DATA = Data(x=X, y=torch.tensor([0, 1, 0, 1, 1, 1]))
CLUSTER = torch.tensor([0, 0, 0, 1, 1, 1])
CODEBOOK = torch.tensor([[2.0], [12.0]])


def card(k=3, cluster=CLUSTER, **changes) -> Card:
    found = measure_groups(k, cluster, DATA.y, torch.zeros(6, 3, dtype=torch.long), 2)
    return Card('k-anonymity', **{**found, **changes})


def verdicts(*args):
    return {check.name: check.verdict for check in check_groups(*args)}


def test_true_promises_pass():
    found = verdicts(card(), CODEBOOK, DATA, CLUSTER)
    assert found == dict.fromkeys(
        ['Size of groups', 'Codewords are means', 'Statements of the card'], 'passed'
    )


def test_a_group_below_k_fails():
    cluster = torch.tensor([0, 0, 1, 1, 1, 1])
    codebook = cluster_means(X, cluster, 2)
    found = check_groups(card(cluster=cluster), codebook, DATA, cluster)
    assert found[0].verdict == 'failed' and found[0].value == 2.0 and found[0].threshold == 3.0
    assert found[1].verdict == 'passed'


def test_a_codeword_without_a_node_fails():
    codebook = torch.cat([CODEBOOK, torch.tensor([[5.0]])])
    found = verdicts(card(), codebook, DATA, CLUSTER)
    assert found['Size of groups'] == found['Codewords are means'] == 'failed'


def test_a_codeword_that_is_a_node_fails():
    found = verdicts(card(), torch.tensor([[4.0], [12.0]]), DATA, CLUSTER)
    assert found['Codewords are means'] == 'failed' and found['Size of groups'] == 'passed'


def test_a_card_that_embellishes_fails():
    for lie in ({'l_reached': 2}, {'t_closeness': 0.1}, {'homogeneous': 0}, {'k_reached': 9}):
        found = check_groups(card(**lie), CODEBOOK, DATA, CLUSTER)
        assert found[2].verdict == 'failed' and next(iter(lie)) in found[2].says
        assert [check.verdict for check in found[:2]] == ['passed', 'passed']


def test_without_groups_the_card_is_taken_at_its_word():
    (check,) = check_groups(card(), CODEBOOK, DATA)
    assert check.verdict == 'passed' and 'as stated on the card. Not checked' in check.says
    (check,) = check_groups(card(k_reached=2), CODEBOOK, DATA)
    assert check.verdict == 'failed'


# Two roots with label 0, one of them drawn differently a second time.
SOURCE = records([[[0, 1, 2, 2, 3], [0, 1, 3, 2, 3]], [[0, 1, 2, 2, 3], [0, 2, 3, 3, 3]]], [0, 0])


def test_support_by_hand():
    generated = trees([[0, 1, 2, 2, 3], [0, 1, 3, 3, 3], [1, 3, 3, 3, 3]], [0, 0, 0])
    found = path_support(generated, SOURCE, k=2)
    # 0: two roots; 0 1: two; 0 2: two; 0 1 2: two; the root 1: nobody
    assert found.share_of_trees == pytest.approx(2 / 3) and found.least == 0
    assert found.share_of_paths == [pytest.approx(2 / 3), 1.0, 1.0]
    assert found.unseen == [pytest.approx(1 / 3), 0.0, 0.0]
    assert [sum(layer) for layer in found.histogram] == [3, 3, 1]
    assert found.histogram[0][0] == 1 and found.histogram[0][2] == 2
    assert found.num_roots == 2 and found.num_draws == 2


def test_other_labels_are_no_support():
    found = path_support(trees([[0, 1, 2, 2, 3]], [1]), SOURCE, k=1)
    assert found.share_of_trees == 0.0 and found.unseen == [1.0, 1.0, 1.0]


def test_a_verdict_needs_a_promise():
    found = path_support(trees([[0, 1, 3, 2, 3]], [0]), SOURCE, k=2)
    assert found.check().verdict == 'descriptive'
    assert found.check(2).verdict == 'passed' and found.check(3, 'here').verdict == 'failed'
    assert found.check(3, 'here').value == 2.0 and found.check(3, 'here').origin == 'here'
