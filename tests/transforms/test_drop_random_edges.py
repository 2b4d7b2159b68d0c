import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import is_undirected, to_undirected

from tests.helpers.edges import edge_set
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.transforms import DropRandomEdges


@pytest.mark.parametrize('share, left', [(0.0, 3), (0.34, 2), (0.5, 1), (1.0, 0)])
def test_deleted_edges_take_both_directions_and_their_attributes(share, left):
    edge_index = to_undirected(torch.tensor([[0, 1, 2], [1, 2, 3]]))
    weight = (10 * edge_index.min(dim=0).values + edge_index.max(dim=0).values).float()
    data = Data(edge_index=edge_index, edge_attr=weight, num_nodes=4)
    out = DropRandomEdges(share)(data)
    assert out.num_edges == 2 * left and is_undirected(out.edge_index)
    assert edge_set(out) <= edge_set(data)
    ends = out.edge_index
    assert torch.equal(
        out.edge_attr, (10 * ends.min(dim=0).values + ends.max(dim=0).values).float()
    )


def test_deletion_is_uniform():
    data = Data(edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), num_nodes=4)
    kept = torch.zeros(4)
    for seed in range(400):
        kept[DropRandomEdges(0.5, seed)(data).edge_index[0]] += 1
    assert (kept - 200).abs().max() < 50


@pytest.mark.parametrize(
    'make, error, message',
    [
        (lambda: DropRandomEdges(50), ValueError, r"'share' must lie between 0 and 1 .got 50"),
        (lambda: DropRandomEdges(0.5)(Data(num_nodes=2)), SourceError, r"no 'edge_index'"),
    ],
)
def test_wrong_input(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_repr():
    assert repr(DropRandomEdges(0.5, seed=1)) == 'DropRandomEdges(share=0.5, seed=1)'
