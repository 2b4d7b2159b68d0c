"""Networks of the zoo are PyG's layers on the whole forest, read at the roots."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn import GCNConv

from tests.helpers.zoo import easy_trees
from torch_geometric_cgt.benchmark.tree_batches import TreeBatch
from torch_geometric_cgt.benchmark.zoo_models import FLOOR, MAKERS, PLAIN, ZOO
from torch_geometric_cgt.data.token_trees import SparseRows


def on_the_whole_graph(model, batch):
    """The logits without dropping nodes that are too deep, with PyG's own normalisation."""
    edge_index, weight = batch.edges.edge_index, batch.edges.weight
    h = first = model.inputs(batch, batch.max_depth)
    for i, conv in enumerate(model.convs):
        if model.kind.startswith('gcn'):
            conv.normalize, conv.add_self_loops = True, True
        if model.kind == 'mean':
            h = conv(h, edge_index, weight)
        elif model.kind == 'gcn2':
            h = conv(h, first, edge_index)
        else:
            h = conv(h, edge_index)
        if i + 1 < len(model.convs) or model.out is not None:
            h = h.relu()
    return (h if model.out is None else model.out(h))[: batch.num_nodes[0]]


def test_the_zoo_is_wide():
    assert len(ZOO) >= 17 and set(FLOOR) < set(ZOO) and not set(PLAIN) & set(ZOO)


@pytest.mark.parametrize('fan_outs', [(3,), (3, 2), (2, 2, 2)], ids=str)
@pytest.mark.parametrize('name', [name for name in MAKERS if name not in FLOOR])
@torch.no_grad()
def test_logits_are_those_on_the_whole_graph(name, fan_outs):
    batch = TreeBatch(easy_trees(30, fan_outs=fan_outs), torch.arange(30))
    torch.manual_seed(0)
    model = MAKERS[name](8, 3, 0.5).eval()
    ours = model(batch)
    assert ours.shape == (30, 3)
    assert torch.allclose(ours, on_the_whole_graph(model, batch), atol=1e-5)


@torch.no_grad()
def test_the_perceptron_sees_the_root_and_children_see_no_root():
    trees = easy_trees(30)
    rows = torch.arange(30)

    def changed(slots):
        tokens = trees.tokens.clone()
        tokens[:, slots] = torch.where(trees.real[:, slots], 5, trees.num_tokens)
        return TreeBatch(replace(trees, tokens=tokens), rows)

    torch.manual_seed(0)
    for name, ignored in [('MLP', slice(1, None)), ('Children', 0), ('GCN-1', slice(4, None))]:
        model = MAKERS[name](8, 3, 0.5).eval()
        expected = model(TreeBatch(trees, rows))
        assert torch.allclose(model(changed(ignored)), expected, atol=1e-6)
        assert not torch.allclose(model(changed(slice(0, None))), expected, atol=1e-3)


def test_gradients_of_sparse_features():
    trees = easy_trees(20)
    rows, x = torch.arange(20), trees.x.relu()
    sparse = TreeBatch(replace(trees, x=SparseRows.from_matrix(x)), rows)
    torch.manual_seed(0)
    model = MAKERS['GCN'](8, 3, 0.0)
    model.inputs.scale.fill_(3.0)
    found = []
    for batch in (TreeBatch(replace(trees, x=x), rows), sparse):
        model.zero_grad()
        F.cross_entropy(model(batch), batch.y).backward()
        found.append(model.inputs.lin.weight.grad.clone())
    assert torch.allclose(*found, atol=1e-6) and found[0].abs().max() > 0


def test_layers_are_those_of_pyg():
    model = MAKERS['GCN'](8, 3, 0.5)
    assert all(type(conv) is GCNConv for conv in model.convs)
    widths = [MAKERS[name](8, 3, 0.5).convs[0].in_channels for name in ZOO if 'GCN-' in name]
    assert len(set(widths)) == 3
