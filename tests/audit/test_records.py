import torch

from tests.conftest import random_graph
from torch_geometric_cgt.audit.halves import take_rows
from torch_geometric_cgt.audit.records import Records, nearest_codeword, records_of
from torch_geometric_cgt.data import TreeShape


def test_nearest_codeword_by_hand():
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0], [1.0, 0.0]])
    index, distance = nearest_codeword(x, torch.tensor([[1.0, 0.0], [3.0, 3.0]]))
    assert index.tolist() == [0, 1, 0] and torch.allclose(distance, torch.tensor([1.0, 1.0, 0.0]))


def test_sparse_features_give_the_same():
    rng = torch.Generator().manual_seed(0)
    x = torch.rand(50, 20, generator=rng) * (torch.rand(50, 20, generator=rng) < 0.2)
    codebook = torch.rand(7, 20, generator=rng)
    index, distance = nearest_codeword(x, codebook)
    for sparse in (x.to_sparse_coo(), x.to_sparse_csr()):
        other_index, other_distance = nearest_codeword(sparse, codebook)
        assert torch.equal(other_index, index)
        assert torch.allclose(other_distance, distance, atol=1e-5)
        rows = take_rows(sparse, torch.tensor([3, 3, 0]))
        assert rows.layout == sparse.layout and torch.equal(rows.to_dense(), x[[3, 3, 0]])


def test_records_are_trees_of_their_roots():
    data, shape = random_graph(60, 120), TreeShape((3, 2))
    root, rng = torch.tensor([5, 7, 40]), torch.Generator().manual_seed(0)
    codebook = data.x[:9]
    found = records_of(data, root, codebook, shape, 2, rng)
    assert found.tokens.shape == (2, 3, shape.num_slots)
    nearest = nearest_codeword(data.x, codebook)[0]
    assert found.tokens[:, :, 0].tolist() == [nearest[root].tolist()] * 2
    degree = torch.bincount(data.edge_index[1], minlength=60)
    assert found.degree.tolist() == degree[root].tolist()
    own = torch.arange(60) % 9
    given = records_of(data, root, codebook, shape, 1, rng, cluster=own)
    assert given.tokens[0, :, 0].tolist() == own[root].tolist()
    both = Records.cat([given, records_of(data, root[1:], codebook, shape, 1, rng)])
    assert both.y.tolist() == data.y[root[[0, 1, 2, 1, 2]]].tolist() and len(both) == 5
    assert torch.equal(both.tokens[:, :3], given.tokens)
