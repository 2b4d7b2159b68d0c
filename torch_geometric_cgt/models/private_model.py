r"""The base class of private tree models: noise from ledger entries, and scenes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.data import TokenTrees
from torch_geometric_cgt.models.label_scenes import LabelScenes
from torch_geometric_cgt.models.tree_model import FitContext, TreeModel, TreeSource
from torch_geometric_cgt.privacy import Entry, Gaussian

STAGE = 'sequence model'  # stage of the ledger
ROOTS, SCENES = 'root tokens per label', 'scenes per label'


class PrivateTreeModel(TreeModel):
    r"""A differentially private model of token trees.

    A tree is sampled in two steps: its scene given its label
    (:class:`LabelScenes`), and the tree given both. The weights and tables of
    the model, and all trees that are sampled from it, are private for the unit
    :obj:`"record"`: one computation graph with its label. The token of a node
    must depend on its own features and on private cluster centres only.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels, which equals the number of
            scenes.
        num_neighbors (list[int]): The fan-out of each layer.
        entries (list[Entry]): The mechanisms of :meth:`fit`, with their shares
            of the budget and with noise that is not calibrated yet.
    """

    is_fitted: Tensor

    def __init__(
        self,
        num_tokens: int,
        num_classes: int,
        num_neighbors: Sequence[int],
        entries: Sequence[Entry],
    ) -> None:
        super().__init__(num_tokens, num_classes, num_neighbors)
        self.scenes = LabelScenes(num_tokens, num_classes, self.shape)
        self._entries = list(entries)
        self.register_buffer('is_fitted', torch.tensor(False))

    @property
    def num_scenes(self) -> int:
        r"""The number of scenes: one per label."""
        return self.num_classes

    def entries(self) -> list[Entry]:
        r"""The mechanisms of :meth:`fit`, for a ledger. Before :meth:`fit`, they
        have their shares of the budget and noise that is not calibrated yet;
        afterwards, they have the noise that was added. A model that is loaded
        from a ``state_dict`` has the former: the ledger of its build is on the
        card.
        """
        return list(self._entries)

    def fit(self, source: TreeSource, context: FitContext | None = None) -> dict[str, Any]:
        r"""Learns from one tree of each root, with the noise of the ledger.
        :obj:`context.entries` must contain all entries of :meth:`entries`, with
        calibrated noise. Other entries are ignored.
        """
        context = context or FitContext()
        drawn = source.trees()
        trees = TokenTrees(
            drawn.tokens.cpu().long(),
            drawn.y.cpu().long(),
            torch.zeros_like(drawn.y.cpu().long()),
            self.num_tokens,
            self.num_classes,
            self.shape,
        )
        trees.validate()
        paid, sigma = with_noise(self._entries, context.entries)
        self.learn(trees, paid, sigma, context)
        self._entries = paid
        return {}

    @abstractmethod
    def learn(
        self,
        trees: TokenTrees,
        entries: Sequence[Entry],
        sigma: dict[str, float],
        context: FitContext,
    ) -> None:
        r"""Implements :meth:`fit` for checked arguments.

        Args:
            trees (TokenTrees): One tree of each root.
            entries (list[Entry]): The mechanisms with their noise.
            sigma (dict[str, float]): The width of the noise of each histogram.
            context (FitContext): Where to fit, and the source of the noise.
        """

    @torch.no_grad()
    def sample(
        self,
        y: Tensor,
        generator: torch.Generator | None = None,
        scene: Tensor | None = None,
    ) -> Tensor:
        r"""Draws one token tree per label, ``[B, T]``. A root is never null, and
        a slot below a null slot is null.

        Args:
            y (torch.Tensor): The label of each root, ``[B]``.
            generator (torch.Generator, optional): The source of randomness,
                on the device of the model. (default: :obj:`None`)
            scene (torch.Tensor, optional): The scene of each tree, ``[B]``.
                By default, scenes are drawn. (default: :obj:`None`)
        """
        if not bool(self.is_fitted):
            raise ValueError('The model is not fitted: call fit() first')
        y = y.long()
        scene = self.draw_scenes(y, generator) if scene is None else scene.long()
        return self.draw(y, scene, generator)

    def draw_scenes(self, y: Tensor, generator: torch.Generator | None = None) -> Tensor:
        r"""Draws a scene per label, ``[B]``."""
        return self.scenes.draw(y, generator)

    @abstractmethod
    def draw(self, y: Tensor, scene: Tensor, generator: torch.Generator | None) -> Tensor:
        r"""Draws one token tree per label and scene, ``[B, T]``."""


def with_noise(
    planned: Sequence[Entry], given: Iterable[Entry]
) -> tuple[list[Entry], dict[str, float]]:
    r"""Returns the planned entries with the noise of the given entries of the
    same name, and the width of the noise of each histogram.

    Args:
        planned (list[Entry]): The mechanisms that will run.
        given (list[Entry]): The calibrated entries of a ledger.
    """
    paid = {entry.name: entry for entry in given if entry.stage == STAGE}
    entries, sigma = [], {}
    for entry in planned:
        found = paid.get(entry.name)
        if found is None:
            raise ValueError(
                f"There is no entry '{entry.name}' among the given entries "
                f'({", ".join(paid) or "none of this stage"})'
            )
        if not entry.is_same_as(found):
            raise ValueError(
                f"The entry '{entry.name}' describes another mechanism than the one that runs "
                f'(got {found}, expected {entry})'
            )
        entries.append(replace(entry, noise=found.noise))
        if isinstance(found.noise, Gaussian):
            sigma[entry.name] = found.noise.sigma
    return entries, sigma
