r"""Training and testing a GNN on rows of slots, whatever the rows point to."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric_cgt.benchmark.models import TreeGNN, make_gnn
from torch_geometric_cgt.benchmark.rows import Rows
from torch_geometric_cgt.data import TreeShape, masks_of


@dataclass(frozen=True)
class TreeSet:
    r"""Computation graphs as rows of indices into a table of features.

    For the original graph the table holds the nodes, for the quantized and
    the generated one the codebook: the same code trains on all three.
    """

    x: Rows  # [R, F]
    index: Tensor  # [n, T] row of each slot, R where null
    y: Tensor  # [n]
    split: Tensor  # [n] split codes
    num_classes: int
    shape: TreeShape

    def rows(self, split: str) -> Tensor:
        r"""The trees of one split."""
        return masks_of(self.split)[f'{split}_mask'].nonzero().view(-1)


@dataclass(frozen=True)
class GNNConfig:
    r"""How a GNN is trained: Adam, stopped by validation accuracy.

    The weight decay is weak on purpose. A penalty on weights weighs more
    where features are small, and means of features are smaller than features:
    a strong one would compare scales, not graphs.
    """

    hidden_channels: int = 64
    dropout: float = 0.5
    lr: float = 0.01
    weight_decay: float = 5e-5
    batch_size: int = 512
    epochs: int = 200
    patience: int = 30

    @classmethod
    def for_roots(cls, num_roots: int) -> GNNConfig:
        r"""Fewer epochs where an epoch has more steps.

        Args:
            num_roots (int): The number of training roots.
        """
        epochs = min(200, max(30, 250_000 // max(1, num_roots)))
        return cls(epochs=epochs, patience=max(8, round(0.15 * epochs)))


def train_gnn(name: str, trees: TreeSet, config: GNNConfig, seed: int) -> TreeGNN:
    r"""Trains a GNN on the training roots and returns it at its best epoch."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = make_gnn(
            name,
            trees.x.size(1),
            trees.num_classes,
            trees.shape,
            config.hidden_channels,
            config.dropout,
        )
        optimizer = torch.optim.Adam(
            model.parameters(), lr=config.lr, weight_decay=config.weight_decay
        )
        train, val = trees.rows('train'), trees.rows('val')
        best, best_epoch, weights = -1.0, 0, copy.deepcopy(model.state_dict())
        for epoch in range(config.epochs):
            model.train()
            for rows in train[torch.randperm(train.numel())].split(config.batch_size):
                loss = F.cross_entropy(logits_of(model, trees, rows), trees.y[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            accuracy = test_gnn(model, trees, val if val.numel() else train)
            if accuracy > best:
                best, best_epoch, weights = accuracy, epoch, copy.deepcopy(model.state_dict())
            elif epoch - best_epoch >= config.patience:
                break
    model.load_state_dict(weights)
    return model


def score_gnns(
    models: Sequence[str], trees: TreeSet, seed: int, config: GNNConfig | None = None
) -> dict[str, float]:
    r"""The test accuracy of each of some GNNs, trained on the same trees."""
    config = config or GNNConfig.for_roots(trees.rows('train').numel())
    trained = {name: train_gnn(name, trees, config, seed) for name in models}
    return {name: test_gnn(gnn, trees, trees.rows('test')) for name, gnn in trained.items()}


@torch.no_grad()
def test_gnn(model: TreeGNN, trees: TreeSet, rows: Tensor, batch_size: int = 4096) -> float:
    r"""The accuracy on some trees."""
    model.eval()
    correct = sum(
        int((logits_of(model, trees, part).argmax(dim=1) == trees.y[part]).sum())
        for part in rows.split(batch_size)
    )
    return correct / max(1, rows.numel())


def logits_of(model: TreeGNN, trees: TreeSet, rows: Tensor) -> Tensor:
    r"""The logits of some trees, projecting each distinct row of the table once."""
    index = trees.index[rows]
    if trees.x.size(0) <= rows.numel():
        return model(trees.x, index)
    used = torch.zeros(trees.x.size(0) + 1, dtype=torch.bool)
    used[index.reshape(-1)] = True
    used[-1] = False
    used_rows = used.nonzero().view(-1)
    local = torch.full((trees.x.size(0) + 1,), used_rows.numel())
    local[used_rows] = torch.arange(used_rows.numel())
    return model(trees.x[used_rows], local[index])


test_gnn.__test__ = False  # type: ignore[attr-defined]  # not for pytest
