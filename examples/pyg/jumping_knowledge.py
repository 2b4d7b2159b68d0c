r"""Jumping knowledge: the classifier sees the output of every layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch_geometric.transforms as T
from common import arguments, open_dataset, report, train
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn.models import GraphSAGE


class JumpingSAGE(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.gnn = GraphSAGE(in_channels, 32, 3, out_channels, dropout=0.5, jk='cat')

    def forward(self, data: Data) -> Tensor:
        return self.gnn(data.x, data.edge_index)


def main(argv: Sequence[str] | None = None) -> float:
    args = arguments(argv, epochs=40)
    dataset = open_dataset(args, T.NormalizeFeatures())
    model = JumpingSAGE(dataset.num_features, dataset.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    return report(train(model, dataset[0], optimizer, args.epochs))


if __name__ == '__main__':
    main()
