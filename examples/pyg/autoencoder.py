r"""Variational graph autoencoder: reconstructs edges, with negative samples of its own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch_geometric.transforms as T
from common import arguments, open_dataset, report
from torch import Tensor, nn
from torch_geometric.nn import VGAE, GCNConv


class Encoder(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv = GCNConv(in_channels, 2 * out_channels)
        self.conv_mu = GCNConv(2 * out_channels, out_channels)
        self.conv_logstd = GCNConv(2 * out_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        x = self.conv(x, edge_index).relu()
        return self.conv_mu(x, edge_index), self.conv_logstd(x, edge_index)


def main(argv: Sequence[str] | None = None) -> float:
    args = arguments(argv, epochs=200)
    split = T.RandomLinkSplit(
        num_val=0.05,
        num_test=0.1,
        is_undirected=True,
        split_labels=True,
        add_negative_train_samples=False,
    )
    dataset = open_dataset(args, T.Compose([T.NormalizeFeatures(), split]))
    train_data, _, test_data = dataset[0]
    model = VGAE(Encoder(train_data.num_features, 16))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(args.epochs):
        model.train()
        optimizer.zero_grad()
        z = model.encode(train_data.x, train_data.edge_index)
        loss = model.recon_loss(z, train_data.pos_edge_label_index)
        (loss + model.kl_loss() / train_data.num_nodes).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        z = model.encode(test_data.x, test_data.edge_index)
        auc, _ = model.test(z, test_data.pos_edge_label_index, test_data.neg_edge_label_index)
    return report(float(auc), 'test AUC')


if __name__ == '__main__':
    main()
