import pytest
import torch
from torch_geometric.data import Data

from torch_geometric_cgt.audit.member_split import hold_out_edges, random_members, split_members
from torch_geometric_cgt.audit.neighbours import undirected_pairs
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.pipeline.source import check_source

DATA = Data(
    x=torch.arange(10.0).view(5, 2),
    edge_index=torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 2]]),
    y=torch.tensor([0, 1, 2, -1, 0]),
    train_mask=torch.tensor([True, False, True, False, False]),
)
MEMBERS = torch.tensor([True, False, True, True, False])


def test_parts_by_node_share_nothing():
    split = split_members(check_source(DATA), MEMBERS, 'node')
    members, others = split.members, split.others
    assert members.data.x.tolist() == DATA.x[[0, 2, 3]].tolist()
    assert members.data.edge_index.tolist() == [[1, 0], [2, 1]]  # 2 to 3 and 0 to 2
    assert members.data.y.tolist() == [0, 2, -1] and members.split.tolist() == [1, 1, 0]
    assert others.data.x.tolist() == DATA.x[[1, 4]].tolist()
    assert others.data.edge_index.numel() == 0
    assert members.num_classes == others.num_classes == 3


def test_parts_by_record_share_the_graph():
    split = split_members(check_source(DATA), MEMBERS, 'frozen_record')
    assert split.members.root.tolist() == [0, 2] and split.others.root.tolist() == [1, 4]
    for side in (split.members, split.others):
        assert torch.equal(side.data.edge_index, DATA.edge_index)
        assert torch.equal(side.data.x, DATA.x)


def test_members_are_half_of_what_is_told_apart():
    source = check_source(DATA)
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
        split_members(check_source(DATA), members, unit)


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
