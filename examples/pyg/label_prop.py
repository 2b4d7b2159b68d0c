r"""Label propagation: no features, only the labels of training nodes and the edges.

The labels of other nodes are not used. They are set to zero because a release has none below its
roots, and PyG's one-hot encoding needs a class for every node.
"""

from __future__ import annotations

from collections.abc import Sequence

from common import accuracy, arguments, open_dataset, report
from torch_geometric.nn import LabelPropagation


def main(argv: Sequence[str] | None = None) -> float:
    args = arguments(argv, epochs=3)
    dataset = open_dataset(args)
    data = dataset[0]
    model = LabelPropagation(num_layers=args.epochs, alpha=0.9)
    out = model(data.y.clamp(min=0), data.edge_index, mask=data.train_mask)
    return report(accuracy(out, data, data.test_mask))


if __name__ == '__main__':
    main()
