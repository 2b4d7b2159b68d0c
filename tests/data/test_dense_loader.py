"""Dense batches: their content, their last batch, and that shapes never change."""

from dataclasses import replace

import pytest
import torch
import torch._dynamo
import torch.nn.functional as F
from torch._dynamo.testing import CompileCounter

from torch_geometric_cgt.data import (
    DenseBatch,
    DenseLoader,
    EdgeForm,
    EdgeValues,
    TokenTrees,
    TreeShape,
)
from torch_geometric_cgt.nn import AttentionConv, SumConv, TreeGCNConv, TreeGNN

SHAPE = TreeShape((2, 2))
CODEBOOK = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def trees() -> TokenTrees:
    rng = torch.Generator().manual_seed(1)
    tokens = torch.randint(5, (10, 7), generator=rng)
    tokens[::2, 2] = tokens[::2, 5:] = 5  # the second child of every other tree is null
    split = torch.ones(10, dtype=torch.long)
    return TokenTrees(tokens.to(torch.uint8), torch.arange(10) % 3, split, 5, 3, SHAPE)


def test_batches_hold_the_trees_and_the_last_one_is_padded(trees):
    loader = DenseLoader(trees, CODEBOOK, torch.arange(10), batch_size=4)
    batches = list(loader)
    assert len(loader) == len(batches) == 3
    assert all(batch.tokens.shape == (4, 7) and batch.y.shape == (4,) for batch in batches)
    tokens = torch.cat([batch.tokens for batch in batches])
    assert torch.equal(tokens[:10], trees.tokens.long()) and (tokens[10:] == 5).all()
    last = batches[-1]
    assert last.tree_mask.tolist() == [True, True, False, False]
    assert last.y[2:].tolist() == [-100, -100] and not last.mask[2:].any()
    logits = torch.randn(4, 3)
    assert F.cross_entropy(logits, last.y) == F.cross_entropy(logits[:2], last.y[:2])


def test_features_are_rows_of_the_codebook_and_zero_where_null(trees):
    batch = next(iter(DenseLoader(trees, CODEBOOK, torch.arange(10), batch_size=10)))
    assert batch.x.shape == (10, 7, 4)
    assert torch.equal(batch.x[1], CODEBOOK[trees.tokens[1].long()])
    assert (batch.x[0, 2] == 0).all() and torch.equal(batch.mask, trees.real)
    moved = batch.to('meta')
    assert moved.tokens.is_meta and moved.codebook.is_meta and moved.shape is SHAPE


def with_edges(trees: TokenTrees, edge_values: EdgeValues) -> TokenTrees:
    has_edge = trees.real.clone()
    has_edge[:, 0] = False
    tokens = torch.randint(2, has_edge.shape, generator=torch.Generator().manual_seed(2))
    tokens = tokens.masked_fill(~has_edge, 2).to(torch.uint8)
    return replace(trees, edge_tokens=tokens, edge_values=edge_values)


def test_edge_values_belong_to_the_edge_to_the_parent(trees):
    table = torch.tensor([[0.5, 1.0, 2.0], [0.25, 3.0, 4.0]], dtype=torch.float64)
    trees = with_edges(trees, EdgeValues(table, EdgeForm('float32', 'int64', 2)))
    *_, last = batches = list(DenseLoader(trees, CODEBOOK, torch.arange(10), batch_size=4))
    weight = torch.cat([batch.edge_weight for batch in batches])
    attr = torch.cat([batch.edge_attr for batch in batches])
    assert weight.shape == (12, 7) and attr.shape == (12, 7, 2) and attr.dtype == torch.long
    assert (weight[:, 0] == 0).all() and (weight[10:] == 0).all() and (attr[10:] == 0).all()
    data, has_edge = trees.to_data(CODEBOOK), trees.edge_tokens != 2
    child = trees.forest().slot[data.edge_index[0]]  # the slot of each edge
    assert torch.equal(weight[:10].flatten()[child], data.edge_weight)
    assert torch.equal(attr[:10].flatten(0, 1)[child], data.edge_attr)
    assert int((weight != 0).sum()) == data.num_edges == int(has_edge.sum())
    moved = last.to('meta')
    assert moved.edge_weight.is_meta and moved.edge_attr.is_meta


def test_edge_values_are_absent_where_the_release_has_none(trees):
    batch = next(iter(DenseLoader(trees, CODEBOOK, torch.arange(10))))
    assert batch.edge_tokens is batch.edge_weight is batch.edge_attr is None
    form = EdgeForm(None, 'float32')
    trees = with_edges(trees, EdgeValues(torch.tensor([[1.0], [2.0]]).double(), form))
    batch = next(iter(DenseLoader(trees, CODEBOOK, torch.arange(10), batch_size=10)))
    assert batch.edge_weight is None and batch.edge_attr.shape == (10, 7)


def test_drop_last_and_order(trees):
    loader = DenseLoader(trees, CODEBOOK, torch.arange(10), 4, drop_last=True)
    assert len(loader) == len(list(loader)) == 2
    orders = []
    for seed in (0, 0, 1):
        rng = torch.Generator().manual_seed(seed)
        shuffled = DenseLoader(trees, CODEBOOK, torch.arange(10), 10, True, generator=rng)
        orders.append(next(iter(shuffled)).tokens)
    assert torch.equal(orders[0], orders[1]) and not torch.equal(orders[0], orders[2])
    with pytest.raises(ValueError, match=r"'batch_size' must be at least 1 \(got 0\)"):
        DenseLoader(trees, CODEBOOK, torch.arange(10), 0)


def compilations(model: TreeGNN, batches: list[DenseBatch]) -> int:
    """How often a network is compiled while it trains on batches, as one graph each time."""
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(model, dynamic=False, fullgraph=True, backend=counter)
    for batch in batches:
        F.cross_entropy(compiled(batch.codebook, batch.tokens), batch.y).backward()
    return counter.frame_count


@pytest.mark.parametrize(
    'convs',
    [
        lambda: [TreeGCNConv(4, 8), TreeGCNConv(8, 3)],
        lambda: [SumConv(4, 8, 8), SumConv(8, 8, 3)],
        lambda: [AttentionConv(4, 8, 2), AttentionConv(8, 3)],
    ],
    ids=['GCN', 'GIN', 'GAT'],
)
def test_a_network_is_compiled_once(trees, convs):
    model = TreeGNN(convs(), SHAPE)
    batches = list(DenseLoader(trees, CODEBOOK, torch.arange(10), batch_size=4))
    assert compilations(model, batches) == 1
    ragged = DenseBatch(batches[0].tokens[:3], batches[0].y[:3], CODEBOOK, SHAPE)
    assert compilations(model, [*batches, ragged]) == 2  # the counter sees another shape
