r"""From a source graph to differentially private token trees, phase by phase."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from torch_geometric_cgt.data import TokenTrees, random_split, tokens_of
from torch_geometric_cgt.datasets.built import Build
from torch_geometric_cgt.datasets.config import BuildConfig, stage_seed
from torch_geometric_cgt.datasets.private_config import PrivateConfig
from torch_geometric_cgt.datasets.private_plan import LABELS, PrivatePlan, PublicNumbers
from torch_geometric_cgt.datasets.source import Source
from torch_geometric_cgt.datasets.work import Outcome, once
from torch_geometric_cgt.privacy import DiscreteGaussian, Ledger
from torch_geometric_cgt.privacy.back_off import project_to_simplex
from torch_geometric_cgt.privacy.dp_card import DPCard
from torch_geometric_cgt.privacy.mechanisms import noisy_histogram
from torch_geometric_cgt.privacy.private_model import PrivateTreeModel
from torch_geometric_cgt.sampler import InNeighbors, sample_trees
from torch_geometric_cgt.sampler.capped import cap_parents
from torch_geometric_cgt.training import World, sample

SPLITS = (0, 1, 2, 4)  # none, training, validation, test; of several, the first one


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
    ledger, which is calibrated to the budget before anything runs.

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
    run = PrivateRun(source, config, private, device, work, log and world.is_first, world)
    counts = run.count_labels()
    cluster, codebook = run.quantize()
    model = run.fit(cluster, codebook.size(0))
    if not world.is_first:
        return None
    trees = run.sample(counts, model)
    card, seconds = run.card(codebook), run.seconds
    return Build(trees, codebook, card, cluster, model.eval(), {}, seconds, run.seen)


class PrivateRun:
    r"""The phases of one private build. A phase that a killed build finished is
    read, not run: nothing is paid for twice.
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
        self.source = source
        self.config = config
        self.private = private
        self.device = device
        self.work = work
        self.log = log
        self.world = world
        self.root, self.y = source.root, source.data.y[source.root]
        self.plan = PrivatePlan(public_numbers(source, config), private)
        self.ledger: Ledger = self.plan.ledger()
        self.seconds: dict[str, float] = {}

    def count_labels(self) -> Tensor:
        r"""Noisy counts of splits and labels, ``[4, C]``."""
        with self._timed('labels'):
            return once(self.work, 'private labels', self._count_labels, self.world)[0]['counts']

    def _count_labels(self) -> Outcome:
        num_classes = self.source.num_classes
        split = torch.zeros_like(self.y)
        if self.source.split is not None:
            code = self.source.split[self.root]
            for place, bit in reversed(list(enumerate(SPLITS))):
                split[(code & bit) > 0] = place
        noise = next(entry.noise for entry in self.ledger.entries if entry.name == LABELS)
        assert isinstance(noise, DiscreteGaussian)
        noisy = noisy_histogram(
            split * num_classes + self.y,
            len(SPLITS) * num_classes,
            noise.sigma,
            self._noise('labels'),
        ).double()
        if self.source.split is None:  # all are in the first row: the others are noise
            noisy[num_classes:] = 0
        counts = project_to_simplex(noisy[None], noisy.sum().clamp(min=1).view(1))
        return {'counts': counts.view(len(SPLITS), num_classes)}, {}

    def quantize(self) -> tuple[Tensor, Tensor]:
        r"""The cluster of each node, which is not private, and the codebook."""
        with self._timed('quantize'):
            tensors = once(self.work, 'private clusters', self._quantize, self.world)[0]
        self.seen = {name: value for name, value in tensors.items() if name.startswith('sum')}
        return tensors['cluster'], tensors['codebook']

    def _quantize(self) -> Outcome:
        data, solver = self.source.data, self.plan.solver()
        solver.generator = self._noise('clusters')
        solver.fit(data.x, data.y.clamp(min=-1), self.ledger.entries)
        codebook = torch.from_numpy(solver.cluster_centers_).float()
        cluster = torch.from_numpy(solver.labels_).long()
        return {'cluster': cluster, 'codebook': codebook, **solver.seen_}, {}

    def fit(self, cluster: Tensor, num_tokens: int) -> PrivateTreeModel:
        r"""The model of trees learns one frozen computation graph per root."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed('weights'))
            model = self.plan.make_model(num_tokens)

        def run() -> Outcome:
            tokens = tokens_of(self.draw_trees(), cluster, num_tokens)
            entries, noise = self.ledger.entries, self._noise('model')
            model.fit(tokens, self.y, entries, noise, self.device, self.log)
            budget = self.plan.budget
            spent = self.ledger.to_dict(budget.delta, [budget.unit])
            return dict(model.cpu().state_dict()), {'ledger': spent}

        with self._timed('fit'):
            tensors, facts = once(self.work, 'private model', run, self.world)
        model.load_state_dict(tensors)
        self.ledger = Ledger.from_dict(facts['ledger'], verify=False)  # what was spent
        return model

    def draw_trees(self) -> Tensor:
        r"""One computation graph of each root, the same whenever it is asked for.
        Where edges or nodes are protected, none of them is in too many. They are
        drawn for all nodes, so that none depends on which others have a label.
        """
        rng = torch.Generator().manual_seed(self._seed('trees'))
        data, shape = self.source.data, self.config.shape
        edge_index, num_nodes = data.edge_index, int(data.num_nodes or 0)
        if self.plan.sample is not None:
            most = max(shape.num_neighbors)
            edge_index = cap_parents(edge_index, num_nodes, self.private.max_parents, most, rng)
        graph = InNeighbors.from_edge_index(edge_index, num_nodes)
        return sample_trees(graph, torch.arange(num_nodes), shape, rng)[self.root]

    def sample(self, counts: Tensor, model: PrivateTreeModel) -> TokenTrees:
        r"""Trees for labels and splits that are drawn from noisy counts."""
        with self._timed('sample'):
            size = self.config.num_samples or self.plan.numbers.num_roots
            rng = torch.Generator().manual_seed(self._seed('labels'))
            drawn = torch.multinomial(counts.view(-1), size, replacement=True, generator=rng)
            y, place = drawn % counts.size(1), drawn // counts.size(1)
            split = torch.tensor(SPLITS)[place]
            if self.source.split is None:
                split = random_split(torch.ones_like(y, dtype=torch.bool), self._seed('split'))
            scene = model.scenes.draw(y, rng)
            tokens = sample(model, y, self._seed('sample'), log=self.log, scene=scene)
            trees = TokenTrees(
                tokens, y, split, model.num_tokens, model.num_classes, self.config.shape
            )
            trees.validate()
            return trees

    def card(self, codebook: Tensor) -> DPCard:
        r"""What is promised."""
        budget = self.plan.budget
        return DPCard.of(
            self.ledger,
            budget,
            self.plan.form,
            codebook.size(0),
            seeded_noise=self.private.noise_seed is not None,
        )

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


def public_numbers(source: Source, config: BuildConfig) -> PublicNumbers:
    r"""What is taken to be known of a source."""
    num_nodes = int(source.data.num_nodes or 0)
    return PublicNumbers(num_nodes, source.num_roots, source.num_classes, config.shape)
