r"""Makes, trains and tests GNNs by name, on the trees of any graph."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from torch_geometric_cgt.benchmark.sampling_gnns import (
    ASGCN,
    FastGCN,
    NodewiseGNN,
    PASSSampler,
    UniformSampler,
)
from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.data.token_trees import Rows
from torch_geometric_cgt.nn.tree_convs import (
    AttentionConv,
    MeanConv,
    PlainMeanConv,
    SAGEConv,
    SampledMeanConv,
    SumConv,
)
from torch_geometric_cgt.nn.tree_gnns import GNN, PPNP, TreeGNN

MODELS = ('GCN', 'SGC', 'GIN', 'GAT')
ALL_MODELS = (*MODELS, 'GraphSAGE', 'FastGCN', 'AS-GCN', 'PASS', 'PPNP')


def make_gnn(
    name: str,
    in_channels: int,
    num_classes: int,
    shape: TreeShape,
    hidden_channels: int = 64,
    dropout: float = 0.5,
    num_sampled: int | None = None,
) -> GNN:
    r"""Makes one of :obj:`ALL_MODELS`.

    Args:
        name (str): The name of the model.
        in_channels (int): The number of features.
        num_classes (int): The number of labels.
        shape (TreeShape): The geometry of the trees; its depth is the number
            of layers.
        hidden_channels (int, optional): The width. (default: :obj:`64`)
        dropout (float, optional): The dropout probability.
            (default: :obj:`0.5`)
        num_sampled (int, optional): For GraphSAGE and PASS, the number of
            children that each parent draws; for FastGCN and AS-GCN, the
            number of draws for a whole layer, per parent; the others use all
            children. If set to :obj:`None`, as many as the trees have slots
            for. (default: :obj:`None`)
    """
    if num_sampled is not None and num_sampled < 1:
        raise ValueError(f"'num_sampled' must be at least 1 (got {num_sampled})")
    sizes = [in_channels, *[hidden_channels] * (shape.depth - 1), num_classes]
    pairs = list(pairwise(sizes))
    if name == 'GCN':
        return TreeGNN([MeanConv(i, o) for i, o in pairs], shape, dropout)
    if name == 'SGC':
        plain = [PlainMeanConv() for _ in pairs[1:]]
        return TreeGNN([MeanConv(in_channels, num_classes), *plain], shape, 0.0, act=False)
    if name == 'GIN':
        return TreeGNN([SumConv(i, hidden_channels, o) for i, o in pairs], shape, dropout)
    if name == 'GAT':
        heads = [4] * (shape.depth - 1) + [1]
        return TreeGNN(
            [AttentionConv(i, o, h) for (i, o), h in zip(pairs, heads, strict=True)],
            shape,
            dropout,
        )
    if name in ('GraphSAGE', 'PASS'):
        means = [SAGEConv(i, o) for i, o in pairs]
        sampler = PASSSampler(in_channels, hidden_channels) if name == 'PASS' else UniformSampler()
        return NodewiseGNN(means, shape, sampler, num_sampled, dropout)
    if name in ('FastGCN', 'AS-GCN'):
        sampled = [SampledMeanConv(i, o) for i, o in pairs]
        if name == 'FastGCN':
            return FastGCN(sampled, shape, num_sampled, dropout)
        return ASGCN(in_channels, sampled, shape, num_sampled, dropout)
    if name == 'PPNP':
        return PPNP(in_channels, hidden_channels, num_classes, shape, dropout)
    raise ValueError(f"Unknown model '{name}'; choose from {list(ALL_MODELS)}")


@dataclass(frozen=True)
class GNNConfig:
    r"""How a GNN is trained: Adam, with early stopping on validation accuracy.

    The weight decay is weak on purpose. It has a larger effect where features
    are small, and means of features are smaller than features. Strong weight
    decay would compare the scales of features instead of graphs.
    """

    hidden_channels: int = 64
    dropout: float = 0.5
    lr: float = 0.01
    sampled_lr: float = 0.003  # for models that sample: some diverge with larger steps
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


def train_gnn(name: str, trees: TokenTrees, config: GNNConfig, seed: int) -> GNN:
    r"""Trains a GNN on the training roots and returns it at its best epoch.

    Args:
        name (str): One of :obj:`ALL_MODELS`.
        trees (TokenTrees): The trees, with features.
        config (GNNConfig): How to train.
        seed (int): The seed of weights, batches and sampled neighbours.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = make_gnn(
            name,
            trees.features.size(1),
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
            lambda: gnn_accuracy(model, trees, val if val.numel() else train),
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
    r"""Trains a model and restores the weights of its best epoch.

    Args:
        model (torch.nn.Module): The model.
        optimizer (torch.optim.Optimizer): The optimizer of its parameters.
        batches (callable): Returns the batches of an epoch.
        loss_of (callable): Returns the loss of a batch.
        score (callable): Returns a score that is not negative and is better
            the larger it is, for instance the validation accuracy.
        epochs (int): The largest number of epochs.
        patience (int): Training ends after this number of epochs without a
            better score.
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
    r"""Splits rows into batches. If the last batch would consist of one row,
    that row joins the batch before it: batch normalisation is not defined for
    one row.
    """
    parts = list(rows.split(batch_size))
    if len(parts) > 1 and parts[-1].numel() == 1:
        parts[-2:] = [torch.cat(parts[-2:])]
    return parts


def score_gnns(
    models: Sequence[str], trees: TokenTrees, seed: int, config: GNNConfig | None = None
) -> dict[str, float]:
    r"""Trains some GNNs on the same trees and returns their test accuracies.

    Args:
        models (list[str]): Some of :obj:`ALL_MODELS`.
        trees (TokenTrees): The trees, with features.
        seed (int): The seed of training and test.
        config (GNNConfig, optional): How to train. (default: :obj:`None`)
    """
    config = config or GNNConfig.for_roots(trees.rows('train').numel())
    test = trees.rows('test')
    return {
        name: gnn_accuracy(train_gnn(name, trees, config, seed), trees, test, seed)
        for name in models
    }


def evaluate_gnn(model: GNN, trees: TokenTrees, rows: Tensor, seed: int = 0) -> dict[str, float]:
    r"""The accuracy and the macro F1 score on some trees.

    Args:
        model (GNN): The model.
        trees (TokenTrees): The trees, with features.
        rows (torch.Tensor): Which of them.
        seed (int, optional): The seed of models that sample neighbours.
            (default: :obj:`0`)
    """
    predicted, y = predict(model, trees, rows, seed), trees.y[rows]
    return {
        'accuracy': int((predicted == y).sum()) / max(1, rows.numel()),
        'macro_f1': macro_f1(predicted, y, trees.num_classes),
    }


def gnn_accuracy(model: GNN, trees: TokenTrees, rows: Tensor, seed: int = 0) -> float:
    r"""The accuracy on some trees, see :meth:`evaluate_gnn`."""
    return evaluate_gnn(model, trees, rows, seed)['accuracy']


def macro_f1(predicted: Tensor, y: Tensor, num_classes: int) -> float:
    r"""The mean F1 score of all classes that occur or are predicted.

    Args:
        predicted (torch.Tensor): The predicted labels, ``[n]``.
        y (torch.Tensor): The true labels, ``[n]``.
        num_classes (int): The number of classes.
    """
    hits = torch.bincount(y[predicted == y], minlength=num_classes)
    seen = torch.bincount(y, minlength=num_classes) + torch.bincount(
        predicted, minlength=num_classes
    )
    return float((2 * hits / seen)[seen > 0].mean()) if y.numel() else 0.0


@torch.no_grad()
def predict(
    model: GNN, trees: TokenTrees, rows: Tensor, seed: int = 0, batch_size: int = 4096
) -> Tensor:
    r"""The predicted label of some trees."""
    model.eval()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        parts = [logits_of(model, trees, p).argmax(dim=1) for p in rows.split(batch_size)]
    return torch.cat(parts)


def logits_of(model: GNN, trees: TokenTrees, rows: Tensor) -> Tensor:
    r"""The logits of some trees."""
    return model(*batch_of(trees, rows))


def batch_of(trees: TokenTrees, rows: Tensor) -> tuple[Rows, Tensor]:
    r"""Some trees with a table of only those features that they use, so that
    models project each feature vector once.
    """
    x, tokens = trees.features, trees.tokens[rows]
    if trees.num_tokens <= rows.numel():
        return x, tokens
    used = torch.zeros(trees.num_tokens + 1, dtype=torch.bool)
    used[tokens.reshape(-1)] = True
    used[-1] = False
    used_rows = used.nonzero().view(-1)
    local = torch.full((trees.num_tokens + 1,), used_rows.numel())
    local[used_rows] = torch.arange(used_rows.numel())
    return x[used_rows], local[tokens]
