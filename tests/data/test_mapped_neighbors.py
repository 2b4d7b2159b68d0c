import numpy as np
import pytest
import torch

from torch_geometric_cgt.data import InNeighbors, mapped_neighbors
from torch_geometric_cgt.data.mapped_neighbors import (
    PTR,
    SOURCE,
    in_neighbors,
    mapped_in_neighbors,
)
from torch_geometric_cgt.utils.distributed import World


@pytest.mark.parametrize('num_edges', [0, 1, 500])
@pytest.mark.parametrize('size', [1, 7, 100, 10_000])
def test_mapped_neighbours_are_those_in_memory(tmp_path, monkeypatch, num_edges, size):
    monkeypatch.setattr(mapped_neighbors, 'RANGE_EDGES', size)
    monkeypatch.setattr(mapped_neighbors, 'BLOCK_EDGES', 33)
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
    monkeypatch.setattr(mapped_neighbors, 'MAX_EDGES_IN_MEMORY', most)
    edges = torch.tensor([[2, 0, 1], [1, 1, 0]])
    found = in_neighbors(edges, 3, tmp_path / 'graph', World())
    assert found.ptr.tolist() == [0, 1, 3, 3] and found.source.tolist() == [1, 2, 0]
    assert (tmp_path / 'graph').is_dir() == is_mapped
