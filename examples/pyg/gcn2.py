r"""GCNII on a sparse adjacency matrix (ToSparseTensor), 16 layers deep."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from common import arguments, open_dataset, report, train
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN2Conv


class GCN2(nn.Module):
    def __init__(self, in_channels: int, hidden: int, out_channels: int, layers: int) -> None:
        super().__init__()
        self.first = nn.Linear(in_channels, hidden)
        self.last = nn.Linear(hidden, out_channels)
        self.convs = nn.ModuleList(
            GCN2Conv(hidden, alpha=0.1, theta=0.5, layer=i + 1, normalize=False)
            for i in range(layers)
        )

    def forward(self, data: Data) -> Tensor:
        x = x_0 = self.first(data.x).relu()
        for conv in self.convs:
            x = conv(F.dropout(x, 0.6, self.training), x_0, data.adj_t).relu()
        return self.last(F.dropout(x, 0.6, self.training))


def main(argv: Sequence[str] | None = None) -> float:
    args = arguments(argv, epochs=100)
    # Without torch-sparse, `adj_t` is a sparse tensor of torch.
    steps = [T.GCNNorm(), T.ToSparseTensor(attr='edge_weight')]
    dataset = open_dataset(args, T.Compose([T.NormalizeFeatures(), T.ToUndirected(), *steps]))
    model = GCN2(dataset.num_features, 64, dataset.num_classes, layers=16)
    optimizer = torch.optim.Adam(
        [
            {'params': model.convs.parameters(), 'weight_decay': 0.01},
            {'params': [*model.first.parameters(), *model.last.parameters()], 'weight_decay': 5e-4},
        ],
        lr=0.01,
    )
    return report(train(model, dataset[0], optimizer, args.epochs))


if __name__ == '__main__':
    main()
