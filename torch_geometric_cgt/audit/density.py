r"""What a set of token trees tells of one tree: histograms with back-off."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.models.path_support import PathIndex, lookup

SMOOTHING = 2.0  # observations that the next shorter context counts for


class BackoffDensity:
    r"""A density over token trees that anybody can compute from a release.

    A child is predicted from (label, path to its parent), which is mixed with
    (label, parent token), that with the label and that with its layer alone:
    each context counts what it saw and adds :obj:`SMOOTHING` observations of
    the shorter one. Null is a token like others below a real parent, and
    certain below a null one. Slots of one parent are interchangeable.

    Args:
        tokens (torch.Tensor): Token trees, ``[n, T]``.
        y (torch.Tensor): The label of each root, ``[n]``.
        num_tokens (int): The number of tokens, which is also the null one.
        shape (TreeShape): The geometry of the trees.
    """

    def __init__(self, tokens: Tensor, y: Tensor, num_tokens: int, shape: TreeShape) -> None:
        self.num_tokens = num_tokens
        self.shape = shape
        self.index = PathIndex.of(tokens, y, num_tokens, shape)
        self.tables: list[list[tuple[Counts, Counts]]] = []
        for contexts, token, counted in self._layers(tokens, y):
            self.tables.append(
                [
                    (Counts(context[counted]), Counts(self._pair(context, token)[counted]))
                    for context in contexts
                ]
            )

    def log_prob(self, tokens: Tensor, y: Tensor, own: Tensor | None = None) -> Tensor:
        r"""The logarithm of the density of each tree given its label, ``[n]``.

        Args:
            tokens (torch.Tensor): Token trees, ``[n, T]``.
            y (torch.Tensor): The label of each root, ``[n]``.
            own (torch.Tensor, optional): For each of them, a tree that is
                among those the density was made from and must not count,
                ``[n, T]``, of the same label. (default: :obj:`None`)
        """
        total = torch.zeros(y.numel(), dtype=torch.double)
        others = self._layers(own, y) if own is not None else None
        for layer, (contexts, token, counted) in enumerate(self._layers(tokens, y)):
            prob = torch.full(token.shape, 1 / (self.num_tokens + (layer > 0)), dtype=torch.double)
            own_contexts, own_token, own_counted = next(others) if others else ([], token, counted)
            for order, (of_context, of_pair) in enumerate(self.tables[layer]):
                context = contexts[order]
                pair = self._pair(context, token)
                seen, seen_pair = of_context.get(context), of_pair.get(pair)
                if own is not None:
                    mine = own_contexts[order]
                    seen = seen - _count_in_row(context, mine, own_counted)
                    my_pair = self._pair(mine, own_token)
                    seen_pair = seen_pair - _count_in_row(pair, my_pair, own_counted)
                prob = (seen_pair + SMOOTHING * prob) / (seen + SMOOTHING)
            total += prob.log().masked_fill(~counted, 0.0).sum(dim=1)
        return total

    def label_log_prob(self, num_classes: int) -> Tensor:
        r"""The logarithm of the share of each label, each with one root more
        than was seen, ``[C]``.
        """
        by_label = self.tables[0][1][0]  # contexts of roots: nothing, then the label
        count = by_label.get(torch.arange(num_classes)) + 1
        return (count / count.sum()).log()

    def _layers(self, tokens: Tensor, y: Tensor) -> Iterator[tuple[list[Tensor], Tensor, Tensor]]:
        r"""For each layer, the contexts of its slots, shortest first, their
        tokens, and which of them are predicted, all ``[n, P]``.
        """
        path = self.index.find(tokens, y)
        label = y.long()[:, None]
        for layer in range(self.shape.depth + 1):
            slots = self.shape.layer_slice(layer)
            token = tokens[:, slots].long()
            by_label = label.expand_as(token)
            contexts = [torch.zeros_like(token), by_label]
            counted = torch.ones_like(token, dtype=torch.bool)
            if layer > 0:
                parent = self.shape.parent[slots]
                above = tokens[:, parent].long()
                counted = above != self.num_tokens
                contexts.append(by_label * (self.num_tokens + 1) + above)
                if layer > 1:  # in layer one, that is the path already
                    contexts.append(path[:, parent])
            yield contexts, token, counted

    def _pair(self, context: Tensor, token: Tensor) -> Tensor:
        r"""A context and the token in it as one number; a path that was never
        seen stays negative.
        """
        return (context * (self.num_tokens + 1) + token).masked_fill(context < 0, -1)


class Counts:
    r"""How often each key occurs.

    Args:
        keys (torch.Tensor): Whole numbers in any shape; negative ones are not
            counted.
    """

    def __init__(self, keys: Tensor) -> None:
        self.keys, self.counts = keys[keys >= 0].unique(return_counts=True)

    def get(self, keys: Tensor) -> Tensor:
        r"""The number of times that each key occurred, in the shape of the keys."""
        if self.keys.numel() == 0:
            return torch.zeros_like(keys, dtype=torch.double)
        place = lookup(self.keys, keys)
        return self.counts[place.clamp(min=0)].double().masked_fill(place < 0, 0.0)


def _count_in_row(keys: Tensor, others: Tensor, counted: Tensor) -> Tensor:
    r"""How often each key of a row is among the counted others of the same row."""
    others = others.masked_fill(~counted, -2)
    equal = (keys[:, :, None] == others[:, None, :]) & (keys >= 0)[:, :, None]
    return equal.sum(dim=2).double()
