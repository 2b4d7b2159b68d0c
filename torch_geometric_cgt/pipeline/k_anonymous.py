r"""The stages of a k-anonymous build."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from torch_geometric_cgt.data import InNeighbors, TokenTrees, masks_of
from torch_geometric_cgt.models import FitContext, TreeSource
from torch_geometric_cgt.models.path_support import NUM_DRAWS, SupportRule
from torch_geometric_cgt.models.scenes import (
    SceneTable,
    Sharpness,
    TreeProbe,
    choose_draw,
    draw_roots,
    find_sharpness,
    source_accuracy,
)
from torch_geometric_cgt.pipeline.pipeline import Build, Pipeline, Stage
from torch_geometric_cgt.pipeline.promise import measure_clusters, unique_share
from torch_geometric_cgt.pipeline.workspace import Outcome
from torch_geometric_cgt.privacy import Budget, Ledger
from torch_geometric_cgt.sampler import TreeDraws
from torch_geometric_cgt.training.sample import BLOCK
from torch_geometric_cgt.transforms.scenes import find_scenes
from torch_geometric_cgt.utils.seeds import seeded

ENCODE_BLOCK = 1 << 16  # roots per block
CALIBRATION_ROOTS = 10_000  # maximum number of source roots that calibration samples
MAX_DRAWS, DRAWN_TREES = 8, 12_000  # maximum number of candidate releases, and of all their trees


class KAnonymousPipeline(Pipeline):
    r"""From a source graph to token trees over a k-anonymous codebook: quantize,
    find scenes, encode, fit, calibrate, sample.

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

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        source = self.source
        self.root, self.y = source.root, source.data.y[source.root]
        self.split = source.split_codes(self.seed('split'))[source.root]
        self.graph = InNeighbors.from_edge_index(source.data.edge_index, source.data.num_nodes)
        self.sharpness = Sharpness()
        self.history: dict[str, Any] = {}

    def stages(self) -> list[Stage]:
        stages = [
            Stage('quantize', self.quantize, self.take_clusters),
            Stage('scenes', self.find_scenes, self.take_scenes),
            Stage('encode', self.encode, self.take_trees),
            Stage('support', self.find_support),
            Stage('fit', self.fit),
            Stage('calibrate', self.calibrate, self.take_sharpness),
            Stage('sample', self.sample_release),
        ]
        unused = set()
        if self.config.k_anonymity.min_support is None:
            unused.add('support')
        if self.config.num_scenes == 0:
            unused.add('calibrate')
        return [stage for stage in stages if stage.name not in unused]

    def result(self) -> Build:
        history = {
            **self.history,
            'sharpness': self.sharpness.to_dict(),
            'scene_nll': self.table.nll(),  # of the scene of a root, in nats
        }
        return Build(
            self.trees,
            self.codebook,
            self.model.cpu(),
            self.cluster,
            self.facts,
            history,
            self.seconds,
        )

    def quantize(self) -> Outcome:
        r"""Clusters the features of all nodes."""
        data, promise = copy.copy(self.source.data), self.config.k_anonymity
        if self.source.split is not None:  # the task weight is chosen on training nodes
            data.train_mask = masks_of(self.source.split)['train_mask']
        with tqdm(desc='quantize', unit='step', disable=not self.log) as bar:

            def advance(step: int, total: int) -> None:
                if step <= bar.n:  # a new clustering with another task weight
                    bar.reset()
                bar.total = total
                bar.update(step - bar.n)

            found = promise.quantize(self.seed('quantize'), self.device).cluster(data, advance)
            bar.total = bar.n  # clustering may converge early
            bar.refresh()
        tensors = {'cluster': found.cluster, 'codebook': promise.protect(data.x, found)}
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
        )
        return {'scene': scene}, {}

    def take_scenes(self, tensors: dict[str, Tensor], _: dict[str, Any]) -> None:
        self.scene = tensors['scene']

    def encode(self) -> Outcome:
        r"""Samples one computation graph of each root and measures the facts of the card."""
        rng, blocks = torch.Generator().manual_seed(self.seed('encode')), []
        size = 1 + self.shape.num_neighbors[0]  # the root and its child slots
        total, promise, draws = self.root.numel(), self.config.k_anonymity, self.tree_draws()
        with tqdm(total=total, desc='encode', unit='graph', disable=not self.log) as bar:
            for index in torch.arange(total).split(ENCODE_BLOCK):
                blocks.append(draws.tokens(index, rng)[:, :size].int())
                bar.update(index.numel())
        facts = {
            'k': promise.min_size,
            **self.groups,
            'task_weight': round(self.task_weight, 4),
            'unique_share': unique_share(self.y, torch.cat(blocks)),
            'min_support': promise.min_support,
            'min_value_support': promise.value_support,
            'rounding': promise.step,
        }
        if self.cost is None:
            return {}, {'mechanism': 'k-anonymity', **facts}
        cost = {f'cluster_{name}': self.cost[name] for name in ('epsilon', 'delta')}
        return {}, {'mechanism': 'private clusters', **facts, **cost}

    def take_trees(self, _: dict[str, Tensor], facts: dict[str, Any]) -> None:
        self.facts, self.draws = facts, self.tree_draws()

    def tree_draws(self) -> TreeDraws:
        r"""The computation graphs of all roots. Later stages see the graph through
        them only.
        """
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
        sizes = (self.codebook.size(0), self.source.num_classes)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed('weights'))
            self.model = self.config.make_model(*sizes, self.table.num_scenes)
        trees = TreeSource(
            self.draws.tokens, self.y, self.split, *sizes, self.shape, scene=self.scene
        )
        context = FitContext(
            seed=self.seed('fit'),
            device=self.device,
            log=self.log,
            world=self.world,
            checkpoint=self.work,
            belongs_to=self.belongs_to,
        )
        self.history = self.model.fit(trees, context)

    def calibrate(self) -> Outcome:
        r"""Chooses the sharpness of p(scene | label) for which a probe has the same
        accuracy on generated trees as on trees of the source.
        """
        size = min(self.root.numel(), CALIBRATION_ROOTS)
        seed, num_classes = self.seed('calibrate'), self.source.num_classes
        num_nodes, num_tokens = self.cluster.numel(), self.codebook.size(0)

        def draw_real(i: int) -> TokenTrees:
            rng = torch.Generator().manual_seed(seed + i)
            index = torch.randperm(self.root.numel(), generator=rng)[:size]
            tree = self.draws.nodes(index, rng)
            node = tree.masked_fill(tree < 0, num_nodes)
            roots = (self.y[index], self.split[index])
            return TokenTrees(node, *roots, num_nodes, num_classes, self.shape)

        def draw_new(sharpness: float, i: int) -> TokenTrees:
            rng = torch.Generator().manual_seed(seed + i)
            y, split, scene = self.draw_conditions(size, sharpness, rng)
            tokens = self.draw_trees(y, scene, seed + i)
            return TokenTrees(tokens, y, split, num_tokens, num_classes, self.shape)

        aim = source_accuracy(self.source.data.x, [draw_real(i) for i in range(2)])
        probe = TreeProbe(self.codebook, self.shape)
        found = find_sharpness(aim, probe, draw_new, size, self.log)

        def draw_release(i: int) -> TokenTrees:
            y, split, scene = self.draw_release_conditions(found, i)
            tokens = self.draw_trees(y, scene, self.seed('sample', i))
            return TokenTrees(tokens, y, split, num_tokens, num_classes, self.shape)

        num_draws = max(1, min(MAX_DRAWS, DRAWN_TREES // self.num_samples))
        return {}, choose_draw(found, probe, draw_release, num_draws).to_dict()

    def take_sharpness(self, _: dict[str, Tensor], facts: dict[str, Any]) -> None:
        self.sharpness = Sharpness(**facts)

    @property
    def num_samples(self) -> int:
        r"""The number of trees of the release."""
        return self.config.num_samples or self.root.numel()

    def draw_release_conditions(
        self, sharpness: Sharpness, draw: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""Labels, splits and scenes of one candidate release."""
        rng = torch.Generator().manual_seed(self.seed('labels', draw))
        return self.draw_conditions(self.num_samples, sharpness.value, rng)

    def draw_conditions(
        self, num_samples: int, sharpness: float, rng: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""Labels, splits and scenes of synthetic roots."""
        y, split = draw_roots(self.y, self.split, num_samples, rng)
        return y, split, self.table.draw(y, split, sharpness, rng)

    def draw_trees(self, y: Tensor, scene: Tensor, seed: int) -> Tensor:
        r"""Generates token trees, ``[n, T]``."""
        blocks = range(-(-y.numel() // BLOCK))
        return torch.cat([tokens for _, tokens in self.draw_blocks(y, scene, seed, blocks)])

    def draw_blocks(
        self, y: Tensor, scene: Tensor | None, seed: int, blocks: Sequence[int], log: bool = False
    ) -> Iterator[tuple[int, Tensor]]:
        for block, tokens in super().draw_blocks(y, scene, seed, blocks, log):
            if self.rule is not None:
                labels = y[block * BLOCK : (block + 1) * BLOCK]
                tokens = self.rule(tokens, labels, seeded(seed, 'support', block))
            yield block, tokens

    def sample_release(self) -> None:
        r"""Generates the trees of the release."""
        draw = self.sharpness.draw
        conditions = self.draw_release_conditions(self.sharpness, draw)
        self.trees = self.sample(*conditions, self.seed('sample', draw))
