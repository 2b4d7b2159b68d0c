r"""From a source graph to token trees, phase by phase."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from torch_geometric_cgt.data import TokenTrees, masks_of, tokens_of
from torch_geometric_cgt.models.min_support import NUM_DRAWS, SupportRule
from torch_geometric_cgt.models.scene_calibration import (
    Sharpness,
    TreeProbe,
    Trees,
    choose_draw,
    find_sharpness,
    source_accuracy,
)
from torch_geometric_cgt.models.scene_table import SceneTable
from torch_geometric_cgt.models.scenes import find_scenes
from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.pipeline.built import Build
from torch_geometric_cgt.pipeline.config import BuildConfig, stage_seed
from torch_geometric_cgt.pipeline.measure import measure_groups
from torch_geometric_cgt.pipeline.private_build import build_privately
from torch_geometric_cgt.pipeline.roots import draw_roots
from torch_geometric_cgt.pipeline.shards import TokenShards
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.pipeline.work import Outcome, once
from torch_geometric_cgt.privacy import Budget, Ledger, Total
from torch_geometric_cgt.sampler import InNeighbors, sample_trees
from torch_geometric_cgt.training import FitResult, World, fit
from torch_geometric_cgt.training.sample import BLOCK, sample_blocks
from torch_geometric_cgt.utils.seeds import seeded

ENCODE_BLOCK = 1 << 16  # roots per block
CALIBRATION_ROOTS = 10_000  # of the source are enough for one number
MAX_DRAWS, DRAWN_TREES = 8, 12_000  # releases of small graphs to choose from, and all their trees


def build(
    source: Source,
    config: BuildConfig,
    device: torch.device,
    work: Path,
    log: bool = True,
    world: World | None = None,
    belongs_to: str = '',
) -> Build | None:
    r"""Runs all phases, each with a progress bar.

    Args:
        source (Source): The checked source graph.
        config (BuildConfig): Every parameter of the result.
        device (torch.device): Where to fit and sample.
        work (Path): A folder for what an interrupted build needs to go on.
        log (bool, optional): Whether to show progress. (default: :obj:`True`)
        world (World, optional): The processes that build together; one of
            them quantizes, all fit and sample. (default: :obj:`None`)
        belongs_to (str, optional): A digest of source and parameters.
            (default: :obj:`""`)

    Returns:
        The build in the first process, :obj:`None` in the others.
    """
    world = world or World()
    if config.private is not None:
        return build_privately(source, config, config.private, device, work, log, world)
    run = Run(source, config, device, work, log, world, belongs_to)
    run.quantize()
    privacy = run.encode()
    run.find_support()
    run.find_scenes()
    result = run.fit()
    sharpness = run.calibrate()
    trees = run.sample(sharpness)
    if trees is None or privacy is None:
        return None
    history = {
        **vars(result),
        'sharpness': sharpness.to_dict(),
        'scene_nll': run.table.nll(),  # what naming the scene of a root costs, in nats
    }
    generator = run.generator.cpu()
    return Build(trees, run.codebook, privacy, run.cluster, generator, history, run.seconds)


class Run:
    r"""The phases of one build, in their order. A phase that a killed build
    finished is read, not run; :obj:`fit` goes on from its last checkpoint and
    :obj:`sample` with its missing shards.
    """

    cluster: Tensor  # [N] of each node
    codebook: Tensor  # [m, F] the mean feature vectors
    task_weight: float
    rule: SupportRule | None = None  # that trees must keep
    cost: Total | None = None  # of private clusters
    scene: Tensor  # [n] of each root
    table: SceneTable
    generator: CGTGenerator

    def __init__(
        self,
        source: Source,
        config: BuildConfig,
        device: torch.device,
        work: Path,
        log: bool,
        world: World,
        belongs_to: str,
    ) -> None:
        self.source = source
        self.config = config
        self.device = device
        self.work = work
        self.log = log and world.is_first
        self.world = world
        self.belongs_to = belongs_to
        self.shape = config.shape
        self.root, self.y = source.root, source.data.y[source.root]
        self.split = source.split_codes(self._seed('split'))[source.root]
        self.graph = InNeighbors.from_edge_index(source.data.edge_index, source.data.num_nodes)
        self.seconds: dict[str, float] = {}

    def quantize(self) -> None:
        r"""Features become clusters."""
        with self._timed('quantize'):
            tensors, facts = once(self.work, 'quantize', self._quantize, self.world)
        self.cluster, self.codebook = tensors['cluster'], tensors['codebook']
        self.task_weight = facts['task_weight']
        self.cost = Total(**facts['cost']) if 'cost' in facts else None

    def _quantize(self) -> Outcome:
        data = copy.copy(self.source.data)
        if self.source.split is not None:  # how the weight of the task is found depends on it
            data.train_mask = masks_of(self.source.split)['train_mask']
        with tqdm(desc='quantize', unit='step', disable=not self.log) as bar:

            def advance(step: int, total: int) -> None:
                if step <= bar.n:  # another clustering, with another weight of the task
                    bar.reset()
                bar.total = total
                bar.update(step - bar.n)

            found = self.config.quantize(self.device).cluster(data, advance)
            bar.total = bar.n  # it stops where another step would not help
            bar.refresh()
        tensors = {'cluster': found.cluster, 'codebook': found.codebook}
        facts: dict[str, Any] = {'task_weight': found.task_weight}
        if found.entries and self.config.cluster_epsilon is not None:
            num_nodes = found.cluster.numel()
            budget = Budget.of(self.config.cluster_epsilon, None, num_nodes, 'node')
            ledger = Ledger([entry.stage for entry in found.entries], found.entries)
            facts['cost'] = asdict(ledger.total('node', budget.delta))
        return tensors, facts

    def encode(self) -> dict[str, Any] | None:
        r"""One computation graph of each root, to count what is unique among
        them; in the first process.
        """
        with self._timed('encode'), self.world.together('encode'):
            if not self.world.is_first:
                return None
            rng, blocks = torch.Generator().manual_seed(self._seed('encode')), []
            size = 1 + self.shape.num_neighbors[0]  # slots that are looked at
            total = self.root.numel()
            with tqdm(total=total, desc='encode', unit='graph', disable=not self.log) as bar:
                for index in torch.arange(total).split(ENCODE_BLOCK):
                    blocks.append(self.draw_tokens(index, rng)[:, :size].int())
                    bar.update(index.numel())
            facts = measure_groups(
                self.config.quantize().k,
                self.cluster,
                self.source.data.y,
                torch.cat(blocks),
                self.shape.num_neighbors[0],
                self.task_weight,
                self.config.min_support,
                self.codebook.size(0),
            )
            if self.cost is None:
                return {'mechanism': 'k-anonymity', **facts}
            cost = {'cluster_epsilon': self.cost.epsilon, 'cluster_delta': self.cost.delta}
            return {'mechanism': 'private clusters', **facts, **cost}

    def draw_tokens(self, index: Tensor, rng: torch.Generator) -> Tensor:
        r"""Fresh token trees of some roots."""
        tree = sample_trees(self.graph, self.root[index], self.shape, rng)
        return tokens_of(tree, self.cluster, self.codebook.size(0))

    def find_support(self) -> None:
        r"""The paths that enough roots show, where a rule asks for them."""
        if self.config.min_support is None:
            return
        with self._timed('support'):
            rng = torch.Generator().manual_seed(self._seed('support'))
            every = torch.arange(self.root.numel())
            self.rule = SupportRule(
                torch.cat([self.draw_tokens(every, rng).int() for _ in range(NUM_DRAWS)]),
                self.y.repeat(NUM_DRAWS),
                self.config.min_support,
                self.codebook.size(0),
                self.shape,
                every.repeat(NUM_DRAWS),
            )

    def find_scenes(self) -> None:
        r"""Roots with alike surroundings are put together."""
        with self._timed('scenes'):
            self.scene = once(self.work, 'scenes', self._find_scenes, self.world)[0]['scene']
        num_scenes = int(self.scene.max()) + 1
        self.table = SceneTable(self.y, self.split, self.scene, self.source.num_classes, num_scenes)

    def _find_scenes(self) -> Outcome:
        num_classes = self.source.num_classes
        num_scenes = self.config.num_scenes_for(self.y.numel(), num_classes)
        if num_scenes == 0:  # roots of one label and split are one
            sees_label = self.config.generator.get('label_conditioning', True)
            pairs = self.split.long() * num_classes + self.y.long() * sees_label
            return {'scene': pairs.unique(return_inverse=True)[1]}, {}
        seen = masks_of(self.split)['train_mask']
        scene = find_scenes(
            self.cluster,
            self.codebook,
            self.graph,
            self.root,
            self.y.masked_fill(~seen, -1) if seen.any() else self.y,
            num_scenes,
            self.config.k,
            self._seed('scenes'),
        )
        return {'scene': scene}, {}

    def fit(self) -> FitResult:
        r"""The generator learns fresh trees in every epoch."""
        self.generator = self.make_generator()
        with self._timed('fit'):
            return fit(
                self.generator,
                self.draw_tokens,
                self.y,
                self.config.fit,
                self._seed('fit'),
                self.device,
                self.log,
                self.scene,
                checkpoint=self.work,
                belongs_to=self.belongs_to,
                world=self.world,
            )

    def make_generator(self) -> CGTGenerator:
        r"""The model before it has learned anything."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed('weights'))
            return self.config.make_generator(
                self.codebook.size(0), self.source.num_classes, self.table.num_scenes
            )

    def calibrate(self) -> Sharpness:
        r"""Labels and scenes are coupled so that trees tell as much of the
        label as those of the source.
        """
        if self.config.num_scenes == 0:
            return Sharpness()
        with self._timed('calibrate'):
            return Sharpness(**once(self.work, 'calibrate', self._calibrate, self.world)[1])

    def _calibrate(self) -> Outcome:
        size = min(self.root.numel(), CALIBRATION_ROOTS)
        seed = self._seed('calibrate')

        def draw_real(i: int) -> Trees:
            rng = torch.Generator().manual_seed(seed + i)
            index = torch.randperm(self.root.numel(), generator=rng)[:size]
            tree = sample_trees(self.graph, self.root[index], self.shape, rng)
            return Trees(tree, self.y[index], self.split[index])

        def draw_new(sharpness: float, i: int) -> Trees:
            rng = torch.Generator().manual_seed(seed + i)
            y, split, scene = self.draw_conditions(size, sharpness, rng)
            return Trees(self.draw_trees(y, scene, seed + i), y, split)

        aim = source_accuracy(self.source.data.x, [draw_real(i) for i in range(2)], self.shape)
        probe = TreeProbe(self.codebook, self.shape)
        found = find_sharpness(aim, probe, draw_new, size, self.log)

        def draw_release(i: int) -> Trees:
            y, split, scene = self.draw_release_conditions(found, i)
            return Trees(self.draw_trees(y, scene, self._seed('sample', i)), y, split)

        num_draws = max(1, min(MAX_DRAWS, DRAWN_TREES // self.num_samples))
        return {}, choose_draw(found, probe, draw_release, num_draws).to_dict()

    @property
    def num_samples(self) -> int:
        r"""The number of trees of the release."""
        return self.config.num_samples or self.root.numel()

    def draw_release_conditions(
        self, sharpness: Sharpness, draw: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""Labels, splits and scenes of one of the releases to choose from."""
        rng = torch.Generator().manual_seed(self._seed('labels', draw))
        return self.draw_conditions(self.num_samples, sharpness.value, rng)

    def draw_conditions(
        self, num_samples: int, sharpness: float, rng: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""Labels, splits and scenes of synthetic roots."""
        y, split = draw_roots(self.y, self.split, num_samples, rng)
        return y, split, self.table.draw(y, split, sharpness, rng)

    def draw_trees(self, y: Tensor, scene: Tensor, seed: int) -> Tensor:
        r"""New token trees, all at once."""
        blocks = range(-(-y.numel() // BLOCK))
        return torch.cat([tokens for _, tokens in self.draw_blocks(y, scene, seed, blocks)])

    def draw_blocks(
        self, y: Tensor, scene: Tensor, seed: int, blocks: Sequence[int], log: bool = False
    ) -> Iterator[tuple[int, Tensor]]:
        r"""Some blocks of new token trees, which keep the rule if there is one."""
        for block, tokens in sample_blocks(
            self.generator, y, blocks, seed, device=self.device, log=log, scene=scene
        ):
            if self.rule is not None:
                labels = y[block * BLOCK : (block + 1) * BLOCK]
                tokens = self.rule(tokens, labels, seeded(seed, 'support', block))
            yield block, tokens

    def sample(self, sharpness: Sharpness) -> TokenTrees | None:
        r"""Trees are drawn by all processes, shard by shard, and given to the
        first one, mapped from a file.
        """
        y, split, scene = self.draw_release_conditions(sharpness, sharpness.draw)
        with self._timed('sample'), self.world.together('sample'):
            shards = TokenShards(
                self.work / 'sample', self.num_samples, self.shape.num_slots, BLOCK
            )
            missing = self.world.first(shards.missing())  # before anybody writes
            blocks = missing[self.world.rank :: self.world.size]
            seed = self._seed('sample', sharpness.draw)
            for block, tokens in self.draw_blocks(y, scene, seed, blocks, self.log):
                shards.write(block, tokens, self.world.rank)
        if not self.world.is_first:
            return None
        trees = TokenTrees(
            shards.tokens(), y, split, self.codebook.size(0), self.source.num_classes, self.shape
        )
        trees.validate()
        return trees

    def _seed(self, stage: str, draw: int = 0) -> int:
        return stage_seed(self.config.seed, f'{stage}/{draw}' if draw else stage)

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.seconds[phase] = round(time.monotonic() - started, 3)
