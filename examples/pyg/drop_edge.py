r"""GCN with dropped edges (DropEdge), on a random split of the nodes (RandomNodeSplit)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from common import arguments, open_dataset, report, train
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torch_geometric.utils import dropout_edge


class DropEdgeGCN(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv1 = GCNConv(in_channels, 16)
        self.conv2 = GCNConv(16, out_channels)

    def forward(self, data: Data) -> Tensor:
        edge_index, _ = dropout_edge(data.edge_index, p=0.2, training=self.training)
        x = self.conv1(data.x, edge_index).relu()
        return self.conv2(F.dropout(x, 0.5, self.training), edge_index)


def main(argv: Sequence[str] | None = None) -> float:
    args = arguments(argv, epochs=200)
    split = T.RandomNodeSplit('train_rest', num_val=0.1, num_test=0.4)
    dataset = open_dataset(args, T.Compose([T.NormalizeFeatures(), split]))
    model = DropEdgeGCN(dataset.num_features, dataset.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    return report(train(model, dataset[0], optimizer, args.epochs))


if __name__ == '__main__':
    main()
