r"""The stages of a differentially private build."""

from __future__ import annotations

import shutil
import warnings
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.data import TokenTrees, TreeShape, random_split, tokens_of
from torch_geometric_cgt.models import FitContext, PrivateGenerator, PrivateTreeModel, TreeSource
from torch_geometric_cgt.models.noisy_tables import project_to_simplex
from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.pipeline.config import BuildConfig
from torch_geometric_cgt.pipeline.pipeline import Build, Pipeline, Stage
from torch_geometric_cgt.pipeline.plan import LABELS, PrivatePlan, PublicNumbers
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.pipeline.workspace import Outcome, once
from torch_geometric_cgt.privacy import DiscreteGaussian, Ledger
from torch_geometric_cgt.privacy.mechanisms import noisy_histogram
from torch_geometric_cgt.sampler import InNeighbors, sample_trees
from torch_geometric_cgt.sampler.bounded_degree import cap_parents
from torch_geometric_cgt.training import FitConfig, fit
from torch_geometric_cgt.training.dp_sgd import DPSGDConfig
from torch_geometric_cgt.transforms import Quantize
from torch_geometric_cgt.utils.seeds import derive_seed

SPLITS = (0, 1, 2, 4)  # none, training, validation, test; a node in several counts for the first
# Weights that depend on the tokens, labels and scenes of one graph. They are not transferred.
OWN = ('streams.token.', 'streams.label.', 'streams.scene.', 'head.')


class PrivatePipeline(Pipeline):
    r"""From a source graph to differentially private token trees: count labels,
    quantize, fit, sample.

    Every stage that reads the source adds the noise of its entries in one
    ledger. The ledger is calibrated to the budget and written to disk before any
    stage runs. A resumed build reads it, so that all stages use the noise that
    the card states, and no part of the budget is spent twice.

    The arguments are those of
    :class:`~torch_geometric_cgt.pipeline.pipeline.Pipeline`.
    """

    model: PrivateTreeModel
    counts: Tensor  # [4, C] noisy counts of splits and labels
    cluster: Tensor  # [N] cluster of each node, not private
    codebook: Tensor  # [m, F]
    projection: Tensor | None  # [F, d], if the codebook is projected
    seen: dict[str, Tensor]  # private results from which the codebook is computed
    trees: TokenTrees

    def __init__(self, source: Source, config: BuildConfig, *args: Any, **kwargs: Any) -> None:
        super().__init__(source, config, *args, **kwargs)
        assert config.private is not None
        self.promise = config.private
        if self.promise.public is not None:
            self.promise.public.check_apart_from(source)
        # Tables are float64, which not every GPU supports.
        self.sampling_device = torch.device('cpu')
        self.has_splits = source.split is not None
        self.numbers = public_numbers(source, config)

    def prepare(self) -> None:
        r"""Calibrates the ledger to the budget, or reads the ledger of the build
        that is resumed.
        """
        plan = PrivatePlan(self.numbers, self.promise)

        def calibrate() -> Outcome:
            for stage in self.stages():  # results without their ledger cannot be used
                shutil.rmtree(self.work / stage.name, ignore_errors=True)
            content = plan.ledger().to_dict(plan.budget.delta, [plan.budget.unit])
            return {}, {'ledger': content, 'form': plan.form}

        facts = once(self.work, 'ledger', calibrate, self.world)[1]
        self.ledger = Ledger.from_dict(facts['ledger'], verify=False)  # written by this build
        self.plan = replace(plan, config=replace(self.promise, form=facts['form']))
        self.spent: dict[str, Any] = facts['ledger']

    def stages(self) -> list[Stage]:
        clustering = ('projection', 'clustering', 'centres')
        model = ('computation graphs', 'sequence model')
        public = Stage('public', self.learn_from_public, self.take_public_weights)
        return [
            Stage('labels', self.count_labels, self.take_counts, ('labels',)),
            Stage('quantize', self.quantize, self.take_clusters, clustering),
            *([public] if self.promise.public is not None else []),
            Stage('fit', self.fit, self.take_weights, model),
            Stage('sample', self.sample_release),
        ]

    def result(self) -> Build:
        return Build(
            self.trees,
            self.codebook,
            self.model.eval(),
            self.cluster,
            self.facts(),
            seconds=self.seconds,
            seen=self.seen,
            projection=self.projection,
        )

    def count_labels(self) -> Outcome:
        r"""Noisy counts of splits and labels, ``[4, C]``."""
        source, num_classes = self.source, self.numbers.num_classes
        y = source.data.y[source.root]
        split = torch.zeros_like(y)
        if source.split is not None:
            code = source.split[source.root]
            for place, bit in reversed(list(enumerate(SPLITS))):
                split[(code & bit) > 0] = place
        entries = self.entries('labels')
        noise = next(entry.noise for entry in entries if entry.name == LABELS)
        assert isinstance(noise, DiscreteGaussian)
        noisy = noisy_histogram(
            split * num_classes + y,
            len(SPLITS) * num_classes,
            noise.sigma,
            self.noise('labels'),
        ).double()
        if not self.has_splits:  # all roots are in the first row; the other rows are pure noise
            noisy[num_classes:] = 0
        counts = project_to_simplex(noisy[None], noisy.sum().clamp(min=1).view(1))
        return {'counts': counts.view(len(SPLITS), num_classes)}, {}

    def take_counts(self, tensors: dict[str, Tensor], _: dict[str, Any]) -> None:
        self.counts = tensors['counts']

    def quantize(self) -> Outcome:
        r"""Computes the cluster of each node, which is not private, the codebook,
        and the public projection of features if the codebook is projected.
        """
        data, solver = self.source.data, self.plan.solver()
        solver.generator = self.noise('clusters')
        entries = self.entries('projection', 'clustering', 'centres')
        solver.fit(data.x, data.y.clamp(min=-1), entries, self.numbers.num_classes)
        tensors = {
            'cluster': torch.from_numpy(solver.labels_).long(),
            'codebook': torch.from_numpy(solver.cluster_centers_).float(),
            **solver.noisy_sums_,
        }
        if self.plan.is_projected:
            tensors['projection'] = torch.from_numpy(solver.projection_).float()
        return tensors, {}

    def take_clusters(self, tensors: dict[str, Tensor], _: dict[str, Any]) -> None:
        self.cluster, self.codebook = tensors['cluster'], tensors['codebook']
        self.projection = tensors.get('projection')
        self.seen = {name: value for name, value in tensors.items() if name.startswith('sum')}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed('weights'))
            self.model = self.plan.make_model(self.codebook.size(0))

    def learn_from_public(self) -> Outcome:
        r"""Pre-trains the generator on the public graph and returns the weights that
        are transferred.
        """
        assert isinstance(self.model, PrivateGenerator)
        weights = pretrain(
            self.promise.public.content(),
            self.model.num_tokens,
            self.shape,
            self.model.training_config,
            self.seed('public'),
            self.device,
            self.log,
        )
        return weights, {}

    def take_public_weights(self, tensors: dict[str, Tensor], _: dict[str, Any]) -> None:
        assert isinstance(self.model, PrivateGenerator)
        self.model.generator.load_state_dict(tensors, strict=False)

    def fit(self) -> Outcome:
        r"""Fits the tree model to one frozen computation graph per root."""
        source = self.source
        tokens = tokens_of(self.draw_trees(), self.cluster, self.model.num_tokens)
        y = source.data.y[source.root]
        sizes = (self.model.num_tokens, self.model.num_classes, self.shape)
        trees = TreeSource(lambda index, _: tokens[index], y, torch.zeros_like(y), *sizes)
        context = FitContext(
            device=self.device,
            log=self.log,
            entries=self.entries('sequence model'),
            noise=self.noise('model'),
        )
        self.model.fit(trees, context)
        return dict(self.model.cpu().state_dict()), {}

    def take_weights(self, tensors: dict[str, Tensor], _: dict[str, Any]) -> None:
        self.model.load_state_dict(tensors)

    def draw_trees(self) -> Tensor:
        r"""One computation graph of each root, the same on every call, ``[n, T]``.

        For the units edge and node, the number of trees that contain a unit is
        bounded. Trees are sampled for all nodes, so that a tree does not depend on
        which other nodes have a label.
        """
        assert self.ledger is not None
        source, shape = self.source, self.shape
        rng = torch.Generator().manual_seed(self.seed('trees'))
        edge_index, num_nodes = source.data.edge_index, self.numbers.num_nodes
        if self.ledger.sample is not None:
            most = max(shape.num_neighbors)
            parents = self.ledger.sample.max_parents
            edge_index = cap_parents(edge_index, num_nodes, parents, most, rng)
        graph = InNeighbors.from_edge_index(edge_index, num_nodes)
        return sample_trees(graph, torch.arange(num_nodes), shape, rng)[source.root]

    def sample_release(self) -> None:
        r"""Generates the trees of the release. Labels and splits are drawn from the
        noisy counts.
        """
        size = self.config.num_samples or self.numbers.num_roots
        rng = torch.Generator().manual_seed(self.seed('labels'))
        drawn = torch.multinomial(self.counts.view(-1), size, replacement=True, generator=rng)
        y, place = drawn % self.counts.size(1), drawn // self.counts.size(1)
        split = torch.tensor(SPLITS)[place]
        if not self.has_splits:
            split = random_split(torch.ones_like(y, dtype=torch.bool), self.seed('split'))
        scene = self.model.draw_scenes(y, rng)
        self.trees = self.sample(y, split, scene, self.seed('sample'))

    def facts(self) -> dict[str, Any]:
        r"""The facts of the card."""
        (total,) = self.spent['totals']
        return {
            'mechanism': 'differential privacy',
            'epsilon': total['epsilon'],
            'delta': total['delta'],
            'protects': total['unit'],
            'form': self.plan.form,
            'num_clusters': self.codebook.size(0),
            'seeded_noise': self.promise.noise_seed is not None,
            'ledger': self.spent,
            'large_delta': self.plan.has_large_delta,
            'projected': None if self.projection is None else list(self.projection.shape),
            'public': self.plan.declared_public,
        }

    def noise(self, purpose: str) -> torch.Generator | None:
        r"""The source of the noise of a stage: :obj:`None` for the operating
        system, or a generator if the promise has a seed.

        Args:
            purpose (str): The results that receive the noise.
        """
        if self.promise.noise_seed is None:
            return None
        return torch.Generator().manual_seed(derive_seed(self.promise.noise_seed, purpose))


def public_numbers(source: Source, config: BuildConfig) -> PublicNumbers:
    r"""The numbers of a source that are assumed to be public.

    Args:
        source (Source): The checked source graph.
        config (BuildConfig): All parameters of the build.
    """
    num_nodes = int(source.data.num_nodes or 0)
    return PublicNumbers(num_nodes, source.num_roots, source.num_classes, config.shape)


def pretrain(
    public: Source,
    num_tokens: int,
    shape: TreeShape,
    config: DPSGDConfig,
    seed: int,
    device: torch.device,
    log: bool = False,
) -> dict[str, Tensor]:
    r"""Fits a generator of the same size to a public graph, without noise, and
    returns the weights that can be transferred to another graph: positions,
    attention and the layers in between.

    Args:
        public (Source): The public graph.
        num_tokens (int): The number of clusters of the private graph. The
            public graph gets the same number if it has enough nodes.
        shape (TreeShape): The geometry of computation graphs.
        config (DPSGDConfig): The size of the generator.
        seed (int): The seed of clustering, weights and training.
        device (torch.device): Where to fit.
        log (bool, optional): Whether to show progress. (default: :obj:`False`)
    """
    data, root = public.data, public.root
    num_nodes, y = int(data.num_nodes or 0), data.y[public.root]
    size = max(1, min(num_tokens, num_nodes // 2))
    quantize = Quantize(
        1, size, seed=derive_seed(seed, 'quantize'), task_weight=None, device=device
    )
    with warnings.catch_warnings():
        # The warning about clusters with one label does not matter for a public graph.
        warnings.simplefilter('ignore', UserWarning)
        cluster = quantize.cluster(data).cluster
    graph = InNeighbors.from_edge_index(data.edge_index, num_nodes)

    def draw_tokens(index: Tensor, rng: torch.Generator) -> Tensor:
        return tokens_of(sample_trees(graph, root[index], shape, rng), cluster, size)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed, 'weights'))
        labels, fan_outs = public.num_classes, list(shape.num_neighbors)
        generator = config.make_generator(size, labels, fan_outs, labels)
    # The scene of a tree of the public graph is its label.
    fit(generator, draw_tokens, y, FitConfig(), derive_seed(seed, 'fit'), device, log, scene=y)
    return shared_weights(generator.cpu())


def shared_weights(generator: CGTGenerator) -> dict[str, Tensor]:
    r"""The weights that do not depend on the tokens, labels and scenes of one graph.

    Args:
        generator (CGTGenerator): The model.
    """
    weights = generator.state_dict()
    return {name: value for name, value in weights.items() if not name.startswith(OWN)}
