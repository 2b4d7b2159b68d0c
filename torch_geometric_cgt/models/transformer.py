r"""The Computation Graph Transformer as a tree model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.models.tree_model import FitContext, TreeModel, TreeSource
from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.training import FitConfig, fit


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
        r"""The constructor arguments of this model."""
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
