r"""How the children of a slot are drawn, given the query of the slot."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.nn.family import Family, Parents
from torch_geometric_cgt.nn.vocabulary import (
    CellVocabulary,
    FlatVocabulary,
    Tiling,
    draw,
    log_softmax,
)

Vocabulary = FlatVocabulary | CellVocabulary
TINY = 1e-30  # keeps the logarithm of a sum of probabilities finite
# Draws of a common histogram that may be added to those of its parts; the last: all are the same.
SMOOTHING = (3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e12)


class IndependentChildren(nn.Module):
    r"""The paper's form: each child slot is drawn by itself, null or not.

    Args:
        vocabulary (FlatVocabulary or CellVocabulary): Distributions over all
            tokens and, last, null.
        num_tokens (int): The number of tokens.
    """

    num_types = 1

    def __init__(self, vocabulary: Vocabulary, num_tokens: int) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.num_tokens = num_tokens

    def root_log_prob(
        self, q: Tensor, y: Tensor, node: Tensor, token: Tensor, tiling: Tiling | None = None
    ) -> Tensor:
        r"""The log-probability of root tokens, ``[M]``; roots are never null."""
        base = self._base(q)
        log_prob = self.vocabulary.log_prob(q[:, None], q, base, node, token, tiling)[:, 0]
        null = self.vocabulary.last_log_prob(q, base)
        return log_prob - torch.log1p(-null.exp())[node]

    def draw_root(self, q: Tensor, y: Tensor, generator: torch.Generator | None) -> Tensor:
        r"""Draws root tokens, ``[M]``."""
        token = self.vocabulary.draw(q, q, self._base(q), 1, generator)[:, 0]
        while bool((again := token == self.num_tokens).any()):
            token[again] = self.vocabulary.draw(
                q[again], q[again], self._base(q[again]), 1, generator
            )[:, 0]
        return token

    def prior(self, q: Tensor) -> Tensor:
        r"""There is one type only, ``[N, 1]``."""
        return q.new_zeros(q.size(0), 1)

    def tiling(self, family: Family) -> Tiling | None:
        r"""How a vocabulary of cells visits the child slots."""
        node = family.node[:, None].expand_as(family.slots)
        return self.vocabulary.tiling(node.flatten(), family.slots.flatten())

    def log_prob(
        self, q: Tensor, y: Tensor, family: Family, tiling: Tiling | None = None
    ) -> Tensor:
        r"""The log-probability of the child slots of each parent, ``[M, 1]``."""
        node = family.node[:, None].expand_as(family.slots).flatten()
        log_prob = self.vocabulary.log_prob(
            q[:, None], q, self._base(q), node, family.slots.flatten(), tiling
        )
        return log_prob.view(family.slots.shape).sum(dim=1, keepdim=True)

    def draw(
        self,
        q: Tensor,
        y: Tensor,
        parents: Parents,
        types: Tensor,
        num_children: int,
        generator: torch.Generator | None,
    ) -> Tensor:
        r"""Draws the child slots of each parent, ``[M, f]``."""
        at = q[parents.node]
        return self.vocabulary.draw(at, at, self._base(at), num_children, generator)

    def _base(self, q: Tensor) -> Tensor:
        return q.new_zeros(q.size(0), 1)


class TypedChildren(nn.Module):
    r"""Children that agree with each other, as exchangeable draws given one
    latent type that the whole tree shares.

    The type of a tree is drawn given the label and the root token. Then, for
    each parent, the number of real children is drawn, and each real child
    either

    * comes from the distribution over tokens,
    * repeats the token above its parent (an edge walked back), or
    * repeats a token of its parent's layer (a triangle),

    and the children of one parent reinforce each other as in a Pólya urn. All
    of this is a function of the query of the parent and the type, through one
    narrow layer: contexts and queries are computed once, whatever the number
    of types. The likelihood sums over the types and is exact. It is that of
    the real children of each parent, in the order of their slots: trees that
    differ only in where null slots stand among siblings are the same.

    Args:
        vocabulary (FlatVocabulary or CellVocabulary): Distributions over all
            tokens.
        num_tokens (int): The number of tokens.
        num_classes (int): The number of labels, or one if they are not seen.
        num_neighbors (list[int]): The fan-out of each layer.
        channels (int): The width of the queries.
        num_types (int): The number of types.
        repeats (bool): Whether children may repeat tokens of their tree.
        num_scenes (int, optional): The number of scenes. (default: :obj:`1`)
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        num_tokens: int,
        num_classes: int,
        num_neighbors: Sequence[int],
        channels: int,
        num_types: int,
        repeats: bool,
        num_scenes: int = 1,
    ) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.num_tokens = num_tokens
        self.num_classes = num_classes
        self.num_scenes = num_scenes
        self.fan_outs = tuple(num_neighbors)
        self.num_types = num_types
        depth, most = len(self.fan_outs), max(self.fan_outs)
        self.hidden = nn.Linear(channels, channels)
        self.latent = nn.Embedding(num_types + 1, channels)  # the last one is the root's
        self.type_prior = nn.Linear(channels, num_types) if num_types > 1 else None
        self.number = nn.Linear(channels, most + 1)
        # Histograms from which training starts. What is below the children of a root knows the
        # label by its scene alone: slots that all vote for the label by themselves make graphs
        # too easy.
        self.root_base = nn.Embedding(num_scenes * num_classes, vocabulary.num_outputs)
        self.child_base = nn.Embedding(num_scenes * num_classes, vocabulary.num_outputs)
        self.token_base = nn.Embedding((depth - 1) * num_scenes, vocabulary.num_outputs)
        self.number_base = nn.Embedding(depth * num_scenes, most + 1)
        self.origin = nn.Linear(channels, 3) if repeats else None
        self.origin_base = nn.Embedding(depth, 3) if repeats else None
        self.urn = nn.Linear(channels, 1) if repeats else None
        self.urn_base = nn.Embedding(depth, 1) if repeats else None

    @torch.no_grad()
    def reset_parameters(self) -> None:
        r"""Draws types that differ, and starts from flat histograms."""
        nn.init.normal_(self.latent.weight)
        nn.init.zeros_(self.root_base.weight)
        nn.init.zeros_(self.child_base.weight)
        nn.init.zeros_(self.token_base.weight)
        nn.init.zeros_(self.number_base.weight)
        if self.origin_base is not None and self.urn_base is not None:
            self.origin_base.weight.copy_(torch.tensor([0.0, -2.0, -2.0]))
            nn.init.constant_(self.urn_base.weight, -3.0)

    def root_log_prob(
        self, q: Tensor, y: Tensor, node: Tensor, token: Tensor, tiling: Tiling | None = None
    ) -> Tensor:
        r"""The log-probability of root tokens, ``[M]``."""
        h = F.gelu(self.hidden(q) + self.latent.weight[-1])[:, None]
        return self.vocabulary.log_prob(h, q, self.root_base(y), node, token, tiling)[:, 0]

    def draw_root(self, q: Tensor, y: Tensor, generator: torch.Generator | None) -> Tensor:
        r"""Draws root tokens, ``[M]``."""
        h = F.gelu(self.hidden(q) + self.latent.weight[-1])
        return self.vocabulary.draw(h, q, self.root_base(y), 1, generator)[:, 0]

    def prior(self, q: Tensor) -> Tensor:
        r"""The log-probability of each type, ``[N, K]``, given label and root."""
        if self.type_prior is None:
            return q.new_zeros(q.size(0), 1)
        return log_softmax(self.type_prior(q))

    def tiling(self, family: Family) -> Tiling | None:
        r"""How a vocabulary of cells visits the real children."""
        return self.vocabulary.tiling(family.child_node, family.token)

    def log_prob(
        self, q: Tensor, y: Tensor, family: Family, tiling: Tiling | None = None
    ) -> Tensor:
        r"""The log-probability of the children of each parent, ``[M, K]``.

        Args:
            q (torch.Tensor): The queries, ``[N, D]``.
            y (torch.Tensor): The label of each query, ``[N]``.
            family (Family): Parents and children, each with its query.
            tiling (Tiling, optional): What :meth:`tiling` returned for them.
                (default: :obj:`None`)
        """
        h = F.gelu(self.hidden(q)[:, None] + self.latent.weight[:-1])  # [N, K, D]
        base = self._token_base(y, family.layer)
        node = family.child_node
        log_prob = self.vocabulary.log_prob(h, q, base, node, family.token, tiling)  # [R, K]
        if self.origin is not None:
            origin = _rows(self._origin(h, family.layer).exp(), node)  # [R, K, 3]
            prob = (
                origin[..., 0] * log_prob.exp()
                + origin[..., 1] * family.above[:, None]
                + origin[..., 2] * family.beside[:, None].to(origin.dtype)
            )
            pull = _rows(self._urn(h, family.layer)[..., None], node)[..., 0]
            prob = (prob + pull * family.alike[:, None]) / (1 + pull * family.rank[:, None])
            log_prob = (prob + TINY).log()
        number = _rows(self._number(h, y, family.layer), family.node)  # [M, K, most + 1]
        number = number.gather(2, family.number[:, None, None].expand(-1, self.num_types, 1))
        return number[..., 0].index_add(0, family.row, log_prob.to(number.dtype))

    def draw(
        self,
        q: Tensor,
        y: Tensor,
        parents: Parents,
        types: Tensor,
        num_children: int,
        generator: torch.Generator | None,
    ) -> Tensor:
        r"""Draws the child slots of each parent, ``[M, f]``.

        Args:
            q (torch.Tensor): The queries, ``[N, D]``.
            y (torch.Tensor): The label of each query, ``[N]``.
            parents (Parents): The parents, each with its query.
            types (torch.Tensor): The type of the tree of each parent, ``[M]``.
            num_children (int): The fan-out.
            generator (torch.Generator, optional): The source of randomness.
        """
        q, y = q[parents.node], y[parents.node]
        h = F.gelu(self.hidden(q) + self.latent(types))
        number = draw(self._number(h[:, None], y, parents.layer)[:, 0], 1, generator)
        base = self._token_base(y, parents.layer)
        token = self.vocabulary.draw(h, q, base, num_children, generator)
        if self.origin is not None:
            origin = draw(self._origin(h, parents.layer), num_children, generator)
            token = torch.where(origin == 1, parents.grandparent[:, None], token)
            present = (parents.peers != self.num_tokens).to(h.dtype)
            chosen = torch.multinomial(present, num_children, replacement=True, generator=generator)
            token = torch.where(origin == 2, parents.peers.gather(1, chosen), token)
            pull = self._urn(h, parents.layer)
            for i in range(1, num_children):
                chance = torch.rand(pull.shape, generator=generator, device=pull.device)
                ball = torch.rand(pull.shape, generator=generator, device=pull.device) * i
                ball = ball.long().clamp(max=i - 1)[:, None]
                old = chance < pull * i / (1 + pull * i)
                token[:, i] = torch.where(old, token.gather(1, ball)[:, 0], token[:, i])
        slot = torch.arange(num_children, device=token.device)
        return token.masked_fill(slot >= number, self.num_tokens)

    @torch.no_grad()
    def set_marginals(self, tokens: Tensor, y: Tensor, shape: TreeShape) -> None:
        r"""Starts from the histograms of some trees: of roots and their
        children per scene and label, of tokens below them and of numbers of
        children per layer and scene.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The condition of each tree, ``[B]``: its label,
                plus the number of labels times its scene.
            shape (TreeShape): The geometry of the trees.
        """
        tokens, y = tokens.cpu().long(), y.cpu().long()
        outputs, most = self.vocabulary.num_outputs, self.number_base.embedding_dim
        rng = torch.Generator().manual_seed(0)
        half = torch.randperm(y.numel(), generator=rng) % 2
        scene = (half * self.num_scenes + y // self.num_classes)[:, None]
        group = (half * self.num_scenes * self.num_classes + y)[:, None]
        root = self.vocabulary.outputs_of(tokens[:, 0])
        self.root_base.weight.copy_(self._histograms(group[:, 0], root, outputs, self.num_classes))
        token_base, number_base = [self.token_base.weight[:0]], []
        for layer in range(shape.depth):
            above = tokens[:, shape.layer_slice(layer)] != self.num_tokens
            slots = tokens[:, shape.layer_slice(layer + 1)]
            real = slots != self.num_tokens
            count = real.unflatten(1, (-1, shape.num_neighbors[layer])).sum(dim=2)
            output = self.vocabulary.outputs_of(slots[real])
            if layer == 0:
                self.child_base.weight.copy_(
                    self._histograms(
                        group.expand_as(slots)[real], output, outputs, self.num_classes
                    )
                )
            else:
                token_base.append(self._histograms(scene.expand_as(slots)[real], output, outputs))
            number_base.append(self._histograms(scene.expand_as(above)[above], count[above], most))
        self.token_base.weight.copy_(torch.cat(token_base))
        self.number_base.weight.copy_(torch.cat(number_base))
        if isinstance(self.vocabulary, CellVocabulary):
            seen = torch.bincount(
                tokens[tokens != self.num_tokens], minlength=self.vocabulary.member.num_embeddings
            )
            self.vocabulary.member_base.weight.copy_((seen + 0.5).log()[:, None])

    def _histograms(
        self, group: Tensor, value: Tensor, num_values: int, num_classes: int = 1
    ) -> Tensor:
        r"""Log-frequencies of values per group.

        Args:
            group (torch.Tensor): The scene and label of each value, plus the
                number of groups in the second half of the trees.
            value (torch.Tensor): The values.
            num_values (int): The number of distinct values.
            num_classes (int, optional): The number of labels that are told
                apart. (default: :obj:`1`)
        """
        size = 2 * self.num_scenes * num_classes * num_values
        count = torch.bincount(group * num_values + value, minlength=size).double()
        return smooth_histograms(count.view(2, self.num_scenes, num_classes, num_values))

    def _token_base(self, y: Tensor, layer: int) -> Tensor:
        r"""The histograms of the children of a layer."""
        if layer == 0:
            return self.child_base(y)
        return self.token_base((layer - 1) * self.num_scenes + y // self.num_classes)

    def _number(self, h: Tensor, y: Tensor, layer: int) -> Tensor:
        r"""The log-probability of each number of children, ``[N, K, most + 1]``."""
        base = self.number_base(layer * self.num_scenes + y // self.num_classes)
        logits = self.number(h) + base[:, None]
        too_many = torch.arange(logits.size(-1), device=h.device) > self.fan_outs[layer]
        return log_softmax(logits.masked_fill(too_many, -torch.inf))

    def _origin(self, h: Tensor, layer: int) -> Tensor:
        r"""The log-probability of the three origins of a child."""
        assert self.origin is not None and self.origin_base is not None
        logits = self.origin(h) + self.origin_base.weight[layer]
        if layer == 0:  # nothing is above the root
            logits = logits.masked_fill(torch.arange(3, device=h.device) == 1, -torch.inf)
        return log_softmax(logits)

    def _urn(self, h: Tensor, layer: int) -> Tensor:
        r"""How much one more child of a token pulls, beside a weight of one
        for all that the children are drawn from.
        """
        assert self.urn is not None and self.urn_base is not None
        return F.softplus((self.urn(h) + self.urn_base.weight[layer]).squeeze(-1))


def _rows(table: Tensor, index: Tensor) -> Tensor:
    r"""Some rows ``[M, K, E]`` of a table ``[N, K, E]``."""
    return F.embedding(index, table.flatten(1)).view(-1, *table.shape[1:])


def smooth_histograms(count: Tensor) -> Tensor:
    r"""Log-frequencies of values per scene and label, ``[S * C, V]``.

    Those of a scene are smoothed by the overall ones, and those of a label by
    those of its scene, as much as makes each half of the trees most likely
    under the histograms of the other half: scenes and labels that tell
    nothing have all the same histograms.

    Args:
        count (torch.Tensor): The number of values in each half of the trees,
            ``[2, S, C, V]``.
    """
    strength = [SMOOTHING[0], SMOOTHING[-1]]
    for i in range(2 if count.size(2) > 1 else 1):
        likelihood = {}
        for strength[i] in reversed(SMOOTHING):
            halves = zip(count, count.flip(0), strict=True)
            likelihood[strength[i]] = sum(
                float((held_out * _smoothed(seen, *strength)).sum()) for held_out, seen in halves
            )
        strength[i] = max(likelihood, key=likelihood.__getitem__)
    return _smoothed(count.sum(dim=0), *strength).flatten(0, 1).float()


def _smoothed(count: Tensor, by_all: float, by_scene: float) -> Tensor:
    r"""Log-frequencies, ``[S, C, V]``."""
    overall = count.sum(dim=(0, 1)) + 0.5
    scene = count.sum(dim=1, keepdim=True) + by_all * overall / overall.sum()
    label = count + by_scene * scene / scene.sum(dim=2, keepdim=True)
    return (label / label.sum(dim=2, keepdim=True)).log().clamp(min=-math.log(1e9))
