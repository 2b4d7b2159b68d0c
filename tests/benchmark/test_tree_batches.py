import pytest
import torch

from tests.helpers.zoo import easy_trees
from torch_geometric_cgt.benchmark.tree_batches import Table, TreeBatch
from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.data.token_trees import SparseRows

# Two trees of the shape [2, 2]; 3 is null. The first one has the token 1 three times.
TOKENS = torch.tensor([[1, 1, 0, 2, 1, 3, 3], [2, 3, 0, 3, 3, 0, 3]])


def two_trees(x=None):
    x = torch.arange(6.0).view(3, 2) if x is None else x
    y, split = torch.tensor([0, 1]), torch.tensor([1, 4])
    return TokenTrees(TOKENS, y, split, 3, 2, TreeShape.of([2, 2]), x)


def test_every_real_slot_is_one_node():
    batch = TreeBatch(two_trees(), torch.tensor([0, 1]))
    assert batch.num_nodes == (2, 5, 8)  # null slots are not nodes
    x = batch.table(2).rows[batch.token]
    # Roots, then children, then grandchildren, each tree by tree. Equal tokens are not merged.
    assert x[:, 0].tolist() == [2, 4, 2, 0, 0, 4, 2, 0]
    assert batch.edges.edge_index.tolist() == [[2, 3, 4, 5, 6, 7], [0, 0, 1, 2, 2, 4]]
    assert batch.edges.weight.tolist() == [0.5, 0.5, 1, 0.5, 0.5, 1]
    assert batch.y.tolist() == [0, 1]


def test_tables_hold_the_tokens_of_the_first_layers_only():
    batch = TreeBatch(two_trees(), torch.tensor([0, 1]))
    assert [batch.table(depth).rows.size(0) for depth in (0, 1, 2, 9)] == [2, 3, 3, 3]
    assert batch.table(0).rows[batch.token[:2]].tolist() == [[2, 3], [4, 5]]
    only = TreeBatch(two_trees(), torch.tensor([1]))
    assert only.table(2).rows.size(0) == 2 and only.y.tolist() == [1]


def test_edges_into_the_first_layers():
    batch = TreeBatch(two_trees(), torch.tensor([0, 1]))
    index, weight = batch.edges.into(0)
    assert index.tolist() == [[2, 3, 4], [0, 0, 1]] and weight.tolist() == [0.5, 0.5, 1]
    assert batch.edges.into(1)[0].size(1) == 6
    dense = batch.edges.adjacency(0, 5).to_dense()
    assert dense.tolist() == [[0, 0, 0.5, 0.5, 0], [0, 0, 0, 0, 1]]


def test_weights_of_a_gcn_by_hand():
    batch = TreeBatch(two_trees(), torch.tensor([1]))  # root, child, grandchild
    matrix = batch.gcn_edges.adjacency(2, 3).to_dense()
    # Degrees with self-loops: 2, 2, 1.
    expected = [[0.5, 0.5, 0], [0, 0.5, 0.5**0.5], [0, 0, 1]]
    assert torch.allclose(matrix, torch.tensor(expected))


def test_sparse_and_dense_tables_agree():
    x = torch.tensor([[0, 2.0, 0], [1, 0, 0], [0, 3, 4]])
    table = Table(SparseRows.from_matrix(x))
    assert torch.equal(table.dense, x)
    assert torch.equal(Table(table.transposed).dense, x.t())
    with pytest.raises(ValueError, match='dense'):
        _ = Table(x).transposed


def test_a_batch_of_all_trees_has_all_slots():
    trees = easy_trees()
    batch = TreeBatch(trees, torch.arange(len(trees)))
    assert batch.token.numel() == int(trees.real.sum())
    assert batch.edges.edge_index.size(1) == int(trees.real.sum()) - len(trees)
