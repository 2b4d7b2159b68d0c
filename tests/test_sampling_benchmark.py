"""What the benchmark of sampling compares draws the same trees."""

import importlib
import random
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.sampler import InNeighbors, TreeNeighborSampler, sample_trees

BENCHMARKS = Path(__file__).parents[1] / 'benchmarks'
# Node 0 has six in-neighbours, 1 has three, 2 has one, the others none.
EDGES = torch.tensor([[1, 2, 3, 4, 5, 6, 0, 2, 6, 0], [0, 0, 0, 0, 0, 0, 1, 1, 1, 2]])


@pytest.fixture(autouse=True)
def programs(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)


@pytest.mark.parametrize('name', ['tensors', 'lists'])
def test_loops_draw_the_same_trees(name):
    loops = importlib.import_module('loops')
    graph, root, shape = InNeighbors.from_edge_index(EDGES, 7), [0, 1, 2, 3] * 250, [2, 2]
    torch.manual_seed(0)
    random.seed(0)
    ours = sample_trees(graph, torch.tensor(root), TreeShape.of(shape))
    if name == 'tensors':
        theirs = loops.loop_over_tensors(graph, torch.tensor(root), shape)
    else:
        theirs = torch.tensor(loops.loop_over_lists(loops.neighbor_lists(graph), root, shape))
    assert theirs.shape == ours.shape and theirs[:, 0].tolist() == root
    for trees in (ours, theirs):
        both = trees[:, 1:3]
        assert (both[:, 0] != both[:, 1])[trees[:, 0] < 2].all()  # without replacement
    for slots, tolerance in [(slice(1, 3), 0.03), (slice(3, 7), 0.06)]:  # shares of nodes
        shares = [(trees[:, slots] + 1).flatten().bincount() / 2000 for trees in (ours, theirs)]
        assert torch.allclose(*shares, atol=tolerance)


def test_loader_goes_through_all_roots():
    sampling = importlib.import_module('sampling')
    graph = InNeighbors.from_edge_index(EDGES, 7)
    data = sampling.edges_of(graph)
    again = InNeighbors.from_edge_index(data.edge_index, 7)
    assert torch.equal(again.source, graph.source) and torch.equal(again.ptr, graph.ptr)
    sampler = TreeNeighborSampler(data, [5, 5])
    assert sampling.run_loader(data, torch.arange(7).repeat(300), sampler) == 2100


def test_graphs_for_memory_differ_in_the_hub_alone(monkeypatch):
    sampling = importlib.import_module('sampling')
    monkeypatch.setattr(sampling, 'NODES', 100)
    regular, star = (sampling.memory_graph(kind) for kind in ('regular', 'star'))
    assert regular.source.numel() == star.source.numel() == int(star.ptr[-1]) == 1000
    assert regular.ptr.diff().unique().tolist() == [10]
    assert star.ptr.diff().tolist() == [109] + 99 * [9]
    assert all((star.source[a:b] == 0).any() for a, b in pairwise(star.ptr[1:]))
