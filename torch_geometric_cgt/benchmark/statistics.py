r"""Statistics of computation graphs, and how far two sets of them are apart."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def zero_vectors(index: Tensor, null: int) -> Tensor:
    r"""The number of null slots of each tree: low where degrees are high.

    Args:
        index (torch.Tensor): The token or node of each slot, ``[n, T]``.
        null (int): What marks a null slot.
    """
    return (index == null).sum(dim=1)


def duplicates(index: Tensor, null: int) -> Tensor:
    r"""The number of real slots of each tree that repeat another one of it:
    high where edges are dense.

    Args:
        index (torch.Tensor): The token or node of each slot, ``[n, T]``.
        null (int): What marks a null slot.
    """
    ordered = index.sort(dim=1).values
    repeats = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != null)
    return repeats.sum(dim=1)


def wasserstein(a: Tensor, b: Tensor) -> float:
    r"""The Wasserstein distance of two samples of whole numbers.

    Args:
        a (torch.Tensor): The one sample.
        b (torch.Tensor): The other sample.
    """
    size = int(max(a.max(), b.max())) + 1
    p = torch.bincount(a, minlength=size).double() / a.numel()
    q = torch.bincount(b, minlength=size).double() / b.numel()
    return float((p - q).cumsum(0).abs().sum())


def agreement(original: list[float], generated: list[float]) -> dict[str, float | None]:
    r"""How well scores on generated graphs reproduce those on the original.

    Correlations are :obj:`None` where they are not defined: fewer than two
    pairs, or no difference among the scores.

    Args:
        original (list[float]): One score per model on the original graph.
        generated (list[float]): The same models on the generated graph.
    """
    x, y = np.asarray(original), np.asarray(generated)
    return {
        'mse': float(((x - y) ** 2).mean()),
        'max_abs': float(np.abs(x - y).max()),
        'pearson': _pearson(x, y),
        'spearman': _pearson(_ranks(x), _ranks(y)),
    }


def macro_f1(predicted: Tensor, y: Tensor, num_classes: int) -> float:
    r"""The mean of the F1 scores of all classes that are there or predicted.

    Args:
        predicted (torch.Tensor): The predicted labels, ``[n]``.
        y (torch.Tensor): The true ones, ``[n]``.
        num_classes (int): The number of classes.
    """
    hits = torch.bincount(y[predicted == y], minlength=num_classes)
    seen = torch.bincount(y, minlength=num_classes) + torch.bincount(
        predicted, minlength=num_classes
    )
    return float((2 * hits / seen)[seen > 0].mean()) if y.numel() else 0.0


def _pearson(x: np.ndarray, y: np.ndarray) -> float | None:
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def _ranks(x: np.ndarray) -> np.ndarray:
    r"""Ranks, with ties at their mean."""
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = counts.cumsum()
    return (last - (counts - 1) / 2)[inverse]
