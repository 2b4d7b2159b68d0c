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


def paper_graph(num_nodes=300, num_words=150, num_classes=3, seed=0) -> Data:
    """A graph with 0/1 words that tell labels as well as edges do, and with masks: a small Cora."""
    rng = torch.Generator().manual_seed(seed)
    y = torch.arange(num_nodes) % num_classes
    topic = torch.arange(num_words) % num_classes
    often = torch.where(topic == y[:, None], 0.12, 0.03)
    x = (torch.rand(num_nodes, num_words, generator=rng) < often).float()
    x[x.sum(dim=1) == 0, 0] = 1.0
    edges = torch.randint(num_nodes, (2, 8 * num_nodes), generator=rng)
    alike = y[edges[0]] == y[edges[1]]
    kept = alike | (torch.rand(alike.shape, generator=rng) < 0.1)
    edges = edges[:, kept & (edges[0] != edges[1])][:, : 2 * num_nodes]
    data = Data(x=x, edge_index=to_undirected(edges, num_nodes=num_nodes), y=y)
    part = torch.randperm(num_nodes, generator=rng) % 5
    data.train_mask, data.val_mask, data.test_mask = part == 0, part == 1, part >= 2
    return data
