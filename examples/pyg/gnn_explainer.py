r"""GNNExplainer: the edges that explain the predictions of a GCN for five test nodes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from common import arguments, open_dataset, report
from torch_geometric.explain import Explainer, GNNExplainer, ModelConfig, unfaithfulness
from torch_geometric.nn import GCN


def main(argv: Sequence[str] | None = None) -> float:
    args = arguments(argv, epochs=30)
    dataset = open_dataset(args, T.NormalizeFeatures())
    data = dataset[0]
    model = GCN(dataset.num_features, 16, 2, dataset.num_classes, dropout=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(args.epochs):
        optimizer.zero_grad()
        out = model(data.x, data.edge_index)
        F.cross_entropy(out[data.train_mask], data.y[data.train_mask]).backward()
        optimizer.step()
    model.eval()
    explainer = Explainer(
        model=model,
        algorithm=GNNExplainer(epochs=args.epochs),
        explanation_type='model',
        edge_mask_type='object',
        model_config=ModelConfig('multiclass_classification', 'node', 'raw'),
    )
    scores = []
    for node in data.test_mask.nonzero().view(-1)[:5].tolist():
        explanation = explainer(data.x, data.edge_index, index=node)
        scores.append(1 - unfaithfulness(explainer, explanation))
    return report(sum(scores) / len(scores), 'faithfulness')


if __name__ == '__main__':
    main()
