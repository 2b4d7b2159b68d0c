r"""Link prediction: a GCN encoder, inner products, and the links of RandomLinkSplit."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from common import arguments, open_dataset, report
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GCN


def main(argv: Sequence[str] | None = None) -> float:
    args = arguments(argv, epochs=40)
    split = T.RandomLinkSplit(num_val=0.05, num_test=0.1, is_undirected=True)
    dataset = open_dataset(args, T.Compose([T.NormalizeFeatures(), split]))
    train_data, val_data, test_data = dataset[0]
    model = GCN(train_data.num_features, 128, 2, 64)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def scores(data: Data) -> Tensor:
        z = model(data.x, data.edge_index)
        return (z[data.edge_label_index[0]] * z[data.edge_label_index[1]]).sum(dim=-1)

    @torch.no_grad()
    def auc(data: Data) -> float:
        model.eval()
        return float(roc_auc_score(data.edge_label.numpy(), scores(data).numpy()))

    best_val, test = -1.0, 0.0
    for epoch in range(1, args.epochs + 1):
        model.train()
        optimizer.zero_grad()
        F.binary_cross_entropy_with_logits(scores(train_data), train_data.edge_label).backward()
        optimizer.step()
        if epoch % 10 == 0 or epoch == args.epochs:
            if (val := auc(val_data)) > best_val:
                best_val, test = val, auc(test_data)
    return report(test, 'test AUC')


if __name__ == '__main__':
    main()
