r"""A private model of token trees: the transformer, trained by DP-SGD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.privacy.entry import Entry
from torch_geometric_cgt.privacy.histogram_plan import ROOTS, SCENES, STAGE, with_noise
from torch_geometric_cgt.privacy.label_scenes import LabelScenes
from torch_geometric_cgt.privacy.noise import DiscreteGaussian, SampledGaussian
from torch_geometric_cgt.privacy.tree_counts import check_model, check_private_trees
from torch_geometric_cgt.training.dp_sgd import DPSGDConfig, fit_privately

DP_SGD = 'gradients of whole trees'
SHARES = {'roots': 0.1, 'scenes': 0.05, 'gradients': 0.85}
BLOCK = 4096  # trees that are drawn at once


class PrivateGenerator(nn.Module):
    r"""A :class:`~torch_geometric_cgt.nn.CGTGenerator` that learned from noisy
    gradients, given the label and the scene of a root.

    Labels have scenes as in :class:`PrivateHistograms`, from two noisy
    histograms; all the rest is DP-SGD with one computation graph as the record
    (:meth:`fit_privately`).

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels, which is also that of scenes.
        num_neighbors (list[int]): The fan-out of each layer.
        num_trees (int): The number of trees that it will learn from, which is
            no secret.
        config (DPSGDConfig or dict, optional): How to train.
            (default: :obj:`None`)
    """

    form = 'dp_sgd'
    is_fitted: Tensor

    def __init__(
        self,
        num_tokens: int,
        num_classes: int,
        num_neighbors: Sequence[int],
        num_trees: int,
        config: DPSGDConfig | dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        check_model(num_tokens, num_classes)
        self.num_tokens = num_tokens
        self.num_classes = num_classes
        self.shape = TreeShape.of(num_neighbors)
        self.num_trees = num_trees
        self.training_config = (
            DPSGDConfig(**config) if isinstance(config, dict) else config or DPSGDConfig()
        )
        self.scenes = LabelScenes(num_tokens, num_classes, self.shape)
        self.generator = self.training_config.make_generator(
            num_tokens, num_classes, self.num_neighbors, num_classes
        )
        self._entries = plan_gradients(self.training_config, num_trees)
        self.register_buffer('is_fitted', torch.tensor(False))

    @property
    def num_neighbors(self) -> list[int]:
        r"""The fan-out of each layer."""
        return list(self.shape.num_neighbors)

    def config(self) -> dict[str, Any]:
        r"""The arguments that make this model again."""
        return {
            'num_tokens': self.num_tokens,
            'num_classes': self.num_classes,
            'num_neighbors': self.num_neighbors,
            'num_trees': self.num_trees,
            'config': asdict(self.training_config),
        }

    def entries(self) -> list[Entry]:
        r"""The mechanisms, for a ledger: before :meth:`fit` with their shares
        of the budget and some noise, behind it as they ran.
        """
        return list(self._entries)

    def fit(
        self,
        tokens: Tensor,
        y: Tensor,
        entries: Sequence[Entry],
        generator: torch.Generator | None = None,
        device: torch.device | str = 'cpu',
        log: bool = False,
    ) -> PrivateGenerator:
        r"""Counts scenes and follows gradients, with noise.

        Args:
            tokens (torch.Tensor): Token trees, ``[n, T]``.
            y (torch.Tensor): The label of each tree, ``[n]``.
            entries (list[Entry]): Those of :meth:`entries`, with the noise
                that a ledger found; others may be among them.
            generator (torch.Generator, optional): The source of the noise. By
                default, the operating system. Whoever knows the seed of a
                generator can take the noise away again.
                (default: :obj:`None`)
            device (torch.device or str, optional): Where to train.
                (default: :obj:`"cpu"`)
            log (bool, optional): Whether to show progress.
                (default: :obj:`False`)
        """
        tokens, y = check_private_trees(self, tokens, y)
        if y.numel() != self.num_trees:
            raise ValueError(
                f'The noise was planned for {self.num_trees} trees (got {y.numel()}): batches '
                f'would be drawn with another probability than was paid for'
            )
        self._entries, sigma = with_noise(self._entries, entries)
        noise = next(e.noise for e in self._entries if e.name == DP_SGD)
        assert isinstance(noise, SampledGaussian)
        scene = self.scenes.fit(tokens, y, sigma[ROOTS], sigma[SCENES], generator)  # not private
        rng = np.random.default_rng(None if generator is None else generator.initial_seed())
        model = self.generator.to(device)
        fit_privately(model, tokens, y, scene, noise, self.training_config, rng, log).cpu()
        self.is_fitted.fill_(True)
        draws = torch.Generator().manual_seed(0)  # no secret
        self.scenes.unfold(lambda label, scene: self.sample(label, draws, scene))
        return self

    @torch.no_grad()
    def sample(
        self,
        y: Tensor,
        generator: torch.Generator | None = None,
        scene: Tensor | None = None,
    ) -> Tensor:
        r"""Draws one token tree per label.

        Args:
            y (torch.Tensor): The label of each root, ``[B]``.
            generator (torch.Generator, optional): The source of randomness,
                on the device of the model. (default: :obj:`None`)
            scene (torch.Tensor, optional): The scene of each tree, ``[B]``;
                by default, they are drawn. (default: :obj:`None`)

        Returns:
            Token trees, ``[B, T]``.
        """
        if not bool(self.is_fitted):
            raise ValueError('The model has learned nothing: call fit() first')
        y = y.long()
        scene = self.scenes.draw(y, generator) if scene is None else scene.long()
        parts = zip(y.split(BLOCK), scene.split(BLOCK), strict=True)
        return torch.cat([self.generator.sample(a, generator, b) for a, b in parts])


def plan_gradients(config: DPSGDConfig, num_trees: int) -> list[Entry]:
    r"""One entry per mechanism, each with its share of the budget and some noise.

    Args:
        config (DPSGDConfig): How to train.
        num_trees (int): The number of trees.
    """
    count = Entry(STAGE, ROOTS, 'record', 1.0, DiscreteGaussian(1.0), share=SHARES['roots'])
    return [
        count,
        replace(count, name=SCENES, share=SHARES['scenes']),
        Entry(
            STAGE,
            DP_SGD,
            'record',
            config.clip,
            config.noise(num_trees),
            share=SHARES['gradients'],
            note='DP-SGD, one computation graph is one record',
        ),
    ]
