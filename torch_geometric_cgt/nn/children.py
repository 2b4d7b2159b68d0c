r"""The distribution of the children of a slot, given the query of the slot."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.nn.batch_plan import Parents, ParentsWithChildren, Tiling
from torch_geometric_cgt.nn.linear_map import linear_map, linear_rows
from torch_geometric_cgt.nn.vocabulary import (
    CellVocabulary,
    Marginals,
    Vocabulary,
    log_softmax,
    sample_categorical,
)

TINY = 1e-30  # keeps the logarithm of a sum of probabilities finite


class IndependentChildren(nn.Module):
    r"""The paper's form: child slots are independent given the query, and each
    of them may be null. The label and the scene enter through the query alone;
    arguments named :obj:`condition` are not used.

    Args:
        vocabulary (FlatVocabulary or CellVocabulary): The distribution over
            all tokens and, last, the null token.
        num_tokens (int): The number of tokens, which is also the null one.
    """

    def __init__(self, vocabulary: Vocabulary, num_tokens: int) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.num_tokens = num_tokens

    def root_log_prob(
        self,
        q: Tensor,
        condition: Tensor | None,
        row: Tensor,
        token: Tensor,
        tiling: Tiling | None = None,
    ) -> Tensor:
        r"""The log-probability of root tokens, ``[M]``; roots are never null."""
        logits = self.vocabulary.output(q[:, None])
        log_prob = self.vocabulary.log_prob(logits, q, row, token, tiling)[:, 0]
        null = self.vocabulary.last_log_prob(self.vocabulary.output(q), q)
        return log_prob - torch.log1p(-null.exp())[row]

    def sample_root(
        self, q: Tensor, condition: Tensor | None, generator: torch.Generator | None
    ) -> Tensor:
        r"""Samples root tokens, ``[M]``; roots are never null."""
        token = self._sample(q, 1, generator)[:, 0]
        while bool((again := token == self.num_tokens).any()):
            token[again] = self._sample(q[again], 1, generator)[:, 0]
        return token

    def type_log_prob(self, q: Tensor) -> Tensor:
        r"""The log-probability of the only type, ``[N, 1]``."""
        return q.new_zeros(q.size(0), 1)

    def tiling(self, family: ParentsWithChildren) -> Tiling | None:
        r"""What the vocabulary can prepare for :meth:`log_prob`."""
        row = family.query[:, None].expand_as(family.child_slots)
        return self.vocabulary.tiling(row.flatten(), family.child_slots.flatten())

    def log_prob(
        self,
        q: Tensor,
        condition: Tensor,
        family: ParentsWithChildren,
        tiling: Tiling | None = None,
    ) -> Tensor:
        r"""The log-probability of the child slots of each parent, ``[M, 1]``."""
        slots = family.child_slots
        row = family.query[:, None].expand_as(slots).flatten()
        logits = self.vocabulary.output(q[:, None])
        log_prob = self.vocabulary.log_prob(logits, q, row, slots.flatten(), tiling)
        return log_prob.view(slots.shape).sum(dim=1, keepdim=True)

    def sample(
        self,
        q: Tensor,
        condition: Tensor,
        parents: Parents,
        types: Tensor,
        num_children: int,
        generator: torch.Generator | None,
    ) -> Tensor:
        r"""Samples the child slots of each parent, ``[M, f]``."""
        return self._sample(q[parents.query], num_children, generator)

    def slot_log_prob(self, q: Tensor, tokens: Tensor) -> Tensor:
        r"""The log-probability of each slot, ``[B, T]``, where each slot has its
        own query.

        Args:
            q (torch.Tensor): The query of each slot, ``[B, T, D]``.
            tokens (torch.Tensor): Token trees, ``[B, T]``.
        """
        q, token = q.flatten(0, 1), tokens.long()
        row = torch.arange(q.size(0), device=q.device)
        logits = self.vocabulary.output(q[:, None])
        log_prob = self.vocabulary.log_prob(logits, q, row, token.flatten())
        root = self.root_log_prob(q, None, row.view(tokens.shape)[:, 0], token[:, 0])
        return torch.cat([root[:, None], log_prob.view(tokens.shape)[:, 1:]], dim=1)

    def sample_slot(self, q: Tensor, generator: torch.Generator | None) -> Tensor:
        r"""Samples one slot below the root of each tree from its own query, ``[B]``."""
        return self._sample(q, 1, generator)[:, 0]

    def _sample(self, q: Tensor, num_samples: int, generator: torch.Generator | None) -> Tensor:
        return self.vocabulary.sample(self.vocabulary.output(q), q, num_samples, generator)


class TypedChildren(nn.Module):
    r"""Children that are exchangeable given a latent type, which all slots of a
    tree share.

    The type of a tree depends on the label, the scene and the root token.
    Given the type, each parent has a random number of real children. Each real
    child either

    * comes from the distribution over tokens,
    * repeats the token above its parent (an edge walked back), or
    * repeats a token of its parent's layer (a triangle),

    and the children of one parent reinforce each other as in a Pólya urn. All
    of these distributions are functions of the query of the parent and the
    type, through one narrow layer: contexts and queries are computed once for
    all types. The likelihood is the exact sum over the types. It is that of
    the real children of each parent in the order of their slots; trees that
    differ only in the positions of null slots among siblings are the same.

    Each query has a condition: its label, plus the number of labels times its
    scene.

    Args:
        vocabulary (FlatVocabulary or CellVocabulary): The distribution over
            all tokens.
        num_tokens (int): The number of tokens, which is also the null one.
        num_classes (int): The number of labels, or one if the model does not
            see labels.
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
        self.latent = nn.Embedding(num_types + 1, channels)  # the last one is for roots
        self.type_prior = nn.Linear(channels, num_types) if num_types > 1 else None
        self.number = nn.Linear(channels, most + 1)
        # Biases, which start as histograms of the data; see `Marginals`.
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
        r"""Initialises the types with random vectors and the biases with flat
        histograms.
        """
        nn.init.normal_(self.latent.weight)
        nn.init.zeros_(self.root_base.weight)
        nn.init.zeros_(self.child_base.weight)
        nn.init.zeros_(self.token_base.weight)
        nn.init.zeros_(self.number_base.weight)
        if self.origin_base is not None and self.urn_base is not None:
            self.origin_base.weight.copy_(torch.tensor([0.0, -2.0, -2.0]))
            nn.init.constant_(self.urn_base.weight, -3.0)

    def root_log_prob(
        self, q: Tensor, condition: Tensor, row: Tensor, token: Tensor, tiling: Tiling | None = None
    ) -> Tensor:
        r"""The log-probability of root tokens, ``[M]``."""
        logits = self._root_logits(q, condition)[:, None]
        return self.vocabulary.log_prob(logits, q, row, token, tiling)[:, 0]

    def sample_root(
        self, q: Tensor, condition: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        r"""Samples root tokens, ``[M]``."""
        return self.vocabulary.sample(self._root_logits(q, condition), q, 1, generator)[:, 0]

    def type_log_prob(self, q: Tensor) -> Tensor:
        r"""The log-probability of each type, ``[N, K]``, given the queries of
        the children of roots.
        """
        if self.type_prior is None:
            return q.new_zeros(q.size(0), 1)
        return log_softmax(self.type_prior(q))

    def tiling(self, family: ParentsWithChildren) -> Tiling | None:
        r"""What the vocabulary can prepare for :meth:`log_prob`."""
        return self.vocabulary.tiling(family.child_query, family.token)

    def log_prob(
        self,
        q: Tensor,
        condition: Tensor,
        family: ParentsWithChildren,
        tiling: Tiling | None = None,
    ) -> Tensor:
        r"""The log-probability of the children of each parent, ``[M, K]``.

        Args:
            q (torch.Tensor): The queries, ``[N, D]``.
            condition (torch.Tensor): The condition of each query, ``[N]``.
            family (ParentsWithChildren): Parents and children of one layer.
            tiling (Tiling, optional): What :meth:`tiling` returned for them.
                (default: :obj:`None`)
        """
        h = F.gelu(linear_map(self.hidden, q)[:, None] + self.latent.weight[:-1])  # [N, K, D]
        number, token, *repeats = self._outputs(h)
        token = token + self._token_base(condition, family.layer)[:, None]
        row = family.child_query
        log_prob = self.vocabulary.log_prob(token, q, row, family.token, tiling)  # [R, K]
        if repeats:
            origin, urn = repeats
            origin = _rows(self._origin(origin, family.layer).exp(), row)  # [R, K, 3]
            prob = (
                origin[..., 0] * log_prob.exp()
                + origin[..., 1] * family.is_grandparent[:, None]
                + origin[..., 2] * family.layer_share[:, None].to(origin.dtype)
            )
            pull = _rows(self._urn(urn, family.layer)[..., None], row)[..., 0]
            prob = prob + pull * family.num_equal_before[:, None]
            prob = prob / (1 + pull * family.num_before[:, None])
            log_prob = (prob + TINY).log()
        number = self._number(number, condition, family.layer)
        number = _rows(number, family.query)  # [M, K, most + 1]
        number = number.gather(2, family.num_children[:, None, None].expand(-1, self.num_types, 1))
        return number[..., 0].index_add(0, family.parent, log_prob.to(number.dtype))

    def sample(
        self,
        q: Tensor,
        condition: Tensor,
        parents: Parents,
        types: Tensor,
        num_children: int,
        generator: torch.Generator | None,
    ) -> Tensor:
        r"""Samples the child slots of each parent, ``[M, f]``.

        Args:
            q (torch.Tensor): The queries, ``[N, D]``.
            condition (torch.Tensor): The condition of each query, ``[N]``.
            parents (Parents): The parents of one layer.
            types (torch.Tensor): The type of the tree of each parent, ``[M]``.
            num_children (int): The fan-out.
            generator (torch.Generator, optional): The source of randomness.
        """
        layer, condition = parents.layer, condition[parents.query]
        h = F.gelu(self.hidden(q)[parents.query] + self.latent(types))
        q = q[parents.query]
        number, token, *repeats = self._outputs(h)
        number = self._number(number[:, None], condition, layer)[:, 0]
        number = sample_categorical(number, 1, generator)
        token = token + self._token_base(condition, layer)
        token = self.vocabulary.sample(token, q, num_children, generator)
        if repeats:
            origin, urn = repeats
            origin = sample_categorical(self._origin(origin, layer), num_children, generator)
            token = torch.where(origin == 1, parents.grandparent[:, None], token)
            present = (parents.layer_tokens != self.num_tokens).to(h.dtype)
            chosen = torch.multinomial(present, num_children, replacement=True, generator=generator)
            token = torch.where(origin == 2, parents.layer_tokens.gather(1, chosen), token)
            pull = self._urn(urn, layer)
            for i in range(1, num_children):
                chance = torch.rand(pull.shape, generator=generator, device=pull.device)
                ball = torch.rand(pull.shape, generator=generator, device=pull.device) * i
                ball = ball.long().clamp(max=i - 1)[:, None]
                old = chance < pull * i / (1 + pull * i)
                token[:, i] = torch.where(old, token.gather(1, ball)[:, 0], token[:, i])
        slot = torch.arange(num_children, device=token.device)
        return token.masked_fill(slot >= number, self.num_tokens)

    @torch.no_grad()
    def set_marginals(self, tokens: Tensor, condition: Tensor, shape: TreeShape) -> None:
        r"""Sets the biases to the :class:`~torch_geometric_cgt.nn.vocabulary.Marginals`
        of some trees.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            condition (torch.Tensor): The condition of each tree, ``[B]``.
            shape (TreeShape): The geometry of the trees.
        """
        found = Marginals.of(
            tokens,
            condition,
            self.vocabulary,
            shape,
            self.num_tokens,
            self.num_classes,
            self.num_scenes,
        )
        self.root_base.weight.copy_(found.root)
        self.child_base.weight.copy_(found.child)
        self.token_base.weight.copy_(found.below)
        self.number_base.weight.copy_(found.num_children)
        if isinstance(self.vocabulary, CellVocabulary):
            real = tokens[tokens != self.num_tokens].cpu().long()
            count = torch.bincount(real, minlength=self.vocabulary.member.num_embeddings)
            self.vocabulary.member_base.weight.copy_((count + 0.5).log()[:, None])

    def _root_logits(self, q: Tensor, condition: Tensor) -> Tensor:
        r"""The logits of root tokens, ``[N, num_outputs]``."""
        h = F.gelu(self.hidden(q) + self.latent.weight[-1])
        return self.vocabulary.output(h) + self.root_base(condition)

    def _outputs(self, h: Tensor) -> tuple[Tensor, ...]:
        r"""The outputs for numbers of children and for tokens and, if children may
        repeat tokens, for their origins and the urn.
        """
        layers = [self.vocabulary.output, self.origin, self.urn, self.number]
        used = [layer for layer in layers if layer is not None]
        # One product: the backward pass of a narrow one takes as long as that of a wide one.
        weight = torch.cat([layer.weight for layer in used])
        bias = torch.cat([layer.bias for layer in used])
        out = linear_rows(h, weight, bias).split([layer.out_features for layer in used], dim=-1)
        return out[-1], *out[:-1]

    def _token_base(self, condition: Tensor, layer: int) -> Tensor:
        r"""The biases of the tokens of the children of a layer."""
        if layer == 0:
            return self.child_base(condition)
        return self.token_base((layer - 1) * self.num_scenes + condition // self.num_classes)

    def _number(self, output: Tensor, condition: Tensor, layer: int) -> Tensor:
        r"""The log-probability of each number of children, ``[N, K, most + 1]``."""
        base = self.number_base(layer * self.num_scenes + condition // self.num_classes)
        logits = output + base[:, None]
        too_many = torch.arange(logits.size(-1), device=output.device) > self.fan_outs[layer]
        return log_softmax(logits.masked_fill(too_many, -torch.inf))

    def _origin(self, output: Tensor, layer: int) -> Tensor:
        r"""The log-probability of the three origins of a child."""
        assert self.origin_base is not None
        logits = output + self.origin_base.weight[layer]
        if layer == 0:  # nothing is above the root
            logits = logits.masked_fill(torch.arange(3, device=output.device) == 1, -torch.inf)
        return log_softmax(logits)

    def _urn(self, output: Tensor, layer: int) -> Tensor:
        r"""The weight of each earlier sibling in the Pólya urn, relative to a
        weight of one for the mixture of the three origins.
        """
        assert self.urn_base is not None
        return F.softplus((output + self.urn_base.weight[layer]).squeeze(-1))


def _rows(table: Tensor, index: Tensor) -> Tensor:
    r"""Selects rows ``[M, K, E]`` of a table ``[N, K, E]``."""
    return F.embedding(index, table.flatten(1)).view(-1, *table.shape[1:])
