r"""Views of trees, which are what GNNs of different kinds see of a computation graph, and linear
probes that measure how well each view predicts the label.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import rankdata
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from torch_geometric_cgt.data.token_trees import TokenTrees
from torch_geometric_cgt.data.tree import TreeShape
from torch_geometric_cgt.utils.linear import fit_linear, reduce_features

BLOCK_ELEMENTS = 1 << 24  # features per block of trees
LAYER_NAMES = ('root', 'children', 'grandchildren')
NUM_COMPONENTS = 256  # principal components of features
NUM_FOLDS = 3
MAX_ROWS = 8_000  # that a probe learns from
MAX_LOGITS = 80_000  # rows times labels: with many labels, fewer rows are used


def view_names(shape: TreeShape) -> list[str]:
    r"""The names of the views of trees of this shape, see :meth:`tree_views`."""
    return [*linear_view_names(shape), 'maximum', 'layers apart']


def linear_view_names(shape: TreeShape) -> list[str]:
    r"""The names of the views that are weighted sums of the features of slots."""
    hops = [f'{hop} hop' if hop == 1 else f'{hop} hops' for hop in range(1, shape.depth + 1)]
    return [*_layer_names(shape), *hops]


def tree_views(tokens: Tensor, table: Tensor, shape: TreeShape) -> dict[str, Tensor]:
    r"""Computes several views of each tree.

    * ``root``, ``children``, ``grandchildren``, ``layer 3``, ...: the mean of the
      features of one layer, which a perceptron or a model without self-loops
      sees.
    * ``1 hop``, ``2 hops``, ...: features that are combined with those of the
      children, once or repeatedly, with the symmetric normalisation of
      :class:`~torch_geometric.nn.conv.GCNConv`.
    * ``maximum``: the largest and the smallest value of each feature among the
      children of the root.
    * ``layers apart``: the means of all layers side by side, as for GraphSAGE.

    Args:
        tokens (torch.Tensor): The token of each breadth-first slot, ``[n, T]``.
        table (torch.Tensor): The features of each token, ``[m, D]``. Token
            :obj:`m` is null.
        shape (TreeShape): The geometry of the trees.

    Returns:
        One tensor per view, ``[n, D]``, or wider for the last two.
    """
    step = max(1, BLOCK_ELEMENTS // (shape.num_slots * max(1, table.size(1))))
    parts = [_views(part.long(), table, shape) for part in tokens.split(step)]
    return {name: torch.cat([part[name] for part in parts]) for name in view_names(shape)}


def _views(tokens: Tensor, table: Tensor, shape: TreeShape) -> dict[str, Tensor]:
    padded = F.pad(table, (0, 0, 0, 1))  # the last row is the null token
    weights = slot_weights(tokens < table.size(0), shape, table.dtype)
    out = {
        name: _weighted_sum(tokens[:, used], weight, padded)
        for name, (used, weight) in zip(linear_view_names(shape), weights, strict=True)
    }
    child = tokens[:, shape.layer_slice(1)]
    largest = _largest(child, F.pad(table, (0, 0, 0, 1), value=-torch.inf))
    smallest = -_largest(child, F.pad(-table, (0, 0, 0, 1), value=-torch.inf))
    out['maximum'] = torch.cat([largest, smallest], dim=1).nan_to_num(posinf=0.0, neginf=0.0)
    out['layers apart'] = torch.cat([out[name] for name in _layer_names(shape)], dim=1)
    return out


def slot_weights(
    is_real: Tensor, shape: TreeShape, dtype: torch.dtype = torch.float
) -> list[tuple[slice, Tensor]]:
    r"""The slots that each linear view sees and their weights, ``[n, slots]``: the
    mean of each layer, and the features of the root after one hop, two hops and so
    on.

    Args:
        is_real (torch.Tensor): Whether each slot is real, ``[n, T]``.
        shape (TreeShape): The geometry of the trees.
        dtype (torch.dtype, optional): The type of the weights.
            (default: :obj:`torch.float`)
    """
    layers = [shape.layer_slice(layer) for layer in range(shape.depth + 1)]
    real = [is_real[:, layer].to(dtype) for layer in layers]
    means = [exists / exists.sum(dim=1, keepdim=True).clamp(min=1) for exists in real]
    hops = _hop_weights(real, shape)
    return [*zip(layers, means, strict=True), *((slice(0, hop.size(1)), hop) for hop in hops)]


def _hop_weights(real: list[Tensor], shape: TreeShape) -> list[Tensor]:
    r"""The weight of each slot in the features of the root after one hop, two hops and so on,
    ``[n, slots]``. A hop is linear, so that features need not be combined slot by slot.
    """
    degree = [
        1 + exists.unflatten(1, (-1, fan_out)).sum(dim=2)
        for exists, fan_out in zip(real[1:], shape.num_neighbors, strict=True)
    ]
    degree.append(torch.ones_like(real[-1]))  # leaves
    weight, out = [torch.ones_like(real[0])], []
    for hop in range(1, shape.depth + 1):
        weight.append(torch.zeros_like(real[hop]))
        passed = [
            (w / d.sqrt()).repeat_interleave(fan_out, dim=1)
            for w, d, fan_out in zip(weight[:-1], degree, shape.num_neighbors, strict=False)
        ]
        weight = [w / d for w, d in zip(weight, degree, strict=False)]
        for layer, above in enumerate(passed, start=1):
            weight[layer] = weight[layer] + above * real[layer] / degree[layer].sqrt()
        out.append(torch.cat(weight, dim=1))
    return out


def _weighted_sum(tokens: Tensor, weight: Tensor, table: Tensor) -> Tensor:
    r"""Sums features of slots, ``[n, D]``, without a copy of the features of each slot."""
    return F.embedding_bag(
        tokens.contiguous(), table, per_sample_weights=weight.contiguous(), mode='sum'
    )


def _largest(slots: Tensor, table: Tensor) -> Tensor:
    r"""The largest value of each feature among some slots, ``[n, D]``."""
    out = table[slots[:, 0]]
    for slot in slots[:, 1:].unbind(dim=1):
        torch.maximum(out, table[slot], out=out)
    return out


def _layer_names(shape: TreeShape) -> list[str]:
    return [
        LAYER_NAMES[layer] if layer < len(LAYER_NAMES) else f'layer {layer}'
        for layer in range(shape.depth + 1)
    ]


@dataclass(frozen=True)
class LinearProbe:
    r"""A multinomial logistic regression with the scaling of its input.

    Args:
        shift (torch.Tensor): Subtracted from the input, ``[D]``.
        weight (torch.Tensor): ``[C, D]``.
        bias (torch.Tensor): ``[C]``. The bias of a label that was not seen is very low.
    """

    shift: Tensor
    weight: Tensor
    bias: Tensor

    @classmethod
    def fit(cls, rows: Tensor, y: Tensor, num_classes: int) -> LinearProbe:
        r"""Trains a probe.

        Args:
            rows (torch.Tensor): The input, ``[n, D]``.
            y (torch.Tensor): The labels, ``[n]``.
            num_classes (int): The number of labels.
        """
        shift = rows.mean(dim=0)
        scale = float((rows - shift).square().sum(dim=1).mean().sqrt().clamp(min=1e-12))
        weight = rows.new_zeros(num_classes, rows.size(1))
        bias = rows.new_full((num_classes,), -1e4)
        seen = y.unique()
        if seen.numel() < 2:
            bias[seen] = 0.0
            return cls(shift, weight, bias)
        model = LogisticRegression(C=10.0, max_iter=100, tol=1e-3)
        fit_linear(model, ((rows - shift) / scale).numpy(), y.numpy())
        coef, intercept = model.coef_, model.intercept_
        if seen.numel() == 2:  # scikit-learn keeps the difference of the two labels only
            coef = np.concatenate([-coef, coef]) / 2
            intercept = np.concatenate([-intercept, intercept]) / 2
        weight[seen] = torch.from_numpy(coef).to(rows.dtype) / scale
        bias[seen] = torch.from_numpy(intercept).to(rows.dtype)
        return cls(shift, weight, bias)

    def __call__(self, rows: Tensor) -> Tensor:
        r"""The class probabilities of each row, ``[n, C]``."""
        return ((rows - self.shift) @ self.weight.t() + self.bias).softmax(dim=1)


class ViewProbes:
    r"""One linear probe per view and fold.

    A tree that probes were trained on is predicted by those that did not see
    it, and any other tree by the probes of a random fold. All predictions
    therefore come from probes of the same quality.

    Args:
        folds (list[dict[str, LinearProbe]]): The probe of each view, for each fold.
    """

    def __init__(self, folds: list[dict[str, LinearProbe]]) -> None:
        self.folds = folds

    @classmethod
    def fit(
        cls,
        views: dict[str, Tensor],
        y: Tensor,
        fold: Tensor,
        num_classes: int,
        rng: torch.Generator,
    ) -> ViewProbes:
        r"""Trains the probes of each fold on the trees of all other folds.

        Args:
            views (dict[str, torch.Tensor]): The views of the trees.
            y (torch.Tensor): The label of each tree, ``[n]``.
            fold (torch.Tensor): The fold of each tree, ``[n]``.
            num_classes (int): The number of labels.
            rng (torch.Generator): The source of randomness.
        """
        most = max(1, min(MAX_ROWS, MAX_LOGITS // num_classes))
        folds = []
        for i in range(NUM_FOLDS):
            rows = (fold != i).nonzero().view(-1)
            rows = rows[torch.randperm(rows.numel(), generator=rng)[:most]]
            folds.append(
                {name: LinearProbe.fit(z[rows], y[rows], num_classes) for name, z in views.items()}
            )
        return cls(folds)

    def __call__(self, views: dict[str, Tensor], fold: Tensor) -> dict[str, Tensor]:
        r"""Predicts the class probabilities of each view, ``[n, C]``.

        Args:
            views (dict[str, torch.Tensor]): The views.
            fold (torch.Tensor): The fold whose probes predict each tree, ``[n]``.
        """
        out = {}
        for name, z in views.items():
            probs = torch.stack([probes[name](z) for probes in self.folds])  # [K, n, C]
            out[name] = probs[fold, torch.arange(fold.numel())]
        return out


def probe_score(probs: Tensor, y: Tensor) -> float:
    r"""The accuracy of predictions, or the area under the ROC curve for two labels.

    Args:
        probs (torch.Tensor): Class probabilities, ``[n, C]``.
        y (torch.Tensor): The labels, ``[n]``.
    """
    if probs.size(1) == 2 and y.unique().numel() == 2:
        return roc_auc(probs[:, 1], y)
    return float((probs.argmax(dim=1) == y).double().mean())


def roc_auc(score: Tensor, y: Tensor) -> float:
    r"""The probability that a positive row has a larger score than a negative
    one, ties counted as a half. It is a half if one class is missing.

    Args:
        score (torch.Tensor): The scores, ``[n]``.
        y (torch.Tensor): The labels, 0 or 1, ``[n]``.
    """
    positive = y == 1
    num_positive, num_negative = int(positive.sum()), int((~positive).sum())
    if not num_positive or not num_negative:
        return 0.5
    rank = rankdata(score.double().numpy())[positive.numpy()].sum()
    return float((rank - num_positive * (num_positive + 1) / 2) / (num_positive * num_negative))


def probe_table(x: Tensor, seed: int = 0) -> Tensor:
    r"""The features that probes see: principal components, ``[m, D]``.

    Args:
        x (torch.Tensor): The features of each token, dense or sparse, ``[m, F]``.
        seed (int, optional): The seed of the components. (default: :obj:`0`)
    """
    return reduce_features(x, NUM_COMPONENTS, seed).float()


def used_tokens(trees: TokenTrees, x: Tensor) -> tuple[TokenTrees, Tensor]:
    r"""The same trees with a table of only those tokens that they use.

    Args:
        trees (TokenTrees): The trees.
        x (torch.Tensor): The features of each token, dense or sparse, ``[m, F]``.
    """
    token = trees.tokens.long().unique()
    token = token[token < trees.num_tokens]
    place = torch.full((trees.num_tokens,), -1)
    place[token] = torch.arange(token.numel())
    rows = x if x.layout == torch.strided else x.to_sparse_coo()
    return trees.map_tokens(place, token.numel()), rows.index_select(0, token)
