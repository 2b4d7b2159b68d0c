"""The audit of edge values: true promises pass, planted mistakes are found."""

import pytest
import torch

from tests.helpers.edge_values import valued_graph
from torch_geometric_cgt.audit.check import ABOVE, NOTHING, UNCHECKED
from torch_geometric_cgt.audit.edge_anonymity import check_edge_values
from torch_geometric_cgt.audit.neighbours import neighbour_of
from torch_geometric_cgt.data import EdgeValues
from torch_geometric_cgt.pipeline.source import check_source
from torch_geometric_cgt.release.card import Card
from torch_geometric_cgt.transforms.edge_codebook import fit_edge_codebook

K = 10
SOURCE = check_source(valued_graph())
EDGES = SOURCE.data.edge_index
FOUND = fit_edge_codebook(SOURCE.edge_values(), EDGES, 120, K)


def verdicts(values=FOUND.values, token=FOUND.token, k=K, reached=None):
    facts = {
        **FOUND.values.form.to_dict(),
        'num_values': len(values),
        'k': k,
        'k_reached': int(FOUND.support.min()) if reached is None else reached,
    }
    groups = dict.fromkeys(('homogeneous', 'l_reached', 't_closeness', 'task_weight'), 0)
    card = Card('k-anonymity', 12, k=k, k_reached=k, **groups, unique_share=0.0, edges=facts)
    return [check.verdict for check in check_edge_values(card, values, SOURCE, token)]


def test_true_promises_pass():
    assert verdicts() == [NOTHING, NOTHING]


def test_a_value_of_one_edge_is_found():
    table = FOUND.values.table.clone()
    table[0] = SOURCE.edge_values().table[(FOUND.token == 0).nonzero()[0, 0]]
    assert verdicts(EdgeValues(table, FOUND.values.form)) == [NOTHING, ABOVE]


def test_a_group_of_one_node_is_found():
    token = FOUND.token.clone()
    own = (EDGES == 5).any(dim=0)
    token[own] = len(FOUND.values)
    words = EdgeValues(torch.cat([FOUND.values.table, FOUND.values.table[:1]]), FOUND.values.form)
    assert verdicts(words, token)[0] == ABOVE


def test_a_wrong_statement_is_found_and_nothing_is_claimed_without_groups():
    assert verdicts(k=500)[0] == ABOVE
    assert verdicts(reached=99)[0] == ABOVE
    assert verdicts(token=None) == [UNCHECKED, UNCHECKED]


@pytest.mark.parametrize('unit', ['node', 'attributes', 'edge', 'frozen_record'])
def test_neighbouring_sources_keep_the_values_of_their_edges(unit):
    which = EDGES[:, :1].t() if unit == 'edge' else EDGES[0, :1]
    other = neighbour_of(SOURCE, unit, which).data
    assert other.edge_attr.size(0) == other.num_edges <= SOURCE.data.num_edges
    known = {
        (u, v): w for u, v, w in zip(*EDGES.tolist(), SOURCE.data.edge_weight.tolist(), strict=True)
    }
    for u, v, w in zip(*other.edge_index.tolist(), other.edge_weight.tolist(), strict=True):
        assert known[u, v] == w
