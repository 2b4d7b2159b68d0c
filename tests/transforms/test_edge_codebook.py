"""The codebook of edge values: enough nodes behind each value, whatever the graph."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from torch_geometric_cgt.data import EdgeForm, EdgeValues
from torch_geometric_cgt.errors import AnonymityError, SourceError
from torch_geometric_cgt.transforms import edge_codebook
from torch_geometric_cgt.transforms.edge_codebook import (
    EdgeGrid,
    check_bounds,
    edge_support,
    edge_weights,
    fit_edge_codebook,
)

NODES = 9
pairs = st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1))
FORM = EdgeForm('float32', 'int64', 2)


def left_without(edges, gone):
    """The nodes that still have an edge without one node."""
    return {node for edge in edges if gone not in edge for node in edge}


def support_by_hand(edges):
    """One more than the fewest nodes that are left without any one node."""
    return 1 + min(len(left_without(edges, node)) for edge in edges for node in edge)


def tensor_of(edges):
    return torch.tensor(edges, dtype=torch.long).view(-1, 2).t()


def codebook_of(edges, k, **values):
    edge_index = tensor_of(edges)
    num_nodes = 1 + int(edge_index.max())
    data = Data(edge_index=edge_index, num_nodes=num_nodes, **values)
    return fit_edge_codebook(EdgeValues.of(data), edge_index, num_nodes, k)


@pytest.mark.parametrize(
    'edges, support',
    [
        ([(0, i) for i in range(1, 9)], 1),  # one node owns all edges
        ([(0, 1), (1, 0)], 1),
        ([(i, i) for i in range(4)], 4),  # loops
        ([(0, 1), (2, 3), (4, 5)], 5),
        ([(i, (i + 1) % 6) for i in range(6)], 6),  # a ring
        ([(h, i) for h in (7, 8) for i in range(6)], 8),  # all have two owners
        ([(0, 1), (0, 2), (0, 3), (4, 5)], 3),
    ],
)
def test_support_by_hand(edges, support):
    assert edge_support(tensor_of(edges), NODES) == support_by_hand(edges) == support


@settings(max_examples=60, deadline=None)
@given(st.lists(pairs, min_size=1, max_size=20), st.lists(pairs, max_size=6))
def test_support_is_what_any_one_node_leaves_and_grows_with_edges(edges, more):
    found = edge_support(tensor_of(edges), NODES)
    assert found == support_by_hand(edges)
    assert edge_support(tensor_of(edges + more), NODES) >= found


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(pairs, st.integers(0, 5)), min_size=4, max_size=30),
    st.integers(1, 5),
    st.booleans(),
    st.booleans(),
)
def test_every_value_has_enough_nodes_behind_it(rows, k, few, whole):
    edges, value = [edge for edge, _ in rows], torch.tensor([v for _, v in rows])
    attr = value if whole else value / 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edge_codebook, 'MAX_VALUES', 64 if few else 3)  # or k-means
        try:
            found = codebook_of(edges, k, edge_attr=attr)
        except AnonymityError:
            assert support_by_hand(edges) < k  # impossible with one value for all
            return
    for token in range(len(found.values)):
        group = [
            edge for edge, own in zip(edges, found.token.tolist(), strict=True) if own == token
        ]
        assert support_by_hand(group) == int(found.support[token]) >= k
        lowest, highest = attr[found.token == token].double().aminmax()
        step = max(1.0 if whole else 0.0, 2 * float(highest - lowest))
        assert lowest - step <= found.values.table[token] <= highest + step
    if whole:
        assert torch.equal(found.values.table, found.values.table.round())


def test_one_node_with_many_edges_forms_no_value():
    ring = [(i, (i + 1) % 30) for i in range(30)]
    star = [(30, 31 + i) for i in range(40)]  # more nodes than k, and one owner
    weight = torch.cat([torch.full((30,), 1.0), torch.full((40,), 9.0)])
    found = codebook_of(ring + star, 10, edge_weight=weight)
    assert found.values.table.tolist() == [[1.0]]  # 9 is a value of one node alone


def test_values_that_enough_nodes_have_stay_as_they_are():
    edges = [(i, (i + 1) % 30) for i in range(30)] * 3
    kind = torch.tensor([2] * 30 + [5] * 30 + [5] * 28 + [7] * 2)
    found = codebook_of(edges, 10, edge_attr=kind)
    assert found.values.table.view(-1).tolist() == [2.0, 5.0]  # 7 is rare and joins 5
    assert found.values.take(found.token)['edge_attr'].dtype == torch.int64
    one_hot = torch.nn.functional.one_hot(kind, 8).float()
    assert codebook_of(edges, 10, edge_attr=one_hot).values.table.sum(dim=1).tolist() == [1.0, 1.0]


def test_one_node_cannot_pull_a_mean():
    ring = [(i, (i + 1) % 100) for i in range(100)]
    star = [(100, i) for i in range(100)]
    edge_index = tensor_of(ring + star)
    weight = edge_weights(edge_index, 101)
    assert float(weight[100:].sum()) <= 1.0
    rng = torch.Generator().manual_seed(0)
    value = torch.cat([torch.rand(100, generator=rng), 1 + torch.rand(100, generator=rng)])
    found = codebook_of(ring + star, 60, edge_weight=value)
    assert len(found.values) == 1  # the edges of one node alone are no group
    assert float(value.mean()) > 0.9 and float(found.values.table) < 0.6


def test_too_few_nodes_are_an_error_that_says_what_to_do():
    with pytest.raises(AnonymityError, match=r'1 source nodes .* k = 3.* data.edge_weight = None'):
        codebook_of([(0, 1), (0, 2), (0, 3)], 3, edge_weight=torch.ones(3))


def test_cells_by_hand():
    bounds = check_bounds({'edge_attr': [(0, 1), (0, 3)], 'edge_weight': (0.0, 1.0)})
    grid = EdgeGrid(bounds, 2)
    grid.check(FORM)
    table = grid.values(FORM).table
    assert grid.num_cells == 8 and table.shape == (8, 3)
    assert table[5].tolist() == [0.75, 0.0, 2.0]  # whole numbers in columns of integers
    given = EdgeValues(torch.tensor([[0.9, 0.0, 3.0], [-7.0, 99.0, 1.4]]).double(), FORM)
    assert grid.tokens(given).tolist() == [5, 2]


def test_every_value_is_in_the_cell_that_it_comes_from():
    grid = EdgeGrid(check_bounds({'edge_attr': (0, 4)}), 5)
    values = grid.values(EdgeForm(None, 'int64'))
    assert values.table.view(-1).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert grid.tokens(values).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    'bounds',
    [
        None,
        {},
        {'weight': (0, 1)},
        {'edge_weight': (1, 0)},
        {'edge_weight': (0, float('inf'))},
        {'edge_weight': 'all'},
        {'edge_attr': [(0, 1), 5]},
        {'edge_weight': [(0, 1), (0, 1)]},
        {'edge_attr': (True, 2)},
    ],
)
def test_wrong_bounds_are_refused(bounds):
    with pytest.raises(ValueError, match=r"'edge_bounds'|bounds of|pair of bounds"):
        check_bounds(bounds)


def test_too_many_cells_and_bounds_of_other_columns():
    with pytest.raises(ValueError, match=r"'edge_bins' = 8 for 3 columns gives more than 256"):
        EdgeGrid(check_bounds({'edge_attr': [(0, 1)] * 3}), 8)
    for bins in (0, 2.5):
        with pytest.raises(ValueError, match="'edge_bins' must be"):
            EdgeGrid(check_bounds({'edge_attr': (0, 1)}), bins)
    grid = EdgeGrid(check_bounds({'edge_attr': [(0, 1)] * 3}), 2)
    with pytest.raises(SourceError, match=r"\{'edge_weight': 1, 'edge_attr': 2\}.*'edge_attr': 3"):
        grid.check(FORM)
