"""Neighbouring graphs, and a source in two parts."""

import pytest
import torch
from torch_geometric.data import Data

from tests.helpers.attacked import source
from torch_geometric_cgt.audit import neighbour_of
from torch_geometric_cgt.audit.neighbours import (
    hold_out_edges,
    random_members,
    split_members,
    undirected_pairs,
    zero_out_records,
)
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.pipeline.source import check_source

DATA = Data(
    x=torch.arange(1.0, 9.0).view(4, 2),
    edge_index=torch.tensor([[0, 1, 1, 2, 3, 3], [1, 0, 2, 1, 2, 3]]),
    y=torch.tensor([0, 1, 2, -1]),
)
PARTS = Data(
    x=torch.arange(10.0).view(5, 2),
    edge_index=torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 2]]),
    y=torch.tensor([0, 1, 2, -1, 0]),
    train_mask=torch.tensor([True, False, True, False, False]),
)
MEMBERS = torch.tensor([True, False, True, True, False])


@pytest.mark.parametrize('layout', ['dense', 'coo', 'csr'])
def test_zeroed_out_rows(layout):
    before = source(30)
    x = before.data.x.clone()
    before.data.x = {'dense': x, 'coo': x.to_sparse_coo(), 'csr': x.to_sparse_csr()}[layout]
    after = zero_out_records(before, torch.tensor([3, 29]))
    x[[3, 29]] = 0
    assert after.data.x.layout == before.data.x.layout
    assert torch.equal(after.data.x.to_dense(), x)
    assert (after.root.numel(), after.num_roots) == (28, 30)
    assert (before.data.y >= 0).all() and after.fingerprint() != before.fingerprint()
    again = zero_out_records(after, torch.tensor([3, 4]))  # 3 is gone already
    assert (again.root.numel(), again.num_roots) == (27, 30)


def test_each_unit_by_hand():
    whole, one = check_source(DATA), torch.tensor([1])
    node = neighbour_of(whole, 'node', one)
    assert node.data.edge_index.tolist() == [[3, 3], [2, 3]]
    assert node.data.x[1].tolist() == [0, 0] and node.data.y.tolist() == [0, -1, 2, -1]
    assert node.num_roots == whole.num_roots == 3
    attributes = neighbour_of(whole, 'attributes', torch.tensor([1, 3]))
    assert torch.equal(attributes.data.edge_index, DATA.edge_index)
    assert attributes.data.y.tolist() == [0, 2, 2, -1]  # no label stays no label
    assert attributes.data.x[[1, 3]].abs().sum() == 0 and attributes.data.x[0, 0] == 1
    edge = neighbour_of(whole, 'edge', torch.tensor([[1, 0]]))  # whatever the order
    assert edge.data.edge_index.tolist() == [[1, 2, 3, 3], [2, 1, 2, 3]]
    record = neighbour_of(whole, 'frozen_record', one)
    assert torch.equal(record.data.edge_index, DATA.edge_index) and record.data.y[1] == -1
    with pytest.raises(ValueError, match="got 'record'"):
        neighbour_of(whole, 'record', one)


def test_connected_pairs_are_listed_once():
    assert undirected_pairs(DATA).tolist() == [[0, 1], [1, 2], [2, 3]]


def test_parts_by_node_share_nothing():
    split = split_members(check_source(PARTS), MEMBERS, 'node')
    members, others = split.members, split.others
    assert members.data.x.tolist() == PARTS.x[[0, 2, 3]].tolist()
    assert members.data.edge_index.tolist() == [[1, 0], [2, 1]]  # 2 to 3 and 0 to 2
    assert members.data.y.tolist() == [0, 2, -1] and members.split.tolist() == [1, 1, 0]
    assert others.data.x.tolist() == PARTS.x[[1, 4]].tolist()
    assert others.data.edge_index.numel() == 0
    assert members.num_classes == others.num_classes == 3


def test_parts_by_record_share_the_graph():
    split = split_members(check_source(PARTS), MEMBERS, 'frozen_record')
    assert split.members.root.tolist() == [0, 2] and split.others.root.tolist() == [1, 4]
    for side in (split.members, split.others):
        assert torch.equal(side.data.edge_index, PARTS.edge_index)
        assert torch.equal(side.data.x, PARTS.x)


def test_members_are_half_of_what_is_told_apart():
    source = check_source(PARTS)
    assert int(random_members(source, 'node', 0).sum()) == 2
    mask = random_members(source, 'frozen_record', 0)
    assert int(mask.sum()) == 2 and not bool(mask[3])


@pytest.mark.parametrize(
    'members, unit, message',
    [
        (MEMBERS, 'edge', "got 'edge'"),
        (MEMBERS[:3], 'node', r'5 nodes .*\[3\]'),
        (MEMBERS.long(), 'node', 'int64'),
        (torch.ones(5, dtype=torch.bool), 'node', "is outside of 'members'"),
        (torch.arange(5) == 3, 'frozen_record', 'is a member'),
    ],
)
def test_bad_input(members, unit, message):
    with pytest.raises((ValueError, SourceError), match=message):
        split_members(check_source(PARTS), members, unit)


def test_edges_are_held_out_in_both_directions():
    edges = torch.combinations(torch.arange(12)).t()
    data = Data(
        x=torch.eye(12), edge_index=torch.cat([edges, edges.flip(0)], 1), y=torch.arange(12) % 2
    )
    split = split_members(check_source(data), torch.arange(12) < 10)
    held = hold_out_edges(split, 0.2, seed=0)
    assert held.held_out.shape == (9, 2)  # of 45 pairs
    left = undirected_pairs(held.members.data)
    assert len(left) == 36 and held.members.data.num_edges == 72
    both = {tuple(pair) for pair in left.tolist()} | {tuple(p) for p in held.held_out.tolist()}
    assert len(both) == 45 and torch.equal(
        held.others.data.edge_index, split.others.data.edge_index
    )
