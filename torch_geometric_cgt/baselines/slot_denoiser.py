r"""A Transformer over the slots of a tree, which predicts the states of masked slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.nn.vocabulary import sample_categorical

COPY_BIAS = -4.0  # initial logit of a copy; the states without copies start with a total of 0


@dataclass(frozen=True)
class SlotBatch:
    r"""Trees whose slots are in some states, and what the states depend on."""

    state: Tensor  # [B, T] state of each slot; the number of states where it is masked
    exists: Tensor  # [B, T] whether the slot takes part at all
    num_children: Tensor  # [B, T] number of children, -1 where it is not known
    y: Tensor  # [B] label of the root
    scene: Tensor  # [B] scene of the root

    def rows(self, index: Tensor) -> SlotBatch:
        r"""Some of the trees."""
        return SlotBatch(
            self.state[index],
            self.exists[index],
            self.num_children[index],
            self.y[index],
            self.scene[index],
        )

    def masked(self, hidden: Tensor, mask: int) -> SlotBatch:
        r"""The same trees with some slots masked."""
        return replace(self, state=self.state.masked_fill(hidden, mask))


@dataclass(frozen=True)
class SlotDistribution:
    r"""Distributions over the states of some slots. A slot draws one of all
    states, or copies that of a slot of its tree that is not masked.
    """

    log_prob_new: Tensor  # [M, V]
    log_prob_copy: Tensor  # [M, T], or [M, 0] without copies
    copied: Tensor  # [M, T] state of each slot of the tree, or [M, 0]

    def log_prob(self, state: Tensor) -> Tensor:
        r"""The log-probability of one state per slot, ``[M]``."""
        new = self.log_prob_new.gather(1, state[:, None])
        copy = self.log_prob_copy.masked_fill(self.copied != state[:, None], -torch.inf)
        return torch.cat([new, copy], dim=1).logsumexp(dim=1)

    def sample(self, generator: torch.Generator | None) -> Tensor:
        r"""Draws one state per slot, ``[M]``."""
        log_prob = torch.cat([self.log_prob_new, self.log_prob_copy], dim=1)
        drawn = sample_categorical(log_prob, 1, generator)  # [M, 1]
        num_states = self.log_prob_new.size(1)
        if self.copied.size(1) == 0:
            return drawn[:, 0]
        copy = self.copied.gather(1, (drawn - num_states).clamp(min=0))
        return torch.where(drawn < num_states, drawn, copy)[:, 0]


class SlotDenoiser(nn.Module):
    r"""Predicts the states of masked slots from all other slots of the tree, the
    label and the scene of the root.

    All slots attend to each other. The attention logits have a learned bias that
    depends on the layers of two slots and on the layer of their lowest common
    ancestor, which tells parents, children, siblings and cousins apart. There is
    no other position, so permuted siblings give permuted predictions.

    Args:
        shape (TreeShape): The geometry of the trees.
        num_states (list[int]): The number of states of the slots of each layer.
        num_classes (int): The number of labels.
        num_scenes (int): The number of scenes.
        hidden_channels (int): The width.
        num_layers (int): The number of Transformer layers.
        num_heads (int): The number of attention heads.
        dropout (float): The dropout probability.
        copies (bool): Whether a slot may copy the state of another one.
    """

    relation: Tensor
    layer: Tensor
    parent: Tensor
    allowed: Tensor

    def __init__(
        self,
        shape: TreeShape,
        num_states: Sequence[int],
        num_classes: int,
        num_scenes: int,
        hidden_channels: int,
        num_layers: int,
        num_heads: int,
        dropout: float,
        copies: bool,
    ) -> None:
        super().__init__()
        self.num_states = max(num_states)
        relation = slot_relations(shape)
        num_relations = int(relation.max()) + 1
        sizes = torch.tensor(num_states, device='cpu')
        allowed = torch.arange(self.num_states, device='cpu') < sizes[:, None]
        for name, value in (
            ('relation', relation),
            ('layer', shape.layer),
            ('parent', shape.parent.clamp(min=0)),
            ('allowed', allowed),
        ):
            self.register_buffer(name, value, persistent=False)
        d = hidden_channels
        self.state = nn.Embedding(self.num_states + 1, d)  # the last one is the mask
        self.parent_state = nn.Linear(d, d, bias=False)
        self.slot = nn.Embedding(shape.depth + 1, d)
        self.num_children = nn.Embedding(max(shape.num_neighbors, default=0) + 2, d)
        self.label = nn.Embedding(num_classes, d)
        self.scene = nn.Embedding(max(1, num_scenes), d)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            AttentionBlock(d, num_heads, num_relations, dropout) for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(d)
        self.out = nn.Linear(d, d)
        self.bias = nn.Parameter(torch.empty(shape.depth + 1, self.num_states))
        self.copy = nn.Linear(d, 2 * d, bias=False) if copies else None
        self.copy_bias = nn.Parameter(torch.empty(num_relations)) if copies else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Initialises all weights."""
        for module in self.modules():
            if isinstance(module, (nn.Embedding, nn.Linear)):
                nn.init.normal_(module.weight, std=module.weight.size(1) ** -0.5)
                if isinstance(module, nn.Linear) and module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.LayerNorm):
                module.reset_parameters()
            elif isinstance(module, AttentionBlock):
                nn.init.zeros_(module.relation_bias)
        nn.init.zeros_(self.out.weight)  # the first predictions are the biases alone
        nn.init.zeros_(self.bias)
        if self.copy_bias is not None:
            nn.init.constant_(self.copy_bias, COPY_BIAS)

    @torch.no_grad()
    def set_marginals(self, state: Tensor, exists: Tensor) -> None:
        r"""Sets the output biases to the log-frequency of each state in each
        layer, so that they need not be learned.

        Args:
            state (torch.Tensor): The states of some trees, ``[B, T]``.
            exists (torch.Tensor): Which of these slots count, ``[B, T]``.
        """
        key = self.layer.expand_as(state) * self.num_states + state
        count = torch.bincount(key[exists], minlength=self.bias.numel()).view_as(self.bias)
        smooth = count + (count.sum(dim=0) + 0.1) / (count.sum() + 0.1) + 1e-3
        smooth = (smooth * self.allowed).to(self.bias.dtype)
        self.bias.copy_((smooth / smooth.sum(dim=1, keepdim=True)).clamp(min=1e-9).log())

    def forward(self, batch: SlotBatch, wanted: Tensor) -> SlotDistribution:
        r"""Predicts the states of some slots.

        Args:
            batch (SlotBatch): The trees. The state of a wanted slot is ignored
                only if it is masked.
            wanted (torch.Tensor): The slots to predict, ``[B, T]``, :math:`M`
                in all.
        """
        exists = batch.exists
        where = exists.reshape(-1).nonzero().view(-1)  # null slots are not computed
        state = self.state(batch.state)  # [B, T, D]
        h = state + self.parent_state(state[:, self.parent] * (self.layer > 0)[:, None])
        h = h + self.slot(self.layer) + self.num_children(batch.num_children + 1)
        h = h + (self.label(batch.y) + self.scene(batch.scene))[:, None]
        h = self.dropout(h.flatten(0, 1)[where])  # [P, D]
        absent = torch.zeros(exists.shape, dtype=h.dtype, device=h.device)
        absent = absent.masked_fill(~exists, -torch.inf)[:, None, None]  # [B, 1, 1, T]
        for block in self.blocks:
            h = block(h, where, self.relation, absent)
        h = self.norm(h)

        tree, slot = wanted.nonzero(as_tuple=True)
        place = torch.full((exists.numel(),), -1, device=h.device)
        place[where] = torch.arange(where.numel(), device=h.device)
        seen = h[place[tree * exists.size(1) + slot]]  # [M, D]
        layer = self.layer[slot]
        logits = self.out(seen) @ self.state.weight[: self.num_states].t() + self.bias[layer]
        logits = logits.masked_fill(~self.allowed[layer], -torch.inf)
        if self.copy is None or self.copy_bias is None:
            none = tree.new_empty(tree.numel(), 0)
            return SlotDistribution(logits.log_softmax(dim=1), none.to(h.dtype), none)
        pair = self.copy(h)  # queries and keys
        pair = pair.new_zeros(exists.numel(), pair.size(1)).index_copy(0, where, pair)
        query, key = pair.view(*exists.shape, -1).chunk(2, dim=2)
        copy = (query @ key.transpose(1, 2))[tree, slot] / h.size(1) ** 0.5  # [M, T]
        copy = copy + self.copy_bias[self.relation[slot]]
        known = exists & (batch.state < self.num_states)
        copy = copy.masked_fill(~known[tree], -torch.inf)
        log_prob = torch.cat([logits, copy], dim=1).log_softmax(dim=1)
        new, copy = log_prob.split([self.num_states, copy.size(1)], dim=1)
        return SlotDistribution(new, copy, batch.state[tree])


class AttentionBlock(nn.Module):
    r"""A pre-norm Transformer layer over the slots that exist.

    Args:
        channels (int): The width.
        num_heads (int): The number of attention heads.
        num_relations (int): The number of relations between two slots.
        dropout (float): The dropout probability.
    """

    def __init__(self, channels: int, num_heads: int, num_relations: int, dropout: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.relation_bias = nn.Parameter(torch.zeros(num_heads, num_relations))
        self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(channels, channels)
        self.mlp = nn.Sequential(
            nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, h: Tensor, where: Tensor, relation: Tensor, absent: Tensor) -> Tensor:
        r"""Updates the slots.

        Args:
            h (torch.Tensor): The slots that exist, ``[P, D]``.
            where (torch.Tensor): Their places among all slots, ``[P]``.
            relation (torch.Tensor): The relation of each pair of slots, ``[T, T]``.
            absent (torch.Tensor): Minus infinity for slots that do not exist and zero
                for all others, ``[B, 1, 1, T]``.
        """
        bias = self.relation_bias[:, relation] + absent  # [B, H, T, T]
        num_trees, _, num_slots, _ = bias.shape
        qkv = self.qkv(self.norm1(h))
        dense = qkv.new_zeros(num_trees * num_slots, qkv.size(1)).index_copy(0, where, qkv)
        q, k, v = dense.view(num_trees, num_slots, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(q, k, v, bias)  # [B, H, T, D / H]
        out = out.transpose(1, 2).reshape(num_trees * num_slots, -1)[where]
        h = h + self.dropout(self.proj(out))
        return h + self.dropout(self.mlp(self.norm2(h)))


def slot_relations(shape: TreeShape) -> Tensor:
    r"""The relation of each pair of slots, ``[T, T]``: a number for the layers of
    both and of their lowest common ancestor. Two pairs have the same relation if
    and only if a permutation of siblings takes one to the other.
    """
    path = shape.is_ancestor.float()
    common = (path @ path.t()).long() - 1
    layer, size = shape.layer, shape.depth + 1
    key = (layer[:, None] * size + layer) * size + common
    return key.unique(return_inverse=True)[1]
