"""Random graphs whose features and edges depend on the labels."""

import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected


def random_graph(num_nodes=120, num_edges=300, num_features=8, num_classes=3, seed=0) -> Data:
    """A graph whose features and edges both depend on the labels."""
    rng = torch.Generator().manual_seed(seed)
    y = torch.randint(num_classes, (num_nodes,), generator=rng)
    y[:num_classes] = torch.arange(num_classes)
    centre = 2 * torch.randn(num_classes, num_features, generator=rng)
    x = centre[y] + torch.randn(num_nodes, num_features, generator=rng)
    edges = torch.randint(num_nodes, (2, 4 * num_edges), generator=rng)
    alike = y[edges[0]] == y[edges[1]]
    edges = edges[:, alike | (torch.rand(alike.shape, generator=rng) < 0.1)][:, :num_edges]
    return Data(x=x, edge_index=to_undirected(edges, num_nodes=num_nodes), y=y)
