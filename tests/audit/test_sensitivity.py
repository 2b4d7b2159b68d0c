"""Sensitivities: real units are removed, and a bound that is too small is found."""

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

from tests.helpers.attacked import source
from torch_geometric_cgt.audit import (
    LedgerAnswer,
    audit_sensitivity,
    largest_changes,
    real_neighbours,
)
from torch_geometric_cgt.audit.check import ABOVE, NOTHING
from torch_geometric_cgt.audit.replay import LedgerTrees, Replayed
from torch_geometric_cgt.pipeline.source import check_source


def star():
    """Node 0 has five neighbours, the others have one or two."""
    edges = torch.tensor([[0, 0, 0, 0, 0, 4], [1, 2, 3, 4, 5, 5]])
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    y = torch.tensor([0, 1, 0, 1, 0, 1])
    return check_source(Data(x=torch.eye(6), edge_index=edges, y=y))


def replay(bounds):
    """Counts labels and edges exactly; the bounds are what a ledger states."""

    def run(graph):
        y, num_edges = graph.data.y, graph.data.edge_index.size(1)
        exact = {
            'labels': torch.bincount(y[y >= 0], minlength=2),
            'edges': torch.tensor([num_edges / 2]),
            'sums': graph.data.x.sum(dim=0),
        }
        answers = [
            LedgerAnswer(name, 1.0, bounds[name], value.double(), value.double())
            for name, value in exact.items()
        ]
        return Replayed(answers)

    return run


@pytest.mark.parametrize(
    'unit, changes',
    [
        ('node', {'labels': 1.0, 'edges': 5.0, 'sums': 1.0}),
        ('edge', {'labels': 0.0, 'edges': 1.0, 'sums': 0.0}),
        ('attributes', {'labels': 2**0.5, 'edges': 0.0, 'sums': 1.0}),
        ('frozen_record', {'labels': 1.0, 'edges': 0.0, 'sums': 1.0}),
    ],
)
def test_changes_by_hand_and_bounds_that_are_half_of_them(unit, changes):
    found = audit_sensitivity(star(), replay(changes), unit, num_neighbours=4)
    assert {c.entry: c.change for c in found.changes} == pytest.approx(changes)
    check = found.check()
    assert check.verdict == NOTHING and check.value == pytest.approx(1.0)
    for name in (name for name, change in changes.items() if change):
        planted = {**changes, name: changes[name] / 2}
        check = audit_sensitivity(star(), replay(planted), unit, num_neighbours=4).check()
        assert check.verdict == ABOVE and check.value == pytest.approx(2.0)
        assert f"More than the bound: '{name}'" in check.says


def test_a_change_of_what_must_not_change_is_above_the_limit():
    bounds = {'labels': 0.0, 'edges': 5.0, 'sums': 1.0}
    check = audit_sensitivity(star(), replay(bounds), 'node').check()
    assert check.verdict == ABOVE and "'labels' by 1 instead of 0" in check.says


def test_hubs_come_first():
    names = [name for name, _ in real_neighbours(star(), 'node', 2)]
    assert names[0] == 'node 0' and len(names) == 2
    edges = [name for name, _ in real_neighbours(star(), 'edge', 4)]
    assert edges[0] in ('edge 0-4', 'edge 0-5') and len(set(edges)) == 4
    assert len(list(real_neighbours(star(), 'node', 100))) == 6  # all of them
    with pytest.raises(ValueError, match='got 0'):
        next(real_neighbours(star(), 'node', 0))


def test_rounding_is_allowed_for():
    one = [LedgerAnswer('a', 1.0, 1.0, torch.zeros(1), torch.zeros(1))]
    for change, verdict in ((1 + 1e-8, NOTHING), (1.001, ABOVE)):
        two = [replace(one[0], exact=torch.tensor([change], dtype=torch.double))]
        assert (
            largest_changes(Replayed(one), [('node 0', Replayed(two))]).check().verdict == verdict
        )


def test_other_queries_are_an_error():
    one = [LedgerAnswer('a', 1.0, 1.0, torch.zeros(1), torch.zeros(1))]
    with pytest.raises(ValueError, match='other queries'):
        largest_changes(Replayed(one), [('node 0', Replayed([replace(one[0], name='b')]))])
    with pytest.raises(ValueError, match='nothing to compare'):
        largest_changes(Replayed(one), [])


def test_a_larger_graph_has_its_largest_degree_found():
    graph = source(100)
    bounds = {'labels': 1.0, 'edges': 1000.0, 'sums': 1000.0}
    found = audit_sensitivity(graph, replay(bounds), 'node', num_neighbours=6)
    change = next(c for c in found.changes if c.entry == 'edges')
    degree = torch.bincount(graph.data.edge_index[0], minlength=100)
    assert change.change == float(degree.max()) and change.num_units == 6


def test_a_result_that_reads_the_data_is_found():
    base = [LedgerAnswer('a', 1.0, 1.0, torch.zeros(1), torch.ones(1))]
    same, other = torch.ones(3), torch.tensor([1.0, 1.0, 1.01])
    found = largest_changes(
        Replayed(base, {'codebook': same, 'weights': same}),
        [('node 4', Replayed(base, {'codebook': same, 'weights': other}))],
    )
    bounds, results = found.checks()
    assert bounds.verdict == NOTHING and results.verdict == ABOVE
    assert results.value == 1.0 and 'weights without node 4' in results.says


def test_nodes_that_a_claim_does_not_protect_stay():
    names = [name for name, _ in real_neighbours(star(), 'node', 10, max_degree=2)]
    assert 'node 0' not in names and len(names) == 5


@pytest.mark.parametrize('bound, verdict', [(2, NOTHING), (1, ABOVE)])
def test_trees_that_change_are_counted(bound, verdict):
    """Without node 3, its own tree is gone and that of node 1 has another child."""
    table = torch.tensor([[0, 1, 0], [1, 3, 1], [2, 0, 0], [3, 1, 1]])
    other = table.clone()
    other[3], other[1, 1] = -1, 0
    answer = LedgerAnswer('labels', 1.0, 1.0, torch.ones(2), torch.ones(2))
    base, without = (
        Replayed([answer], trees=LedgerTrees('gradients', bound, t)) for t in (table, other)
    )
    found = largest_changes(base, [('node 3', without)])
    assert {c.entry: (c.change, c.bound) for c in found.changes} == {
        'labels': (0.0, 1.0),
        'gradients': (2.0, bound),
    }
    assert found.check().verdict == verdict
