r"""Statistics of computation graphs, and how far two sets of them are apart."""

from __future__ import annotations

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
