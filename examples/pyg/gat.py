r"""Full-batch GAT: eight heads of eight channels, dropout of hidden features and attention."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from common import arguments, open_dataset, report, train
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv


class GAT(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv1 = GATConv(in_channels, 8, heads=8, dropout=0.6)
        self.conv2 = GATConv(64, out_channels, concat=False, dropout=0.6)

    def forward(self, data: Data) -> Tensor:
        x = F.elu(self.conv1(data.x, data.edge_index))
        return self.conv2(F.dropout(x, 0.6, self.training), data.edge_index)


def main(argv: Sequence[str] | None = None) -> float:
    args = arguments(argv, epochs=60)
    dataset = open_dataset(args, T.NormalizeFeatures())
    model = GAT(dataset.num_features, dataset.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005, weight_decay=5e-4)
    return report(train(model, dataset[0], optimizer, args.epochs))


if __name__ == '__main__':
    main()
