r"""APPNP: a perceptron whose predictions spread by ten steps of personalized PageRank."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from common import arguments, open_dataset, report, train
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import APPNP


class Net(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin1 = nn.Linear(in_channels, 64)
        self.lin2 = nn.Linear(64, out_channels)
        self.propagate = APPNP(K=10, alpha=0.1)

    def forward(self, data: Data) -> Tensor:
        x = self.lin1(data.x).relu()
        x = self.lin2(F.dropout(x, 0.5, self.training))
        return self.propagate(x, data.edge_index)


def main(argv: Sequence[str] | None = None) -> float:
    args = arguments(argv, epochs=100)
    dataset = open_dataset(args, T.NormalizeFeatures())
    model = Net(dataset.num_features, dataset.num_classes)
    optimizer = torch.optim.Adam(
        [
            {'params': model.lin1.parameters(), 'weight_decay': 5e-3},
            {'params': model.lin2.parameters(), 'weight_decay': 0.0},
        ],
        lr=0.01,
    )
    return report(train(model, dataset[0], optimizer, args.epochs))


if __name__ == '__main__':
    main()
