r"""Out-of-fold class probabilities of a linear model, as features for clustering and as a probe."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from torch_geometric_cgt.utils.linear import fit_linear

MAX_TRAIN_ROWS = 20_000  # Enough to fit a linear model; all rows are predicted.
MAX_TRAIN_LOGITS = 300_000  # Rows times classes: with many classes, fewer rows are used.
PREDICT_ROWS = 100_000  # Rows predicted at a time.


def out_of_fold_probabilities(
    z: Tensor, y: Tensor, num_folds: int = 5, seed: int = 0
) -> np.ndarray:
    r"""Predicts the class of every row with linear models that did not see its
    label. Rows without a label get the mean of all models.

    Args:
        z (torch.Tensor): The reduced features, ``[N, D]``.
        y (torch.Tensor): The labels, ``[N]``, negative where there is none.
        num_folds (int, optional): The number of models. (default: :obj:`5`)
        seed (int, optional): The seed of the folds. (default: :obj:`0`)

    Returns:
        Probabilities, ``[N, C]``, of the labels that occur.
    """
    labels = y.numpy()
    classes = np.unique(labels[labels >= 0])
    rng = np.random.default_rng(seed)
    fold = np.where(labels >= 0, rng.integers(num_folds, size=len(labels)), -1)
    total = np.zeros((len(labels), len(classes)))
    times = np.zeros((len(labels), 1))
    for i in range(num_folds):
        train = np.flatnonzero((fold >= 0) & (fold != i))
        train = rng.permutation(train)[: min(MAX_TRAIN_ROWS, MAX_TRAIN_LOGITS // len(classes))]
        predicted = np.flatnonzero((fold == i) | (fold == -1))
        known = np.unique(labels[train])
        if predicted.size == 0 or known.size == 0:
            continue
        columns = np.searchsorted(classes, known)
        if known.size == 1:
            total[predicted[:, None], columns] += 1.0
        else:
            model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=100, C=0.1))
            fit_linear(model, z[train].double().numpy(), labels[train])
            for part in np.array_split(predicted, 1 + predicted.size // PREDICT_ROWS):
                total[part[:, None], columns] += model.predict_proba(z[part].double().numpy())
        times[predicted] += 1
    return total / np.maximum(times, 1)


def task_space(z: Tensor, probabilities: np.ndarray, weight: float) -> Tensor:
    r"""Concatenates features and weighted class probabilities. Features are
    scaled to a total variance of one, so that a weight has the same effect on
    every graph.

    Args:
        z (torch.Tensor): The reduced features, ``[N, D]``.
        probabilities (numpy.ndarray): Class probabilities, ``[N, C]``.
        weight (float): The weight of the probabilities; zero leaves them out.
    """
    if weight == 0:
        return z
    scale = z.var(dim=0, unbiased=False).sum().sqrt().clamp(min=1e-12)
    extra = torch.from_numpy(probabilities).to(z.dtype)
    return torch.cat([(z - z.mean(dim=0)) / scale, weight * extra], dim=1)


def probe_accuracy(
    features: Tensor, y: Tensor, seed: int = 0, train_mask: Tensor | None = None
) -> float:
    r"""Returns the accuracy of a linear model on rows whose labels it did not
    see, as a measure of how well the features predict the labels.

    Args:
        features (torch.Tensor): The features, ``[N, D]``.
        y (torch.Tensor): The labels, ``[N]``, negative where there is none.
        seed (int, optional): The seed of the folds. (default: :obj:`0`)
        train_mask (torch.Tensor, optional): The rows that may be learned
            from, ``[N]``; all others are tested. By default, or if no row is
            left to learn from or to test, all rows are tested out of fold.
            (default: :obj:`None`)
    """
    known = y >= 0
    seen, tested = known, known
    if train_mask is not None and (known & train_mask).any() and (known & ~train_mask).any():
        seen, tested = known & train_mask, known & ~train_mask
    labels = y.masked_fill(~seen, -1)
    probabilities = out_of_fold_probabilities(features, labels, num_folds=3, seed=seed)
    classes = labels[seen].unique()
    predicted = classes[torch.from_numpy(probabilities).argmax(dim=1)]
    return float((predicted == y)[tested].double().mean())
