r"""Statistics of trees that describe what GNNs learn from them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.data.views import ViewProbes, tree_views, view_names

NUM_MOMENTS = 24  # principal components whose moments are statistics
BLOCK = 4096  # trees at a time


@dataclass(frozen=True)
class Statistics:
    r"""Statistics of trees.

    Args:
        shared (torch.Tensor): Those whose parameters all labels share, ``[n, P]``.
        by_class (torch.Tensor): Those with parameters for each label, ``[n, Q]``.
    """

    shared: Tensor
    by_class: Tensor

    @classmethod
    def cat(cls, parts: list[Statistics]) -> Statistics:
        r"""Joins blocks of trees."""
        return cls(
            torch.cat([part.shared for part in parts]), torch.cat([part.by_class for part in parts])
        )


class TreeStatistics:
    r"""Computes statistics of trees that describe what GNNs learn from them.

    Probes predict the label from each view. Statistics compare the predictions
    with the label: the probability of the label and of the strongest other
    one, whether the prediction is right, how certain it is, and products for
    each pair of views. Others do not depend on the label: numbers of children,
    agreement of the root, its children and theirs, and means, squares and
    products of features.

    Args:
        table (torch.Tensor): The features of each token, ``[m, D]``.
        shape (TreeShape): The geometry of the trees.
        probes (ViewProbes): Probes of the views.
    """

    def __init__(self, table: Tensor, shape: TreeShape, probes: ViewProbes) -> None:
        self.table = table
        self.shape = shape
        self.probes = probes

    def __call__(self, tokens: Tensor, y: Tensor, is_train: Tensor, fold: Tensor) -> Statistics:
        r"""Computes the statistics of some trees.

        Args:
            tokens (torch.Tensor): Token trees, ``[n, T]``.
            y (torch.Tensor): The label of each tree, ``[n]``.
            is_train (torch.Tensor): Whether its root is a training node, ``[n]``.
            fold (torch.Tensor): The fold of probes that predict it, ``[n]``.
        """
        blocks = zip(*(t.split(BLOCK) for t in (tokens, y, is_train, fold)), strict=True)
        return Statistics.cat([self._block(*block) for block in blocks])

    def _block(self, tokens: Tensor, y: Tensor, is_train: Tensor, fold: Tensor) -> Statistics:
        tokens = tokens.long()
        views = tree_views(tokens, self.table, self.shape)
        probs = self.probes(views, fold)
        relative, own, hit = self._relative(probs, y)
        numbers = self._numbers(tokens)
        agreement = self._agreement(tokens, y, fold)
        shared = [
            relative,
            relative * is_train[:, None],
            _pairs(own),
            _pairs(hit),
            numbers,
            _outer(numbers, own),
            agreement,
            self._moments(views),
        ]
        by_class = torch.cat([*probs.values(), numbers], dim=1)
        return Statistics(torch.cat(shared, dim=1), by_class)

    def _relative(self, probs: dict[str, Tensor], y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r"""How far each view speaks for the label."""
        stacked = torch.stack(list(probs.values()), dim=1)  # [n, V, C]
        label = y.view(-1, 1, 1).expand(-1, stacked.size(1), 1)
        own = stacked.gather(2, label)[..., 0]  # [n, V]
        other = stacked.scatter(2, label, -1.0).amax(dim=2)
        hit = (own >= other).float()
        entropy = -(stacked * stacked.clamp(min=1e-12).log()).sum(dim=2)
        return torch.cat([own, other, hit, entropy], dim=1), own, hit

    def _numbers(self, tokens: Tensor) -> Tensor:
        r"""The share of real slots of each layer, squared and multiplied, and whether the root
        has no children.
        """
        real = tokens < self.table.size(0)
        share = [
            real[:, self.shape.layer_slice(layer)].float().mean(dim=1)
            for layer in range(1, self.shape.depth + 1)
        ]
        full = torch.stack(share, dim=1)
        extreme = torch.stack([full[:, 0] == 0, full[:, 0] == 1], dim=1).float()
        return torch.cat([full, extreme, _pairs(full)], dim=1)

    def _agreement(self, tokens: Tensor, y: Tensor, fold: Tensor) -> Tensor:
        r"""Agreement of the class probabilities of slots, as the probe of roots predicts them."""
        by_fold = torch.stack([probe['root'](self.table) for probe in self.probes.folds])
        by_fold = F.pad(by_fold, (0, 0, 0, 1))  # null slots have no probabilities
        layers = [
            by_fold[fold[:, None], tokens[:, self.shape.layer_slice(layer)]]
            for layer in range(min(2, self.shape.depth) + 1)
        ]
        real = [layer.sum(dim=2) > 0.5 for layer in layers]
        child, exists = layers[1], real[1].float()
        count = exists.sum(dim=1).clamp(min=1)
        with_root = (child * layers[0]).sum(dim=2)
        for_label = child.gather(2, y.view(-1, 1, 1).expand(-1, child.size(1), 1))[..., 0]
        lowest = for_label.masked_fill(~real[1], 1.0).amin(dim=1)
        total = child.sum(dim=1)
        pairs = (total.square().sum(dim=1) - child.square().sum(dim=(1, 2))) / (
            count * (count - 1)
        ).clamp(min=1)
        out = [
            with_root.sum(dim=1) / count,
            for_label.sum(dim=1) / count,
            for_label.amax(dim=1),
            torch.where(real[1].any(dim=1), lowest, 0.0),
            for_label.square().sum(dim=1) / count,
            pairs,
        ]
        if self.shape.depth > 1:
            below = layers[2].unflatten(1, (child.size(1), -1))
            number = real[2].float().sum(dim=1).clamp(min=1)
            out.append((below * child[:, :, None]).sum(dim=(1, 2, 3)) / number)
            out.append((below * layers[0][:, :, None]).sum(dim=(1, 2, 3)) / number)
        return torch.stack(out, dim=1)

    def _moments(self, views: dict[str, Tensor]) -> Tensor:
        r"""Means, squares and products of features."""
        names = view_names(self.shape)[: min(2, self.shape.depth) + 1]  # layers
        layers = [views[name][:, :NUM_MOMENTS] for name in names]
        width = self.table.size(1)
        largest, smallest = views['maximum'].split(width, dim=1)
        spread = (largest - smallest)[:, :NUM_MOMENTS]
        products = [a * b for a, b in pairwise(layers)]
        products.append(layers[0] * layers[-1])
        return torch.cat([*layers, *(z.square() for z in layers), *products, spread], dim=1)


def _pairs(z: Tensor) -> Tensor:
    r"""The products of all pairs of columns, and their squares."""
    i, j = torch.triu_indices(z.size(1), z.size(1))
    return z[:, i] * z[:, j]


def _outer(a: Tensor, b: Tensor) -> Tensor:
    r"""The products of each column of one matrix with each of another."""
    return (a[:, :, None] * b[:, None]).flatten(1)
