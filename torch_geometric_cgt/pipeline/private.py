r"""The stages of a differentially private build."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_geometric_cgt.data import InNeighbors, TokenTrees, random_split, tokens_of
from torch_geometric_cgt.models import FitContext, PrivateGenerator, TokenGraph, TreeSource
from torch_geometric_cgt.models.edge_tables import EDGE_COUNTS, EDGE_VALUES
from torch_geometric_cgt.models.noisy_tables import back_off, project_to_simplex
from torch_geometric_cgt.models.scenes import in_proportion
from torch_geometric_cgt.pipeline.config import BuildConfig, public_numbers
from torch_geometric_cgt.pipeline.edge_values import PrivateEdges
from torch_geometric_cgt.pipeline.k_anonymity import KAnonymity
from torch_geometric_cgt.pipeline.pipeline import Build, Pipeline, Stage
from torch_geometric_cgt.pipeline.plan import LABELS, PrivatePlan
from torch_geometric_cgt.pipeline.public_start import pretrain
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.pipeline.workspace import Outcome, once
from torch_geometric_cgt.privacy import Answer, Queries
from torch_geometric_cgt.privacy.queries import from_tensors, to_tensors
from torch_geometric_cgt.privacy.stated_ledger import read_ledger
from torch_geometric_cgt.sampler import sample_trees
from torch_geometric_cgt.sampler.stable_edges import stable_children, unroll_trees
from torch_geometric_cgt.training.kept_steps import KeptSteps
from torch_geometric_cgt.utils.seeds import derive_seed

ANSWER, STEPS = 'answer', 'step'  # prefixes in the file of a stage: answers, steps of DP-SGD
SPLITS = (0, 1, 2, 4)  # none, training, validation, test; a node in several counts for the first


@dataclass(frozen=True)
class Replay:
    r"""The queries of a build, asked again.

    Args:
        answers (list[Answer]): The given answers beside the exact results of
            their queries.
        results (dict[str, torch.Tensor]): Everything that is computed from the
            answers and released, or from which the release is sampled. It must
            not depend on the data in any other way: with the same answers, it
            is the same for every source.
        rows (tuple[torch.Tensor, ...]): The tokens, labels and scenes of the trees
            that DP-SGD learns from; empty for other models. They are **not**
            private.
    """

    answers: list[Answer]
    results: dict[str, Tensor]
    rows: tuple[Tensor, ...] = ()


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

    counts: Tensor  # [4, C] noisy counts of splits and labels
    cluster: Tensor  # [N] cluster of each node, not private
    codebook: Tensor  # [m, F]
    projection: Tensor | None  # [F, d], if the codebook is projected
    seen: dict[str, Tensor]  # private results from which the codebook is computed
    answers: dict[str, list[Answer]]  # of the queries of each stage
    replays: dict[str, list[Answer]] | None = None  # answers that are used instead of new noise
    steps: KeptSteps | None = None  # of DP-SGD
    edge_share: Tensor  # [C, m] p(edge token | label of the parent), if there are edge values
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
        self.answers = {}
        self.edges = PrivateEdges.of(source, config.private)

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
        self.ledger = read_ledger(facts['ledger'], plan.budget)  # maybe of an interrupted build
        self.plan = replace(plan, config=replace(self.promise, form=facts['form']))
        self.spent: dict[str, Any] = facts['ledger']

    def stages(self) -> list[Stage]:
        clustering = ('projection', 'clustering', 'centres')
        model = ('computation graphs', 'sequence model')
        public = Stage('public', self.learn_from_public, self.take_public_weights)
        edges = Stage('edges', self.count_edges, self.take_edge_share, (EDGE_VALUES,))
        drawn = Stage('draw_edges', self.draw_edges, self.take_edges)
        return [
            Stage('labels', self.count_labels, self.take_counts, ('labels',)),
            Stage('quantize', self.quantize, self.take_clusters, clustering),
            *([public] if self.promise.public is not None else []),
            Stage('fit', self.fit, self.take_weights, model),
            *([edges] if self.edges is not None else []),
            Stage('sample', self.sample_release),
            *([drawn] if self.edges is not None else []),
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
            answers=self.answers,
            steps=self.steps,
            projection=self.projection,
        )

    def ask(self, stage: str, *paid_by: str) -> Queries:
        r"""Starts the queries of a stage.

        Args:
            stage (str): The stage.
            *paid_by (str): The stages of the ledger that pay for it.
        """
        replay = None if self.replays is None else self.replays[stage]
        queries = Queries(self.entries(*paid_by), self.noise(stage), replay)
        self.answers[stage] = queries.answers
        return queries

    def keep(self, stage: str, tensors: dict[str, Tensor]) -> Outcome:
        r"""Adds the answers of a stage to its results, for its file.

        Args:
            stage (str): The stage.
            tensors (dict[str, torch.Tensor]): The results.
        """
        answers, facts = to_tensors(self.answers[stage], ANSWER)
        return {**tensors, **answers}, {'answers': facts}

    def remember(self, stage: str, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        r"""Takes the answers of a stage out of its file.

        Args:
            stage (str): The stage.
            tensors (dict[str, torch.Tensor]): The results.
            facts (dict): The facts beside them.
        """
        self.answers[stage] = from_tensors(tensors, facts['answers'], ANSWER)

    def count_labels(self) -> Outcome:
        r"""Noisy counts of splits and labels, ``[4, C]``."""
        source, num_classes = self.source, self.numbers.num_classes
        y = source.data.y[source.root]
        split = torch.zeros_like(y)
        if source.split is not None:
            code = source.split[source.root]
            for place, bit in reversed(list(enumerate(SPLITS))):
                split[(code & bit) > 0] = place
        index, size = split * num_classes + y, len(SPLITS) * num_classes
        queries = self.ask('labels', 'labels')
        if self.plan.has_private_codebook:
            noisy = queries.histogram(LABELS, index, size)
        else:
            noisy = torch.bincount(index, minlength=size).double()
        if not self.has_splits:  # all roots are in the first row; the other rows are pure noise
            noisy[num_classes:] = 0
        counts = project_to_simplex(noisy[None], noisy.sum().clamp(min=1).view(1))
        return self.keep('labels', {'counts': counts.view(len(SPLITS), num_classes)})

    def take_counts(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        self.remember('labels', tensors, facts)
        self.counts = tensors['counts']

    def quantize(self) -> Outcome:
        r"""Computes the cluster of each node, which is not private, the codebook,
        and the public projection of features if the codebook is projected.
        """
        data = self.source.data
        queries = self.ask('quantize', 'projection', 'clustering', 'centres')
        if not self.plan.has_private_codebook:
            groups = KAnonymity(self.promise.k)
            no_edges = data.edge_index[:, :0]  # clusters must not depend on what is protected
            nodes = Data(x=data.x, y=data.y, edge_index=no_edges)
            found = groups.quantize(self.seed('quantize'), self.device).cluster(nodes)
            codebook = groups.protect(data.x, found)
            return self.keep('quantize', {'cluster': found.cluster, 'codebook': codebook})
        solver = self.plan.solver()
        solver.fit(data.x, data.y.clamp(min=-1), queries, self.numbers.num_classes)
        tensors = {
            'cluster': torch.from_numpy(solver.labels_).long(),
            'codebook': torch.from_numpy(solver.cluster_centers_).float(),
            **solver.noisy_sums_,
        }
        if self.plan.is_projected:
            tensors['projection'] = torch.from_numpy(solver.projection_).float()
        return self.keep('quantize', tensors)

    def take_clusters(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        self.remember('quantize', tensors, facts)
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
        r"""Fits the tree model to nodes and edges, or to one computation graph per
        root.
        """
        data, root = self.source.data, self.source.root
        y = data.y[root]
        tokens = self.draw_tokens() if self.plan.uses_trees else y.new_empty(y.numel(), 0)
        sizes = (self.model.num_tokens, self.model.num_classes, self.shape)
        graph = TokenGraph(self.cluster, data.y, data.edge_index)
        trees = TreeSource(
            lambda index, _: tokens[index], y, torch.zeros_like(y), *sizes, graph=graph
        )
        queries = self.ask('fit', 'computation graphs', 'sequence model')
        self.model.fit(trees, FitContext(device=self.device, log=self.log, queries=queries))
        tensors = dict(self.model.cpu().state_dict())
        if isinstance(self.model, PrivateGenerator) and self.model.kept is not None:
            tensors |= self.model.kept.to_tensors(STEPS)
        return self.keep('fit', tensors)

    def take_weights(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        self.remember('fit', tensors, facts)
        has_steps = any(name.startswith(f'{STEPS}.') for name in tensors)
        self.steps = KeptSteps.from_tensors(tensors, STEPS) if has_steps else None
        kept = (f'{ANSWER}.', f'{STEPS}.')
        own = {name: value for name, value in tensors.items() if not name.startswith(kept)}
        self.model.load_state_dict(own)

    def count_edges(self) -> Outcome:
        r"""Counts edge values per label of the parent, with noise, as distributions."""
        assert self.edges is not None
        queries = self.ask('edges', EDGE_VALUES)
        noisy = queries.counts(EDGE_COUNTS, self.edges.counts(self.source, self.model))
        table = noisy.view(self.numbers.num_classes, -1)
        return self.keep('edges', {'share': back_off(table, queries.sigma(EDGE_COUNTS))})

    def take_edge_share(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        self.remember('edges', tensors, facts)
        self.edge_share = tensors['share']

    def draw_edges(self) -> Outcome:
        r"""Draws the edge tokens of the release."""
        assert self.edges is not None
        drawn = self.edges.draw(self.trees, self.edge_share, self.seed('edges'))
        return {'edge_tokens': drawn}, {}

    def take_edges(self, tensors: dict[str, Tensor], _: dict[str, Any]) -> None:
        assert self.edges is not None
        self.trees = self.edges.attach(self.trees, tensors['edge_tokens'])
        if self.world.is_first:
            self.trees.validate()

    def draw_tokens(self) -> Tensor:
        r"""The tokens of one computation graph of each root, ``[n, T]``.

        The children of a node are those with the lowest priorities, which depend
        on pairs of nodes only. So few trees change without a node or an edge, see
        :class:`~torch_geometric_cgt.privacy.StableSample`. For frozen records,
        children are drawn at random, for all nodes, so that a tree does not depend
        on which other nodes have a label.
        """
        source, shape = self.source, self.shape
        edge_index, num_nodes = source.data.edge_index, self.numbers.num_nodes
        everyone, sample = torch.arange(num_nodes), self.plan.sample
        if sample is not None:
            most, key = max(shape.num_neighbors), self.seed('trees')
            lists = stable_children(edge_index, num_nodes, sample.max_parents, most, key)
            trees = unroll_trees(lists, everyone, shape)
        else:
            rng = torch.Generator().manual_seed(self.seed('trees'))
            graph = InNeighbors.from_edge_index(edge_index, num_nodes)
            trees = sample_trees(graph, everyone, shape, rng)
        return tokens_of(trees[source.root], self.cluster, self.model.num_tokens)

    def replay(self, source: Source, answers: dict[str, list[Answer]]) -> Replay:
        r"""Runs all stages that read the data again, with the given answers in place
        of new noise. Nothing is released. The exact results of the queries are
        **not** private. Steps of DP-SGD are not run again, but the trees that they
        learn from are returned.

        Args:
            source (Source): The source, or the source without one unit.
            answers (dict[str, list[Answer]]): The answers of each stage of a
                build.
        """
        other = PrivatePipeline(source, self.config, self.work, self.device, log=False)
        other.numbers, other.ledger, other.plan = self.numbers, self.ledger, self.plan
        other.has_splits, other.replays = self.has_splits, answers
        asked: list[Answer] = []
        for stage in other.stages():
            if stage.paid_by and stage.take is not None:
                other._stage = stage
                tensors, facts = stage.run()
                asked += other.answers[stage.name]
                stage.take(tensors, facts)
        rows = other.model.rows if isinstance(other.model, PrivateGenerator) else ()
        results = {'counts': other.counts, 'codebook': other.codebook}
        results |= {f'model.{name}': v for name, v in other.model.state_dict().items()}
        if other.edges is not None:
            results['edge_share'] = other.edge_share
        return Replay(asked, results, rows)

    def sample_release(self) -> None:
        r"""Generates the trees of the release. The numbers of labels in each split are
        proportional to the noisy counts: independent draws would add noise of their own.
        """
        size = self.config.num_samples or self.numbers.num_roots
        rng = torch.Generator().manual_seed(self.seed('labels'))
        drawn = in_proportion(self.counts.view(-1), size, rng)
        y, place = drawn % self.counts.size(1), drawn // self.counts.size(1)
        split = torch.tensor(SPLITS)[place]
        if not self.has_splits:
            split = random_split(torch.ones_like(y, dtype=torch.bool), self.seed('split'))
        scene = self.model.draw_scenes(y, rng)
        seed = self.seed('sample')
        self.trees = self.write_trees(
            y, split, lambda blocks: self.draw_blocks(y, scene, seed, blocks, self.log)
        )

    def facts(self) -> dict[str, Any]:
        r"""The facts of the card."""
        total = self.spent['totals'][0]
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
            'max_degree': self.plan.max_degree,
            'k': self.plan.k,
            'edges': None if self.edges is None else self.edges.facts(),
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
