r"""From a source graph to differentially private token trees, phase by phase."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.data import TokenTrees, random_split, tokens_of
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.models.back_off import project_to_simplex
from torch_geometric_cgt.models.private_generator import PrivateGenerator
from torch_geometric_cgt.models.private_model import PrivateTreeModel
from torch_geometric_cgt.pipeline.built import Build
from torch_geometric_cgt.pipeline.config import BuildConfig, stage_seed
from torch_geometric_cgt.pipeline.gate import Gate
from torch_geometric_cgt.pipeline.pretrain import pretrain
from torch_geometric_cgt.pipeline.private_config import PrivateConfig
from torch_geometric_cgt.pipeline.private_plan import LABELS, STAGES, PrivatePlan, PublicNumbers
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.pipeline.work import Outcome, once
from torch_geometric_cgt.privacy import DiscreteGaussian, Ledger
from torch_geometric_cgt.privacy.mechanisms import noisy_histogram
from torch_geometric_cgt.sampler import InNeighbors, sample_trees
from torch_geometric_cgt.sampler.bounded_degree import cap_parents
from torch_geometric_cgt.training import World, sample

SPLITS = (0, 1, 2, 4)  # none, training, validation, test; of several, the first one
PHASES = ('private labels', 'private clusters', 'private model')


def build_privately(
    source: Source,
    config: BuildConfig,
    private: PrivateConfig,
    device: torch.device,
    work: Path,
    log: bool,
    world: World,
) -> Build | None:
    r"""Runs all phases of a differentially private build, in one process.

    Whatever looks at the data does so with the noise of its entry in one
    ledger. The ledger is calibrated to the budget and kept before anything
    else runs; a build that goes on after a kill reads it.

    Args:
        source (Source): The checked source graph.
        config (BuildConfig): Every parameter of the result.
        private (PrivateConfig): How it is made private.
        device (torch.device): Where to fit.
        work (Path): A folder for what an interrupted build needs to go on.
        log (bool): Whether to show progress.
        world (World): The processes; all but the first one wait.

    Returns:
        The build in the first process, :obj:`None` in the others.
    """
    source = with_declared_labels(source, config)
    if private.public is not None:
        private.public.check_apart_from(source)
    run = PrivateRun(source, config, private, device, work, log and world.is_first, world)
    counts = run.count_labels()
    cluster, codebook, projection = run.quantize()
    model = run.fit(cluster, codebook.size(0))
    if not world.is_first:
        return None
    trees = run.sample(counts, model)
    card = run.card(codebook, projection)
    return Build(
        trees,
        codebook,
        card,
        cluster,
        model.eval(),
        {},
        run.seconds,
        seen=run.seen,
        projection=projection,
    )


class PrivateRun:
    r"""The phases of one private build. A phase that a killed build finished is
    read, not run: nothing is paid for twice. That holds for the ledger as well,
    so that the noise of all phases is that of the card.
    """

    def __init__(
        self,
        source: Source,
        config: BuildConfig,
        private: PrivateConfig,
        device: torch.device,
        work: Path,
        log: bool,
        world: World,
    ) -> None:
        self.config = config
        self.private = private
        self.device = device
        self.work = work
        self.log = log
        self.world = world
        self.has_splits = source.split is not None
        self.numbers = public_numbers(source, config)
        plan = PrivatePlan(self.numbers, private)

        def calibrate() -> Outcome:
            for phase in PHASES:  # without the ledger that paid for it, it cannot be used
                shutil.rmtree(work / phase, ignore_errors=True)
            budget = plan.budget
            content = plan.ledger().to_dict(budget.delta, [budget.unit])
            return {}, {'ledger': content, 'form': plan.form}

        facts = once(work, 'private ledger', calibrate, world)[1]
        self.ledger = Ledger.from_dict(facts['ledger'], verify=False)  # it is ours
        self.plan = replace(plan, config=replace(private, form=facts['form']))
        self.spent: dict[str, Any] = facts['ledger']
        self.gate = Gate(source, self.ledger, STAGES)
        self.seconds: dict[str, float] = {}

    def count_labels(self) -> Tensor:
        r"""Noisy counts of splits and labels, ``[4, C]``."""
        with self._timed('labels'):
            return once(self.work, 'private labels', self._count_labels, self.world)[0]['counts']

    def _count_labels(self) -> Outcome:
        source, entries = self.gate.open('labels')
        num_classes, y = self.numbers.num_classes, source.data.y[source.root]
        split = torch.zeros_like(y)
        if source.split is not None:
            code = source.split[source.root]
            for place, bit in reversed(list(enumerate(SPLITS))):
                split[(code & bit) > 0] = place
        noise = next(entry.noise for entry in entries if entry.name == LABELS)
        assert isinstance(noise, DiscreteGaussian)
        noisy = noisy_histogram(
            split * num_classes + y,
            len(SPLITS) * num_classes,
            noise.sigma,
            self._noise('labels'),
        ).double()
        if not self.has_splits:  # all are in the first row: the others are noise
            noisy[num_classes:] = 0
        counts = project_to_simplex(noisy[None], noisy.sum().clamp(min=1).view(1))
        return {'counts': counts.view(len(SPLITS), num_classes)}, {}

    def quantize(self) -> tuple[Tensor, Tensor, Tensor | None]:
        r"""The cluster of each node, which is not private, the codebook, and the
        public projection of features, where codewords are projected.
        """
        with self._timed('quantize'):
            tensors = once(self.work, 'private clusters', self._quantize, self.world)[0]
        self.seen = {name: value for name, value in tensors.items() if name.startswith('sum')}
        return tensors['cluster'], tensors['codebook'], tensors.get('projection')

    def _quantize(self) -> Outcome:
        source, entries = self.gate.open('projection', 'clustering', 'centres')
        data, solver = source.data, self.plan.solver()
        solver.generator = self._noise('clusters')
        solver.fit(data.x, data.y.clamp(min=-1), entries, self.numbers.num_classes)
        tensors = {
            'cluster': torch.from_numpy(solver.labels_).long(),
            'codebook': torch.from_numpy(solver.cluster_centers_).float(),
            **solver.noisy_sums_,
        }
        if self.plan.is_projected:
            tensors['projection'] = torch.from_numpy(solver.projection_).float()
        return tensors, {}

    def fit(self, cluster: Tensor, num_tokens: int) -> PrivateTreeModel:
        r"""The model of trees learns one frozen computation graph per root."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed('weights'))
            model = self.plan.make_model(num_tokens)
        if self.private.public is not None:
            self._start_from_public(model)

        def run() -> Outcome:
            source, entries = self.gate.open('sequence model')
            tokens = tokens_of(self.draw_trees(), cluster, num_tokens)
            y, noise = source.data.y[source.root], self._noise('model')
            model.fit(tokens, y, entries, noise, self.device, self.log)
            return dict(model.cpu().state_dict()), {}

        with self._timed('fit'):
            model.load_state_dict(once(self.work, 'private model', run, self.world)[0])
        return model

    def _start_from_public(self, model: PrivateTreeModel) -> None:
        r"""Gives a model the weights that a public graph says something of."""
        assert isinstance(model, PrivateGenerator)

        def run() -> Outcome:
            weights = pretrain(
                self.private.public.content(),
                model.num_tokens,
                self.config.shape,
                model.training_config,
                self._seed('public'),
                self.device,
                self.log,
            )
            return weights, {}

        with self._timed('public'):
            weights = once(self.work, 'public start', run, self.world)[0]
        model.generator.load_state_dict(weights, strict=False)

    def draw_trees(self) -> Tensor:
        r"""One computation graph of each root, the same whenever it is asked for.
        Where edges or nodes are protected, none of them is in too many. They are
        drawn for all nodes, so that none depends on which others have a label.
        """
        source, _ = self.gate.open('computation graphs')
        rng = torch.Generator().manual_seed(self._seed('trees'))
        data, shape = source.data, self.config.shape
        edge_index, num_nodes = data.edge_index, self.numbers.num_nodes
        if self.ledger.sample is not None:
            most = max(shape.num_neighbors)
            parents = self.ledger.sample.max_parents
            edge_index = cap_parents(edge_index, num_nodes, parents, most, rng)
        graph = InNeighbors.from_edge_index(edge_index, num_nodes)
        return sample_trees(graph, torch.arange(num_nodes), shape, rng)[source.root]

    def sample(self, counts: Tensor, model: PrivateTreeModel) -> TokenTrees:
        r"""Trees for labels and splits that are drawn from noisy counts."""
        with self._timed('sample'):
            size = self.config.num_samples or self.numbers.num_roots
            rng = torch.Generator().manual_seed(self._seed('labels'))
            drawn = torch.multinomial(counts.view(-1), size, replacement=True, generator=rng)
            y, place = drawn % counts.size(1), drawn // counts.size(1)
            split = torch.tensor(SPLITS)[place]
            if not self.has_splits:
                split = random_split(torch.ones_like(y, dtype=torch.bool), self._seed('split'))
            scene = model.scenes.draw(y, rng)
            tokens = sample(model, y, self._seed('sample'), log=self.log, scene=scene)
            trees = TokenTrees(
                tokens, y, split, model.num_tokens, model.num_classes, self.config.shape
            )
            trees.validate()
            return trees

    def card(self, codebook: Tensor, projection: Tensor | None) -> dict[str, Any]:
        r"""What is promised."""
        (total,) = self.spent['totals']
        return {
            'mechanism': 'differential privacy',
            'epsilon': total['epsilon'],
            'delta': total['delta'],
            'protects': total['unit'],
            'form': self.plan.form,
            'num_clusters': codebook.size(0),
            'seeded_noise': self.private.noise_seed is not None,
            'ledger': self.spent,
            'large_delta': self.plan.has_large_delta,
            'projected': None if projection is None else list(projection.shape),
            'public': self.plan.declared_public,
        }

    def _noise(self, stage: str) -> torch.Generator | None:
        r"""The source of the noise of a stage: the operating system, or a seed."""
        if self.private.noise_seed is None:
            return None
        return torch.Generator().manual_seed(stage_seed(self.private.noise_seed, stage))

    def _seed(self, stage: str) -> int:
        return stage_seed(self.config.seed, stage)

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.seconds[phase] = round(time.monotonic() - started, 3)


def with_declared_labels(source: Source, config: BuildConfig) -> Source:
    r"""The source with the number of labels that was declared, if one was."""
    declared = None if config.private is None else config.private.num_classes
    if declared is None or declared == source.num_classes:
        return source
    if declared < source.num_classes:
        raise SourceError(
            f"'num_classes' must be larger than the largest label of the source, "
            f'{source.num_classes - 1} (got {declared})'
        )
    return replace(source, num_classes=declared)


def public_numbers(source: Source, config: BuildConfig) -> PublicNumbers:
    r"""What is taken to be known of a source."""
    num_nodes = int(source.data.num_nodes or 0)
    return PublicNumbers(num_nodes, source.num_roots, source.num_classes, config.shape)
