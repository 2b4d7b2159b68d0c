import pytest
import torch
from torch_geometric.data import Data

from tests.helpers.attacked import source
from torch_geometric_cgt.audit import neighbour_of
from torch_geometric_cgt.audit.neighbours import undirected_pairs, zero_out_records
from torch_geometric_cgt.pipeline.source import check_source

DATA = Data(
    x=torch.arange(1.0, 9.0).view(4, 2),
    edge_index=torch.tensor([[0, 1, 1, 2, 3, 3], [1, 0, 2, 1, 2, 3]]),
    y=torch.tensor([0, 1, 2, -1]),
)


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
