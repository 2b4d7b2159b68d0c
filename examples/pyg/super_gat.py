r"""SuperGAT: attention that also learns to predict edges."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from common import arguments, open_dataset, report, train
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import SuperGATConv


class SuperGAT(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        shared = {'heads': 8, 'dropout': 0.6, 'attention_type': 'MX', 'edge_sample_ratio': 0.8}
        self.conv1 = SuperGATConv(in_channels, 8, **shared)
        self.conv2 = SuperGATConv(64, out_channels, concat=False, **shared)

    def forward(self, data: Data) -> Tensor:
        x = F.elu(self.conv1(data.x, data.edge_index))
        return self.conv2(F.dropout(x, 0.6, self.training), data.edge_index)

    def attention_loss(self) -> Tensor:
        return 4.0 * (self.conv1.get_attention_loss() + self.conv2.get_attention_loss())


def main(argv: Sequence[str] | None = None) -> float:
    args = arguments(argv, epochs=50)
    dataset = open_dataset(args, T.NormalizeFeatures())
    model = SuperGAT(dataset.num_features, dataset.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005, weight_decay=5e-4)
    return report(train(model, dataset[0], optimizer, args.epochs, model.attention_loss))


if __name__ == '__main__':
    main()
