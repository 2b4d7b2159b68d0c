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

from torch_geometric_cgt.data import NUM_SPLITS, TokenTrees, TreeShape, masks_of, tokens_of
from torch_geometric_cgt.datasets.source import Source
from torch_geometric_cgt.datasets.work import quantize_once
from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.privacy import PrivacyCard, privacy_card
from torch_geometric_cgt.sampler import InNeighbors, sample_trees
from torch_geometric_cgt.training import FitConfig, FitResult, World, fit, sample
from torch_geometric_cgt.training.batches import DrawTokens
from torch_geometric_cgt.transforms import Quantize
from torch_geometric_cgt.transforms.quantize import Clustering

ENCODE_BLOCK = 1 << 16  # roots per block


@dataclass(frozen=True)
class BuildConfig:
    r"""Every parameter that the result of a build depends on."""

    k: int = 30
    num_clusters: int | None = None
    l: int | None = None  # noqa: E741
    task_weight: float | str | None = 'auto'
    num_neighbors: tuple[int, ...] = (5, 5)
    num_samples: int | None = None
    seed: int = 0
    generator: dict[str, Any] = field(default_factory=dict)
    fit: FitConfig = field(default_factory=FitConfig)

    def __post_init__(self) -> None:
        self.quantize()
        if self.num_samples is not None and self.num_samples < 1:
            raise ValueError(f"'num_samples' must be at least 1 (got {self.num_samples})")
        try:  # refuse wrong model arguments before any work, without memory
            with torch.device('meta'):
                self.make_generator(1, 1)
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

    def make_generator(self, num_tokens: int, num_classes: int) -> CGTGenerator:
        r"""The model that was asked for, with fresh weights."""
        args = {'num_splits': NUM_SPLITS, **self.generator}
        return CGTGenerator(num_tokens, num_classes, self.num_neighbors, **args)

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

    clustering = quantize_once(work, lambda: _quantize(source, config, device, log), world)
    cluster, codebook = clustering.cluster, clustering.codebook
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
                clustering.task_weight,
            )
            del encoded

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stage_seed(config.seed, 'weights'))
        generator = config.make_generator(num_tokens, source.num_classes)
    split = source.split_codes(stage_seed(config.seed, 'split'))[root]
    result = fit(
        generator,
        draw_tokens,
        y,
        config.fit,
        stage_seed(config.seed, 'fit'),
        device,
        log,
        split,
        checkpoint=work,
        belongs_to=belongs_to,
        world=world,
    )

    new_y, new_split = draw_roots(
        y,
        split,
        config.num_samples or root.numel(),
        torch.Generator().manual_seed(stage_seed(config.seed, 'labels')),
    )
    sample_seed = stage_seed(config.seed, 'sample')
    tokens = sample(
        generator, new_y, sample_seed, device=device, log=log, split=new_split, world=world
    )
    if not world.is_first:
        return None
    trees = TokenTrees(tokens, new_y, new_split, num_tokens, source.num_classes, shape)
    trees.validate()
    return Build(trees, codebook, privacy, cluster, generator.cpu(), result)


def _quantize(source: Source, config: BuildConfig, device: torch.device, log: bool) -> Clustering:
    data = copy.copy(source.data)
    if source.split is not None:  # how the weight of the task is found depends on it
        data.train_mask = masks_of(source.split)['train_mask']
    with tqdm(desc='quantize', unit='step', disable=not log) as bar:

        def advance(step: int, total: int) -> None:
            bar.total = total
            bar.update()

        clustering = config.quantize(device).cluster(data, advance)
        bar.total = bar.n  # it stops where another step would not help
        bar.refresh()
    return clustering


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
