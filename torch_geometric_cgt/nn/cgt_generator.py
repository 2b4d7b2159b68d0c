r"""The Computation Graph Transformer: an exact density over token trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.nn.check import check_arguments, check_scene, check_trees
from torch_geometric_cgt.nn.children import IndependentChildren, TypedChildren
from torch_geometric_cgt.nn.family import Family, Parents
from torch_geometric_cgt.nn.layout import Layout, factorised_layout, num_positions, sequence_layout
from torch_geometric_cgt.nn.plan import Plan, tree_index
from torch_geometric_cgt.nn.prefixes import Prefixes
from torch_geometric_cgt.nn.streams import TwoStreams
from torch_geometric_cgt.nn.vocabulary import CellEmbedding, CellVocabulary, FlatVocabulary, draw

FLAT_UP_TO = 512  # tokens; above, two softmaxes are several times cheaper than one per type


class CGTGenerator(nn.Module):
    r"""The Computation Graph Transformer of the `"Graph Generative Model for
    Benchmarking Graph Neural Networks" <https://arxiv.org/abs/2207.04396>`_
    paper: a two-stream Transformer over token trees, given the root's label.

    Under the ancestor mask with one position embedding per layer, all
    children of a slot have one query, which depends on the label and the path
    to their parent. It is computed once per distinct path of a batch: the
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
        num_scenes (int, optional): The number of scenes. If positive, the
            model is also conditioned on the scene of the root: a class of
            roots with alike surroundings, in which a whole tree agrees.
            (default: :obj:`0`)
        siblings (str, optional): How the children of a slot depend on each
            other: they agree through a latent type of the whole tree and may
            repeat each other (:obj:`"typed"`), or are drawn one by one as in
            the paper (:obj:`"independent"`). (default: :obj:`"typed"`)
        num_types (int, optional): The number of types of trees.
            (default: :obj:`16`)
        repeats (bool, optional): If set to :obj:`False`, typed children do
            not repeat tokens of their tree. (default: :obj:`True`)
        vocabulary (str, optional): One softmax over all tokens
            (:obj:`"flat"`), a coarse cell first and then its member
            (:obj:`"cells"`), or the cheaper of the two (:obj:`"auto"`).
            (default: :obj:`"auto"`)
        evaluation (str, optional): Evaluate each distinct path of a batch
            once (:obj:`"paths"`), one row per tree with one query per parent
            (:obj:`"trees"`), or the whole sequence with one query per slot as
            in the paper's original version (:obj:`"sequence"`). All give the
            same numbers. (default: :obj:`"paths"`)
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
        num_scenes: int = 0,
        siblings: str = 'typed',
        num_types: int = 16,
        repeats: bool = True,
        vocabulary: str = 'auto',
        evaluation: str = 'paths',
        label_conditioning: bool = True,
        position: str = 'layer',
        attention: str = 'ancestors',
    ) -> None:
        super().__init__()
        self.num_tokens = num_tokens
        self.num_classes = num_classes
        self.shape = TreeShape.of(num_neighbors)
        self.hidden_channels = hidden_channels
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.dropout = dropout
        self.num_scenes = num_scenes
        self.siblings = siblings
        self.num_types = num_types
        self.repeats = repeats
        self.vocabulary = vocabulary
        self.evaluation = evaluation
        self.label_conditioning = label_conditioning
        self.position = position
        self.attention = attention
        check_arguments(self.config())
        if not self.is_factorised:
            self.evaluation = 'sequence'

        num_entries = num_tokens + (siblings == 'independent')  # the paper's form draws null, too
        token: nn.Module
        entries: FlatVocabulary | CellVocabulary
        if vocabulary == 'cells' or (vocabulary == 'auto' and num_tokens > FLAT_UP_TO):
            cell_size = max(1, round(num_tokens**0.5))
            token = CellEmbedding(num_tokens + 1, hidden_channels, cell_size)
            entries = CellVocabulary(hidden_channels, num_entries, cell_size)
        else:
            token = nn.Embedding(num_tokens + 1, hidden_channels)
            entries = FlatVocabulary(hidden_channels, num_entries)
        self.streams = TwoStreams(
            token,
            num_classes if label_conditioning else 0,
            num_scenes,
            num_positions(self.shape, position),
            hidden_channels,
            num_layers,
            num_heads,
            dropout,
        )
        self.head: IndependentChildren | TypedChildren
        if siblings == 'independent':
            self.head = IndependentChildren(entries, num_tokens)
        else:
            self.head = TypedChildren(
                entries,
                num_tokens,
                num_classes if label_conditioning else 1,
                self.num_neighbors,
                hidden_channels,
                num_types,
                repeats,
                num_scenes or (num_classes if label_conditioning else 1),
            )
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
        if isinstance(self.head, TypedChildren):
            self.head.reset_parameters()

    def set_marginals(self, tokens: Tensor, y: Tensor, scene: Tensor | None = None) -> None:
        r"""Starts from histograms of tokens and of numbers of children, which
        need not be learned then. Does nothing for independent siblings.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
            scene (torch.Tensor, optional): The scene of each root,
                ``[B]``; needed by models with :obj:`num_scenes`.
                (default: :obj:`None`)
        """
        self._check(tokens, y, scene)
        if isinstance(self.head, TypedChildren):
            self.head.set_marginals(tokens, self._condition(y, scene), self.shape)

    def forward(
        self,
        tokens: Tensor,
        y: Tensor,
        scene: Tensor | None = None,
        plan: Plan | None = None,
    ) -> Tensor:
        r"""The mean negative log-likelihood per token.

        Tokens below a null token are determined and do not count.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
            scene (torch.Tensor, optional): The scene of each root,
                ``[B]``; needed by models with :obj:`num_scenes`.
                (default: :obj:`None`)
            plan (Plan, optional): What :meth:`plan` returned for these trees,
                if it was made ahead. (default: :obj:`None`)
        """
        log_prob = self.log_prob(tokens, y, scene, plan)
        return -log_prob.sum() / self.counted_slots(tokens).sum()

    def log_prob(
        self,
        tokens: Tensor,
        y: Tensor,
        scene: Tensor | None = None,
        plan: Plan | None = None,
    ) -> Tensor:
        r"""The log-likelihood of each token tree given its root's label, ``[B]``.

        Independent siblings: of every slot below a real one. Typed siblings:
        of the real children of every parent, in their order, wherever null
        slots stand among them; exact, summed over the types.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
            scene (torch.Tensor, optional): The scene of each root,
                ``[B]``; needed by models with :obj:`num_scenes`.
                (default: :obj:`None`)
            plan (Plan, optional): What :meth:`plan` returned for these trees,
                if it was made ahead. (default: :obj:`None`)
        """
        self._check(tokens, y, scene)
        if not self.is_factorised:
            return self._sequence_log_prob(tokens, y, scene).sum(dim=1)
        plan = plan or self.plan(tokens, y, scene)
        assert plan is not None
        queries, labels = self._queries(tokens, y, scene, self.shape, plan.prefixes)
        total = self.head.root_log_prob(
            queries[0], labels[0], plan.start, plan.token, plan.tilings[0]
        )
        by_type = self.head.prior(queries[1])[plan.root]  # [B, K]
        for family, tiling in zip(plan.families, plan.tilings[1:], strict=True):
            level = family.layer + 1
            log_prob = self.head.log_prob(queries[level], labels[level], family, tiling)
            by_type = by_type.index_add(0, family.tree, log_prob.to(by_type.dtype))
        return total + by_type.logsumexp(dim=1)

    def plan(self, tokens: Tensor, y: Tensor, scene: Tensor | None = None) -> Plan | None:
        r"""All that :meth:`log_prob` can know of some trees before the weights
        come in; :obj:`None` where it needs nothing. Made on the CPU and moved
        to the device of the model, it keeps a GPU from waiting for the host.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
            scene (torch.Tensor, optional): The scene of each root,
                ``[B]``. (default: :obj:`None`)
        """
        self._check(tokens, y, scene)
        if not self.is_factorised:
            return None
        prefixes, index = self._index(tokens, y, scene, self.shape)
        families = tuple(
            Family.of(tokens, index[layer + 1], layer, self.shape, self.num_tokens)
            for layer in range(self.shape.depth)
        )
        start, token = index[0][:, 0], tokens[:, 0].long()
        tilings = (
            self.head.vocabulary.tiling(start, token),
            *(self.head.tiling(family) for family in families),
        )
        return Plan(prefixes, start, index[1][:, 0], token, families, tilings)

    def counted_slots(self, tokens: Tensor) -> Tensor:
        r"""The slots that carry likelihood: the root and those below a real slot."""
        below_real = tokens[:, self.shape.parent[1:].to(tokens.device)] != self.num_tokens
        return torch.cat([torch.ones_like(below_real[:, :1]), below_real], dim=1)

    def contexts(self, tokens: Tensor, y: Tensor, scene: Tensor | None = None) -> Tensor:
        r"""The context embeddings after all layers but the last, which are
        what the predictions read: start first, then slots, ``[B, C, D]``.
        """
        layout = self._layout(self.shape.depth, tokens.device)
        return self.streams.contexts(tokens, y, scene, layout)

    @torch.no_grad()
    def sample(
        self,
        y: Tensor,
        generator: torch.Generator | None = None,
        scene: Tensor | None = None,
    ) -> Tensor:
        r"""Draws one token tree per label.

        A root is never null, and nothing real is drawn below a null slot.

        Args:
            y (torch.Tensor): The label of each root, ``[B]``.
            generator (torch.Generator, optional): The source of randomness,
                on the device of the model. (default: :obj:`None`)
            scene (torch.Tensor, optional): The scene of each root,
                ``[B]``; needed by models with :obj:`num_scenes`.
                (default: :obj:`None`)

        Returns:
            Token trees, ``[B, T]``.
        """
        check_scene(y, scene, self.num_scenes)
        was_training = self.training
        self.eval()
        tokens = y.new_full((y.numel(), self.shape.num_slots), self.num_tokens, dtype=torch.long)
        if self.is_factorised:
            self._draw_layers(tokens, y, scene, generator)
        else:
            self._draw_slots(tokens, y, scene, generator)
        self.train(was_training)
        return tokens

    def _draw_layers(
        self,
        tokens: Tensor,
        y: Tensor,
        scene: Tensor | None,
        generator: torch.Generator | None,
    ) -> None:
        r"""Fills the trees layer by layer."""
        for layer in range(self.shape.depth + 1):
            part = self.shape.truncate(layer)
            above = tokens[:, : part.num_slots]
            prefixes, index = self._index(above, y, scene, part)
            queries, labels = self._queries(above, y, scene, part, prefixes)
            if layer == 0:
                start = index[0][:, 0]
                tokens[:, 0] = self.head.draw_root(queries[0][start], labels[0][start], generator)
                continue
            if layer == 1:
                types = draw(self.head.prior(queries[1])[index[1][:, 0]], 1, generator)[:, 0]
            parents = Parents.of(tokens, index[layer], layer - 1, self.shape, self.num_tokens)
            slots = tokens[:, self.shape.layer_slice(layer)]  # a view
            slots.unflatten(1, (-1, self.shape.num_neighbors[layer - 1]))[
                parents.tree, parents.slot
            ] = self.head.draw(
                queries[layer],
                labels[layer],
                parents,
                types[parents.tree],
                self.shape.num_neighbors[layer - 1],
                generator,
            )

    def _draw_slots(
        self,
        tokens: Tensor,
        y: Tensor,
        scene: Tensor | None,
        generator: torch.Generator | None,
    ) -> None:
        r"""Fills the trees slot by slot, where each slot has a query of its own."""
        layout = self._layout(self.shape.depth, y.device)
        vocabulary = self.head.vocabulary
        for slot in range(self.shape.num_slots):
            q = self.streams.rows(tokens, y, scene, layout)[:, slot]
            if slot == 0:
                tokens[:, 0] = self.head.draw_root(q, y, generator)
                continue
            drawn = vocabulary.draw(q, q, q.new_zeros(q.size(0), 1), 1, generator)[:, 0]
            orphan = tokens[:, int(self.shape.parent[slot])] == self.num_tokens
            tokens[:, slot] = drawn.masked_fill(orphan, self.num_tokens)

    def _index(
        self, tokens: Tensor, y: Tensor, scene: Tensor | None, shape: TreeShape
    ) -> tuple[Prefixes | None, tuple[Tensor, ...]]:
        r"""The query of each parent slot, level by level ``[B, P]``, negative
        where the slot is null; and the distinct paths, if they are evaluated.
        """
        if self.evaluation != 'paths':
            return None, tree_index(tokens, shape, self.num_tokens)
        # What the model does not see must not tell paths apart.
        seen_y = y if self.label_conditioning else torch.zeros_like(y)
        seen_scene = torch.zeros_like(y) if scene is None or not self.num_scenes else scene
        prefixes = Prefixes.of(tokens, seen_y, seen_scene, shape, self.num_tokens)
        return prefixes, prefixes.index

    def _queries(
        self,
        tokens: Tensor,
        y: Tensor,
        scene: Tensor | None,
        shape: TreeShape,
        prefixes: Prefixes | None,
    ) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        r"""The queries of each level ``[N, D]`` with their conditions ``[N]``."""
        if prefixes is not None:
            by_level = self.streams.paths(prefixes).split(prefixes.sizes)
            seen = self._condition(prefixes.y, prefixes.scene)
            return by_level, seen.split(prefixes.sizes)
        layout = self._layout(shape.depth, tokens.device)
        rows = self.streams.rows(tokens, y, scene, layout)
        queries = []
        for level in range(shape.depth + 1):  # of each parent: the query of its first child
            step = 1 if level == 0 else shape.num_neighbors[level - 1]
            first = torch.arange(shape.num_slots, device=y.device)[shape.layer_slice(level)][::step]
            queries.append(rows[:, layout.query_of_slot[first]])
        seen = self._condition(y, scene)
        conditions = [seen[:, None].expand(q.shape[:2]).flatten() for q in queries]
        return [q.flatten(0, 1) for q in queries], conditions

    def _condition(self, y: Tensor, scene: Tensor | None) -> Tensor:
        r"""What the model sees of label and scene, as one number. Without
        scenes, the roots of a label are one.
        """
        seen = y.long() if self.label_conditioning else torch.zeros_like(y, dtype=torch.long)
        around = scene.long() if self.num_scenes and scene is not None else seen
        return seen + around * (self.num_classes if self.label_conditioning else 1)

    def _sequence_log_prob(self, tokens: Tensor, y: Tensor, scene: Tensor | None) -> Tensor:
        r"""The log-likelihood of each slot, ``[B, T]``, where each slot has a
        query of its own; zero below null slots.
        """
        layout = self._layout(self.shape.depth, tokens.device)
        q = self.streams.rows(tokens, y, scene, layout).flatten(0, 1)
        node = torch.arange(q.size(0), device=q.device)
        base = q.new_zeros(q.size(0), 1)
        flat = tokens.long().flatten()
        log_prob = self.head.vocabulary.log_prob(q[:, None], q, base, node, flat).view(tokens.shape)
        root = node.view(tokens.shape)[:, 0]
        of_root = self.head.root_log_prob(q, y, root, tokens[:, 0].long())
        log_prob = torch.cat([of_root[:, None], log_prob[:, 1:]], dim=1)
        return log_prob.masked_fill(~self.counted_slots(tokens), 0.0)

    def _check(self, tokens: Tensor, y: Tensor, scene: Tensor | None) -> None:
        check_trees(tokens, y, self.shape.num_slots, self.num_tokens, self.num_classes)
        check_scene(y, scene, self.num_scenes)

    def _layout(self, depth: int, device: torch.device) -> Layout:
        key = (depth, device)
        if key not in self._layouts:
            shape = self.shape.truncate(depth)
            with torch.device('cpu'):  # whatever the default device is
                layout = (
                    sequence_layout(shape, self.position, self.attention)
                    if self.evaluation == 'sequence'
                    else factorised_layout(shape)
                )
            self._layouts[key] = layout.to(device)
        return self._layouts[key]

    def config(self) -> dict[str, Any]:
        r"""The arguments that make this model again."""
        return {
            'num_tokens': self.num_tokens,
            'num_classes': self.num_classes,
            'num_neighbors': self.num_neighbors,
            'hidden_channels': self.hidden_channels,
            'num_layers': self.num_layers,
            'num_heads': self.num_heads,
            'dropout': self.dropout,
            'num_scenes': self.num_scenes,
            'siblings': self.siblings,
            'num_types': self.num_types,
            'repeats': self.repeats,
            'vocabulary': self.vocabulary,
            'evaluation': self.evaluation,
            'label_conditioning': self.label_conditioning,
            'position': self.position,
            'attention': self.attention,
        }

    def __repr__(self) -> str:
        args = ', '.join(f'{name}={value!r}' for name, value in self.config().items())
        return f'{self.__class__.__name__}({args})'
