import pytest
import torch

from torch_geometric_cgt.data import LazyForest, TokenTrees, TreeShape


def random_trees(fan_outs, n=50, num_tokens=4, seed=0):
    shape = TreeShape.of(fan_outs)
    rng = torch.Generator().manual_seed(seed)
    tokens = torch.randint(num_tokens + 1, (n, shape.num_slots), generator=rng)
    tokens[:, 0] = tokens[:, 0].clamp(max=num_tokens - 1)
    for slot in range(1, shape.num_slots):  # nothing below null
        above = tokens[:, shape.parent[slot]]
        tokens[:, slot] = torch.where(above == num_tokens, num_tokens, tokens[:, slot])
    return TokenTrees(tokens.int(), torch.zeros(n), torch.ones(n).long(), num_tokens, 1, shape)


@pytest.mark.parametrize('fan_outs', [[3], [3, 2], [1, 4], [2, 2, 2], [2, 1, 2, 3]])
def test_arithmetic_gives_the_forest_that_is_held(fan_outs):
    trees = random_trees(fan_outs)
    held, lazy = trees.forest(), LazyForest.of(trees)
    node = torch.randperm(held.num_nodes, generator=torch.Generator().manual_seed(1))
    assert lazy.num_nodes == held.num_nodes and torch.equal(lazy.root, held.root)
    tree, local = held.slot // trees.shape.num_slots, held.slot % trees.shape.num_slots
    assert torch.equal(lazy.tree_of(node), tree[node])
    assert torch.equal(lazy.token_of(node), trees.tokens.long()[tree, local][node])

    child, parent = held.edge_index
    assert torch.equal(lazy.edge_of(child), torch.arange(child.numel()))
    first, degree = lazy.children(node)
    assert torch.equal(degree, torch.bincount(parent, minlength=held.num_nodes)[node])
    has = degree > 0
    expected = torch.full((held.num_nodes,), held.num_nodes).scatter_reduce(
        0, parent, child, 'amin'
    )
    assert torch.equal(first[has], expected[node][has])


def test_children_of_a_slot_are_a_range_of_slots():
    shape = TreeShape.of([2, 3, 1])
    begin, end = shape.children
    for slot in range(shape.num_slots):
        expected = (shape.parent == slot).nonzero().view(-1).tolist()
        assert list(range(int(begin[slot]), int(end[slot]))) == expected


def test_no_trees():
    trees = random_trees([2], n=0)
    assert LazyForest.of(trees).num_nodes == 0
