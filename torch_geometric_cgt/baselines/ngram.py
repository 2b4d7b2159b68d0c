r"""Markov models of token trees: with back-off to shorter contexts, and independent tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.baselines.backoff import Backoff
from torch_geometric_cgt.baselines.table_model import TableModel
from torch_geometric_cgt.models import FitContext, TreeSource
from torch_geometric_cgt.utils.seeds import seeded

NEW, SIBLING, BACK = range(3)  # where a child comes from
NUM_STEPS = 20  # of expectation maximisation
PRIOR = 1.0  # pseudo-observations of each origin of a child


class NGram(TableModel):
    r"""A Markov model of token trees, learned by counting.

    1. The token of the root is drawn given the label.
    2. The number of children of a node is drawn given label, layer and token.
    3. Each child is, with probabilities that are learned for each layer, number of
       children and place among them: a new token given label, parent and
       grandparent; a copy of an earlier sibling; or a copy of the grandparent (an
       edge that is walked back).

    All distributions back off to shorter contexts
    (:class:`~torch_geometric_cgt.baselines.backoff.Backoff`). The probabilities of
    copies are found by expectation maximisation, with each child left out of the
    counts.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels.
        num_neighbors (list[int]): The fan-out of each layer.
        order (int, optional): The number of ancestors that a new token depends on,
            0 to 2. (default: :obj:`2`)
        repeats (bool, optional): Whether children can be copies of siblings and
            grandparents. (default: :obj:`True`)
    """

    name = 'NGram'
    has_log_prob = True

    origin: Tensor  # [L, f + 1, f, 2, 3] share of each origin of a child

    def __init__(
        self,
        num_tokens: int,
        num_classes: int,
        num_neighbors: Sequence[int],
        order: int = 2,
        repeats: bool = True,
    ) -> None:
        super().__init__(num_tokens, num_classes, num_neighbors, ('origin',))
        if order not in (0, 1, 2):
            raise ValueError(f"'order' must be 0, 1 or 2 (got {order!r})")
        self.order = order
        self.repeats = repeats
        self.root_tokens = Backoff(num_tokens, 2)  # given the label, and over all labels
        self.family_sizes = Backoff(max(self.num_neighbors) + 1, 2 + min(order, 1))
        self.child_tokens = Backoff(num_tokens, 2 + order)

    def config(self) -> dict[str, Any]:
        r"""The constructor arguments of this model."""
        return {**super().config(), 'order': self.order, 'repeats': self.repeats}

    def fit(self, source: TreeSource, context: FitContext | None = None) -> dict[str, Any]:
        r"""Counts one computation graph of every root."""
        context = context or FitContext()
        trees = source.trees(seeded(context.seed, 'trees'))
        context.limits.check()
        tokens, y = trees.tokens.long().cpu(), trees.y.long().cpu()
        if y.numel() == 0:
            raise ValueError('The source has no computation graphs to learn from')
        self.root_tokens.fit([y, torch.zeros_like(y)], tokens[:, 0])
        families = [self._families(tokens, y, layer) for layer in range(self.shape.depth)]
        family = _join(families)
        self.family_sizes.fit(self._degree_contexts(family), family['size'])
        context.limits.check()
        child, copies = self._children(family)
        is_new = self._counts_as_new(child)
        contexts = [key[is_new] for key in self._child_contexts(child)]
        self.child_tokens.fit(contexts, child['token'][is_new])
        self.set_tables(origin=self._fit_origins(child, copies, is_new, context))
        return {'nll': -float(self.log_prob(tokens, y).mean())}

    @torch.no_grad()
    def sample(
        self,
        y: Tensor,
        generator: torch.Generator | None = None,
        scene: Tensor | None = None,
    ) -> Tensor:
        r"""Draws one token tree per label, ``[B, T]``. Scenes are not used."""
        self.require_fitted()
        y = y.long()
        layers = [self.root_tokens.sample([y, torch.zeros_like(y)], generator).view(-1, 1)]
        for layer, fan_out in enumerate(self.num_neighbors):
            parent = layers[-1].reshape(-1)
            family = self._start_families(layers, y, layer)
            size = self.family_sizes.sample(self._degree_contexts(family), generator)
            size = size.clamp(max=fan_out).masked_fill(parent == self.num_tokens, 0)
            drawn = torch.full(
                (parent.numel(), fan_out), self.num_tokens, dtype=torch.long, device=y.device
            )
            for place in range(fan_out):
                rows = (size > place).nonzero().view(-1)
                if rows.numel() > 0:
                    own = {name: value[rows] for name, value in family.items()}
                    own['size'] = size[rows]
                    drawn[rows, place] = self._draw_child(own, drawn[rows, :place], generator)
            layers.append(drawn.view(y.numel(), -1))
        return torch.cat(layers, dim=1)

    @torch.no_grad()
    def log_prob(self, tokens: Tensor, y: Tensor, scene: Tensor | None = None) -> Tensor:
        r"""The log-likelihood of token trees, ``[B]``.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
            scene (torch.Tensor, optional): Is not used. (default: :obj:`None`)
        """
        self.require_fitted()
        tokens, y = tokens.long(), y.long()
        total = self.root_tokens.prob([y, torch.zeros_like(y)], tokens[:, 0]).log()
        for layer in range(self.shape.depth):
            family = self._families(tokens, y, layer)
            degree = self._degree_prob(family).log()
            total = total.index_add(0, family['tree'], degree)
            child, copies = self._children(family)
            new = self.child_tokens.prob(self._child_contexts(child), child['token'])
            parts = torch.cat([new[:, None], copies], dim=1)
            prob = (self._origin_of(child) * parts).sum(dim=1)
            total = total.index_add(0, child['tree'], prob.log())
        return total

    def _degree_prob(self, family: dict[str, Tensor]) -> Tensor:
        r"""The probability of each number of children. A number above the fan-out of
        a layer is drawn as the fan-out.
        """
        contexts = self._degree_contexts(family)
        prob = self.family_sizes.prob(contexts, family['size'])
        fan_out = torch.tensor(self.num_neighbors, device=prob.device)[family['layer']]
        for more in range(1, max(self.num_neighbors) + 1):
            above = (fan_out + more).clamp(max=max(self.num_neighbors))
            counts = (family['size'] == fan_out) & (fan_out + more <= max(self.num_neighbors))
            prob = prob + counts * self.family_sizes.prob(contexts, above)
        return prob

    def _families(self, tokens: Tensor, y: Tensor, layer: int) -> dict[str, Tensor]:
        r"""The parents of a layer that are not null, with their children, ``[P, f]``."""
        offsets, shape = self.shape.offsets, self.shape
        layers = [tokens[:, offsets[i] : offsets[i + 1]] for i in range(layer + 1)]
        family = self._start_families(layers, y, layer)
        fan_out, widest = shape.num_neighbors[layer], max(shape.num_neighbors)
        children = tokens[:, offsets[layer + 1] : offsets[layer + 2]].reshape(-1, fan_out)
        pad = children.new_full((children.size(0), widest - fan_out), self.num_tokens)
        children = torch.cat([children, pad], dim=1)
        order = (children == self.num_tokens).long().argsort(dim=1, stable=True)
        family['children'] = children.gather(1, order)  # null slots last
        family['size'] = (children != self.num_tokens).sum(dim=1)
        real = family['parent'] != self.num_tokens
        return {name: value[real] for name, value in family.items()}

    def _start_families(self, layers: Sequence[Tensor], y: Tensor, layer: int) -> dict[str, Tensor]:
        parent = layers[-1].reshape(-1)
        width = layers[-1].size(1)
        tree = torch.arange(y.numel(), device=y.device).repeat_interleave(width)
        grandparent = torch.full_like(parent, self.num_tokens)
        if layer > 0:
            fan_out = self.num_neighbors[layer - 1]
            grandparent = layers[-2].reshape(-1).repeat_interleave(fan_out)
        return {
            'tree': tree,
            'label': y[tree],
            'layer': torch.full_like(parent, layer),
            'parent': parent,
            'grandparent': grandparent,
        }

    def _children(self, family: dict[str, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        r"""All children that are not null, one after the other, and the probability
        of each as a copy of an earlier sibling and of the grandparent, ``[n, 2]``.
        """
        parts, copies = [], []
        for place in range(max(self.num_neighbors)):
            rows = (family['size'] > place).nonzero().view(-1)
            own = {name: value[rows] for name, value in family.items() if name != 'children'}
            earlier = family['children'][rows, :place]
            token = family['children'][rows, place]
            own['token'] = token
            own['place'] = torch.full_like(token, place)
            own['seen'] = (earlier == own['grandparent'][:, None]).any(dim=1).long()
            sibling = (earlier == token[:, None]).double().sum(dim=1) / max(1, place)
            back = (token == own['grandparent']).double()
            parts.append(own)
            copies.append(torch.stack([sibling, back], dim=1))
        return _join(parts), torch.cat(copies)

    def _degree_contexts(self, family: dict[str, Tensor]) -> list[Tensor]:
        layer = family['layer']
        label = layer * self.num_classes + family['label']
        longest = label * (self.num_tokens + 1) + family['parent']
        return [longest, label, layer][-self.family_sizes.num_levels :]

    def _child_contexts(self, child: dict[str, Tensor]) -> list[Tensor]:
        layer, width = child['layer'], self.num_tokens + 1
        label = layer * self.num_classes + child['label']
        parent = label * width + child['parent']
        longest = parent * width + child['grandparent']
        return [longest, parent, label, layer][-self.child_tokens.num_levels :]

    def _cell(self, child: dict[str, Tensor]) -> Tensor:
        widest = max(self.num_neighbors)
        cell = child['layer'] * (widest + 1) + child['size']
        return (cell * widest + child['place']) * 2 + child['seen']

    def _origin_of(self, child: dict[str, Tensor]) -> Tensor:
        return self.origin.view(-1, 3)[self._cell(child)]

    def _counts_as_new(self, child: dict[str, Tensor]) -> Tensor:
        r"""Whether a child is counted for the distribution of new tokens, ``[n]``. The
        first one that equals its grandparent is not, because the edge that is walked
        back explains it.
        """
        walked = (child['token'] == child['grandparent']) & (child['seen'] == 0)
        return ~walked if self.repeats else torch.ones_like(walked)

    def _fit_origins(
        self, child: dict[str, Tensor], copies: Tensor, is_new: Tensor, context: FitContext
    ) -> Tensor:
        r"""Finds the shares of new tokens, copies of siblings and walks back."""
        widest = max(self.num_neighbors)
        size = (self.shape.depth, widest + 1, widest, 2, 3)
        allowed = torch.ones(size, dtype=torch.float64)
        allowed[:, :, 0, :, SIBLING] = 0.0  # the first child has no earlier siblings
        allowed[0, ..., BACK] = 0.0  # children of the root have no grandparent
        if not self.repeats:
            allowed[..., SIBLING] = allowed[..., BACK] = 0.0
        allowed = allowed.view(-1, 3)
        share = allowed / allowed.sum(dim=1, keepdim=True)
        new = self.child_tokens.prob(self._child_contexts(child), child['token'], is_new)
        parts, cell = torch.cat([new[:, None], copies], dim=1), self._cell(child)
        for _ in range(NUM_STEPS):
            context.limits.check()
            weight = share[cell] * parts
            weight = weight / weight.sum(dim=1, keepdim=True)
            share = torch.zeros_like(share).index_add(0, cell, weight) + PRIOR * allowed
            share = share / share.sum(dim=1, keepdim=True)
        return share.view(size)

    def _draw_child(
        self, child: dict[str, Tensor], earlier: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        r"""Draws the next child of each family, given its earlier children."""
        place, device = earlier.size(1), earlier.device
        child['place'] = torch.full_like(child['parent'], place)
        child['seen'] = (earlier == child['grandparent'][:, None]).any(dim=1).long()
        token = self.child_tokens.sample(self._child_contexts(child), generator)
        origin = torch.multinomial(self._origin_of(child), 1, generator=generator).view(-1)
        token = torch.where(origin == BACK, child['grandparent'], token)
        if place > 0:
            uniform = torch.rand(token.size(), device=device, generator=generator)
            copied = earlier.gather(1, (uniform * place).long().clamp(max=place - 1)[:, None])
            token = torch.where(origin == SIBLING, copied.view(-1), token)
        return token


def _join(parts: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


class Independent(NGram):
    r"""Draws the tokens and the numbers of children of all nodes independently,
    given the label of the root and the layer. It is an :class:`NGram` of order 0
    without copies.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels.
        num_neighbors (list[int]): The fan-out of each layer.
    """

    name = 'Independent'

    def __init__(self, num_tokens: int, num_classes: int, num_neighbors: Sequence[int]) -> None:
        super().__init__(num_tokens, num_classes, num_neighbors, order=0, repeats=False)

    def config(self) -> dict[str, Any]:
        r"""The constructor arguments of this model."""
        own = super().config()
        return {name: own[name] for name in ('num_tokens', 'num_classes', 'num_neighbors')}
