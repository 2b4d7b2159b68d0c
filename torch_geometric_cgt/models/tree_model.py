r"""The interface of all models of token trees, and the base class of private ones."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.models.scenes import LabelScenes
from torch_geometric_cgt.privacy import Entry, Queries
from torch_geometric_cgt.utils.distributed import World
from torch_geometric_cgt.utils.progress import Log
from torch_geometric_cgt.utils.run_limits import Limits

DrawTokens = Callable[[Tensor, torch.Generator], Tensor]  # roots to token trees, [n, T]
STAGE = 'sequence model'  # stage of the ledger
PER_TREE = {'frozen_record': 1.0}  # the change of a histogram of trees by one tree that vanishes


@dataclass(frozen=True)
class TokenGraph:
    r"""The tokens, labels and edges of a graph."""

    token: Tensor  # [N] cluster of each node
    y: Tensor  # [N] label of each node, negative where it has none
    edge_index: Tensor  # [2, E] from child to parent

    @property
    def num_nodes(self) -> int:
        return self.token.numel()


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
        graph (TokenGraph, optional): The tokens, labels and edges of all nodes,
            for models that learn from edges instead of trees.
            (default: :obj:`None`)
        codebook (torch.Tensor, optional): The released features of each token,
            ``[num_tokens, F]``, for models that compare tokens.
            (default: :obj:`None`)
    """

    draw: DrawTokens
    y: Tensor
    split: Tensor
    num_tokens: int
    num_classes: int
    shape: TreeShape
    scene: Tensor | None = None
    graph: TokenGraph | None = None
    codebook: Tensor | None = None

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
        queries (Queries, optional): Answers with the noise of a calibrated
            ledger, for private models. (default: :obj:`None`)
        limits (Limits, optional): The time and the memory of the run. A model
            calls :obj:`limits.check()` in every step. (default: no limits)
    """

    seed: int = 0
    device: torch.device = field(default_factory=lambda: torch.device('cpu'))
    log: Log = False
    world: World = field(default_factory=World)
    checkpoint: Path | None = None
    belongs_to: str = ''
    queries: Queries | None = None
    limits: Limits = field(default_factory=Limits)


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
    copies_trees: ClassVar[bool] = False  # whether it releases whole trees of the source
    uses_scenes: ClassVar[bool] = False  # whether fit() conditions trees on scenes of the source

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


class PrivateTreeModel(TreeModel):
    r"""A differentially private model of token trees.

    A tree is sampled in two steps: its scene given its label
    (:class:`LabelScenes`), and the tree given both. The weights and tables of
    the model, and all trees that are sampled from it, are private. Its entries
    state the change by one computation graph with its label. The plan of a build
    multiplies it by the number of computation graphs that one unit changes. The
    token of a node must depend on its own features and on private cluster
    centres only.

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
        r"""Learns from one tree of each root, with the noise of the ledger. The
        entries of :obj:`context.queries` must contain all entries of
        :meth:`entries`, with calibrated noise.
        """
        context = context or FitContext()
        paid = with_noise(self._entries, () if context.queries is None else context.queries.entries)
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
        assert context.queries is not None
        self.learn(trees, context.queries, context)
        self._entries = paid
        return {}

    @abstractmethod
    def learn(
        self,
        trees: TokenTrees,
        queries: Queries,
        context: FitContext,
    ) -> None:
        r"""Implements :meth:`fit` for checked arguments.

        Args:
            trees (TokenTrees): One tree of each root.
            queries (Queries): Answers with the noise of the ledger.
            context (FitContext): Where to fit.
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


def with_noise(planned: Sequence[Entry], given: Iterable[Entry]) -> list[Entry]:
    r"""Returns the given entries that pay for the planned ones. Raises an error if
    one is missing or describes another mechanism.

    Args:
        planned (list[Entry]): The mechanisms that will run.
        given (list[Entry]): The calibrated entries of a ledger.
    """
    paid = {entry.name: entry for entry in given if entry.stage == STAGE}
    entries = []
    for entry in planned:
        found = paid.get(entry.name)
        if found is None:
            raise ValueError(
                f"There is no entry '{entry.name}' among the given entries "
                f'({", ".join(paid) or "none of this stage"})'
            )
        if not replace(entry, changes=found.changes).is_same_as(found):
            raise ValueError(
                f"The entry '{entry.name}' describes another mechanism than the one that runs "
                f'(got {found}, expected {entry})'
            )
        entries.append(found)
    return entries
