r"""The interface of all models of token trees."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.privacy import Entry
from torch_geometric_cgt.training import World

DrawTokens = Callable[[Tensor, torch.Generator], Tensor]  # roots to token trees, [n, T]


@dataclass(frozen=True)
class TreeSource:
    r"""The computation graphs that a model learns from. They are sampled on
    request, so that every epoch can use other neighbours.

    Args:
        draw (callable): Given indices of roots and a source of randomness,
            returns token trees, ``[n, T]``. A private build draws each tree
            once and returns the same one every time.
        y (torch.Tensor): The label of every root, ``[n]``.
        split (torch.Tensor): The split code of every root, ``[n]``.
        num_tokens (int): The number of clusters, which is also the null token.
        num_classes (int): The number of labels.
        shape (TreeShape): The geometry of the trees.
        scene (torch.Tensor, optional): The scene of every root, ``[n]``, for
            models that do not find scenes themselves. (default: :obj:`None`)
    """

    draw: DrawTokens
    y: Tensor
    split: Tensor
    num_tokens: int
    num_classes: int
    shape: TreeShape
    scene: Tensor | None = None

    def __len__(self) -> int:
        return self.y.numel()

    def trees(self, rng: torch.Generator | None = None) -> TokenTrees:
        r"""Draws one tree of every root.

        Args:
            rng (torch.Generator, optional): The source of randomness.
                (default: :obj:`None`)
        """
        rng = torch.Generator() if rng is None else rng
        tokens = self.draw(torch.arange(len(self)), rng)
        return TokenTrees(tokens, self.y, self.split, self.num_tokens, self.num_classes, self.shape)


@dataclass(frozen=True)
class FitContext:
    r"""Arguments of :meth:`TreeModel.fit` that all models share.

    Args:
        seed (int, optional): The seed of all random draws except noise.
            (default: :obj:`0`)
        device (torch.device, optional): Where to fit.
            (default: :obj:`torch.device("cpu")`)
        log (bool, optional): Whether to show progress. (default: :obj:`False`)
        world (World, optional): The processes that fit together.
            (default: one process)
        checkpoint (Path, optional): The folder of checkpoints, for models that
            can resume. (default: :obj:`None`)
        belongs_to (str, optional): A digest of source and parameters.
            Checkpoints with another digest are refused. (default: :obj:`""`)
        entries (list[Entry], optional): The entries of the ledger, with
            calibrated noise. (default: none)
        noise (torch.Generator, optional): The source of the noise of a private
            model. By default, the operating system. An attacker who knows the
            seed of a generator can subtract the noise. (default: :obj:`None`)
    """

    seed: int = 0
    device: torch.device = field(default_factory=lambda: torch.device('cpu'))
    log: bool = False
    world: World = field(default_factory=World)
    checkpoint: Path | None = None
    belongs_to: str = ''
    entries: Sequence[Entry] = ()
    noise: torch.Generator | None = None


class TreeModel(nn.Module):
    r"""A model of token trees: ``fit`` once, then ``sample`` any number of trees.

    ``type(model)(**model.config())`` creates the same model before ``fit``;
    ``state_dict()`` holds the fitted weights and tables.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels.
        num_neighbors (list[int]): The fan-out of each layer.
    """

    name: ClassVar[str]  # in files and on cards
    has_log_prob: ClassVar[bool] = False  # whether the model has a method log_prob()

    def __init__(self, num_tokens: int, num_classes: int, num_neighbors: Sequence[int]) -> None:
        super().__init__()
        for name, value in (('num_tokens', num_tokens), ('num_classes', num_classes)):
            if value < 1:
                raise ValueError(f"'{name}' must be at least 1 (got {value})")
        self.num_tokens = num_tokens
        self.num_classes = num_classes
        self.shape = TreeShape.of(num_neighbors)

    @property
    def num_neighbors(self) -> list[int]:
        r"""The fan-out of each layer."""
        return list(self.shape.num_neighbors)

    @property
    def num_scenes(self) -> int:
        r"""The number of scenes that :meth:`sample` accepts."""
        return 1

    def config(self) -> dict[str, Any]:
        r"""The constructor arguments of this model."""
        return {
            'num_tokens': self.num_tokens,
            'num_classes': self.num_classes,
            'num_neighbors': self.num_neighbors,
        }

    def entries(self) -> list[Entry]:
        r"""The mechanisms of :meth:`fit`, for a ledger: before :meth:`fit` with
        their shares of the budget, afterwards with their noise. A model that is
        not private has none.
        """
        return []

    @abstractmethod
    def fit(self, source: TreeSource, context: FitContext | None = None) -> dict[str, Any]:
        r"""Learns from computation graphs and returns the history of the fit.

        Args:
            source (TreeSource): The computation graphs.
            context (FitContext, optional): Where and how to fit.
                (default: :obj:`None`)
        """

    @abstractmethod
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
            scene (torch.Tensor, optional): The scene of each root, ``[B]``.
                (default: :obj:`None`)
        """

    def draw_scenes(self, y: Tensor, generator: torch.Generator | None = None) -> Tensor | None:
        r"""Draws a scene per label, ``[B]``, if the model has scenes of its own.

        Args:
            y (torch.Tensor): The label of each root, ``[B]``.
            generator (torch.Generator, optional): The source of randomness.
                (default: :obj:`None`)
        """
        return None

    def extra_repr(self) -> str:
        return ', '.join(f'{name}={value}' for name, value in self.config().items())
