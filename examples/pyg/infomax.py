r"""Deep Graph Infomax: embeddings without labels, tested by logistic regression."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch_geometric.transforms as T
from common import arguments, open_dataset, report
from torch import Tensor, nn
from torch_geometric.nn import DeepGraphInfomax, GCNConv


class Encoder(nn.Module):
    def __init__(self, in_channels: int, hidden_channels: int) -> None:
        super().__init__()
        self.conv = GCNConv(in_channels, hidden_channels)
        self.act = nn.PReLU(hidden_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.act(self.conv(x, edge_index))


def corrupted(x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
    return x[torch.randperm(x.size(0))], edge_index


def main(argv: Sequence[str] | None = None) -> float:
    args = arguments(argv, epochs=100)
    dataset = open_dataset(args, T.ToUndirected())
    data = dataset[0]
    model = DeepGraphInfomax(
        hidden_channels=128,
        encoder=Encoder(dataset.num_features, 128),
        summary=lambda z, *args, **kwargs: z.mean(dim=0).sigmoid(),
        corruption=corrupted,
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for _ in range(args.epochs):
        model.train()
        optimizer.zero_grad()
        model.loss(*model(data.x, data.edge_index)).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        z, _, _ = model(data.x, data.edge_index)
    train, test = data.train_mask, data.test_mask
    return report(model.test(z[train], data.y[train], z[test], data.y[test], max_iter=150))


if __name__ == '__main__':
    main()
