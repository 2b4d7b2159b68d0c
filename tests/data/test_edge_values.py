"""Edge values: what is accepted, the form that they are returned in, and trees that have them."""

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

from tests.helpers.trees import two_trees
from torch_geometric_cgt.data import EdgeForm, EdgeValues, values_at
from torch_geometric_cgt.errors import SourceError

EDGES = torch.tensor([[0, 1, 2], [1, 2, 0]])


def graph(**values) -> Data:
    return Data(x=torch.eye(3), edge_index=EDGES, y=torch.arange(3), **values)


def test_a_graph_without_edge_values_has_none():
    assert EdgeValues.of(graph()) is None
    assert values_at(graph(), torch.tensor([0])) == {}


@pytest.mark.parametrize(
    'values',
    [
        {'edge_weight': torch.tensor([0.5, 1.5, 2.0])},
        {'edge_attr': torch.tensor([3, 1, 2])},
        {'edge_attr': torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.5]])},
        {'edge_attr': torch.tensor([[True], [False], [True]])},
        {'edge_weight': torch.tensor([1, 2, 3]), 'edge_attr': torch.rand(3, 4).double()},
    ],
)
def test_values_come_back_in_their_form(values):
    found = EdgeValues.of(graph(**values))
    assert found.table.shape == (3, found.form.num_columns)
    assert found.form == EdgeForm(**found.form.to_dict())
    taken = found.take(torch.tensor([2, 0]))
    assert taken.keys() == values.keys()
    for name, value in values.items():
        assert taken[name].dtype == value.dtype
        assert torch.equal(taken[name], value[[2, 0]])


@pytest.mark.parametrize(
    'values, message',
    [
        ({'edge_weight': torch.rand(2)}, 'each of the 3 edges \\(got 2\\)'),
        ({'edge_weight': torch.rand(3, 1)}, r'data\.edge_weight\.view\(-1\)'),
        ({'edge_attr': torch.rand(3, 0)}, r"'edge_attr' must have the shape \[3\] or \[3, D\]"),
        ({'edge_attr': torch.rand(3, 2, 2)}, r'got \[3, 2, 2\]'),
        ({'edge_attr': torch.tensor([0.0, float('nan'), 1.0])}, 'the first at edge 1'),
        ({'edge_weight': torch.rand(3).to(torch.complex64)}, 'got torch.complex64'),
        ({'edge_attr': [1, 2, 3]}, "must be a tensor with one row per edge \\(got 'list'\\)"),
    ],
)
def test_values_that_cannot_be_used_are_named(values, message):
    with pytest.raises(SourceError, match=message):
        EdgeValues.of(graph(**values))


@pytest.mark.parametrize(
    'arguments', [(None, None), ('complex64', None), (['float32'], None), ('float32', None, 2)]
)
def test_a_form_that_no_graph_has_is_refused(arguments):
    with pytest.raises(ValueError, match=r'edge weight|edge attribute|real numbers'):
        EdgeForm(*arguments)


def test_a_table_that_its_types_cannot_hold_is_refused():
    form = EdgeForm(None, 'int64')
    EdgeValues(torch.tensor([[1.0]]).double(), form).validate()
    for table, message in [
        ([[1.5]], 'does not fit'),
        ([[float('inf')]], 'not finite'),
        ([[1.0, 2.0]], 'shape'),
    ]:
        with pytest.raises(ValueError, match=message):
            EdgeValues(torch.tensor(table).double(), form).validate()


def trees_with_values():
    """The trees of ``two_trees`` with the edge token 0 at the first real child, 1 elsewhere."""
    trees = two_trees()
    tokens = torch.ones_like(trees.tokens).long()
    tokens[:, 1] = 0
    tokens[~trees.real] = 2
    tokens[:, 0] = 2
    values = EdgeValues(torch.tensor([[0.5], [2.0]]).double(), EdgeForm('float32', None))
    return replace(trees, edge_tokens=tokens, edge_values=values)


def test_the_forest_has_the_value_of_each_edge():
    trees = trees_with_values()
    trees.validate()
    data = trees.to_data(torch.tensor([[10.0], [20.0]]))
    assert data.edge_weight.shape == (data.num_edges,) and data.edge_weight.dtype == torch.float32
    local = trees.forest().slot[data.edge_index[0]] % trees.shape.num_slots
    assert torch.equal(data.edge_weight, torch.where(local == 1, 0.5, 2.0))
    part = trees.select(torch.tensor([1]))
    assert torch.equal(part.edge_tokens, trees.edge_tokens[[1]])


@pytest.mark.parametrize(
    'place, value, message',
    [
        ((0, 0), 0, 'a root or a null slot has an edge token'),
        ((0, 1), 2, 'An edge token is null'),
        ((0, 1), 3, r'outside \[0, 2\] \(got 1 to 3\)'),
        ((0, 1), -1, 'outside'),
    ],
)
def test_wrong_edge_tokens_are_refused(place, value, message):
    trees = trees_with_values()
    assert bool(trees.real[0, 1])
    trees.edge_tokens[place] = value
    with pytest.raises(ValueError, match=message):
        trees.validate()


def test_a_null_slot_with_an_edge_token_is_refused():
    trees = trees_with_values()
    tree, slot = (~trees.real).nonzero()[0].tolist()
    trees.edge_tokens[tree, slot] = 0
    with pytest.raises(ValueError, match='null slot'):
        trees.validate()
    for wrong in ({'edge_values': None}, {'edge_tokens': trees.edge_tokens[:, :1]}):
        with pytest.raises(ValueError, match=r'together|shape'):
            replace(trees_with_values(), **wrong).validate()
