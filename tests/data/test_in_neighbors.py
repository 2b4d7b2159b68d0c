"""In-neighbours by hand, and those of files beside those in memory."""

import numpy as np
import pytest
import torch

from torch_geometric_cgt.data import InNeighbors
from torch_geometric_cgt.data import in_neighbors as module
from torch_geometric_cgt.data.in_neighbors import (
    PTR,
    SOURCE,
    average_rows,
    in_neighbors,
    mapped_in_neighbors,
    smooth,
)
from torch_geometric_cgt.utils.distributed import World


def test_edges_of_rows_and_of_a_subgraph():
    edge_index = torch.tensor([[1, 2, 3, 0, 3], [0, 0, 0, 2, 2]])
    graph = InNeighbors.from_edge_index(edge_index, 4, keep_edge=True)
    assert graph.target.tolist() == [0, 0, 0, 2, 2]
    rows = graph.rows(torch.tensor([2, -1, 0, 2]))
    assert rows.ptr.tolist() == [0, 2, 2, 5, 7]
    assert rows.source.tolist() == [0, 3, 1, 2, 3, 0, 3]
    assert rows.edge.tolist() == [3, 4, 0, 1, 2, 3, 4]
    kept = graph.keep(torch.tensor([False, True, True, False, True]))
    assert kept.ptr.tolist() == [0, 2, 2, 3, 3] and kept.source.tolist() == [2, 3, 3]
    within = graph.within(torch.tensor([0, 2, 3]))
    assert within.ptr.tolist() == [0, 2, 4, 4] and within.source.tolist() == [1, 2, 0, 2]
    assert within.edge.tolist() == [1, 2, 3, 4]


def test_smoothing_by_hand():
    z = torch.tensor([[0.0], [6.0], [12.0]])
    edge_index = torch.tensor([[1, 2], [0, 1]])  # 1 -> 0, 2 -> 1
    once = torch.tensor([[3.0], [9.0], [12.0]])
    twice = torch.tensor([[6.0], [10.5], [12.0]])
    graph = InNeighbors.from_edge_index(edge_index, 3)
    assert torch.equal(smooth(z, graph, 1), once)
    assert torch.equal(smooth(z, graph), twice)
    nobody = InNeighbors.from_edge_index(edge_index[:, :0], 3)
    assert torch.equal(smooth(z, nobody), z)
    assert smooth(z, None) is z


def test_edges_into_some_nodes_and_averages_over_them(monkeypatch):
    monkeypatch.setattr(module, 'BLOCK_EDGES', 7)
    monkeypatch.setattr(module, 'BLOCK_NODES', 3)
    rng = torch.Generator().manual_seed(0)
    edges = torch.randint(20, (2, 90), generator=rng)
    whole, node = InNeighbors.from_edge_index(edges, 20), torch.tensor([3, 4, 11, 19])
    some = InNeighbors.into(edges, 20, node)
    assert torch.equal(some.rows(node).source, whole.rows(node).source)
    assert some.source.numel() == int(whole.degree(node).sum())  # and no other edge

    z = torch.randn(5, 4, generator=rng)
    row = torch.randint(5, (20,), generator=rng)
    expected = smooth(z[row], whole, 1)[node]
    assert torch.allclose(average_rows(z, whole, node, row), expected, atol=1e-6)
    assert torch.allclose(average_rows(z[row], some, node), expected, atol=1e-6)


@pytest.mark.parametrize('num_edges', [0, 1, 500])
@pytest.mark.parametrize('size', [1, 7, 100, 10_000])
def test_mapped_neighbours_are_those_in_memory(tmp_path, monkeypatch, num_edges, size):
    monkeypatch.setattr(module, 'RANGE_EDGES', size)
    monkeypatch.setattr(module, 'BLOCK_EDGES', 33)
    edges = torch.randint(40, (2, num_edges), generator=torch.Generator().manual_seed(0))
    expected = InNeighbors.from_edge_index(edges, 45)
    found = mapped_in_neighbors(edges, 45, tmp_path / 'graph')
    assert torch.equal(found.ptr, expected.ptr) and torch.equal(found.source, expected.source)
    assert [path.name for path in tmp_path.iterdir()] == ['graph']  # no draft is left
    again = mapped_in_neighbors(edges, 45, tmp_path / 'graph')
    assert torch.equal(again.source, expected.source)


def test_files_are_written_once_and_a_draft_of_a_killed_run_is_written_again(tmp_path):
    edges = torch.tensor([[2, 0, 1], [1, 1, 0]])
    (tmp_path / '.graph.draft').mkdir()
    (tmp_path / '.graph.draft' / PTR).write_bytes(b'cut')
    found = mapped_in_neighbors(edges, 3, tmp_path / 'graph')
    assert found.ptr.tolist() == [0, 1, 3, 3] and found.source.tolist() == [1, 2, 0]
    np.save(tmp_path / 'graph' / SOURCE, np.array([0, 0, 0]))
    assert mapped_in_neighbors(edges, 3, tmp_path / 'graph').source.tolist() == [0, 0, 0]


@pytest.mark.parametrize(('most', 'is_mapped'), [(3, False), (2, True)])
def test_only_many_edges_are_written_to_files(tmp_path, monkeypatch, most, is_mapped):
    monkeypatch.setattr(module, 'MAX_EDGES_IN_MEMORY', most)
    edges = torch.tensor([[2, 0, 1], [1, 1, 0]])
    found = in_neighbors(edges, 3, tmp_path / 'graph', World())
    assert found.ptr.tolist() == [0, 1, 3, 3] and found.source.tolist() == [1, 2, 0]
    assert (tmp_path / 'graph').is_dir() == is_mapped
