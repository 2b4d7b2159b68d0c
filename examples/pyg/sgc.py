r"""SGC: a linear model on features that are propagated twice, once for all epochs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from common import arguments, open_dataset, report, train
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import SGConv


class SGC(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv = SGConv(in_channels, out_channels, K=2, cached=True)

    def forward(self, data: Data) -> Tensor:
        return self.conv(data.x, data.edge_index)


def main(argv: Sequence[str] | None = None) -> float:
    args = arguments(argv, epochs=100)
    dataset = open_dataset(args)
    model = SGC(dataset.num_features, dataset.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.2, weight_decay=5e-3)
    return report(train(model, dataset[0], optimizer, args.epochs))


if __name__ == '__main__':
    main()
