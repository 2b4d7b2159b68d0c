r"""The Computation Graph Transformer: an exact density over token trees."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.nn.block import TwoStreamBlock
from torch_geometric_cgt.nn.dropout import dropout
from torch_geometric_cgt.nn.layout import (
    Layout,
    factorised_layout,
    num_positions,
    sequence_layout,
)


class CGTGenerator(nn.Module):
    r"""The Computation Graph Transformer of the `"Graph Generative Model for
    Benchmarking Graph Neural Networks" <https://arxiv.org/abs/2207.04396>`_
    paper: a two-stream Transformer over token trees, given the root's label.

    Under the ancestor mask with one position embedding per layer, all
    children of a slot have the same distribution, which depends on the label
    and the path to their parent. It is computed once per internal slot: the
    likelihood is that of the path-by-path evaluation, not an approximation.
    Null parents have null children by definition, which carry no likelihood.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels.
        num_neighbors (list[int]): The fan-out of each layer.
        hidden_channels (int, optional): The width. (default: :obj:`128`)
        num_layers (int, optional): The number of Transformer layers.
            (default: :obj:`3`)
        num_heads (int, optional): The number of attention heads.
            (default: :obj:`4`)
        dropout (float, optional): The dropout probability.
            (default: :obj:`0.1`)
        num_splits (int, optional): The number of split codes. If positive,
            the model is also conditioned on the split of the root, so that a
            shift between training and test roots survives.
            (default: :obj:`0`)
        label_conditioning (bool, optional): If set to :obj:`False`, the model
            does not see the label. (default: :obj:`True`)
        position (str, optional): One position embedding per :obj:`"layer"`
            or per :obj:`"slot"`. (default: :obj:`"layer"`)
        attention (str, optional): Attend to :obj:`"ancestors"` or to
            :obj:`"all"` earlier slots. (default: :obj:`"ancestors"`)
    """

    def __init__(
        self,
        num_tokens: int,
        num_classes: int,
        num_neighbors: Sequence[int],
        hidden_channels: int = 128,
        num_layers: int = 3,
        num_heads: int = 4,
        dropout: float = 0.1,
        num_splits: int = 0,
        label_conditioning: bool = True,
        position: str = 'layer',
        attention: str = 'ancestors',
    ) -> None:
        super().__init__()
        for name, size in [
            ('num_tokens', num_tokens),
            ('num_classes', num_classes),
            ('hidden_channels', hidden_channels),
            ('num_layers', num_layers),
            ('num_heads', num_heads),
        ]:
            if size < 1:
                raise ValueError(f"'{name}' must be at least 1 (got {size})")
        if num_splits < 0:
            raise ValueError(f"'num_splits' must not be negative (got {num_splits})")
        if hidden_channels % num_heads != 0:
            raise ValueError(
                f"'hidden_channels' must be divisible by 'num_heads' "
                f'(got {hidden_channels} and {num_heads})'
            )
        if not 0 <= dropout < 1:
            raise ValueError(f"'dropout' must lie in [0, 1) (got {dropout})")
        if position not in ('layer', 'slot'):
            raise ValueError(f"'position' must be 'layer' or 'slot' (got '{position}')")
        if attention not in ('ancestors', 'all'):
            raise ValueError(f"'attention' must be 'ancestors' or 'all' (got '{attention}')")
        self.num_tokens = num_tokens
        self.num_classes = num_classes
        self.shape = TreeShape.of(num_neighbors)
        self.hidden_channels = hidden_channels
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.dropout = dropout
        self.num_splits = num_splits
        self.label_conditioning = label_conditioning
        self.position = position
        self.attention = attention

        self.token = nn.Embedding(num_tokens + 1, hidden_channels)
        self.where = nn.Embedding(num_positions(self.shape, position), hidden_channels)
        self.start_query = nn.Embedding(1, hidden_channels)
        self.label = nn.Embedding(num_classes, hidden_channels) if label_conditioning else None
        self.split = nn.Embedding(num_splits, hidden_channels) if num_splits else None
        self.blocks = nn.ModuleList(
            TwoStreamBlock(hidden_channels, num_heads, dropout) for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(hidden_channels)
        self.head = nn.Linear(hidden_channels, num_tokens + 1)
        # Plain attributes, not buffers: they follow the inputs, not the weights.
        self._layouts: dict[tuple[int, torch.device], Layout] = {}
        self.reset_parameters()

    @property
    def is_factorised(self) -> bool:
        r"""Whether one query serves all children of a slot."""
        return self.position == 'layer' and self.attention == 'ancestors'

    @property
    def num_neighbors(self) -> list[int]:
        r"""The fan-out of each layer."""
        return list(self.shape.num_neighbors)

    def reset_parameters(self) -> None:
        r"""Draws new weights."""
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.LayerNorm):
                module.reset_parameters()

    def forward(self, tokens: Tensor, y: Tensor, split: Tensor | None = None) -> Tensor:
        r"""The mean negative log-likelihood per token.

        Tokens below a null token are determined and do not count.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
            split (torch.Tensor, optional): The split code of each root,
                ``[B]``; needed by models with :obj:`num_splits`.
                (default: :obj:`None`)
        """
        counted = self.counted_slots(tokens)
        return -self.slot_log_prob(tokens, y, split).sum() / counted.sum()

    def log_prob(self, tokens: Tensor, y: Tensor, split: Tensor | None = None) -> Tensor:
        r"""The log-likelihood of each token tree given its root's label, ``[B]``.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
            split (torch.Tensor, optional): The split code of each root,
                ``[B]``; needed by models with :obj:`num_splits`.
                (default: :obj:`None`)
        """
        return self.slot_log_prob(tokens, y, split).sum(dim=1)

    def slot_log_prob(self, tokens: Tensor, y: Tensor, split: Tensor | None = None) -> Tensor:
        r"""The log-likelihood of each slot given what is above it, ``[B, T]``,
        zero below null slots.
        """
        self._check(tokens, y, split)
        layout = self._layout(self.shape.depth, tokens.device)
        log_prob = self._log_softmax(self._queries(tokens, y, split, layout))  # [B, Q, V + 1]
        # Gather from [B, Q * (V + 1)]: siblings share a query without a copy of it.
        index = layout.query_of_slot * (self.num_tokens + 1) + tokens.long()
        picked = log_prob.flatten(1).gather(1, index)
        return picked.masked_fill(~self.counted_slots(tokens), 0.0)

    def counted_slots(self, tokens: Tensor) -> Tensor:
        r"""The slots that carry likelihood: the root and those below a real slot."""
        below_real = tokens[:, self.shape.parent[1:].to(tokens.device)] != self.num_tokens
        return torch.cat([torch.ones_like(below_real[:, :1]), below_real], dim=1)

    def contexts(self, tokens: Tensor, y: Tensor, split: Tensor | None = None) -> Tensor:
        r"""The context embeddings after all layers but the last, which are
        what the predictions read: start first, then slots, ``[B, C, D]``.
        """
        layout = self._layout(self.shape.depth, tokens.device)
        h = self._embed(tokens, y, split, layout)
        for block in self.blocks[:-1]:
            h = block(h, layout.mask, layout.num_contexts, keep_contexts=True)
        return h[:, : layout.num_contexts]

    @torch.no_grad()
    def sample(
        self,
        y: Tensor,
        generator: torch.Generator | None = None,
        split: Tensor | None = None,
    ) -> Tensor:
        r"""Draws one token tree per label.

        A root is never null, and nothing real is drawn below a null slot.

        Args:
            y (torch.Tensor): The label of each root, ``[B]``.
            generator (torch.Generator, optional): The source of randomness,
                on the device of the model. (default: :obj:`None`)
            split (torch.Tensor, optional): The split code of each root,
                ``[B]``; needed by models with :obj:`num_splits`.
                (default: :obj:`None`)

        Returns:
            Token trees, ``[B, T]``.
        """
        self._check_split(y, split)
        was_training = self.training
        self.eval()
        shape = self.shape
        tokens = y.new_full((y.numel(), shape.num_slots), self.num_tokens, dtype=torch.long)
        for layer in range(shape.depth + 1):
            part = shape.truncate(layer)
            slots = torch.arange(shape.num_slots, device=y.device)[shape.layer_slice(layer)]
            # Slots that do not see each other are drawn together.
            groups = [slots] if self.attention == 'ancestors' else slots.split(1)
            layout = self._layout(layer, y.device)
            for group in groups:
                self._draw(tokens, y, split, group, layout, part.num_slots, generator)
        self.train(was_training)
        return tokens

    def _draw(
        self,
        tokens: Tensor,
        y: Tensor,
        split: Tensor | None,
        slots: Tensor,
        layout: Layout,
        num_slots: int,
        generator: torch.Generator | None,
    ) -> None:
        r"""Fills some slots, given all slots above or before them."""
        query = self._queries(tokens[:, :num_slots], y, split, layout)
        which = layout.query_of_slot[slots].unique_consecutive()
        prob = self._log_softmax(query, which).exp().flatten(0, 1)  # [B * Q, V + 1]
        per_query = slots.numel() // which.numel()
        drawn = torch.multinomial(prob, per_query, replacement=True, generator=generator)
        drawn = drawn.view(y.numel(), -1)
        if int(slots[0]) > 0:
            parent = tokens[:, self.shape.parent.to(slots.device)[slots]]
            drawn = drawn.masked_fill(parent == self.num_tokens, self.num_tokens)
        tokens[:, slots] = drawn

    def _queries(self, tokens: Tensor, y: Tensor, split: Tensor | None, layout: Layout) -> Tensor:
        h = self._embed(tokens, y, split, layout)
        for i, block in enumerate(self.blocks):
            last = i + 1 == len(self.blocks)
            h = block(h, layout.mask, layout.num_contexts, keep_contexts=not last)
        return self.norm(h)  # [B, Q, D]

    def _embed(self, tokens: Tensor, y: Tensor, split: Tensor | None, layout: Layout) -> Tensor:
        r"""The initial contexts and queries, ``[B, C + Q, D]``."""
        where = self.where(torch.cat([layout.context_position, layout.query_position]))
        context = self.token(tokens[:, layout.context_slot].long())  # [B, C - 1, D]
        start = torch.zeros_like(where[:1]).expand(y.numel(), 1, -1)
        query = self.start_query(torch.zeros_like(y).long())
        if self.label is not None:
            query = query + self.label(y.long())
        if self.split is not None and split is not None:
            query = query + self.split(split.long())
        query = query[:, None].expand(-1, layout.query_position.numel(), -1)
        h = torch.cat([start, context, query], dim=1) + where
        return dropout(h, self.dropout, self.training)

    def _log_softmax(self, query: Tensor, which: Tensor | None = None) -> Tensor:
        r"""The distribution of each query; the root's has no null."""
        logits = self.head(query if which is None else query[:, which])
        logits = logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
        is_root = torch.arange(query.size(1), device=query.device) == 0
        is_root = is_root if which is None else is_root[which]
        is_null = torch.arange(self.num_tokens + 1, device=query.device) == self.num_tokens
        return logits.masked_fill(is_root[:, None] & is_null, -torch.inf).log_softmax(dim=-1)

    def _layout(self, depth: int, device: torch.device) -> Layout:
        key = (depth, device)
        if key not in self._layouts:
            shape = self.shape.truncate(depth)
            with torch.device('cpu'):  # whatever the default device is
                layout = (
                    factorised_layout(shape)
                    if self.is_factorised
                    else sequence_layout(shape, self.position, self.attention)
                )
            self._layouts[key] = layout.to(device)
        return self._layouts[key]

    def _check(self, tokens: Tensor, y: Tensor, split: Tensor | None) -> None:
        if tokens.dim() != 2 or tokens.size(1) != self.shape.num_slots:
            raise ValueError(
                f"'tokens' must have the shape [B, {self.shape.num_slots}] "
                f'(got {list(tokens.shape)})'
            )
        if y.shape != tokens.shape[:1]:
            raise ValueError(
                f"'y' must hold one label per tree (got {list(y.shape)} for {tokens.size(0)} trees)"
            )
        self._check_split(y, split)

    def _check_split(self, y: Tensor, split: Tensor | None) -> None:
        if self.num_splits and (split is None or split.shape != y.shape):
            got = None if split is None else list(split.shape)
            raise ValueError(f"'split' must hold one split code per tree (got {got})")

    def config(self) -> dict:
        r"""The arguments that make this model again."""
        return {
            'num_tokens': self.num_tokens,
            'num_classes': self.num_classes,
            'num_neighbors': self.num_neighbors,
            'hidden_channels': self.hidden_channels,
            'num_layers': self.num_layers,
            'num_heads': self.num_heads,
            'dropout': self.dropout,
            'num_splits': self.num_splits,
            'label_conditioning': self.label_conditioning,
            'position': self.position,
            'attention': self.attention,
        }

    def __repr__(self) -> str:
        args = ', '.join(f'{name}={value!r}' for name, value in self.config().items())
        return f'{self.__class__.__name__}({args})'
