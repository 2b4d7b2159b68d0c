r"""The pipeline: the stages of a build, the runner of all stages, and the result."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.data import GraphProfile, TokenTrees
from torch_geometric_cgt.errors import LedgerError
from torch_geometric_cgt.models import TreeModel
from torch_geometric_cgt.pipeline.config import BuildConfig
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.pipeline.workspace import TokenShards, once
from torch_geometric_cgt.privacy import Answer, Entry, Ledger
from torch_geometric_cgt.training.kept_steps import KeptSteps
from torch_geometric_cgt.training.sample import BLOCK, sample_blocks
from torch_geometric_cgt.utils.distributed import World
from torch_geometric_cgt.utils.progress import Log, Progress
from torch_geometric_cgt.utils.run_limits import Limits
from torch_geometric_cgt.utils.seeds import derive_seed

# Rough shares of stages in the time of a build, as on Cora. The estimate of the time left starts
# from them. Clustering takes a larger share of large graphs: a sixth from 100,000 nodes on.
SHARES = {'quantize': 0.02, 'public': 0.5, 'fit': 0.5, 'match_views': 0.3, 'sample': 0.15}
OTHER_SHARE = 0.005
LARGE, LARGE_QUANTIZE = 100_000, 0.17


def stage_shares(names: Iterable[str], num_nodes: int) -> dict[str, float]:
    r"""The usual shares of stages in the time of a build, which need not sum to one.

    Args:
        names (list[str]): The names of the stages.
        num_nodes (int): The number of nodes of the source.
    """
    shares = {name: SHARES.get(name, OTHER_SHARE) for name in names}
    if 'quantize' in shares:
        large = LARGE_QUANTIZE * min(1.0, num_nodes / LARGE)
        shares['quantize'] = max(SHARES['quantize'], large)
    return shares


@dataclass(frozen=True)
class Build:
    r"""The result of a pipeline. Attacks use it without the parts that are not
    released.

    Args:
        trees (TokenTrees): The generated trees.
        codebook (torch.Tensor): The feature vector of each token, ``[m, F]``.
        model (TreeModel, optional): The fitted model. It is not released.
        cluster (torch.Tensor, optional): The cluster of each source node,
            ``[N]``. It is not released.
        facts (dict, optional): The facts of the card.
        history (dict, optional): The history of the fit.
        seconds (dict, optional): The duration of each stage in this run, in
            seconds.
        seen (dict, optional): Private results from which the codebook is
            computed: noisy :obj:`"sums"` of normalized rows, ``[l, F]``; the
            label of each sum, :obj:`"sum_label"`, ``[l]``; and the sum that
            contains each node, :obj:`"sum_index"`, ``[N]``.
        projection (torch.Tensor, optional): The public projection of features,
            ``[F, d]``, if the codebook is projected.
        answers (dict, optional): The noisy answers of each stage of a private
            build, for audits. They are not released.
        steps (KeptSteps, optional): Some steps of DP-SGD, for audits. They are
            not released.
        edge_cluster (torch.Tensor, optional): The edge token of each source edge,
            ``[E]``, if edge values are grouped. It is not released.
        profile (GraphProfile, optional): The degrees of groups of nodes and the
            homophily of the source, if they are released.
    """

    trees: TokenTrees
    codebook: Tensor
    model: TreeModel | None = None
    cluster: Tensor | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    history: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    seen: dict[str, Tensor] = field(default_factory=dict)
    projection: Tensor | None = None
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    steps: KeptSteps | None = None
    edge_cluster: Tensor | None = None
    profile: GraphProfile | None = None


@dataclass(frozen=True)
class Stage:
    r"""One step of a pipeline.

    Args:
        name (str): Its name, which is also that of its folder.
        run (callable): Runs it.
        take (callable, optional): Takes the tensors and facts that
            :obj:`run` returns. One process runs such a stage and writes them,
            and all processes read them. Without it, every process runs the
            stage. (default: :obj:`None`)
        paid_by (tuple[str, ...], optional): The stages of the ledger whose
            entries pay for reading the source. (default: :obj:`()`)
        shared (bool, optional): Whether all processes run the stage together,
            and exchange data while they do. (default: :obj:`False`)
    """

    name: str
    run: Callable[[], Any]
    take: Callable[[dict[str, Tensor], dict[str, Any]], None] | None = None
    paid_by: tuple[str, ...] = ()
    shared: bool = False


class Pipeline(ABC):
    r"""Runs stages in order. Each stage has its own seed.

    If an interrupted build has finished a stage, its result is read from disk.
    With a ledger, only a stage can read the source, and only if the ledger has
    an entry for each of its :obj:`paid_by`. This is checked for all stages
    before the first one runs.

    Args:
        source (Source): The checked source graph.
        config (BuildConfig): All parameters of the build.
        work (Path): The working folder, from which an interrupted build
            resumes.
        device (torch.device, optional): Where to fit and sample.
            (default: :obj:`torch.device("cpu")`)
        log (bool, optional): Whether to show progress. (default: :obj:`True`)
        world (World, optional): The processes that build. (default: one process)
        belongs_to (str, optional): A digest of source and parameters. (default: none)
        register (callable, optional): Counts or refuses the build before any
            stage runs, given the ledger. (default: :obj:`None`)
        limits (Limits, optional): The time and the memory of the build.
            (default: no limits)
    """

    ledger: Ledger | None = None
    model: TreeModel

    def __init__(
        self,
        source: Source,
        config: BuildConfig,
        work: Path,
        device: torch.device | None = None,
        log: bool = True,
        world: World | None = None,
        belongs_to: str = '',
        register: Callable[[Ledger | None], None] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._source = source
        self._stage: Stage | None = None
        self.config = config
        self.work = work
        self.device = device or torch.device('cpu')
        self.world = world or World()
        self.sampling_device = self.device
        self.log: Log = log and self.world.is_first  # in a run, the progress of all stages
        self.belongs_to = belongs_to
        self.register = register
        self.limits = limits or Limits()
        self.shape = config.shape
        self.seconds: dict[str, float] = {}

    @abstractmethod
    def stages(self) -> list[Stage]:
        r"""The stages, in order."""

    @abstractmethod
    def result(self) -> Build:
        r"""The build, after all stages ran."""

    def prepare(self) -> None:  # noqa: B027
        r"""Runs before all stages."""

    def run(self) -> Build | None:
        r"""Runs all stages. Returns the build in the first process, and
        :obj:`None` in the others.
        """
        self.prepare()
        stages = self.stages()
        for stage in stages:
            self.entries(*stage.paid_by)
        with self.world.together('count this build'):
            if self.register is not None and self.world.is_first:
                self.register(self.ledger)
        if self.log:
            names, num_nodes = (
                [stage.name for stage in stages],
                int(self._source.data.num_nodes or 0),
            )
            self.log = Progress(stage_shares(names, num_nodes))
        for stage in stages:
            with self.world.connected(f'run the stage {stage.name!r}'):
                self.run_stage(stage)
        return self.result() if self.world.is_first else None

    def run_stage(self, stage: Stage) -> None:
        r"""Runs one stage, or reads its result, and measures its duration.

        Args:
            stage (Stage): The stage.
        """
        self.limits.check()
        started = time.monotonic()
        self._stage = stage
        progress = self.log if isinstance(self.log, Progress) else None
        ran = False

        def run() -> Any:
            nonlocal ran
            ran = True
            return stage.run()

        try:
            with nullcontext() if progress is None else progress.stage(stage.name):
                if stage.take is None:
                    run()
                else:
                    stage.take(*once(self.work, stage.name, run, self.world, stage.shared))
                if progress is not None and not ran:
                    progress.skip()
        finally:
            self._stage = None
        self.seconds[stage.name] = round(time.monotonic() - started, 3)

    @property
    def source(self) -> Source:
        r"""The source graph. With a ledger, a stage without entries cannot read it."""
        if self.ledger is not None:
            if self._stage is None:
                raise LedgerError('The source of a private build is read outside of a stage')
            if not self._stage.paid_by:
                raise LedgerError(
                    f"Stage '{self._stage.name}' reads the source, but names no entry of the "
                    f'ledger that pays for it'
                )
            self.entries(*self._stage.paid_by)
        return self._source

    def entries(self, *stages: str) -> list[Entry]:
        r"""The entries of the given stages of the ledger. Each stage must have one.

        Args:
            *stages (str): The names of the stages.
        """
        entries = [] if self.ledger is None else self.ledger.entries
        paid = {entry.stage for entry in entries}
        if self.ledger is not None and (missing := [s for s in stages if s not in paid]):
            raise LedgerError(
                f'These stages read the data, but have no entry in the ledger: '
                f'{", ".join(missing)}. There is no guarantee without them'
            )
        return [entry for entry in entries if entry.stage in stages]

    def seed(self, purpose: str, draw: int = 0) -> int:
        r"""The seed of a purpose, or of one of its draws.

        Args:
            purpose (str): What is drawn.
            draw (int, optional): The number of the draw. (default: :obj:`0`)
        """
        place = (purpose, draw) if draw else (purpose,)
        return derive_seed(self.config.seed, *place)

    def draw_blocks(
        self, y: Tensor, scene: Tensor | None, seed: int, blocks: Sequence[int], log: Log = False
    ) -> Iterator[tuple[int, Tensor]]:
        r"""Generates the given blocks of token trees.

        Args:
            y (torch.Tensor): The label of each tree of all blocks, ``[n]``.
            scene (torch.Tensor, optional): The scene of each tree, ``[n]``.
            seed (int): The seed of the draws.
            blocks (list[int]): The numbers of the blocks.
            log (bool, optional): Whether to show progress.
                (default: :obj:`False`)
        """
        return sample_blocks(
            self.model, y, blocks, seed, device=self.sampling_device, log=log, scene=scene
        )

    def write_trees(
        self,
        y: Tensor,
        split: Tensor,
        draw: Callable[[Sequence[int]], Iterator[tuple[int, Tensor]]],
    ) -> TokenTrees:
        r"""Writes the trees of a release. All processes write shards of one
        file, and the returned trees are memory-mapped from it.

        Args:
            y (torch.Tensor): The label of each tree, ``[n]``.
            split (torch.Tensor): The split code of each tree, ``[n]``.
            draw (callable): Generates the given blocks of token trees.
        """
        with self.world.together('sample'):
            folder = self.work / 'sample'
            shards = TokenShards(folder, y.numel(), self.shape.num_slots, BLOCK)
            missing = self.world.first(shards.missing())  # before any process writes
            for block, tokens in draw(missing[self.world.rank :: self.world.size]):
                shards.write(block, tokens, self.world.rank)
        sizes = (self.model.num_tokens, self.model.num_classes, self.shape)
        trees = TokenTrees(shards.tokens(), y, split, *sizes)
        if self.world.is_first:
            trees.validate()
        return trees
