import torch

from tests.helpers.attacked import records
from tests.helpers.graphs import random_graph
from torch_geometric_cgt.audit.records import Records, nearest_codeword, records_of, take_rows
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.pipeline.source import check_source


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
    source, shape = check_source(random_graph(60, 120)), TreeShape((3, 2))
    data, root = source.data, torch.tensor([5, 7, 40])
    rng = torch.Generator().manual_seed(0)
    codebook = data.x[:9]
    found = records_of(source, root, codebook, shape, 2, rng)
    assert [draw.tokens.shape for draw in found.draws] == [(3, shape.num_slots)] * 2
    for draw in found.draws:
        draw.validate()
        assert (draw.num_tokens, draw.num_classes, draw.shape) == (9, source.num_classes, shape)
    nearest = nearest_codeword(data.x, codebook)[0]
    assert [draw.tokens[:, 0].tolist() for draw in found.draws] == [nearest[root].tolist()] * 2
    degree = torch.bincount(data.edge_index[1], minlength=60)
    assert found.degree.tolist() == degree[root].tolist()
    own = torch.arange(60) % 9
    given = records_of(source, root, codebook, shape, 1, rng, cluster=own)
    assert given.draws[0].tokens[:, 0].tolist() == own[root].tolist()
    both = Records.cat([given, records_of(source, root[1:], codebook, shape, 1, rng)])
    assert both.y.tolist() == data.y[root[[0, 1, 2, 1, 2]]].tolist() and len(both) == 5
    assert torch.equal(both.draws[0].tokens[:3], given.draws[0].tokens)


def test_all_trees_follow_sample_by_sample():
    known = records(
        [[[0, 1, 2, 2, 3], [1, 3, 3, 3, 3]], [[0, 2, 3, 3, 3], [1, 1, 3, 3, 3]]], [0, 1]
    )
    trees = known.all_trees()
    assert trees.tokens.tolist() == [
        draw.tokens[i].tolist() for draw in known.draws for i in (0, 1)
    ]
    assert trees.y.tolist() == [0, 1, 0, 1] and len(trees) == trees.split.numel() == 4
