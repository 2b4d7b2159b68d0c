r"""The Computation Graph Transformer: an exact density over token trees."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.nn.batch_plan import BatchPlan, Parents, ParentsWithChildren
from torch_geometric_cgt.nn.children import IndependentChildren, TypedChildren
from torch_geometric_cgt.nn.two_stream import TwoStreams
from torch_geometric_cgt.nn.validate import check_arguments, check_scene, check_trees
from torch_geometric_cgt.nn.vocabulary import make_vocabulary, sample_categorical


class CGTGenerator(nn.Module):
    r"""The Computation Graph Transformer of the `"Graph Generative Model for
    Benchmarking Graph Neural Networks" <https://arxiv.org/abs/2207.04396>`_
    paper: a two-stream Transformer over token trees, given the root's label.

    Under the ancestor mask with one position embedding per layer, all
    children of a slot share one query, which depends on the label and the path
    to their parent. It is computed once per distinct path of a batch. This is
    no approximation: the likelihood equals that of a path-by-path evaluation.
    The children of a null slot are null and do not count in the likelihood.

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
            model is also conditioned on the scene of the root. A scene is a
            cluster of roots with similar two-hop neighbourhoods.
            (default: :obj:`0`)
        siblings (str, optional): How the children of a slot depend on each
            other. They share a latent type of the whole tree and may repeat
            each other (:obj:`"typed"`), or they are independent given the path
            as in the paper (:obj:`"independent"`). (default: :obj:`"typed"`)
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

        seen_classes = num_classes if label_conditioning else 0
        num_outcomes = num_tokens + (siblings == 'independent')  # the paper's form predicts null
        token, distribution = make_vocabulary(vocabulary, num_tokens, num_outcomes, hidden_channels)
        self.streams = TwoStreams(
            token,
            num_tokens,
            seen_classes,
            num_scenes,
            self.shape,
            hidden_channels,
            num_layers,
            num_heads,
            dropout,
            self.evaluation,
            position,
            attention,
        )
        self.head: IndependentChildren | TypedChildren
        if siblings == 'independent':
            self.head = IndependentChildren(distribution, num_tokens)
        else:
            self.head = TypedChildren(
                distribution,
                num_tokens,
                seen_classes or 1,
                self.num_neighbors,
                hidden_channels,
                num_types,
                repeats,
                num_scenes or seen_classes or 1,
            )
        self.reset_parameters()

    @property
    def is_factorised(self) -> bool:
        r"""Whether all children of a slot share one query."""
        return self.position == 'layer' and self.attention == 'ancestors'

    @property
    def num_neighbors(self) -> list[int]:
        r"""The fan-out of each layer."""
        return list(self.shape.num_neighbors)

    def reset_parameters(self) -> None:
        r"""Initialises all weights."""
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
        r"""Sets the biases to histograms of tokens and of numbers of children,
        so that they need not be learned. Does nothing for independent siblings.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
            scene (torch.Tensor, optional): The scene of each root,
                ``[B]``; needed by models with :obj:`num_scenes`.
                (default: :obj:`None`)
        """
        self._check(tokens, y, scene)
        if isinstance(self.head, TypedChildren):
            self.head.set_marginals(tokens, self.streams.condition(y, scene), self.shape)

    def forward(
        self,
        tokens: Tensor,
        y: Tensor,
        scene: Tensor | None = None,
        plan: BatchPlan | None = None,
    ) -> Tensor:
        r"""The mean negative log-likelihood per token.

        Slots below a null slot do not count, see :meth:`counted_slots`.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
            scene (torch.Tensor, optional): The scene of each root,
                ``[B]``; needed by models with :obj:`num_scenes`.
                (default: :obj:`None`)
            plan (BatchPlan, optional): What :meth:`plan` returned for these
                trees. By default, it is made here. (default: :obj:`None`)
        """
        log_prob = self.log_prob(tokens, y, scene, plan)
        return -log_prob.sum() / self.counted_slots(tokens).sum()

    def log_prob(
        self,
        tokens: Tensor,
        y: Tensor,
        scene: Tensor | None = None,
        plan: BatchPlan | None = None,
    ) -> Tensor:
        r"""The log-likelihood of each token tree given its root's label, ``[B]``.

        For independent siblings, this is the likelihood of all counted slots.
        For typed siblings, it is the exact sum over the types, and the
        positions of null slots among their siblings do not matter.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
            scene (torch.Tensor, optional): The scene of each root,
                ``[B]``; needed by models with :obj:`num_scenes`.
                (default: :obj:`None`)
            plan (BatchPlan, optional): What :meth:`plan` returned for these
                trees. By default, it is made here. (default: :obj:`None`)
        """
        self._check(tokens, y, scene)
        if not self.is_factorised:
            assert isinstance(self.head, IndependentChildren)
            layout = self.streams.layout(self.shape.depth, tokens.device)
            rows = self.streams.rows(tokens, y, scene, layout)
            log_prob = self.head.slot_log_prob(rows, tokens)
            return log_prob.masked_fill(~self.counted_slots(tokens), 0.0).sum(dim=1)
        plan = plan or self.plan(tokens, y, scene)
        assert plan is not None
        queries, conditions = self.streams.queries(tokens, y, scene, self.shape, plan.paths)
        total = self.head.root_log_prob(
            queries[0], conditions[0], plan.root_query, plan.root_token, plan.tilings[0]
        )
        by_type = self.head.type_log_prob(queries[1])[plan.child_query]  # [B, K]
        for family, tiling in zip(plan.layers, plan.tilings[1:], strict=True):
            level = family.layer + 1
            log_prob = self.head.log_prob(queries[level], conditions[level], family, tiling)
            by_type = by_type.index_add(0, family.tree, log_prob.to(by_type.dtype))
        return total + by_type.logsumexp(dim=1)

    def plan(self, tokens: Tensor, y: Tensor, scene: Tensor | None = None) -> BatchPlan | None:
        r"""The part of :meth:`log_prob` that does not depend on the weights, or
        :obj:`None` if there is none.

        Made on the CPU and moved to the device of the model, a plan keeps a GPU
        from waiting for the host.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
            scene (torch.Tensor, optional): The scene of each root,
                ``[B]``. (default: :obj:`None`)
        """
        self._check(tokens, y, scene)
        if not self.is_factorised:
            return None
        paths, index = self.streams.index(tokens, y, scene, self.shape)
        layers = tuple(
            ParentsWithChildren.of(tokens, index[layer + 1], layer, self.shape, self.num_tokens)
            for layer in range(self.shape.depth)
        )
        root_query, root_token = index[0][:, 0], tokens[:, 0].long()
        tilings = (
            self.head.vocabulary.tiling(root_query, root_token),
            *(self.head.tiling(family) for family in layers),
        )
        return BatchPlan(paths, root_query, index[1][:, 0], root_token, layers, tilings)

    def counted_slots(self, tokens: Tensor) -> Tensor:
        r"""Which slots count in the likelihood, ``[B, T]``: the root, and the
        slots below a real slot.
        """
        below_real = self.shape.parent_values(tokens != self.num_tokens)
        return torch.cat([torch.ones_like(below_real[:, :1]), below_real], dim=1)

    def contexts(self, tokens: Tensor, y: Tensor, scene: Tensor | None = None) -> Tensor:
        r"""The context embeddings after all layers but the last, which the
        queries of the last layer attend to: start first, then slots,
        ``[B, C, D]``.
        """
        layout = self.streams.layout(self.shape.depth, tokens.device)
        return self.streams.contexts(tokens, y, scene, layout)

    @torch.no_grad()
    def sample(
        self,
        y: Tensor,
        generator: torch.Generator | None = None,
        scene: Tensor | None = None,
    ) -> Tensor:
        r"""Samples one token tree per label.

        A root is never null, and all slots below a null slot are null.

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
            self._sample_layers(tokens, y, scene, generator)
        else:
            self._sample_slots(tokens, y, scene, generator)
        self.train(was_training)
        return tokens

    def _sample_layers(
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
            paths, index = self.streams.index(above, y, scene, part)
            queries, conditions = self.streams.queries(above, y, scene, part, paths, only_last=True)
            query, condition = queries[-1], conditions[-1]
            if layer == 0:
                start = index[0][:, 0]
                tokens[:, 0] = self.head.sample_root(query[start], condition[start], generator)
                continue
            if layer == 1:
                log_prob = self.head.type_log_prob(query)[index[1][:, 0]]
                types = sample_categorical(log_prob, 1, generator)[:, 0]
            parents = Parents.of(tokens, index[layer], layer - 1, self.shape, self.num_tokens)
            num_children = self.shape.num_neighbors[layer - 1]
            slots = tokens[:, self.shape.layer_slice(layer)]  # a view
            slots.unflatten(1, (-1, num_children))[parents.tree, parents.slot] = self.head.sample(
                query, condition, parents, types[parents.tree], num_children, generator
            )

    def _sample_slots(
        self,
        tokens: Tensor,
        y: Tensor,
        scene: Tensor | None,
        generator: torch.Generator | None,
    ) -> None:
        r"""Fills the trees slot by slot, where each slot has its own query."""
        assert isinstance(self.head, IndependentChildren)
        layout = self.streams.layout(self.shape.depth, y.device)
        for slot in range(self.shape.num_slots):
            q = self.streams.rows(tokens, y, scene, layout)[:, slot]
            if slot == 0:
                tokens[:, 0] = self.head.sample_root(q, None, generator)
                continue
            is_below_null = tokens[:, int(self.shape.parent[slot])] == self.num_tokens
            token = self.head.sample_slot(q, generator)
            tokens[:, slot] = token.masked_fill(is_below_null, self.num_tokens)

    def _check(self, tokens: Tensor, y: Tensor, scene: Tensor | None) -> None:
        check_trees(tokens, y, self.shape.num_slots, self.num_tokens, self.num_classes)
        check_scene(y, scene, self.num_scenes)

    def config(self) -> dict[str, Any]:
        r"""The arguments that construct this model."""
        names = inspect.signature(CGTGenerator).parameters
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        args = ', '.join(f'{name}={value!r}' for name, value in self.config().items())
        return f'{self.__class__.__name__}({args})'
