r"""From a source graph to token trees: quantize, encode, fit, sample."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from torch_geometric_cgt.data import TokenTrees, TreeShape, masks_of, tokens_of
from torch_geometric_cgt.datasets.scenes import SceneTable
from torch_geometric_cgt.datasets.shards import TokenShards
from torch_geometric_cgt.datasets.sharpness import (
    Sharpness,
    TreeProbe,
    Trees,
    find_sharpness,
    source_accuracy,
)
from torch_geometric_cgt.datasets.source import Source
from torch_geometric_cgt.datasets.work import Outcome, once
from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.privacy import PrivacyCard, privacy_card
from torch_geometric_cgt.sampler import InNeighbors, sample_trees
from torch_geometric_cgt.training import FitConfig, FitResult, World, fit, sample
from torch_geometric_cgt.training.batches import DrawTokens
from torch_geometric_cgt.training.sample import BLOCK, sample_blocks
from torch_geometric_cgt.transforms import Quantize
from torch_geometric_cgt.transforms.scenes import find_scenes

ENCODE_BLOCK = 1 << 16  # roots per block
MIN_SCENES, SCENES_PER_LABEL = 48, 4
CALIBRATION_ROOTS = 10_000  # of the source are enough for one number


@dataclass(frozen=True)
class BuildConfig:
    r"""Every parameter that the result of a build depends on."""

    k: int = 30
    num_clusters: int | None = None
    l: int | None = None  # noqa: E741
    task_weight: float | str | None = 'auto'
    num_neighbors: tuple[int, ...] = (5, 5)
    num_samples: int | None = None
    num_scenes: int | None = None
    seed: int = 0
    generator: dict[str, Any] = field(default_factory=dict)
    fit: FitConfig = field(default_factory=FitConfig)

    def __post_init__(self) -> None:
        self.quantize()
        if self.num_samples is not None and self.num_samples < 1:
            raise ValueError(f"'num_samples' must be at least 1 (got {self.num_samples})")
        if self.num_scenes is not None and self.num_scenes < 0:
            raise ValueError(f"'num_scenes' must not be negative (got {self.num_scenes})")
        if 'num_scenes' in self.generator:
            raise ValueError("Give 'num_scenes' to the dataset, not in 'generator_args'")
        try:  # refuse wrong model arguments before any work, without memory
            with torch.device('meta'):
                self.make_generator(1, 1, 1)
        except TypeError as error:
            raise ValueError(f"Unknown argument in 'generator_args': {error}") from error

    @property
    def shape(self) -> TreeShape:
        return TreeShape.of(self.num_neighbors)

    def quantize(self, device: torch.device | str = 'cpu') -> Quantize:
        r"""The quantization that was asked for."""
        return Quantize(
            self.k,
            self.num_clusters,
            seed=stage_seed(self.seed, 'quantize'),
            l=self.l,
            task_weight=self.task_weight,
            device=device,
        )

    def num_scenes_for(self, num_roots: int, num_classes: int) -> int:
        r"""The number of scenes: as asked for, as far as each has :math:`k` roots."""
        most = max(1, num_roots // self.k)
        if self.num_scenes is None:
            return min(most, max(MIN_SCENES, SCENES_PER_LABEL * num_classes))
        if self.num_scenes > most:
            raise ValueError(
                f"'num_scenes' * 'k' must not exceed the number of roots (got {self.num_scenes} * "
                f'{self.k} > {num_roots}): use at most {most} scenes'
            )
        return self.num_scenes

    def make_generator(self, num_tokens: int, num_classes: int, num_scenes: int) -> CGTGenerator:
        r"""The model that was asked for, with fresh weights."""
        return CGTGenerator(
            num_tokens, num_classes, self.num_neighbors, num_scenes=num_scenes, **self.generator
        )

    def to_dict(self) -> dict[str, Any]:
        r"""All parameters, for a JSON file; not how they are carried out."""
        own = {**asdict(self), 'num_neighbors': list(self.num_neighbors)}
        return {**own, 'fit': self.fit.to_dict()}


@dataclass(frozen=True)
class Build:
    r"""What a build leaves behind; clusters and weights stay in the house."""

    trees: TokenTrees
    codebook: Tensor
    privacy: PrivacyCard
    cluster: Tensor
    generator: CGTGenerator
    fit: FitResult
    sharpness: Sharpness
    scene_nll: float  # what naming the scene of a root costs, in nats


def build(
    source: Source,
    config: BuildConfig,
    device: torch.device,
    work: Path,
    log: bool = True,
    world: World | None = None,
    belongs_to: str = '',
) -> Build | None:
    r"""Runs the four phases, each with a progress bar.

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
    log = log and world.is_first
    shape, root, y = config.shape, source.root, source.data.y[source.root]
    split = source.split_codes(stage_seed(config.seed, 'split'))[root]

    tensors, facts = once(work, 'quantize', lambda: _quantize(source, config, device, log), world)
    cluster, codebook = tensors['cluster'], tensors['codebook']
    num_tokens = codebook.size(0)
    graph = InNeighbors.from_edge_index(source.data.edge_index, cluster.numel())

    def draw_tokens(index: Tensor, rng: torch.Generator) -> Tensor:
        return tokens_of(sample_trees(graph, root[index], shape, rng), cluster, num_tokens)

    with world.together('encode'):
        if world.is_first:
            encoded = _encode(draw_tokens, root.numel(), stage_seed(config.seed, 'encode'), log)
            privacy = privacy_card(
                config.k,
                cluster,
                source.data.y,
                encoded,
                shape.num_neighbors[0],
                facts['task_weight'],
            )
            del encoded

    tensors, _ = once(
        work, 'scenes', lambda: _scenes(source, config, cluster, codebook, y, split), world
    )
    scene = tensors['scene']
    num_scenes = int(scene.max()) + 1
    table = SceneTable(y, split, scene, source.num_classes, num_scenes)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stage_seed(config.seed, 'weights'))
        generator = config.make_generator(num_tokens, source.num_classes, num_scenes)
    result = fit(
        generator,
        draw_tokens,
        y,
        config.fit,
        stage_seed(config.seed, 'fit'),
        device,
        log,
        scene,
        checkpoint=work,
        belongs_to=belongs_to,
        world=world,
    )

    def draw_scenes(
        num_samples: int, sharpness: float, rng: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        new_y, new_split = draw_roots(y, split, num_samples, rng)
        return new_y, new_split, table.draw(new_y, new_split, sharpness, rng)

    def calibrate() -> Outcome:
        size = min(root.numel(), CALIBRATION_ROOTS)
        seed = stage_seed(config.seed, 'calibrate')

        def draw_real(i: int) -> Trees:
            rng = torch.Generator().manual_seed(seed + i)
            index = torch.randperm(root.numel(), generator=rng)[:size]
            return Trees(sample_trees(graph, root[index], shape, rng), y[index], split[index])

        def draw_new(sharpness: float, i: int) -> Trees:
            rng = torch.Generator().manual_seed(seed + i)
            new_y, new_split, scenes = draw_scenes(size, sharpness, rng)
            tokens = sample(generator, new_y, seed + i, device=device, log=False, scene=scenes)
            return Trees(tokens, new_y, new_split)

        aim = source_accuracy(source.data.x, [draw_real(i) for i in range(2)], shape)
        found = find_sharpness(aim, TreeProbe(codebook, shape), draw_new, size, log)
        return {}, found.to_dict()

    sharpness = Sharpness()
    if config.num_scenes != 0:
        sharpness = Sharpness(**once(work, 'calibrate', calibrate, world)[1])

    rng = torch.Generator().manual_seed(stage_seed(config.seed, 'labels'))
    new_y, new_split, new_scene = draw_scenes(
        config.num_samples or root.numel(), sharpness.value, rng
    )
    shards = TokenShards(work / 'sample', new_y.numel(), shape.num_slots, BLOCK)
    with world.together('sample'):
        blocks = shards.missing()[world.rank :: world.size]
        seed = stage_seed(config.seed, 'sample')
        for block, tokens in sample_blocks(
            generator, new_y, blocks, seed, device=device, log=log, scene=new_scene
        ):
            shards.write(block, tokens, world.rank)
    if not world.is_first:
        return None
    trees = TokenTrees(shards.tokens(), new_y, new_split, num_tokens, source.num_classes, shape)
    trees.validate()
    return Build(trees, codebook, privacy, cluster, generator.cpu(), result, sharpness, table.nll())


def _quantize(source: Source, config: BuildConfig, device: torch.device, log: bool) -> Outcome:
    data = copy.copy(source.data)
    if source.split is not None:  # how the weight of the task is found depends on it
        data.train_mask = masks_of(source.split)['train_mask']
    with tqdm(desc='quantize', unit='step', disable=not log) as bar:

        def advance(step: int, total: int) -> None:
            bar.total = total
            bar.update()

        found = config.quantize(device).cluster(data, advance)
        bar.total = bar.n  # it stops where another step would not help
        bar.refresh()
    tensors = {'cluster': found.cluster, 'codebook': found.codebook}
    return tensors, {'task_weight': found.task_weight}


def _scenes(
    source: Source, config: BuildConfig, cluster: Tensor, codebook: Tensor, y: Tensor, split: Tensor
) -> Outcome:
    r"""The scene of each root; without scenes, roots of one label and split are one."""
    num_scenes = config.num_scenes_for(y.numel(), source.num_classes)
    if num_scenes == 0:
        pairs = split.long() * source.num_classes + y.long()
        return {'scene': pairs.unique(return_inverse=True)[1]}, {}
    seen = masks_of(split)['train_mask']
    scene = find_scenes(
        cluster,
        codebook,
        source.data.edge_index,
        source.root,
        y.masked_fill(~seen, -1) if seen.any() else y,
        num_scenes,
        config.k,
        stage_seed(config.seed, 'scenes'),
    )
    return {'scene': scene}, {}


def _encode(draw_tokens: DrawTokens, num_roots: int, seed: int, log: bool) -> Tensor:
    r"""One computation graph of each root, to count what is unique among them."""
    rng, blocks = torch.Generator().manual_seed(seed), []
    with tqdm(total=num_roots, desc='encode', unit='graph', disable=not log) as bar:
        for index in torch.arange(num_roots).split(ENCODE_BLOCK):
            blocks.append(draw_tokens(index, rng))
            bar.update(index.numel())
    return torch.cat(blocks)


def draw_roots(
    y: Tensor, split: Tensor, num_samples: int, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    r"""Draws labels and splits of synthetic roots.

    The number of roots of each split is the source's proportion, rounded by
    largest remainder; labels are drawn from the label histogram of the split.

    Args:
        y (torch.Tensor): The label of each source root.
        split (torch.Tensor): The split code of each source root.
        num_samples (int): The number of synthetic roots.
        rng (torch.Generator): The source of randomness.
    """
    codes, sizes = split.unique(return_counts=True)
    exact = sizes.double() * num_samples / sizes.sum()
    share = exact.floor().long()
    rest = num_samples - int(share.sum())
    share[(exact - share).argsort(descending=True, stable=True)[:rest]] += 1
    labels = []
    for code, size in zip(codes, share, strict=True):
        histogram = torch.bincount(y[split == code]).double()
        labels.append(
            torch.multinomial(histogram, int(size), replacement=True, generator=rng)
            if size
            else y.new_empty(0)
        )
    perm = torch.randperm(num_samples, generator=rng)
    return torch.cat(labels)[perm], codes.repeat_interleave(share)[perm]


def stage_seed(seed: int, stage: str) -> int:
    r"""An independent seed for each stage of a build."""
    return int.from_bytes(hashlib.sha256(f'{seed}/{stage}'.encode()).digest()[:4], 'big')
