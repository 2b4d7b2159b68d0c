"""The number of source nodes behind codewords, paths and edge values."""

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

from tests.helpers.attacked import records, trees
from tests.helpers.cards import measured
from tests.helpers.edge_values import valued_graph
from torch_geometric_cgt.audit.anonymity import (
    NAMES,
    check_edge_values,
    check_groups,
    check_profile,
    path_support,
)
from torch_geometric_cgt.audit.check import ABOVE, NOTHING, UNCHECKED, WITHIN
from torch_geometric_cgt.audit.neighbours import neighbour_of
from torch_geometric_cgt.data import EdgeValues, GraphProfile, InNeighbors
from torch_geometric_cgt.pipeline.source import check_source
from torch_geometric_cgt.quantizer import cluster_means, protected_means
from torch_geometric_cgt.quantizer.protected_means import unsupported
from torch_geometric_cgt.release.card import Card
from torch_geometric_cgt.transforms.edge_codebook import fit_edge_codebook

X = torch.tensor([[0.0], [2.0], [4.0], [10.0], [12.0], [14.0]])
DATA = Data(x=X, y=torch.tensor([0, 1, 0, 1, 1, 1]))
CLUSTER = torch.tensor([0, 0, 0, 1, 1, 1])
CODEBOOK = torch.tensor([[2.0], [12.0]])
# Three words in two groups of four: 'a' in all rows, 'b' in two of the first, 'c' in one of each.
WORDS = torch.tensor(
    [[1.0, 1, 0], [1, 1, 0], [1, 0, 1], [1, 0, 0]] + [[1.0, 0, 1]] + [[1, 0, 0]] * 3
)
GROUP = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
# Two roots with label 0, one of them drawn differently a second time.
SOURCE = records([[[0, 1, 2, 2, 3], [0, 1, 3, 2, 3]], [[0, 1, 2, 2, 3], [0, 2, 3, 3, 3]]], [0, 0])
K = 10
VALUED = check_source(valued_graph())
EDGES = VALUED.data.edge_index
FOUND = fit_edge_codebook(VALUED.edge_values(), EDGES, 120, K)


def card(k=3, cluster=CLUSTER, **changes) -> Card:
    found = measured(k, cluster, DATA.y, torch.zeros(6, 3, dtype=torch.long))
    return Card('k-anonymity', **{**found, **changes})


def verdicts(*args):
    return {check.name: check.verdict for check in check_groups(*args)}


def test_true_promises_pass():
    found = verdicts(card(), CODEBOOK, DATA, CLUSTER)
    assert found == dict.fromkeys(
        ['Size of groups', 'Codewords are means', 'Statements of the card'], NOTHING
    )


def test_a_group_below_k_fails():
    cluster = torch.tensor([0, 0, 1, 1, 1, 1])
    codebook = cluster_means(X, cluster, 2)
    found = check_groups(card(cluster=cluster), codebook, DATA, cluster)
    assert found[0].verdict == ABOVE and found[0].value == 2.0 and found[0].threshold == 3.0
    assert found[1].verdict == NOTHING


def test_a_codeword_without_a_node_fails():
    codebook = torch.cat([CODEBOOK, torch.tensor([[5.0]])])
    found = verdicts(card(), codebook, DATA, CLUSTER)
    assert found['Size of groups'] == found['Codewords are means'] == ABOVE


def test_a_codeword_that_is_a_node_fails():
    found = verdicts(card(), torch.tensor([[4.0], [12.0]]), DATA, CLUSTER)
    assert found['Codewords are means'] == ABOVE and found['Size of groups'] == NOTHING


def check_words(codebook, **facts):
    data = Data(x=WORDS, y=torch.zeros(8, dtype=torch.long))
    found = measured(4, GROUP, data.y, torch.zeros(8, 3, dtype=torch.long))
    (check,) = [
        check
        for check in check_groups(Card('k-anonymity', **found, **facts), codebook, data, GROUP)
        if check.name == 'Codewords are means'
    ]
    return check


def test_protected_means_are_computed_again():
    rules = {'min_value_support': 2, 'rounding': 0.3333}
    codebook = protected_means(WORDS, GROUP, 2, 2, 0.3333)
    assert check_words(codebook, **rules).verdict == NOTHING
    assert check_words(codebook).verdict == ABOVE  # a card that claims exact means
    exact = cluster_means(WORDS, GROUP, 2)
    assert check_words(exact).verdict == NOTHING
    assert check_words(exact, **rules).verdict == ABOVE
    assert check_words(exact, rounding=0.3333).verdict == ABOVE


def test_a_value_below_the_support_fails():
    codebook = protected_means(WORDS, GROUP, 2, 4, None)
    row, column = unsupported(WORDS, GROUP, 2, 4).nonzero()[0].tolist()
    codebook[row, column] = 1e-5  # smaller than the tolerance for rounding
    check = check_words(codebook, min_value_support=4)
    assert check.verdict == ABOVE and check.value < check.threshold
    assert '1 values of codewords belong to fewer than 4 members' in check.says
    assert check.details == {'values_below_support': 1}


def test_a_card_that_embellishes_fails():
    for lie in ({'l_reached': 2}, {'t_closeness': 0.1}, {'homogeneous': 0}, {'k_reached': 9}):
        found = check_groups(card(**lie), CODEBOOK, DATA, CLUSTER)
        assert found[2].verdict == ABOVE and next(iter(lie)) in found[2].says
        assert [check.verdict for check in found[:2]] == [NOTHING, NOTHING]


def test_without_groups_nothing_is_checked_and_it_says_so():
    found = check_groups(card(), CODEBOOK, DATA)
    assert [check.name for check in found] == list(NAMES)
    assert {check.verdict for check in found} == {UNCHECKED}
    assert all('cluster assignment' in check.says and check.value is None for check in found)
    (check,) = check_groups(card(k_reached=2), CODEBOOK, DATA)  # by its own words
    assert check.verdict == ABOVE


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


def test_rare_paths_are_a_finding_and_above_the_limit_only_with_a_promise():
    found = path_support(trees([[0, 1, 3, 2, 3]], [0]), SOURCE, k=2)
    assert found.check().verdict == NOTHING and found.check().value == found.share_of_rare == 0
    rare = path_support(trees([[0, 1, 3, 2, 3]], [0]), SOURCE, k=3)
    assert rare.check().verdict == WITHIN and rare.check().value == 1.0
    unseen = path_support(trees([[2, 3, 3, 3, 3]], [0]), SOURCE, k=3)
    assert unseen.check().verdict == NOTHING  # nobody has it
    assert found.check(2).verdict == NOTHING and found.check(3, 'here').verdict == ABOVE
    assert found.check(3, 'here').value == 2.0 and found.check(3, 'here').origin == 'here'


def edge_verdicts(values=FOUND.values, token=FOUND.token, k=K, reached=None):
    facts = {
        **FOUND.values.form.to_dict(),
        'num_values': len(values),
        'k': k,
        'k_reached': int(FOUND.support.min()) if reached is None else reached,
    }
    groups = dict.fromkeys(('homogeneous', 'l_reached', 't_closeness', 'task_weight'), 0)
    card = Card('k-anonymity', 12, k=k, k_reached=k, **groups, unique_share=0.0, edges=facts)
    return [check.verdict for check in check_edge_values(card, values, VALUED, token)]


def test_true_promises_about_edge_values_pass():
    assert edge_verdicts() == [NOTHING, NOTHING]


def test_a_value_of_one_edge_is_found():
    table = FOUND.values.table.clone()
    table[0] = VALUED.edge_values().table[(FOUND.token == 0).nonzero()[0, 0]]
    assert edge_verdicts(EdgeValues(table, FOUND.values.form)) == [NOTHING, ABOVE]


def test_a_group_of_one_node_is_found():
    token = FOUND.token.clone()
    own = (EDGES == 5).any(dim=0)
    token[own] = len(FOUND.values)
    words = EdgeValues(torch.cat([FOUND.values.table, FOUND.values.table[:1]]), FOUND.values.form)
    assert edge_verdicts(words, token)[0] == ABOVE


def test_a_wrong_statement_is_found_and_nothing_is_claimed_without_groups():
    assert edge_verdicts(k=500)[0] == ABOVE
    assert edge_verdicts(reached=99)[0] == ABOVE
    assert edge_verdicts(token=None) == [UNCHECKED, UNCHECKED]


@pytest.mark.parametrize('unit', ['node', 'attributes', 'edge', 'frozen_record'])
def test_neighbouring_sources_keep_the_values_of_their_edges(unit):
    which = EDGES[:, :1].t() if unit == 'edge' else EDGES[0, :1]
    other = neighbour_of(VALUED, unit, which).data
    assert other.edge_attr.size(0) == other.num_edges <= VALUED.data.num_edges
    known = {
        (u, v): w for u, v, w in zip(*EDGES.tolist(), VALUED.data.edge_weight.tolist(), strict=True)
    }
    for u, v, w in zip(*other.edge_index.tolist(), other.edge_weight.tolist(), strict=True):
        assert known[u, v] == w


def test_degrees_are_recomputed_from_the_source():
    graph = InNeighbors.from_edge_index(VALUED.data.edge_index, VALUED.data.num_nodes)
    own = GraphProfile.of(graph, VALUED.root, VALUED.data.y, 10)
    facts = own.facts(VALUED.root.numel(), 10)
    assert check_profile(card(k=10, profile=facts), own, VALUED).verdict == NOTHING
    moved = replace(own, mean_degree=own.mean_degree + torch.eye(own.num_groups)[-1])
    assert check_profile(card(k=10, profile=facts), moved, VALUED).verdict == ABOVE
    for wrong in ({'k_reached': 99}, {'homophily': 0.0}):
        stated = card(k=10, profile={**facts, **wrong})
        assert check_profile(stated, own, VALUED).verdict == ABOVE
