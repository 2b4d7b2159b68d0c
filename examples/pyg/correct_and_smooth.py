r"""Correct and smooth: a perceptron whose errors and predictions spread over the edges."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from common import accuracy, arguments, open_dataset, report
from torch_geometric.nn import MLP, CorrectAndSmooth


def main(argv: Sequence[str] | None = None) -> float:
    args = arguments(argv, epochs=100)
    dataset = open_dataset(args, T.NormalizeFeatures())
    data = dataset[0]
    model = MLP([dataset.num_features, 64, dataset.num_classes], dropout=0.5, norm=None)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    train = data.train_mask
    for _ in range(args.epochs):
        model.train()
        optimizer.zero_grad()
        F.cross_entropy(model(data.x[train]), data.y[train]).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        y_soft = model(data.x).softmax(dim=-1)
    post = CorrectAndSmooth(50, 0.9, 50, 0.8, autoscale=True)
    y_soft = post.correct(y_soft, data.y[train], train, data.edge_index)
    y_soft = post.smooth(y_soft, data.y[train], train, data.edge_index)
    return report(accuracy(y_soft, data, data.test_mask))


if __name__ == '__main__':
    main()
