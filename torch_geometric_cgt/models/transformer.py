r"""The Computation Graph Transformer as a tree model: fitted without privacy, and by DP-SGD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_geometric_cgt.data import TokenTrees
from torch_geometric_cgt.models.scenes import ROOTS, SCENES
from torch_geometric_cgt.models.tree_model import (
    PER_TREE,
    STAGE,
    FitContext,
    PrivateTreeModel,
    TreeModel,
    TreeSource,
)
from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.privacy import Entry, Gaussian, Queries
from torch_geometric_cgt.privacy.noise import SampledGaussian, SystemRandom
from torch_geometric_cgt.training import FitConfig, fit
from torch_geometric_cgt.training.dp_sgd import DPSGDConfig, fit_privately
from torch_geometric_cgt.training.kept_steps import KeptSteps

DP_SGD = 'gradients of whole trees'
SHARES = {'roots': 0.1, 'scenes': 0.05, 'gradients': 0.85}
BLOCK = 4096  # trees that are sampled at a time


class TransformerModel(TreeModel):
    r"""A :class:`~torch_geometric_cgt.nn.CGTGenerator` that is trained on newly
    sampled computation graphs in every epoch. It is not differentially private.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels.
        num_neighbors (list[int]): The fan-out of each layer.
        training (FitConfig, optional): How to train. (default: :obj:`None`)
        **kwargs (optional): Further arguments of the generator.
    """

    name = 'cgt'
    has_log_prob = True
    uses_scenes = True

    def __init__(
        self,
        num_tokens: int,
        num_classes: int,
        num_neighbors: Sequence[int],
        training: FitConfig | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_tokens, num_classes, num_neighbors)
        self.training_config = training or FitConfig()
        self.generator = CGTGenerator(num_tokens, num_classes, num_neighbors, **kwargs)

    @property
    def num_scenes(self) -> int:
        r"""The number of scenes that trees are conditioned on."""
        return max(1, self.generator.num_scenes)

    def config(self) -> dict[str, Any]:
        r"""The constructor arguments of this model, but for :obj:`training`:
        a model that is made of them samples the same, and trains by default.
        """
        return self.generator.config()

    def fit(self, source: TreeSource, context: FitContext | None = None) -> dict[str, Any]:
        r"""Trains the generator; see :meth:`~torch_geometric_cgt.training.fit`."""
        context = context or FitContext()
        result = fit(
            self.generator,
            source.draw,
            source.y,
            self.training_config,
            context.seed,
            context.device,
            context.log,
            source.scene,
            checkpoint=context.checkpoint,
            belongs_to=context.belongs_to,
            world=context.world,
        )
        return dict(vars(result))

    def sample(
        self,
        y: Tensor,
        generator: torch.Generator | None = None,
        scene: Tensor | None = None,
    ) -> Tensor:
        r"""Draws one token tree per label and scene, ``[B, T]``."""
        return self.generator.sample(y, generator, scene)

    def log_prob(self, tokens: Tensor, y: Tensor, scene: Tensor | None = None) -> Tensor:
        r"""The log-likelihood of token trees, ``[B]``.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
            scene (torch.Tensor, optional): The scene of each root, ``[B]``.
                (default: :obj:`None`)
        """
        return self.generator.log_prob(tokens, y, scene)


class PrivateGenerator(PrivateTreeModel):
    r"""A :class:`~torch_geometric_cgt.nn.CGTGenerator` that is trained by DP-SGD
    and conditioned on the label and the scene of a root.

    The scenes of each label come from two noisy histograms, as in
    :class:`PrivateHistograms`. Everything else is learned by DP-SGD with one
    computation graph as the record (:meth:`fit_privately`).

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels, which equals the number of
            scenes.
        num_neighbors (list[int]): The fan-out of each layer.
        num_trees (int): The number of training trees. It is public.
        config (DPSGDConfig or dict, optional): How to train.
            (default: :obj:`None`)
    """

    name = 'dp_sgd'

    def __init__(
        self,
        num_tokens: int,
        num_classes: int,
        num_neighbors: Sequence[int],
        num_trees: int,
        config: DPSGDConfig | dict[str, Any] | None = None,
    ) -> None:
        config = DPSGDConfig(**config) if isinstance(config, dict) else config or DPSGDConfig()
        entries = plan_gradients(config, num_trees)
        super().__init__(num_tokens, num_classes, num_neighbors, entries)
        self.num_trees = num_trees
        self.training_config = config
        self.kept: KeptSteps | None = None  # of the training, not private and no part of the model
        self.rows: tuple[Tensor, ...] = ()  # tokens, labels and scenes of a replay, not private
        self.generator = self.training_config.make_generator(
            num_tokens, num_classes, self.num_neighbors, num_classes
        )

    def config(self) -> dict[str, Any]:
        r"""The constructor arguments of this model."""
        own = {'num_trees': self.num_trees, 'config': asdict(self.training_config)}
        return {**super().config(), **own}

    def learn(
        self,
        trees: TokenTrees,
        queries: Queries,
        context: FitContext,
    ) -> None:
        r"""Counts scenes with noise, then trains by DP-SGD."""
        tokens, y, generator = trees.tokens, trees.y, queries.generator
        if y.numel() > self.num_trees:  # fewer trees are allowed: some may be zeroed out
            raise ValueError(
                f'The noise was planned for {self.num_trees} trees (got {y.numel()}): the number '
                f'of trees must not exceed the public number'
            )
        noise = next(entry.noise for entry in queries.entries if entry.name == DP_SGD)
        assert isinstance(noise, SampledGaussian)
        scene = self.scenes.fit(tokens, y, queries)  # not private
        if queries.replay is not None:  # an audit computes the steps that were kept
            self.rows = (tokens, y, scene)
            return
        rng = (
            SystemRandom() if generator is None else np.random.default_rng(generator.initial_seed())
        )
        model, config = self.generator.to(context.device), self.training_config
        self.kept = fit_privately(model, tokens, y, scene, noise, config, rng, context.log)
        model.cpu()
        self.is_fitted.fill_(True)
        draws = torch.Generator().manual_seed(0)  # public: it samples from the private model
        self.scenes.unfold(lambda label, scene: self.sample(label, draws, scene))

    def draw(self, y: Tensor, scene: Tensor, generator: torch.Generator | None) -> Tensor:
        parts = zip(y.split(BLOCK), scene.split(BLOCK), strict=True)
        return torch.cat([self.generator.sample(a, generator, b) for a, b in parts])


def plan_gradients(config: DPSGDConfig, num_trees: int) -> list[Entry]:
    r"""One entry per mechanism, each with its share of the budget and with noise
    that is not calibrated yet.

    Args:
        config (DPSGDConfig): How to train.
        num_trees (int): The number of trees.
    """
    count = Entry(STAGE, ROOTS, PER_TREE, Gaussian(1.0), share=SHARES['roots'])
    return [
        count,
        replace(count, name=SCENES, share=SHARES['scenes']),
        Entry(
            STAGE,
            DP_SGD,
            PER_TREE,
            config.noise(num_trees),
            share=SHARES['gradients'],
            note=f'DP-SGD, one computation graph is one row, clipped to {config.clip:g}',
        ),
    ]
