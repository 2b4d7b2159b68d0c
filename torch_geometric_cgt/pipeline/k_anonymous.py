r"""The stages of a k-anonymous build."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.data import GraphProfile, TokenTrees, masks_of
from torch_geometric_cgt.data.in_neighbors import in_neighbors
from torch_geometric_cgt.data.token_trees import sample_of_splits
from torch_geometric_cgt.models import FitContext, TokenGraph, TreeModel, TreeSource
from torch_geometric_cgt.models.candidates import CandidatePool
from torch_geometric_cgt.models.path_support import NUM_DRAWS, SupportRule
from torch_geometric_cgt.models.scenes import SceneTable, draw_roots
from torch_geometric_cgt.models.view_calibration import MAX_ROUNDS, ViewMatch, match_views
from torch_geometric_cgt.models.view_tilt import ViewTilt
from torch_geometric_cgt.pipeline.edge_values import KAnonymousEdges
from torch_geometric_cgt.pipeline.pipeline import Build, Pipeline, Stage
from torch_geometric_cgt.pipeline.promise import measure_clusters
from torch_geometric_cgt.pipeline.tree_facts import drawn_unique_share
from torch_geometric_cgt.pipeline.workspace import Outcome
from torch_geometric_cgt.privacy import Budget, Ledger
from torch_geometric_cgt.sampler import TreeDraws
from torch_geometric_cgt.training.sample import BLOCK
from torch_geometric_cgt.transforms.scenes import find_scenes
from torch_geometric_cgt.transforms.task_weight import WEIGHTS
from torch_geometric_cgt.utils.distributed import World
from torch_geometric_cgt.utils.progress import count_repetitions, progress_bar
from torch_geometric_cgt.utils.scratch import Scratch
from torch_geometric_cgt.utils.seeds import seeded

DEGREES = 'mean_degree'
# Source roots that calibration compares with: about so many, and so many of each split at least.
CALIBRATION_ROOTS, CALIBRATION_SPLIT = 4_000, 1_000
CALIBRATION_TREES, MAX_CALIBRATION_DRAWS = 8_000, 4  # of source trees; small graphs get more draws


class KAnonymousPipeline(Pipeline):
    r"""From a source graph to token trees over a k-anonymous codebook: quantize,
    find scenes, encode, fit, match views, sample.

    There is no ledger. The arguments are those of
    :class:`~torch_geometric_cgt.pipeline.pipeline.Pipeline`.
    """

    cluster: Tensor  # [N] cluster of each node
    codebook: Tensor  # [m, F] mean feature vectors, protected
    task_weight: float
    groups: dict[str, Any]  # facts of the card about the clusters
    facts: dict[str, Any]  # all facts of the card
    draws: TreeDraws  # of the source
    cost: dict[str, Any] | None = None  # of a private codebook
    rule: SupportRule | None = None  # that generated trees satisfy
    scene: Tensor  # [n] scene of each root
    trees: TokenTrees
    profile: GraphProfile | None = None  # degrees and homophily, if they are released
    edges: KAnonymousEdges | None = None  # edge values, if the source has some

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        source = self.source
        self.root, self.y = source.root, source.data.y[source.root]
        self.split = source.split_codes(self.seed('split'))[source.root]
        self.graph = in_neighbors(
            source.data.edge_index, source.data.num_nodes, self.work / 'in_neighbors', self.world
        )
        self.tilt: ViewTilt | None = None  # selects candidates
        self.match = ViewMatch()
        self.scene = torch.zeros_like(self.y)
        self.kept: Tensor | None = None  # the trees of a small release, which match_views selects
        self.history: dict[str, Any] = {}

    def stages(self) -> list[Stage]:
        stages = [
            Stage('quantize', self.quantize, self.take_clusters, shared=True),
            Stage('scenes', self.find_scenes, self.take_scenes, shared=True),
            Stage('encode', self.encode, self.take_trees, shared=True),
            Stage('support', self.find_support),
            Stage('fit', self.fit)
            if self.config.choice.is_cgt
            else Stage('fit', self.fit_other, self.take_model),
            Stage('match_views', self.match_views, self.take_tilt, shared=True),
            Stage('sample', self.sample_release),
        ]
        unused = set()
        values = self.source.edge_values()
        if values is not None and len(values) > 0:
            stages.insert(1, Stage('edge_codebook', self.quantize_edges, self.take_edge_values))
            stages.append(Stage('edges', self.draw_edges, self.take_edges))
        if self.config.k_anonymity.min_support is None:
            unused.add('support')
        if not self.config.uses_tilt:
            unused.add('match_views')
        if not self.config.choice.uses_scenes:
            unused.add('scenes')
        return [stage for stage in stages if stage.name not in unused]

    def result(self) -> Build:
        history = {
            **self.history,
            'views': self.match.to_dict(),
            'scene_nll': self.table.nll(),  # of the scene of a root, in nats
        }
        edges = self.edges
        return Build(
            self.trees,
            self.codebook,
            self.model.cpu(),
            self.cluster,
            self.facts if edges is None else {**self.facts, 'edges': edges.facts},
            history,
            self.seconds,
            edge_cluster=None if edges is None else edges.cluster,
            profile=self.profile,
        )

    def quantize(self) -> Outcome:
        r"""Clusters the features of all nodes."""
        data, promise = copy.copy(self.source.data), self.config.k_anonymity
        if self.source.split is not None:  # the task weight is chosen by this split
            data.update(masks_of(self.source.split))
        trials = len(WEIGHTS) if promise.task_weight == 'auto' else 0
        with progress_bar(self.log, trials + 1, 'quantize', 'steps') as bar:
            transform = promise.quantize(self.seed('quantize'), self.device)
            advance = count_repetitions(bar, trials + 1)
            found = transform.cluster(data, advance, self.world, Scratch(self.work))
        codebook = promise.protect(data.x, found, self.world)
        tensors = {'cluster': found.cluster, 'codebook': codebook}
        facts: dict[str, Any] = {'task_weight': found.task_weight}
        if found.entries and promise.cluster_epsilon is not None:
            budget = Budget.of(promise.cluster_epsilon, None, found.cluster.numel(), 'node')
            ledger = Ledger([entry.stage for entry in found.entries], found.entries)
            facts['cost'] = asdict(ledger.total('node', budget.delta))
        return tensors, facts

    def take_clusters(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        self.cluster, self.codebook = tensors['cluster'], tensors['codebook']
        self.task_weight, self.cost = facts['task_weight'], facts.get('cost')
        self.groups = measure_clusters(self.cluster, self.source.data.y, self.codebook.size(0))

    def quantize_edges(self) -> Outcome:
        r"""Groups edges with similar values, each with enough nodes behind it."""
        return KAnonymousEdges.group(self.source, self.config.k_anonymity.k, self.seed('edges'))

    def take_edge_values(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        self.edges = KAnonymousEdges.of(tensors, facts)

    def find_scenes(self) -> Outcome:
        r"""Clusters roots with similar two-hop neighbourhoods."""
        num_classes = self.source.num_classes
        num_scenes = self.config.num_scenes_for(self.y.numel(), num_classes)
        if num_scenes == 0:  # one scene per label and split
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
            self.config.k_anonymity.k,
            self.seed('scenes'),
            self.world,
            Scratch(self.work),
        )
        return {'scene': scene}, {}

    def take_scenes(self, tensors: dict[str, Tensor], _: dict[str, Any]) -> None:
        self.scene = tensors['scene']

    def encode(self) -> Outcome:
        r"""Samples one computation graph of each root and measures the facts of the card."""
        promise = self.config.k_anonymity
        draws = (self.tree_draws(), self.y, self.seed('encode'))
        facts = {
            'k': promise.min_size,
            **self.groups,
            'task_weight': round(self.task_weight, 4),
            'unique_share': drawn_unique_share(*draws, self.world, self.log),
            'min_support': promise.min_support,
            'min_value_support': promise.value_support,
            'rounding': promise.step,
            **self.config.choice.facts(),
        }
        if self.cost is None:
            tensors, more = self.graph_profile()
            return tensors, {'mechanism': 'k-anonymity', **facts, **more}
        cost = {f'cluster_{name}': self.cost[name] for name in ('epsilon', 'delta')}
        return {}, {'mechanism': 'private clusters', **facts, **cost}

    def graph_profile(self) -> Outcome:
        r"""The degrees and the homophily of the roots, protected, if they are released."""
        promise = self.config.k_anonymity
        if not promise.graph_profile:
            return {}, {}
        found = GraphProfile.of(self.graph, self.root, self.source.data.y, promise.k)
        if found is None:
            return {}, {}
        return {DEGREES: found.mean_degree}, {'profile': found.facts(self.root.numel(), promise.k)}

    def take_trees(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        self.facts, self.draws = facts, self.tree_draws()
        if DEGREES in tensors:
            self.profile = GraphProfile(tensors[DEGREES], facts['profile']['homophily'])

    def tree_draws(self) -> TreeDraws:
        r"""The computation graphs of all roots, all that later stages see of the graph."""
        return TreeDraws(self.graph, self.root, self.shape, self.cluster, self.codebook.size(0))

    def find_support(self) -> None:
        r"""Counts the source roots of each path, for the support rule."""
        min_support = self.config.k_anonymity.min_support
        assert min_support is not None
        rng = torch.Generator().manual_seed(self.seed('support'))
        every = torch.arange(self.root.numel())
        self.rule = SupportRule(
            torch.cat([self.draws.tokens(every, rng).int() for _ in range(NUM_DRAWS)]),
            self.y.repeat(NUM_DRAWS),
            min_support,
            self.codebook.size(0),
            self.shape,
            every.repeat(NUM_DRAWS),
        )

    @cached_property
    def table(self) -> SceneTable:
        r"""The number of roots of each split, label and scene."""
        sizes = (self.source.num_classes, int(self.scene.max()) + 1)
        return SceneTable(self.y, self.split, self.scene, *sizes)

    def fit(self) -> None:
        r"""Trains the Transformer on newly sampled trees in every epoch."""
        self.model = self.new_model()
        self.history = self.model.fit(self.tree_source(), self.fit_context())

    def fit_other(self) -> Outcome:
        r"""Fits another generator than CGT."""
        model, data = self.new_model(), self.source.data
        graph = TokenGraph(self.cluster, data.y, data.edge_index)
        source = replace(self.tree_source(), graph=graph, codebook=self.codebook)
        history = model.fit(source, self.fit_context())
        return model.cpu().state_dict(), history

    def take_model(self, tensors: dict[str, Tensor], history: dict[str, Any]) -> None:
        self.model, self.history = self.new_model().eval(), history
        self.model.load_state_dict(tensors)

    def new_model(self) -> TreeModel:
        r"""The configured generator with newly initialized weights."""
        sizes = (self.codebook.size(0), self.source.num_classes)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed('weights'))
            return self.config.make_model(*sizes, self.table.num_scenes)

    def tree_source(self) -> TreeSource:
        r"""The computation graphs of all roots. Drawing some checks the limits."""

        def draw(index: Tensor, rng: torch.Generator) -> Tensor:
            self.limits.check()
            return self.draws.tokens(index, rng)

        sizes = (self.codebook.size(0), self.source.num_classes)
        return TreeSource(draw, self.y, self.split, *sizes, self.shape, scene=self.scene)

    def fit_context(self) -> FitContext:
        r"""Where and how to fit."""
        return FitContext(
            seed=self.seed('fit'),
            device=self.device,
            log=self.log,
            world=self.world,
            checkpoint=self.work,
            belongs_to=self.belongs_to,
            limits=self.limits,
        )

    def match_views(self) -> Outcome:
        r"""Learns which candidates to keep, so that views of generated trees are
        as in the source.
        """
        seed = self.seed('views')
        rng = torch.Generator().manual_seed(seed)
        index = sample_of_splits(self.split, CALIBRATION_ROOTS, CALIBRATION_SPLIT, rng)
        size = index.numel()
        num_draws = max(2, min(MAX_CALIBRATION_DRAWS, CALIBRATION_TREES // size))
        real = [self.real_trees(index, rng) for _ in range(num_draws)]
        is_release = size <= self.num_samples <= BLOCK
        steps = MAX_ROUNDS + 2  # candidates are drawn, and then selected in rounds
        with progress_bar(self.log, steps, 'match views', 'steps') as bar:
            if is_release:  # a small release is selected from the candidates that are weighed here
                pool = self.candidates(*self.release_roots(), self.seed('sample'), self.world)
            else:
                roots = draw_roots(self.y[index], self.split[index], size, rng)
                pool = self.candidates(*roots, seed, self.world)
            if not self.world.is_first:  # it alone weighs the candidates
                return {}, {}
            bar.update()
            x = self.source.data.x
            tilt, match = match_views(
                real, x, self.cluster, self.codebook, pool, is_release, bar.update
            )
        tensors = tilt.tensors()
        if is_release:
            tensors['kept'] = tilt.select(pool).tokens
        return tensors, match.to_dict()

    def take_tilt(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        self.tilt, self.match = ViewTilt.from_tensors(tensors, self.shape), ViewMatch(**facts)
        self.kept = tensors.get('kept')

    def real_trees(self, index: Tensor, rng: torch.Generator) -> TokenTrees:
        r"""Samples trees of the source whose tokens are nodes."""
        tree, num_nodes = self.draws.nodes(index, rng), self.cluster.numel()
        node = tree.masked_fill(tree < 0, num_nodes)
        sizes = (num_nodes, self.source.num_classes, self.shape)
        return TokenTrees(node, self.y[index], self.split[index], *sizes)

    @property
    def num_samples(self) -> int:
        r"""The number of trees of the release."""
        return self.config.num_samples or self.root.numel()

    def candidates(
        self, y: Tensor, split: Tensor, seed: int, world: World | None = None
    ) -> CandidatePool:
        r"""Generates groups of candidates, one after the other.

        Args:
            y (torch.Tensor): The label of each group, ``[n]``.
            split (torch.Tensor): The split code of each group, ``[n]``.
            seed (int): The seed of the draws.
            world (World, optional): Processes that draw some blocks each, and all
                get the pool. (default: :obj:`None`)
        """
        world = world or World()
        size = self.config.num_candidates_for(self.root.numel())
        y, split = y.repeat_interleave(size), split.repeat_interleave(size)
        scene = self.table.draw(y, split, seeded(seed, 'scenes'))
        drawn: dict[int, Tensor] = {}
        blocks = range(world.rank, -(-y.numel() // BLOCK), world.size)
        for block, tokens in self.draw_blocks(y, scene, seed, blocks):
            self.limits.check()
            if self.rule is not None:
                labels = y[block * BLOCK : (block + 1) * BLOCK]
                tokens = self.rule(tokens, labels, seeded(seed, 'support', block))
            drawn[block] = tokens
        for other in world.gather(drawn):
            drawn |= other
        sizes = (self.codebook.size(0), self.source.num_classes, self.shape)
        trees = TokenTrees(torch.cat([drawn[block] for block in sorted(drawn)]), y, split, *sizes)
        return CandidatePool(trees, size, seed)

    def release_roots(self) -> tuple[Tensor, Tensor]:
        r"""The labels and splits of the release."""
        rng = torch.Generator().manual_seed(self.seed('labels'))
        return draw_roots(self.y, self.split, self.num_samples, rng)

    def sample_release(self) -> None:
        r"""Generates the trees of the release, block by block: candidates are drawn, and one of
        each group is kept.
        """
        y, split = self.release_roots()

        def draw(blocks: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
            rows = [slice(block * BLOCK, (block + 1) * BLOCK) for block in blocks]
            total = sum(y[part].numel() for part in rows)
            with progress_bar(self.log, total, 'sample', 'graphs') as bar:
                for block, part in zip(blocks, rows, strict=True):
                    if self.kept is not None:  # the only block
                        yield block, self.kept
                        continue
                    pool = self.candidates(y[part], split[part], self.seed('sample', block))
                    kept = pool.trees if self.tilt is None else self.tilt.select(pool)
                    yield block, kept.tokens
                    bar.update(len(kept))

        self.trees = self.write_trees(y, split, draw)

    def draw_edges(self) -> Outcome:
        r"""Draws the edge tokens of the release."""
        assert self.edges is not None
        seeds = (self.seed('edges'), self.seed('edges', 1))
        tokens = self.edges.draw(self.trees, self.draws, self.y, self.source, *seeds)
        return {'edge_tokens': tokens}, {}

    def take_edges(self, tensors: dict[str, Tensor], _: dict[str, Any]) -> None:
        assert self.edges is not None
        self.trees = self.edges.attach(self.trees, tensors['edge_tokens'])
        if self.world.is_first:
            self.trees.validate()
