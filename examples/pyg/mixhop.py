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
        sizes = [in_channels, 3 * 60, 3 * 60]
        self.convs = nn.ModuleList(MixHopConv(size, 60, powers=[0, 1, 2]) for size in sizes)
        self.norms = nn.ModuleList(BatchNorm(3 * 60) for _ in sizes)
        self.lin = nn.Linear(3 * 60, out_channels)

    def forward(self, data: Data) -> Tensor:
        x = F.dropout(data.x, 0.7, self.training)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = F.dropout(norm(conv(x, data.edge_index)), 0.9, self.training)
        return self.lin(x)


def main(argv: Sequence[str] | None = None) -> float:
    args = arguments(argv, epochs=40)
    dataset = open_dataset(args, T.ToUndirected())  # features are 0/1: SGD needs their size
    model = MixHop(dataset.num_features, dataset.num_classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, weight_decay=5e-3)
    return report(train(model, dataset[0], optimizer, args.epochs))


if __name__ == '__main__':
    main()
