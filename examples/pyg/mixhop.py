r"""MixHop: every layer sees a node, its neighbours and their neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from common import arguments, open_dataset, report, train
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import BatchNorm, MixHopConv


class MixHop(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv1 = MixHopConv(in_channels, 60, powers=[0, 1, 2])
        self.norm = BatchNorm(3 * 60)
        self.conv2 = MixHopConv(3 * 60, 60, powers=[0, 1, 2])
        self.lin = nn.Linear(3 * 60, out_channels)

    def forward(self, data: Data) -> Tensor:
        x = self.norm(self.conv1(data.x, data.edge_index))
        x = self.conv2(F.dropout(x, 0.9, self.training), data.edge_index)
        return self.lin(F.dropout(x, 0.9, self.training))


def main(argv: Sequence[str] | None = None) -> float:
    args = arguments(argv, epochs=40)
    dataset = open_dataset(args, T.NormalizeFeatures())
    model = MixHop(dataset.num_features, dataset.num_classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, weight_decay=5e-3)
    return report(train(model, dataset[0], optimizer, args.epochs))


if __name__ == '__main__':
    main()
