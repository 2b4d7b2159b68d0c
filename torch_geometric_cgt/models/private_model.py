r"""The face of all private models of token trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.models.histogram_plan import with_noise
from torch_geometric_cgt.models.label_scenes import LabelScenes
from torch_geometric_cgt.privacy.entry import Entry


class PrivateTreeModel(nn.Module):
    r"""A model of token trees that learns through noise.

    A tree is drawn in two steps: its scene given its label
    (:class:`LabelScenes`), and the tree given both. What is private are the
    weights and tables, and what is drawn from them, for the unit
    :obj:`"record"`: one computation graph with its label. Tokens must be
    functions of the rows of their nodes and of private centres.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels, which is also that of scenes.
        num_neighbors (list[int]): The fan-out of each layer.
        entries (list[Entry]): The mechanisms that it runs, with their shares
            of the budget and some noise.
    """

    form: ClassVar[str] = ''
    is_fitted: Tensor

    def __init__(
        self,
        num_tokens: int,
        num_classes: int,
        num_neighbors: Sequence[int],
        entries: Sequence[Entry],
    ) -> None:
        super().__init__()
        for name, value in (('num_tokens', num_tokens), ('num_classes', num_classes)):
            if value < 1:
                raise ValueError(f"'{name}' must be at least 1 (got {value})")
        self.num_tokens = num_tokens
        self.num_classes = num_classes
        self.shape = TreeShape.of(num_neighbors)
        self.scenes = LabelScenes(num_tokens, num_classes, self.shape)
        self._entries = list(entries)
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
    ) -> PrivateTreeModel:
        r"""Learns from trees, through the noise that was paid for.

        Args:
            tokens (torch.Tensor): Token trees, ``[n, T]``.
            y (torch.Tensor): The label of each tree, ``[n]``.
            entries (list[Entry]): Those of :meth:`entries`, with the noise
                that a ledger found; others may be among them.
            generator (torch.Generator, optional): The source of the noise. By
                default, the operating system. Whoever knows the seed of a
                generator can take the noise away again.
                (default: :obj:`None`)
            device (torch.device or str, optional): Where to train; counting is
                done on the CPU. (default: :obj:`"cpu"`)
            log (bool, optional): Whether to show progress, where it takes
                time. (default: :obj:`False`)
        """
        tokens, y = tokens.cpu().long(), y.cpu().long()
        split = torch.zeros_like(y)
        TokenTrees(tokens, y, split, self.num_tokens, self.num_classes, self.shape).validate()
        paid, sigma = with_noise(self._entries, entries)
        self.learn(tokens, y, paid, sigma, generator, torch.device(device), log)
        self._entries = paid
        return self

    def learn(
        self,
        tokens: Tensor,
        y: Tensor,
        entries: Sequence[Entry],
        sigma: dict[str, float],
        generator: torch.Generator | None,
        device: torch.device,
        log: bool,
    ) -> None:
        r"""Does what :meth:`fit` says, with checked arguments.

        Args:
            tokens (torch.Tensor): Token trees, ``[n, T]``.
            y (torch.Tensor): The label of each tree, ``[n]``.
            entries (list[Entry]): The mechanisms with their noise.
            sigma (dict[str, float]): The width of the noise of each histogram.
            generator (torch.Generator, optional): The source of the noise.
            device (torch.device): Where to train.
            log (bool): Whether to show progress.
        """
        raise NotImplementedError

    @torch.no_grad()
    def sample(
        self,
        y: Tensor,
        generator: torch.Generator | None = None,
        scene: Tensor | None = None,
    ) -> Tensor:
        r"""Draws one token tree per label, ``[B, T]``.

        A root is never null, and nothing real is drawn below a null slot.

        Args:
            y (torch.Tensor): The label of each root, ``[B]``.
            generator (torch.Generator, optional): The source of randomness,
                on the device of the model. (default: :obj:`None`)
            scene (torch.Tensor, optional): The scene of each tree, ``[B]``;
                by default, they are drawn. (default: :obj:`None`)
        """
        if not bool(self.is_fitted):
            raise ValueError('The model has learned nothing: call fit() first')
        y = y.long()
        scene = self.scenes.draw(y, generator) if scene is None else scene.long()
        return self.draw(y, scene, generator)

    def draw(self, y: Tensor, scene: Tensor, generator: torch.Generator | None) -> Tensor:
        r"""Draws one token tree per label and scene, ``[B, T]``."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        return ', '.join(f'{name}={value}' for name, value in self.config().items())
