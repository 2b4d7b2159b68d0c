r"""Absorbing-state discrete diffusion over token trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.baselines.diffusion_training import DiffusionTraining
from torch_geometric_cgt.baselines.masked_slots import draw_masks, elbo, masked_log_prob, unmask
from torch_geometric_cgt.baselines.slot_denoiser import SlotBatch, SlotDenoiser
from torch_geometric_cgt.models import FitContext, TreeModel, TreeSource
from torch_geometric_cgt.nn.validate import check_scene, check_trees
from torch_geometric_cgt.nn.vocabulary import sample_categorical
from torch_geometric_cgt.utils.distributed import fork_rng, seed_global
from torch_geometric_cgt.utils.seeds import seeded

MAX_PAIRS = 1 << 21  # pairs of slots that attend to each other at a time
MAX_OUTPUTS = 1 << 25  # predicted probabilities at a time
MAX_BLOCK = 4096  # trees at a time
COUNT_CHANNELS, COUNT_LAYERS = 32, 2  # of the network for numbers of children


class TreeDiffusion(TreeModel):
    r"""Masked diffusion over token trees, given the root's label and scene.

    The numbers of children are drawn first, layer by layer, and then the tokens
    of all slots that are not null. Both are diffusions with an absorbing state,
    as in the `"Structured Denoising Diffusion Models in Discrete State-Spaces"
    <https://arxiv.org/abs/2107.03006>`_ paper: all slots are masked at first, and
    a Transformer over the tree unmasks them in a random order. It is trained on
    the bound of the `"Simple and Effective Masked Diffusion Language Models"
    <https://arxiv.org/abs/2406.07524>`_ and the `"Simplified and Generalized
    Masked Diffusion for Discrete Data" <https://arxiv.org/abs/2406.04329>`_
    papers. The `"GraphMaker: Can Diffusion Models Generate Large Attributed
    Graphs?" <https://arxiv.org/abs/2310.13833>`_ paper generates attributes and
    edges of whole graphs by discrete diffusion.

    The structure comes first because a slot below a null slot is null: with
    null as one of the tokens, slots that are unmasked in the same step could
    contradict each other, and most of the work would be spent on null slots.
    The positions of null slots among their siblings do not count in the
    likelihood, as in :class:`~torch_geometric_cgt.models.TransformerModel`.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels.
        num_neighbors (list[int]): The fan-out of each layer.
        num_scenes (int, optional): The number of scenes of roots that trees are
            conditioned on, or :obj:`0`. By default, it is that of the source of
            :meth:`fit`. (default: :obj:`None`)
        hidden_channels (int, optional): The width. (default: :obj:`64`)
        num_layers (int, optional): The number of Transformer layers.
            (default: :obj:`2`)
        num_heads (int, optional): The number of attention heads.
            (default: :obj:`4`)
        dropout (float, optional): The dropout probability.
            (default: :obj:`0.1`)
        copies (bool, optional): Whether a slot may copy the token of another
            slot of its tree. (default: :obj:`True`)
        steps (int, optional): The number of steps in which :meth:`sample`
            unmasks the tokens of a tree. With :obj:`None`, each step unmasks one
            slot, which is the process that :meth:`log_prob_bound` describes.
            (default: :obj:`16`)
        epochs (int, optional): The number of epochs. By default, as many as show
            the model about 220,000 trees, but 4 to 80. (default: :obj:`None`)
        batch_size (int, optional): Trees per step. (default: :obj:`128`)
        lr (float, optional): The peak learning rate. (default: :obj:`4e-3`)
        weight_decay (float, optional): The weight decay of AdamW.
            (default: :obj:`0.05`)
    """

    name = 'Diffusion'
    uses_scenes = True

    is_fitted: Tensor
    parent: Tensor
    place: Tensor
    scene_count: Tensor  # [C, S]

    def __init__(
        self,
        num_tokens: int,
        num_classes: int,
        num_neighbors: Sequence[int],
        num_scenes: int | None = None,
        hidden_channels: int = 64,
        num_layers: int = 2,
        num_heads: int = 4,
        dropout: float = 0.1,
        copies: bool = True,
        steps: int | None = 16,
        epochs: int | None = None,
        batch_size: int = 128,
        lr: float = 4e-3,
        weight_decay: float = 0.05,
    ) -> None:
        super().__init__(num_tokens, num_classes, num_neighbors)
        self.options: dict[str, Any] = {
            'num_scenes': num_scenes,
            'hidden_channels': hidden_channels,
            'num_layers': num_layers,
            'num_heads': num_heads,
            'dropout': dropout,
            'copies': copies,
            'steps': steps,
            'epochs': epochs,
            'batch_size': batch_size,
            'lr': lr,
            'weight_decay': weight_decay,
        }
        check_options(self.options)
        self.steps = steps
        first, _ = self.shape.children
        self.register_buffer('parent', self.shape.parent.clamp(min=0), persistent=False)
        place = torch.arange(self.shape.num_slots, device='cpu') - first[self.parent]
        self.register_buffer('place', place.clamp(min=0), persistent=False)  # among siblings
        self.register_buffer('is_fitted', torch.tensor(False))
        self._make_networks(num_scenes or 0)

    def _make_networks(self, num_scenes: int) -> None:
        options, heads = self.options, self.options['num_heads']
        self.tokens = SlotDenoiser(
            self.shape,
            [self.num_tokens] * (self.shape.depth + 1),
            self.num_classes,
            num_scenes,
            options['hidden_channels'],
            options['num_layers'],
            heads,
            options['dropout'],
            options['copies'],
        )
        self.counts = SlotDenoiser(
            self.shape.truncate(self.shape.depth - 1),
            [fan_out + 1 for fan_out in self.shape.num_neighbors],
            self.num_classes,
            num_scenes,
            heads * -(-COUNT_CHANNELS // heads),
            COUNT_LAYERS,
            heads,
            options['dropout'],
            copies=False,
        )
        self._num_scenes = num_scenes
        self.register_buffer('scene_count', torch.ones(self.num_classes, num_scenes))

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        given = state_dict.get(f'{prefix}scene_count')
        if given is not None and given.size(1) != self._num_scenes:  # it was found by fit()
            device = self.scene_count.device
            self._make_networks(given.size(1))
            self.to(device)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    @property
    def num_scenes(self) -> int:
        r"""The number of scenes that trees are conditioned on."""
        return max(1, self._num_scenes)

    def config(self) -> dict[str, Any]:
        r"""The constructor arguments of this model."""
        known = self.options['num_scenes'] is not None or self._num_scenes
        own = {**self.options, 'num_scenes': self._num_scenes if known else None}
        return {**super().config(), **own, 'steps': self.steps}

    def fit(self, source: TreeSource, context: FitContext | None = None) -> dict[str, Any]:
        r"""Trains on newly sampled trees in every epoch. It ends with the weights
        that had the best held-out bound.

        Returns:
            The negative bound per counted token of the training trees and the
            held-out ones, and the check with the best one.
        """
        context = context or FitContext()
        if len(source) == 0:
            raise ValueError('The source has no computation graphs to learn from')
        with fork_rng(context.device):
            history = DiffusionTraining(self, source, context).run()
        self.is_fitted.fill_(True)
        return history

    def _require_fitted(self) -> None:
        if not bool(self.is_fitted):
            raise ValueError('The model is not fitted: call fit() first')

    def prepare(self, source: TreeSource, seed: int) -> None:
        r"""Makes new networks for a source, and counts its scenes.

        Args:
            source (TreeSource): The source.
            seed (int): The seed of the weights.
        """
        wanted = self.options['num_scenes']
        if source.scene is None and wanted:
            raise ValueError(f'The model expects {wanted} scenes, but the source has none')
        if wanted is None:
            wanted = 0 if source.scene is None else int(source.scene.max()) + 1
        seed_global(seed, torch.device('cpu'))
        self._make_networks(wanted)
        if self._num_scenes and source.scene is not None:
            key = source.y.long() * self.num_scenes + source.scene.long()
            count = torch.bincount(key, minlength=self.scene_count.numel())
            overall = torch.bincount(source.scene.long(), minlength=self.num_scenes)
            self.scene_count = count.view_as(self.scene_count) + 1e-3 * overall / len(source)

    def structure(self, tokens: Tensor, y: Tensor, scene: Tensor) -> tuple[SlotBatch, SlotBatch]:
        r"""The states of both diffusions: tokens, and numbers of children."""
        exists = tokens != self.num_tokens
        count = torch.zeros_like(tokens)
        count.scatter_add_(1, self.parent[1:].expand_as(tokens[:, 1:]), exists[:, 1:].long())
        inner = self.shape.num_internal
        batch = SlotBatch(
            tokens.masked_fill(~exists, 0), exists, self._known_counts(count), y, scene
        )
        unknown = torch.full_like(count[:, :inner], -1)
        return batch, SlotBatch(count[:, :inner], exists[:, :inner], unknown, y, scene)

    def _known_counts(self, count: Tensor) -> Tensor:
        leaf = torch.arange(self.shape.num_slots, device=count.device) >= self.shape.num_internal
        return count.masked_fill(leaf, -1)

    def layers(self, counts: SlotBatch) -> Iterator[tuple[SlotBatch, Tensor]]:
        r"""Yields the numbers of children down to each layer, and the slots of
        this layer: these are diffused given the layers above.

        Args:
            counts (SlotBatch): The numbers of children of all inner slots.
        """
        for layer in range(self.shape.depth):
            exists = counts.exists & (self.counts.layer <= layer)
            yield replace(counts, exists=exists), exists & (self.counts.layer == layer)

    def log_prob_bound(
        self,
        tokens: Tensor,
        y: Tensor,
        scene: Tensor | None = None,
        num_draws: int = 16,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        r"""A lower bound of the log-likelihood of each tree, ``[B]``, for the
        sampler that unmasks one slot at a time.

        It is exact for trees of few slots and an unbiased estimate of the bound
        for larger ones, see :meth:`~torch_geometric_cgt.baselines.masked_slots.elbo`.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
            scene (torch.Tensor, optional): The scene of each root, ``[B]``;
                needed by models with scenes. (default: :obj:`None`)
            num_draws (int, optional): The number of masks per tree.
                (default: :obj:`16`)
            generator (torch.Generator, optional): The source of randomness, on
                the device of the model. (default: seed 0)
        """
        self._require_fitted()
        tokens, y = tokens.long(), y.long()
        check_trees(tokens, y, self.shape.num_slots, self.num_tokens, self.num_classes)
        check_scene(y, scene, self._num_scenes)
        if not self.shape.check_nulls(tokens != self.num_tokens):
            raise ValueError('A root is null, or a slot below a null slot is not null')
        scene = torch.zeros_like(y) if scene is None or not self._num_scenes else scene.long()
        rng = generator or seeded(0, 'bound', device=tokens.device)
        return self.bound(tokens, y, scene, num_draws, rng)

    def bound(
        self, tokens: Tensor, y: Tensor, scene: Tensor, num_draws: int, rng: torch.Generator
    ) -> Tensor:
        r"""Implements :meth:`log_prob_bound` for checked arguments."""
        out = [torch.zeros(0, device=y.device)]
        for rows in torch.arange(y.numel(), device=y.device).split(self.block):
            batch, counts = self.structure(tokens[rows], y[rows], scene[rows])
            total = elbo(self.tokens, batch, batch.exists, num_draws, rng)
            for part, slots in self.layers(counts):
                total = total + elbo(self.counts, part, slots, num_draws, rng)
            out.append(total)
        return torch.cat(out)

    @property
    def block(self) -> int:
        r"""The number of trees that are computed at a time."""
        num_slots = self.shape.num_slots
        outputs = num_slots * (self.num_tokens + num_slots)
        return max(1, min(MAX_BLOCK, MAX_PAIRS // num_slots**2, MAX_OUTPUTS // outputs))

    def training_bound(self, tokens: Tensor, y: Tensor, scene: Tensor, rng: Any) -> Tensor:
        r"""An estimate of the bound with one mask per tree, ``[B]``."""
        batch, counts = self.structure(tokens, y, scene)
        total: Tensor | float = 0.0
        for network, part, slots in (
            (self.tokens, batch, batch.exists),
            *((self.counts, *layer) for layer in self.layers(counts)),
        ):
            # The sizes of the masks are stratified over the trees.
            noise = torch.rand(y.numel(), generator=rng, device=y.device)
            place = (torch.randperm(y.numel(), generator=rng, device=y.device) + noise) / y.numel()
            hidden, weight = draw_masks(slots, place, rng)
            total = total + weight * masked_log_prob(network, part, hidden)
        assert isinstance(total, Tensor)
        return total

    def draw_scenes(self, y: Tensor, generator: torch.Generator | None = None) -> Tensor | None:
        r"""Draws a scene per label, ``[B]``, as often as in the source."""
        if not self._num_scenes:
            return None
        return sample_categorical(self.scene_count.log()[y], 1, generator)[:, 0]

    @torch.no_grad()
    def sample(
        self,
        y: Tensor,
        generator: torch.Generator | None = None,
        scene: Tensor | None = None,
    ) -> Tensor:
        r"""Draws one token tree per label, ``[B, T]``. A root is never null, and a
        slot below a null slot is null.

        Args:
            y (torch.Tensor): The label of each root, ``[B]``.
            generator (torch.Generator, optional): The source of randomness, on
                the device of the model. (default: :obj:`None`)
            scene (torch.Tensor, optional): The scene of each root, ``[B]``. By
                default, scenes are drawn. (default: :obj:`None`)
        """
        self._require_fitted()
        y, was_training = y.long(), self.training
        self.eval()
        if scene is None or not self._num_scenes:
            scene = self.draw_scenes(y, generator)
        scene = torch.zeros_like(y) if scene is None else scene.long()
        check_scene(y, scene, self._num_scenes)
        out = [torch.empty(0, self.shape.num_slots, dtype=torch.long, device=y.device)]
        for a, b in zip(y.split(self.block), scene.split(self.block), strict=True):
            exists, count = self._sample_structure(a, b, generator)
            batch = SlotBatch(torch.zeros_like(count), exists, self._known_counts(count), a, b)
            tokens = unmask(self.tokens, batch, exists, self.steps, generator)
            out.append(tokens.masked_fill(~exists, self.num_tokens))
        self.train(was_training)
        return torch.cat(out)

    def _sample_structure(
        self, y: Tensor, scene: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        r"""Draws which slots exist and how many children they have, both ``[B, T]``."""
        size, inner = (y.numel(), self.shape.num_slots), self.shape.num_internal
        exists = torch.zeros(size, dtype=torch.bool, device=y.device)
        exists[:, 0] = True
        count = torch.zeros(size, dtype=torch.long, device=y.device)
        for layer in range(self.shape.depth):
            known = count[:, :inner]
            batch = SlotBatch(known, exists[:, :inner], torch.full_like(known, -1), y, scene)
            slots = exists[:, :inner] & (self.counts.layer == layer)
            count[:, :inner] = unmask(self.counts, batch, slots, None, generator)
            below = self.shape.layer_slice(layer + 1)
            exists[:, below] = self.place[below] < count[:, self.parent[below]]
        return exists, count


def check_options(options: dict[str, Any]) -> None:
    r"""Raises an error if a :class:`TreeDiffusion` cannot have these options."""
    for name in ('hidden_channels', 'num_layers', 'num_heads', 'steps', 'epochs', 'batch_size'):
        if options[name] is not None and options[name] < 1:
            raise ValueError(f"'{name}' must be at least 1 (got {options[name]})")
    if options['num_scenes'] is not None and options['num_scenes'] < 0:
        raise ValueError(f"'num_scenes' must not be negative (got {options['num_scenes']})")
    if options['hidden_channels'] % options['num_heads']:
        raise ValueError(
            f"'hidden_channels' must be divisible by 'num_heads' "
            f'(got {options["hidden_channels"]} and {options["num_heads"]})'
        )
    if not 0 <= options['dropout'] < 1:
        raise ValueError(f"'dropout' must lie in [0, 1) (got {options['dropout']})")
    if not options['lr'] > 0 or not options['weight_decay'] >= 0:
        raise ValueError(
            f"'lr' must be positive and 'weight_decay' not negative "
            f'(got {options["lr"]} and {options["weight_decay"]})'
        )
