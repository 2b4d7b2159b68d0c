r"""Node2Vec: embeddings from random walks, tested by logistic regression.

PyG's random walks need pyg-lib or torch-cluster. The trees of a release are not connected to each
other, so that embeddings of their roots cannot be compared: this script is for sources.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from common import arguments, open_dataset, report
from torch_geometric.nn import Node2Vec


def main(argv: Sequence[str] | None = None) -> float:
    args = arguments(argv, epochs=50)
    data = open_dataset(args)[0]
    model = Node2Vec(
        data.edge_index,
        embedding_dim=128,
        walk_length=20,
        context_size=10,
        walks_per_node=10,
        num_nodes=data.num_nodes,
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(args.epochs):
        model.train()
        for positive, negative in model.loader(batch_size=128, shuffle=True):
            optimizer.zero_grad()
            model.loss(positive, negative).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        z = model()
    train, test = data.train_mask, data.test_mask
    return report(model.test(z[train], data.y[train], z[test], data.y[test], max_iter=150))


if __name__ == '__main__':
    main()
