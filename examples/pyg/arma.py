r"""ARMA: recursive filters in three parallel stacks, with shared weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from common import arguments, open_dataset, report, train
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import ARMAConv


class ARMA(nn.Module):
    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        shared = {'num_stacks': 3, 'num_layers': 2, 'shared_weights': True, 'dropout': 0.25}
        self.conv1 = ARMAConv(in_channels, hidden_channels, **shared)
        self.conv2 = ARMAConv(hidden_channels, out_channels, act=nn.Identity(), **shared)

    def forward(self, data: Data) -> Tensor:
        x = self.conv1(data.x, data.edge_index).relu()
        return self.conv2(F.dropout(x, 0.5, self.training), data.edge_index)


def main(argv: Sequence[str] | None = None) -> float:
    args = arguments(argv, epochs=60)
    dataset = open_dataset(args, T.Compose([T.NormalizeFeatures(), T.ToUndirected()]))
    model = ARMA(dataset.num_features, 16, dataset.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    return report(train(model, dataset[0], optimizer, args.epochs))


if __name__ == '__main__':
    main()
