r"""The zoo: GNNs of PyG that differ on purpose, trained and scored on computation graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric_cgt.benchmark.gnn_training import fit
from torch_geometric_cgt.benchmark.tree_batches import TreeBatch
from torch_geometric_cgt.benchmark.zoo_models import (
    FLOOR,
    MAKERS,
    PLAIN,
    ZOO,
    TokenLinear,
    ZooModel,
)
from torch_geometric_cgt.data import TokenTrees
from torch_geometric_cgt.data.views import roc_auc
from torch_geometric_cgt.utils.seeds import derive_seed

__all__ = [
    'FLOOR',
    'PLAIN',
    'ZOO',
    'ZooConfig',
    'ZooTrees',
    'resplit',
    'train_zoo',
    'zoo_metrics',
    'zoo_scores',
]

LENGTH = 2.0  # of a feature vector


@dataclass(frozen=True)
class ZooConfig:
    r"""How the models of the zoo are trained: Adam, dropout and weight decay as
    in PyG's examples, no normalisation, and early stopping on validation.

    Args:
        lr (float): The learning rate.
        weight_decay (float): The weight decay.
        dropout (float): The dropout probability of hidden features.
        batch_size (int): The number of roots of a batch.
        epochs (int): The largest number of epochs.
        patience (int): Training ends after this number of epochs without a
            better validation score.
    """

    lr: float = 0.01
    weight_decay: float = 5e-4
    dropout: float = 0.5
    batch_size: int = 512
    epochs: int = 60
    patience: int = 15


class ZooTrees:
    r"""Computation graphs, cut into batches once for all models.

    Each epoch visits the same batches in another order. Models multiply
    features by one number, so that the feature vector of a node of these trees
    has a mean length of :obj:`LENGTH`. On graphs with long feature vectors, the
    learning rate would otherwise be too large for some seeds.

    Args:
        trees (TokenTrees): The trees, with features.
        batch_size (int, optional): The number of roots of a batch.
            (default: :obj:`512`)
        seed (int, optional): The seed that assigns training roots to batches.
            (default: :obj:`0`)
    """

    def __init__(self, trees: TokenTrees, batch_size: int = 512, seed: int = 0) -> None:
        self.num_features, self.num_classes = trees.features.size(1), trees.num_classes
        self.metric = metric_of(trees.num_classes)
        train = trees.rows('train')
        if not train.numel():
            raise ValueError('There are no training roots')
        order = torch.randperm(train.numel(), generator=torch.Generator().manual_seed(seed))
        # Batches of equal size: no epoch ends with a small one.
        num_batches = -(-train.numel() // batch_size)
        parts = train[order].tensor_split(num_batches)
        self.train = [TreeBatch(trees, rows) for rows in parts]
        self.val = [TreeBatch(trees, rows) for rows in trees.rows('val').split(batch_size)]
        self.scale = LENGTH / max(mean_length(trees), 1e-12)
        self.test = [TreeBatch(trees, rows) for rows in trees.rows('test').split(batch_size)]


def mean_length(trees: TokenTrees) -> float:
    r"""The mean Euclidean length of the feature vectors of all real slots.

    Args:
        trees (TokenTrees): The trees, with features.
    """
    x = trees.features
    count = torch.bincount(trees.tokens.reshape(-1).long(), minlength=trees.num_tokens + 1)[:-1]
    if isinstance(x, Tensor):
        length = torch.linalg.vector_norm(x, dim=1)
    else:
        row = torch.arange(x.size(0)).repeat_interleave(x.ptr.diff())
        length = torch.zeros(x.size(0)).index_add_(0, row, x.value.square()).sqrt()
    return float((count * length.double()).sum() / count.sum())


def resplit(trees: TokenTrees, seed: int) -> TokenTrees:
    r"""The same trees with their split codes permuted: another split with the
    same sizes.

    Args:
        trees (TokenTrees): The trees.
        seed (int): The seed of the permutation.
    """
    rng = torch.Generator().manual_seed(derive_seed(seed, 'zoo/resplit'))
    split = trees.split[torch.randperm(len(trees), generator=rng)]
    return replace(trees, split=split, child_split=None)


def metric_of(num_classes: int) -> str:
    r"""The score of a graph: ROC AUC for two classes, which are unbalanced in
    the graphs of the benchmark, and accuracy for more.
    """
    return 'roc_auc' if num_classes == 2 else 'accuracy'


def train_zoo(name: str, trees: ZooTrees, seed: int, config: ZooConfig | None = None) -> ZooModel:
    r"""Trains a model on the training roots and returns it at its best epoch.

    Args:
        name (str): One of :obj:`ZOO` or :obj:`PLAIN`.
        trees (ZooTrees): The computation graphs.
        seed (int): The seed of weights, dropout and the order of batches.
        config (ZooConfig, optional): How to train. (default: :obj:`None`)
    """
    if name not in MAKERS:
        raise ValueError(f"Unknown model '{name}'; choose from {list(MAKERS)}")
    config = config or ZooConfig()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = MAKERS[name](trees.num_features, trees.num_classes, config.dropout)
        for module in model.modules():
            if isinstance(module, TokenLinear):
                module.scale.fill_(trees.scale)
        optimizer = torch.optim.Adam(
            model.parameters(), lr=config.lr, weight_decay=config.weight_decay
        )
        val = [b for b in trees.val if b.y.numel()] or trees.train
        fit(
            model,
            optimizer,
            lambda: torch.randperm(len(trees.train)),
            lambda i: F.cross_entropy(model(trees.train[i]), trees.train[i].y),
            lambda: _score(model, val)[trees.metric],
            config.epochs,
            config.patience,
        )
    return model


def zoo_metrics(model: ZooModel, batches: Sequence[TreeBatch], seed: int = 0) -> dict[str, float]:
    r"""The accuracy of a model and, for two classes, its ROC AUC.

    Args:
        model (ZooModel): The trained model.
        batches (list[TreeBatch]): Computation graphs, for instance
            :obj:`ZooTrees.test` of another graph.
        seed (int, optional): The seed of the permutation of the floor.
            (default: :obj:`0`)
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _score(model, batches)


def zoo_scores(
    trees: TokenTrees | ZooTrees,
    models: Sequence[str] = ZOO,
    seed: int = 0,
    config: ZooConfig | None = None,
    metric: str | None = None,
) -> dict[str, float]:
    r"""Trains models on the same computation graphs and returns their test
    scores.

    Args:
        trees (TokenTrees or ZooTrees): The computation graphs, with features.
        models (list[str], optional): Some of :obj:`ZOO` and :obj:`PLAIN`.
        seed (int, optional): The seed of training and test.
            (default: :obj:`0`)
        config (ZooConfig, optional): How to train. (default: :obj:`None`)
        metric (str, optional): :obj:`"accuracy"` or :obj:`"roc_auc"`. By
            default, that of :meth:`metric_of`. (default: :obj:`None`)
    """
    config = config or ZooConfig()
    if isinstance(trees, TokenTrees):
        trees = ZooTrees(trees, config.batch_size, seed)
    chosen = metric or trees.metric
    out = {}
    for name in models:
        scores = zoo_metrics(train_zoo(name, trees, seed, config), trees.test, seed)
        if chosen not in scores:
            raise ValueError(f"Unknown metric '{chosen}'; choose from {list(scores)}")
        out[name] = scores[chosen]
    return out


@torch.no_grad()
def _score(model: ZooModel, batches: Sequence[TreeBatch]) -> dict[str, float]:
    model.eval()
    logits = torch.cat([model(batch) for batch in batches])
    y = torch.cat([batch.y for batch in batches])
    out = {'accuracy': int((logits.argmax(dim=1) == y).sum()) / max(1, y.numel())}
    if logits.size(1) == 2:
        out['roc_auc'] = roc_auc(logits[:, 1] - logits[:, 0], y)
    return out
