r"""GCN on random parts of the graph (RandomNodeLoader), tested on the whole graph."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from common import accuracy, arguments, open_dataset, report
from torch_geometric.loader import RandomNodeLoader
from torch_geometric.nn import GCN


def main(argv: Sequence[str] | None = None) -> float:
    args = arguments(argv, epochs=30)
    dataset = open_dataset(args, T.NormalizeFeatures())
    data = dataset[0]
    loader = RandomNodeLoader(data, num_parts=4, shuffle=True)
    model = GCN(dataset.num_features, 32, 2, dataset.num_classes, dropout=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(args.epochs):
        model.train()
        for batch in loader:
            if not batch.train_mask.any():
                continue
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)
            F.cross_entropy(out[batch.train_mask], batch.y[batch.train_mask]).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        out = model(data.x, data.edge_index)
    return report(accuracy(out, data, data.test_mask))


if __name__ == '__main__':
    main()
