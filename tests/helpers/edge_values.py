"""Graphs with edge values, and small GNNs that use them."""

import warnings
from pathlib import Path

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GATv2Conv, GCNConv, GINEConv, NNConv

from tests.helpers.graphs import random_graph
from torch_geometric_cgt import FitConfig, SyntheticCGTDataset

SIZE = 2  # columns of edge_attr


def valued_graph(num_nodes=120, num_edges=300, seed=0) -> Data:
    """A graph with an edge weight and two edge attributes."""
    data = random_graph(num_nodes, num_edges, seed=seed)
    rng = torch.Generator().manual_seed(seed)
    data.edge_weight = torch.rand(data.num_edges, generator=rng)
    kind = torch.randint(2, (data.num_edges,), generator=rng).float()
    data.edge_attr = torch.stack([kind, torch.randn(data.num_edges, generator=rng)], dim=1)
    return data


def weighted_graph(num_nodes=240, degree=4, seed=0) -> Data:
    """A graph whose labels show in the weights of edges alone: those into nodes of label 1 are
    heavy. Features and edges are random.
    """
    rng = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (num_nodes,), generator=rng)
    target = torch.arange(num_nodes).repeat_interleave(degree)
    source = torch.randint(num_nodes, target.shape, generator=rng)
    weight = 0.5 + torch.rand(target.shape, generator=rng) + 1.5 * y[target]
    x = torch.randn(num_nodes, 4, generator=rng)
    x[:, 0] = 1.0
    return Data(x=x, edge_index=torch.stack([source, target]), y=y, edge_weight=weight)


def valued_dataset(graph: Data, root: Path) -> SyntheticCGTDataset:
    """A k-anonymous dataset of a small graph, with k = 10."""
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', UserWarning)  # clusters with one label
        return SyntheticCGTDataset(
            graph,
            k=10,
            num_neighbors=[3, 2],
            root=root,
            log=False,
            device='cpu',
            generator={'hidden_channels': 16, 'num_layers': 1, 'num_heads': 2},
            fit=FitConfig(epochs=2, batch_size=32),
        )


class EdgeGNN(nn.Module):
    """Two layers of a convolution that uses edge values."""

    def __init__(self, kind: str, num_features: int, num_classes: int, hidden: int = 8) -> None:
        super().__init__()
        self.kind = kind
        self.lin = nn.Linear(num_features, hidden)
        self.convs = nn.ModuleList([self.conv(kind, hidden) for _ in range(2)])
        self.out = nn.Linear(hidden, num_classes)

    @staticmethod
    def conv(kind: str, hidden: int) -> nn.Module:
        if kind == 'GINEConv':
            return GINEConv(nn.Linear(hidden, hidden), edge_dim=SIZE)
        if kind == 'NNConv':
            return NNConv(hidden, hidden, nn.Linear(SIZE, hidden * hidden), aggr='mean')
        if kind == 'GATv2Conv':
            return GATv2Conv(hidden, hidden, edge_dim=SIZE, add_self_loops=False)
        return GCNConv(hidden, hidden)

    def forward(self, data: Data) -> torch.Tensor:
        x = self.lin(data.x)
        values = data.edge_weight if self.kind == 'GCNConv' else data.edge_attr
        for conv in self.convs:
            x = conv(x, data.edge_index, values).relu()
        return self.out(x)


def train(model: nn.Module, batches, steps: int = 60, lr: float = 0.02) -> list[float]:
    """Trains on the roots of batches (data, mask of roots). Returns the losses."""
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=lr), []
    for _ in range(steps):
        for data, mask in batches:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(data)[mask], data.y[mask])
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
    return losses


@torch.no_grad()
def accuracy(model: nn.Module, data: Data, mask: torch.Tensor) -> float:
    """The share of right labels."""
    return float((model(data)[mask].argmax(dim=1) == data.y[mask]).double().mean())
