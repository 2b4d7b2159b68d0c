import numpy as np
import pytest
import torch
from torch_geometric.utils import to_undirected

from torch_geometric_cgt.datasets.ogb import undirected


def test_undirected_is_that_of_pyg():
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 30, (200, 2), dtype=np.int32)
    blocks = [edges[:150], edges[150:]]
    expected = to_undirected(torch.from_numpy(edges.T.astype(np.int64)), num_nodes=30)
    assert torch.equal(undirected(blocks, 200, 30), expected)
    assert undirected([], 0, 30).shape == (2, 0)
    with pytest.raises(ValueError, match=r'Expected 201 edges \(got 200\)'):
        undirected(blocks, 201, 30)
