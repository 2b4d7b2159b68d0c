r"""Do edge weights carry over? A graph whose labels show in the weights of its edges alone.

A GCN with edge weights is trained on computation graphs of the source, of a k-anonymous release,
of a private one, and of the first release with shuffled weights. Each is tested on the source.

    python benchmarks/edge_values.py --seeds 3
"""

from __future__ import annotations

import argparse
import tempfile
import warnings

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from torch_geometric_cgt import (
    DifferentialPrivacy,
    DuplicateEncode,
    FitConfig,
    SyntheticCGTDataset,
)

FAN_OUTS = [5, 3]


class GCN(nn.Module):
    r"""Two layers with edge weights."""

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv1 = GCNConv(in_channels, hidden_channels)
        self.conv2 = GCNConv(hidden_channels, hidden_channels)
        self.lin = nn.Linear(hidden_channels, out_channels)

    def forward(self, data: Data) -> Tensor:
        x = self.conv1(data.x, data.edge_index, data.edge_weight).relu()
        return self.lin(self.conv2(x, data.edge_index, data.edge_weight).relu())


def weighted_graph(num_nodes: int, seed: int) -> Data:
    r"""Edges into nodes of label 1 are heavy; weights of both labels overlap. Features and
    edges are random.
    """
    rng = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (num_nodes,), generator=rng)
    target = torch.arange(num_nodes).repeat_interleave(5)
    source = torch.randint(num_nodes, target.shape, generator=rng)
    weight = 0.2 + 2 * torch.rand(target.shape, generator=rng) + y[target]
    x = torch.randn(num_nodes, 4, generator=rng)
    x[:, 0] = 1.0
    return Data(x=x, edge_index=torch.stack([source, target]), y=y, edge_weight=weight)


def score(train: Data, test: Data, seed: int) -> float:
    r"""Trains on half of the roots of one forest, and tests on the other half of another one."""
    torch.manual_seed(seed)
    model = GCN(train.num_features, 16, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    seen = train.root_mask.nonzero().view(-1)[::2]
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(train)[seen], train.y[seen]).backward()
        optimizer.step()
    unseen = test.root_mask.nonzero().view(-1)[1::2]
    with torch.no_grad():
        return float((model(test)[unseen].argmax(dim=1) == test.y[unseen]).double().mean())


def scores_of(num_nodes: int, epsilon: float, seed: int, root: str) -> dict[str, float]:
    r"""The accuracy on the source after training on each of the graphs."""
    graph = weighted_graph(num_nodes, seed)
    source = DuplicateEncode(FAN_OUTS, seed=seed)(graph)
    shared = {'num_neighbors': FAN_OUTS, 'root': root, 'log': False, 'seed': seed}
    small = {'hidden_channels': 32, 'num_layers': 1, 'num_heads': 2}  # trees have no structure
    release = SyntheticCGTDataset(graph, k=30, generator=small, fit=FitConfig(epochs=5), **shared)[
        0
    ]
    privacy = DifferentialPrivacy(epsilon, edge_bounds={'edge_weight': (0, 4)})
    private = SyntheticCGTDataset(graph, privacy=privacy, **shared)[0]
    shuffled = release.clone()
    rng = torch.Generator().manual_seed(seed)
    shuffled.edge_weight = release.edge_weight[torch.randperm(release.num_edges, generator=rng)]
    graphs = {
        'source': source,
        'release, k = 30': release,
        f'release, epsilon = {epsilon:g} per node': private,
        'release, k = 30, shuffled weights': shuffled,
    }
    return {name: score(train, source, seed) for name, train in graphs.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--num-nodes', type=int, default=600)
    parser.add_argument('--epsilon', type=float, default=8.0)
    parser.add_argument('--seeds', type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter('ignore')
    with tempfile.TemporaryDirectory() as root:
        rows = []
        for seed in range(arguments.seeds):
            rows.append(scores_of(arguments.num_nodes, arguments.epsilon, seed, root))
            print(rows[-1], flush=True)
    for name in rows[0]:
        values = torch.tensor([row[name] for row in rows])
        print(f'{name:40} {values.mean():.3f} +- {values.std(correction=0):.3f}')


if __name__ == '__main__':
    main()
