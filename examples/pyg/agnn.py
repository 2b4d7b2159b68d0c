r"""AGNN: attention by the cosine of hidden features, without further weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from common import arguments, open_dataset, report, train
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import AGNNConv


class AGNN(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin1 = nn.Linear(in_channels, 16)
        self.conv1 = AGNNConv(requires_grad=False)
        self.conv2 = AGNNConv(requires_grad=True)
        self.lin2 = nn.Linear(16, out_channels)

    def forward(self, data: Data) -> Tensor:
        x = self.lin1(data.x).relu()
        x = self.conv2(self.conv1(x, data.edge_index), data.edge_index)
        return self.lin2(F.dropout(x, 0.5, self.training))


def main(argv: Sequence[str] | None = None) -> float:
    args = arguments(argv, epochs=100)
    dataset = open_dataset(args, T.NormalizeFeatures())
    model = AGNN(dataset.num_features, dataset.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    return report(train(model, dataset[0], optimizer, args.epochs))


if __name__ == '__main__':
    main()
