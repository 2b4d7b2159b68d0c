r"""Training and testing a GNN on rows of slots, whatever the rows point to."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from torch_geometric_cgt.benchmark.gnn import GNN
from torch_geometric_cgt.benchmark.models import make_gnn
from torch_geometric_cgt.benchmark.rows import Rows
from torch_geometric_cgt.benchmark.statistics import macro_f1
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
    child_split: Tensor | None = None  # [n, f] split codes of children of roots that are nodes

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
    sampled_lr: float = 0.003  # of models that draw neighbours: with larger steps, some get lost
    weight_decay: float = 5e-5
    batch_size: int = 512
    epochs: int = 200
    patience: int = 30
    num_sampled: int | None = None  # see make_gnn()

    @classmethod
    def for_roots(cls, num_roots: int) -> GNNConfig:
        r"""Fewer epochs where an epoch has more steps.

        Args:
            num_roots (int): The number of training roots.
        """
        epochs = min(200, max(30, 250_000 // max(1, num_roots)))
        return cls(epochs=epochs, patience=max(8, round(0.15 * epochs)))


def train_gnn(name: str, trees: TreeSet, config: GNNConfig, seed: int) -> GNN:
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
            config.num_sampled,
        )
        optimizer = torch.optim.Adam(
            model.parameters(),
            lr=config.sampled_lr if model.samples else config.lr,
            weight_decay=config.weight_decay,
        )
        train, val = trees.rows('train'), trees.rows('val')
        fit(
            model,
            optimizer,
            lambda: batches(train[torch.randperm(train.numel())], config.batch_size),
            lambda rows: model.loss(*batch_of(trees, rows), trees.y[rows]),
            lambda: test_gnn(model, trees, val if val.numel() else train),
            config.epochs,
            config.patience,
        )
    return model


def fit(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Callable[[], Iterable[Tensor]],
    loss_of: Callable[[Tensor], Tensor],
    score: Callable[[], float],
    epochs: int,
    patience: int,
) -> None:
    r"""Trains a model and leaves it at the epoch of its best score.

    Args:
        model (torch.nn.Module): The model.
        optimizer (torch.optim.Optimizer): The optimizer of its parameters.
        batches (callable): Returns the batches of an epoch.
        loss_of (callable): Returns the loss of a batch.
        score (callable): Returns what is to be large, from 0 on, for instance
            the accuracy on validation roots.
        epochs (int): The largest number of epochs.
        patience (int): The number of epochs without a better score after
            which training ends.
    """
    best, best_epoch, weights = -1.0, 0, copy.deepcopy(model.state_dict())
    for epoch in range(epochs):
        model.train()
        for batch in batches():
            loss = loss_of(batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        found = score()
        if found > best:
            best, best_epoch, weights = found, epoch, copy.deepcopy(model.state_dict())
        elif epoch - best_epoch >= patience:
            break
    model.load_state_dict(weights)


def batches(rows: Tensor, batch_size: int) -> list[Tensor]:
    r"""Rows in parts of one size, of which the last may be smaller, but does
    not consist of one row: batch normalization of one is not defined. That
    row joins the part before it.
    """
    parts = list(rows.split(batch_size))
    if len(parts) > 1 and parts[-1].numel() == 1:
        parts[-2:] = [torch.cat(parts[-2:])]
    return parts


def score_gnns(
    models: Sequence[str], trees: TreeSet, seed: int, config: GNNConfig | None = None
) -> dict[str, float]:
    r"""The test accuracy of each of some GNNs, trained on the same trees."""
    scores = evaluate_gnns(models, trees, seed, config)
    return {name: score['accuracy'] for name, score in scores.items()}


def evaluate_gnns(
    models: Sequence[str], trees: TreeSet, seed: int, config: GNNConfig | None = None
) -> dict[str, dict[str, float]]:
    r"""The test scores of each of some GNNs, see :meth:`evaluate_gnn`."""
    config = config or GNNConfig.for_roots(trees.rows('train').numel())
    test = trees.rows('test')
    return {
        name: evaluate_gnn(train_gnn(name, trees, config, seed), trees, test, seed)
        for name in models
    }


def evaluate_gnn(model: GNN, trees: TreeSet, rows: Tensor, seed: int = 0) -> dict[str, float]:
    r"""The accuracy and the macro F1 score on some trees.

    Args:
        model (GNN): The model.
        trees (TreeSet): The trees.
        rows (torch.Tensor): Which of them.
        seed (int, optional): The seed of the draws of models that sample.
            (default: :obj:`0`)
    """
    predicted, y = predict(model, trees, rows, seed), trees.y[rows]
    return {
        'accuracy': int((predicted == y).sum()) / max(1, rows.numel()),
        'macro_f1': macro_f1(predicted, y, trees.num_classes),
    }


def test_gnn(model: GNN, trees: TreeSet, rows: Tensor, seed: int = 0) -> float:
    r"""The accuracy on some trees, see :meth:`evaluate_gnn`."""
    return evaluate_gnn(model, trees, rows, seed)['accuracy']


@torch.no_grad()
def predict(
    model: GNN, trees: TreeSet, rows: Tensor, seed: int = 0, batch_size: int = 4096
) -> Tensor:
    r"""The predicted label of some trees."""
    model.eval()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        parts = [logits_of(model, trees, p).argmax(dim=1) for p in rows.split(batch_size)]
    return torch.cat(parts)


def logits_of(model: GNN, trees: TreeSet, rows: Tensor) -> Tensor:
    r"""The logits of some trees."""
    return model(*batch_of(trees, rows))


def batch_of(trees: TreeSet, rows: Tensor) -> tuple[Rows, Tensor]:
    r"""The distinct rows of the table that some trees use, and the trees as
    indices into them: what a model projects, it projects once.
    """
    index = trees.index[rows]
    if trees.x.size(0) <= rows.numel():
        return trees.x, index
    used = torch.zeros(trees.x.size(0) + 1, dtype=torch.bool)
    used[index.reshape(-1)] = True
    used[-1] = False
    used_rows = used.nonzero().view(-1)
    local = torch.full((trees.x.size(0) + 1,), used_rows.numel())
    local[used_rows] = torch.arange(used_rows.numel())
    return trees.x[used_rows], local[index]


test_gnn.__test__ = False  # type: ignore[attr-defined]  # not for pytest
