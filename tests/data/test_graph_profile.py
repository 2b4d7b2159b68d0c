"""Profiles of graphs: groups of k nodes, steps that hide one node, degrees drawn from groups."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from torch_geometric_cgt.data import GraphProfile, InNeighbors
from torch_geometric_cgt.data.graph_profile import (
    group_sizes,
    largest_degree,
    least_nodes,
    mean_degrees_of_groups,
    rounded_homophily,
    step_of,
)

DEGREES = st.lists(st.integers(0, 60), min_size=12, max_size=80)


def exact_means(degree: torch.Tensor, k: int, highest: float) -> torch.Tensor:
    """The means of all groups without rounding."""
    ordered = degree.double().sort().values.clamp(max=highest)
    return torch.stack([g.mean() for g in ordered.split(group_sizes(len(degree), k))])


def steps(degree: torch.Tensor, k: int, highest: float) -> torch.Tensor:
    """The step of each group, computed with loops."""
    ordered, found, first = degree.sort().values.clamp(max=highest).tolist(), [], 0
    for size in group_sizes(len(ordered), k):
        after = first + size
        low = ordered[max(0, first - 1)]
        high = ordered[after] if after < len(ordered) else highest
        step = 1 / 8
        while step < 3 * (high - low) / k:
            step *= 2
        found.append(step)
        first = after
    return torch.tensor(found, dtype=torch.float64)


def test_groups_by_hand():
    degree = torch.tensor([9, 1, 1, 1, 1, 2, 2, 3, 2, 3, 50, 4])
    assert group_sizes(12, 6) == [6, 6]
    # 1 1 1 1 2 2 | 2 3 3 4 9 50: the median of the last group is 3, twice this rounds up to 8
    assert largest_degree(torch.tensor([2, 3, 3, 4, 9, 50])) == 8
    # 8 / 6 = 1.33 in steps of 3 * (2 - 1) / 6 -> 1/2; 28 / 6 = 4.67 in steps of 3 * 6 / 6 -> 4
    assert mean_degrees_of_groups(degree, 6).tolist() == [1.5, 4.0]


@given(DEGREES, st.integers(1, 12))
def test_every_group_has_k_nodes(degrees, k):
    sizes = group_sizes(len(degrees), k)
    assert sum(sizes) == len(degrees) and min(sizes) >= max(k, 5) and max(sizes) <= min(sizes) + 1
    found = mean_degrees_of_groups(torch.tensor(degrees), k)
    assert len(found) == len(sizes) and bool((found.diff() >= 0).all())


@given(DEGREES, st.integers(5, 12), st.data())
def test_another_degree_of_one_node_moves_no_mean_by_a_step(degrees, k, data):
    degree = torch.tensor(degrees)
    other = degree.clone()
    other[data.draw(st.integers(0, len(degrees) - 1))] = data.draw(st.integers(0, 1000))
    highest = largest_degree(degree.sort().values[-group_sizes(len(degree), k)[-1] :])
    change = (exact_means(degree, k, highest) - exact_means(other, k, highest)).abs()
    step = torch.maximum(steps(degree, k, highest), steps(other, k, highest))
    assert bool((3 * change <= step + 1e-9).all())


@given(DEGREES, st.integers(5, 12), st.data())
def test_a_node_that_is_removed_moves_no_mean_by_a_step(degrees, k, data):
    degree = torch.tensor(degrees)
    index = data.draw(st.integers(0, len(degrees) - 1))
    fewer = torch.tensor(degrees[:index] + degrees[index + 1 :])
    if len(fewer) < least_nodes(k):
        return  # there is no profile
    if len(group_sizes(len(fewer), k)) != len(group_sizes(len(degree), k)):
        return  # the number of nodes is public, and that of groups follows from it
    highest = largest_degree(degree.sort().values[-group_sizes(len(degree), k)[-1] :])
    change = (exact_means(degree, k, highest) - exact_means(fewer, k, highest)).abs()
    step = torch.maximum(steps(degree, k, highest), steps(fewer, k, highest))
    assert bool((change <= step + 1e-9).all())


@given(DEGREES, st.integers(5, 12))
def test_means_are_on_the_grid_and_near(degrees, k):
    degree = torch.tensor(degrees)
    highest = largest_degree(degree.sort().values[-group_sizes(len(degree), k)[-1] :])
    found, step = mean_degrees_of_groups(degree, k), steps(degree, k, highest)
    grid = found / step.cummin(dim=0).values  # a mean can be raised to that of the group before
    assert torch.equal(grid, grid.round())
    error = found - exact_means(degree, k, highest)
    assert bool((error.abs() <= step.cummax(dim=0).values / 2 + 1e-9).all())


def test_a_hub_does_not_show():
    ring = torch.full((60,), 2)
    star = torch.cat([ring[1:], torch.tensor([10_000])])
    assert mean_degrees_of_groups(star, 20).tolist() == mean_degrees_of_groups(ring, 20).tolist()


def test_exact_sums_cannot_be_read():
    """Graphs that differ in one degree mostly have the same profile."""
    rng = torch.Generator().manual_seed(0)
    degree = torch.randint(1, 12, (300,), generator=rng)
    own, equal = mean_degrees_of_groups(degree, 30), 0
    for node in range(300):
        other = degree.clone()
        other[node] = 1 + other[node] % 11
        equal += torch.equal(own, mean_degrees_of_groups(other, 30))
    assert equal > 150


def test_homophily_is_weighed_by_degrees_and_rounded():
    degree, share = torch.full((1000,), 3), (torch.arange(1000) < 700).double()
    step = step_of(4 * 3 / 3000, 1 / 128)
    assert step == 1 / 64 and rounded_homophily(degree, share) == round(0.7 / step) * step
    assert rounded_homophily(degree[:30], share[:30]) is None  # one node would show
    heavy = torch.where(share == 1, 9, 3)  # 700 * 9 of 700 * 9 + 300 * 3 ends
    assert rounded_homophily(heavy, share) == pytest.approx(6300 / 7200, abs=1 / 128)
    share[700:] = math.nan  # their neighbours have no labels
    assert rounded_homophily(degree, share) == 1.0


def test_the_profile_of_a_graph():
    # 600 pairs of equal labels, and node 0, whose label is that of no neighbour.
    pairs = torch.arange(1200).view(600, 2).t()
    edges = torch.cat([pairs, pairs.flip(0)], dim=1)
    graph = InNeighbors.from_edge_index(edges, 1201)
    y = torch.arange(1201) // 2 % 3
    y[1200] = -1
    found = GraphProfile.of(graph, torch.arange(1200), y, 30)
    assert found.homophily == 1.0 and found.mean_degree.tolist() == [1.0] * 40
    assert found.facts(1200, 30) == {
        'k': 30,
        'k_reached': 30,
        'num_groups': 40,
        'homophily': 1.0,
    }
    assert GraphProfile.of(graph, torch.arange(29), y, 30) is None
    y[:1200:2] = 4
    assert GraphProfile.of(graph, torch.arange(1200), y, 30).homophily == 0.0


@pytest.mark.parametrize('num_nodes', [600, 5000])
def test_drawn_degrees_are_those_of_the_source(num_nodes):
    rng = torch.Generator().manual_seed(0)
    uniform = torch.rand(num_nodes, dtype=torch.float64, generator=rng)
    degree = (1.5 * uniform.pow(-1 / 2)).floor().long()  # a power law of exponent 3
    profile = GraphProfile(mean_degrees_of_groups(degree, 30))
    order = torch.rand(num_nodes, generator=rng)
    drawn = profile.draw(order, rng)
    assert wasserstein_distance(degree, drawn) < 0.05 * float(degree.double().mean())
    assert float(drawn.double().mean()) == pytest.approx(float(degree.double().mean()), rel=0.05)
    ranked = drawn[order.argsort()].double()
    assert float(ranked[: num_nodes // 2].mean()) < float(ranked[num_nodes // 2 :].mean())
    half = profile.draw(order[: num_nodes // 2], rng)  # a release can have fewer trees
    assert wasserstein_distance(degree, half) < 0.15 * float(degree.double().mean())


def test_equal_means_give_equal_degrees():
    profile = GraphProfile(torch.tensor([1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 6.0], dtype=torch.float64))
    drawn = profile.draw(torch.arange(700.0), torch.Generator().manual_seed(0))
    assert drawn[:300].tolist() == [1] * 300 and drawn[400:600].tolist() == [2] * 200
    assert float(drawn[600:].double().mean()) == pytest.approx(6, rel=0.1) and drawn.max() > 12
