"""VGAE: its bound falls, and the graphs that it generates approach the source."""

import json
import time

import pytest
import torch

from torch_geometric_cgt.baselines import BASELINES, VGAE
from torch_geometric_cgt.baselines import vgae as module
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.errors import OutOfTime
from torch_geometric_cgt.models import FitContext, TokenGraph, TreeSource
from torch_geometric_cgt.utils.run_limits import Limits

NUM_TOKENS, NUM_CLASSES, NUM_NODES = 6, 2, 300
SHAPE = TreeShape.of([3, 2])
LABELS = torch.arange(1000) % NUM_CLASSES


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def toy_graph():
    """Label 0 has tokens 0 to 2, label 1 has tokens 3 to 5. Nine of ten edges stay in a label.
    Every tenth node has no label."""
    group = torch.arange(NUM_NODES) % 2
    token = torch.randint(3, (NUM_NODES,), generator=rng()) + 3 * group
    chance = torch.where(group[:, None] == group, 0.036, 0.004)
    edge = (torch.rand(chance.shape, generator=rng(1)) < chance).triu(1).nonzero().t()
    y = group.clone()
    y[::10] = -1
    return TokenGraph(token, y, torch.cat([edge, edge.flip(0)], dim=1))


def toy_source():
    graph = toy_graph()
    y = graph.y.clamp(min=0)
    return TreeSource(None, y, y, NUM_TOKENS, NUM_CLASSES, SHAPE, graph=graph)


def fit(num_steps, seed=0):
    model = VGAE(NUM_TOKENS, NUM_CLASSES, [3, 2], 16, 8, num_steps, lr=0.02)
    return model, model.fit(toy_source(), FitContext(seed=seed))


@pytest.fixture(scope='module')
def trained():
    return fit(200)


def homophily(graph):
    label = graph.token // 3
    return float((label[graph.edge_index[0]] == label[graph.edge_index[1]]).float().mean())


def agreement(graph):
    """How many labelled nodes have a token of their label."""
    known = graph.y >= 0
    return float((graph.token // 3 == graph.y)[known].float().mean())


def test_generated_graphs_approach_the_source(trained):
    model, history = trained
    assert history['loss'][-1] < 0.8 * history['loss'][0]
    source, found, other = toy_graph(), model.generate(rng()), fit(1)[0].generate(rng())
    assert found.num_nodes == NUM_NODES
    assert agreement(found) > 0.9 > 0.7 > agreement(other)
    assert abs(homophily(found) - homophily(source)) < 0.15 < homophily(source) - homophily(other)
    assert abs((found.y < 0).float().mean() - 0.1) < 0.06


def test_the_number_of_edges_is_calibrated(trained):
    model = trained[0]
    counts = torch.tensor([model.generate(rng(i)).edge_index.size(1) for i in range(20)])
    assert abs(counts.float().mean() / toy_graph().edge_index.size(1) - 1) < 0.1


@pytest.mark.parametrize('num_values', [1 << 24, 100, 4])
def test_edges_are_drawn_in_blocks(monkeypatch, num_values):
    monkeypatch.setattr(module, 'MAX_VALUES', num_values)
    model = VGAE(2, 2, [2], latent_channels=3)
    model.bias.fill_(-0.5)
    z, count = torch.randn(7, 3, generator=rng()), torch.zeros(7, 7)
    generator = rng(1)
    for _ in range(1000):
        edge_index = model.draw_edges(z, generator)
        count[edge_index[0], edge_index[1]] += 1
    assert torch.equal(count, count.t())
    expected = (z @ z.t() - 0.5).sigmoid().fill_diagonal_(0.0)
    assert (count / 1000 - expected).abs().max() < 0.06


def test_trees_are_those_of_the_generated_graph(trained):
    tokens = trained[0].sample(LABELS, rng())
    assert tokens.shape == (1000, SHAPE.num_slots) and SHAPE.check_nulls(tokens < NUM_TOKENS)
    assert (tokens == NUM_TOKENS).any()
    assert (tokens[:, 0] // 3 == LABELS).float().mean() > 0.85


def test_configuration_and_weights_make_the_same_model(trained):
    model = trained[0]
    assert BASELINES['VGAE'] is VGAE
    again = VGAE(**json.loads(json.dumps(model.config())))
    again.load_state_dict(model.state_dict())
    assert again.config() == model.config()
    assert torch.equal(again.sample(LABELS, rng()), model.sample(LABELS, rng()))
    one, other = again.generate(rng(5)), model.generate(rng(5))  # and generates the same graphs
    assert torch.equal(one.token, other.token) and torch.equal(one.edge_index, other.edge_index)


def test_the_seed_decides():
    one, same, other = (fit(5, seed)[0].sample(LABELS, rng()) for seed in (0, 0, 1))
    assert torch.equal(one, same) and not torch.equal(one, other)


def test_a_limit_of_time_ends_training_and_generation(trained):
    model = VGAE(NUM_TOKENS, NUM_CLASSES, [3, 2], num_steps=10**9)
    start = time.monotonic()
    with pytest.raises(OutOfTime):
        model.fit(toy_source(), FitContext(limits=Limits(seconds=0.1)))
    model.limits = Limits(seconds=1e-9)
    with pytest.raises(OutOfTime):
        model.draw_edges(torch.zeros(10, 16), rng())
    assert time.monotonic() - start < 10


def test_large_vocabularies_are_decoded_at_random_nodes(monkeypatch):
    model = VGAE(NUM_TOKENS, NUM_CLASSES, [2], latent_channels=3)
    graph, z = toy_graph(), torch.randn(NUM_NODES, 3, generator=rng())
    whole = model.decoding_loss(z, graph.token, graph.y, rng())
    monkeypatch.setattr(module, 'MAX_VALUES', 20 * NUM_TOKENS)
    parts = [model.decoding_loss(z, graph.token, graph.y, rng(i)) for i in range(200)]
    assert len({float(part.detach()) for part in parts}) > 100
    torch.testing.assert_close(torch.stack(parts).mean(), whole, rtol=0.02, atol=0.0)


def test_a_graph_without_edges_has_none():
    graph = TokenGraph(torch.arange(6), torch.arange(6) % 2, torch.empty(2, 0, dtype=torch.long))
    source = TreeSource(None, graph.y, graph.y, 6, 2, SHAPE, graph=graph)
    model = VGAE(6, 2, [3, 2], 8, 4, num_steps=2)
    model.fit(source)
    assert model.generate(rng()).edge_index.numel() == 0
