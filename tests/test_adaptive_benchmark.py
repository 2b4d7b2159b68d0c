"""What the benchmark of chosen tables charges is what it runs."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import chi2, chisquare, norm

from tests.helpers.graphs import random_graph
from torch_geometric_cgt.models import TokenGraph
from torch_geometric_cgt.models.edge_counts import EdgeCaps, EdgeCounter
from torch_geometric_cgt.privacy import Ledger, Queries

PROGRAM = Path(__file__).parents[1] / 'benchmarks' / 'adaptive_tables.py'
spec = importlib.util.spec_from_file_location('adaptive_tables', PROGRAM)
program = importlib.util.module_from_spec(spec)
spec.loader.exec_module(program)
CAPS = EdgeCaps.of(400)


def probabilities(scores, scale):
    weight = np.exp((scores - scores.max()) / scale)
    return weight / weight.sum()


def hockey_stick(p, q, epsilon):
    return np.maximum(p - np.exp(epsilon) * q, 0).sum()


def gaussian_delta(mu, epsilon):
    return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize('sigma', [0.2, 1.0, 7.0])
def test_a_choice_costs_no_more_than_its_gaussian_noise(sigma):
    rng, scale = np.random.default_rng(0), program.choice_scale(sigma)
    for size in (2, 3, 7) * 100:
        scores = rng.normal(scale=2 * scale, size=size)
        # Most of the time, each score moves by the whole sensitivity.
        other = scores + np.where(rng.random(size) < 0.2, rng.uniform(-1, 1, size), 1.0) * (
            rng.choice([-1, 1], size)
        )
        p, q = probabilities(scores, scale), probabilities(other, scale)
        for epsilon in np.linspace(0, 3 / sigma, 7):
            assert hockey_stick(p, q, epsilon) <= gaussian_delta(1 / sigma, epsilon) + 1e-12


@pytest.mark.parametrize('sigma', [0.2, 1.0, 7.0])
def test_no_smaller_price_of_a_choice_is_right(sigma):
    scale, scores = program.choice_scale(sigma), np.array([0.5, -0.5])  # both move by one
    p, q = probabilities(scores, scale), probabilities(-scores, scale)
    assert hockey_stick(p, q, 0.0) == pytest.approx(gaussian_delta(1 / sigma, 0.0), rel=1e-9)
    # A sensitivity that is stated too small is found.
    p, q = probabilities(1.2 * scores, scale), probabilities(-1.2 * scores, scale)
    assert hockey_stick(p, q, 0.0) > 1.005 * gaussian_delta(1 / sigma, 0.0)


def test_candidates_are_drawn_with_their_probabilities():
    scores, scale = torch.tensor([3.0, 2.5, 0.0, 2.9, -400.0]), 0.7
    rng = torch.Generator().manual_seed(0)
    drawn = torch.tensor([program.choose(scores, scale, rng) for _ in range(1500)])
    found = torch.bincount(drawn, minlength=5).numpy()
    expected = 1500 * probabilities(scores.numpy().astype(float), scale)
    assert found[4] == 0
    assert chisquare(found[:4], expected[:4] / expected[:4].sum() * found.sum()).pvalue > 1e-3


def with_hub():
    graph = random_graph(400, 900)
    hub = torch.arange(1, 200)
    edges = torch.stack([hub, torch.zeros_like(hub)])
    edge_index = torch.cat([graph.edge_index, edges, edges.flip(0)], dim=1)
    token = 2 * graph.y + (graph.x[:, 0] > 0).long()
    return TokenGraph(token, graph.y, edge_index)


def without(graph, node):
    keep = (graph.edge_index != node).all(dim=0)
    y = graph.y.clone()
    y[node] = -1
    return replace(graph, y=y, edge_index=graph.edge_index[:, keep])


def tables(graph):
    agrees = graph.token // 2 == graph.y
    counter = EdgeCounter(graph.edge_index, graph.y, 3, CAPS)
    return program.candidates(counter, agrees, 0.9, 5, 3)


def test_no_node_changes_a_candidate_or_its_score_by_more_than_the_bound():
    graph = with_hub()
    base = tables(graph)
    rng = torch.Generator().manual_seed(0)
    predicted = [torch.rand(c.exact.numel(), generator=rng) * c.exact.max() for c in base]
    largest = {}
    for node in [0, *range(200, 400, 14)]:
        for one, two, guess in zip(base, tables(without(graph, node)), predicted, strict=True):
            change = float((one.exact - two.exact).double().norm()) * one.unit / one.change
            score = abs(one.error(guess) - two.error(guess))
            assert score <= change + 1e-9
            largest[one.name] = max(largest.get(one.name, 0.0), change)
    assert len(largest) == 7 and max(largest.values()) <= 1
    assert min(largest.values()) > 0.3  # so that half a bound would be noticed


def test_the_ledger_pays_for_every_round():
    graph, cost = with_hub(), 0.8
    entries = program.plan_adaptive(CAPS, cost)
    spent = sum(e.noise.concentrated(e.changes['node']) for e in entries)
    assert spent == pytest.approx(cost) and len(entries) == 2 + 2 * program.ROUNDS
    stage = entries[0].stage
    alone = Ledger([stage], entries[:1]).total('node', 1e-4).epsilon
    assert Ledger([stage], entries).total('node', 1e-4).epsilon > alone
    squares, size, names = 0.0, 0, set()
    for seed in range(8):
        queries = Queries(entries, torch.Generator().manual_seed(seed))
        model = program.AdaptiveMixing(6, 3, [5, 5], CAPS)
        chosen = model.fit_chosen(graph, queries)
        names |= set(chosen)
        assert len(chosen) == program.ROUNDS and len(queries.answers) == 2 + program.ROUNDS
        exact = {c.name: c for c in tables_of(model, graph)}
        for i, name in enumerate(chosen):
            answer, table = queries.answers[2 + i], exact[name]
            noise = answer.released.double() * answer.grid - table.exact * table.unit / table.change
            squares += float((noise / queries.sigma(f'chosen table {i}')).square().sum())
            size += noise.numel()
    assert 1e-3 < chi2.cdf(squares, size) < 1 - 1e-3  # the residuals have the stated noise
    assert len(names) > 3
    tokens = model.sample(graph.y, torch.Generator().manual_seed(0))
    assert tokens.shape == (400, 31) and int(tokens.max()) == 6


def tables_of(model, graph):
    counter = EdgeCounter(graph.edge_index, graph.y, 3, CAPS)
    rate = min(1.0, CAPS.edges_per_node / float(model.degree))
    return program.candidates(counter, model.says[graph.token] == graph.y, rate, 5, 3)


def test_the_worst_table_is_chosen_without_noise():
    graph = with_hub()
    entries = program.plan_adaptive(CAPS, 1e9)  # almost no noise
    model = program.AdaptiveMixing(6, 3, [5, 5], CAPS)
    chosen = model.fit_chosen(graph, Queries(entries, torch.Generator().manual_seed(0)))
    assert len(set(chosen)) == program.ROUNDS  # a table that is known is not measured again
    parent, child = graph.y[graph.edge_index[1]], graph.y[graph.edge_index[0]]
    equal = float((parent == child).double().mean())
    found = float((model.frequency * model.neighbor.diagonal()).sum())
    assert abs(found - equal) < 0.15
