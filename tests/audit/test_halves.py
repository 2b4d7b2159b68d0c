import pytest
import torch
from torch_geometric.data import Data

from torch_geometric_cgt.audit.halves import halve, random_members
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.pipeline.source import check_source

DATA = Data(
    x=torch.arange(10.0).view(5, 2),
    edge_index=torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 2]]),
    y=torch.tensor([0, 1, 2, -1, 0]),
    train_mask=torch.tensor([True, False, True, False, False]),
)
MEMBERS = torch.tensor([True, False, True, True, False])


def test_halves_of_nodes_share_nothing():
    halves = halve(check_source(DATA), MEMBERS, 'node')
    inside, outside = halves.inside, halves.outside
    assert inside.data.x.tolist() == DATA.x[[0, 2, 3]].tolist()
    assert inside.data.edge_index.tolist() == [[1, 0], [2, 1]]  # 2 to 3 and 0 to 2
    assert inside.data.y.tolist() == [0, 2, -1] and inside.split.tolist() == [1, 1, 0]
    assert outside.data.x.tolist() == DATA.x[[1, 4]].tolist()
    assert outside.data.edge_index.numel() == 0
    assert inside.num_classes == outside.num_classes == 3


def test_halves_of_records_share_the_graph():
    halves = halve(check_source(DATA), MEMBERS, 'record')
    assert halves.inside.root.tolist() == [0, 2] and halves.outside.root.tolist() == [1, 4]
    for side in (halves.inside, halves.outside):
        assert torch.equal(side.data.edge_index, DATA.edge_index)
        assert torch.equal(side.data.x, DATA.x)


def test_members_are_half_of_what_is_told_apart():
    source = check_source(DATA)
    assert int(random_members(source, 'node', 0).sum()) == 2
    mask = random_members(source, 'record', 0)
    assert int(mask.sum()) == 2 and not bool(mask[3])


@pytest.mark.parametrize(
    'members, unit, message',
    [
        (MEMBERS, 'edge', "got 'edge'"),
        (MEMBERS[:3], 'node', r'5 nodes .*\[3\]'),
        (MEMBERS.long(), 'node', 'int64'),
        (torch.ones(5, dtype=torch.bool), 'node', 'is outside'),
        (torch.arange(5) == 3, 'record', 'is a member'),
    ],
)
def test_bad_input(members, unit, message):
    with pytest.raises((ValueError, SourceError), match=message):
        halve(check_source(DATA), members, unit)
