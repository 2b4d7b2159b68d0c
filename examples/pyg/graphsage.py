r"""GraphSAGE on mini-batches of NeighborLoader.

The stock sampler needs pyg-lib or torch-sparse. `TreeNeighborSampler` needs neither; where one of
them is installed, leave out `neighbor_sampler`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from common import arguments, open_dataset, report
from torch import Tensor
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GraphSAGE

from torch_geometric_cgt import TreeNeighborSampler


def main(argv: Sequence[str] | None = None) -> float:
    args = arguments(argv, epochs=20)
    dataset = open_dataset(args, T.NormalizeFeatures())
    data = dataset[0]
    sampler = TreeNeighborSampler(data, [5, 5], seed=args.seed)

    def loader(mask: Tensor, shuffle: bool = False) -> NeighborLoader:
        return NeighborLoader(
            data, [5, 5], mask, neighbor_sampler=sampler, batch_size=64, shuffle=shuffle
        )

    model = GraphSAGE(dataset.num_features, 64, 2, dataset.num_classes, dropout=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(args.epochs):
        model.train()
        for batch in loader(data.train_mask, shuffle=True):
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            F.cross_entropy(out, batch.y[: batch.batch_size]).backward()
            optimizer.step()
    model.eval()
    correct = 0
    with torch.no_grad():
        for batch in loader(data.test_mask):
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            correct += int((out.argmax(dim=1) == batch.y[: batch.batch_size]).sum())
    return report(correct / int(data.test_mask.sum()))


if __name__ == '__main__':
    main()
