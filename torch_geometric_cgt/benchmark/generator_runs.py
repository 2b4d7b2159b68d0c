r"""One generator on one graph: its build in a limited process, and the trees to score."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from torch_geometric_cgt.benchmark.evaluation import CEILING_SEED
from torch_geometric_cgt.benchmark.judge import CEILING
from torch_geometric_cgt.benchmark.metrics import (
    as_rows,
    duplicates,
    encode_source,
    generated_trees,
    histograms,
    wasserstein,
    zero_vectors,
)
from torch_geometric_cgt.benchmark.zoo import ZooConfig, ZooTrees, resplit, train_zoo, zoo_metrics
from torch_geometric_cgt.data import TokenTrees, TreeShape, masks_of, random_split
from torch_geometric_cgt.datasets import load_source
from torch_geometric_cgt.datasets.synthetic import SyntheticCGTDataset
from torch_geometric_cgt.pipeline.generator_choice import CGT, GENERATORS, GeneratorChoice
from torch_geometric_cgt.pipeline.source import Source, check_source
from torch_geometric_cgt.training import FitConfig
from torch_geometric_cgt.utils.run_limits import Limits
from torch_geometric_cgt.version import __version__

REFERENCE = {'model': 'Resampled'}  # a build with the clusters that all generators share
SHARED = ('original', CEILING, 'quantized')  # columns of a graph that do not need a generator
TILT = '+tilt'  # in the name of a generator
OWN_SPLITS = ('Actor', 'SquirrelFiltered', 'Minesweeper', 'Tolokers')
STATISTICS = {'zero vectors': zero_vectors, 'duplicates': duplicates}


@dataclass(frozen=True)
class ComparedGenerator:
    r"""A generator of a comparison.

    Args:
        name (str): Its name in tables, such as :obj:`"NGram+tilt"`.
        generator (dict): The argument :obj:`generator` of a dataset.
        fit (FitConfig): How to train CGT.
    """

    name: str
    generator: dict[str, Any] = field(default_factory=dict)
    fit: FitConfig = field(default_factory=FitConfig)

    @classmethod
    def of(
        cls, name: str, options: dict[str, Any] | None = None, epochs: int | None = None
    ) -> ComparedGenerator:
        r"""Reads the name of a generator, with ``+tilt`` for the view tilt.

        Args:
            name (str): The name.
            options (dict, optional): Further arguments of the generator.
                (default: :obj:`None`)
            epochs (int, optional): The number of epochs of CGT.
                (default: :obj:`None`)
        """
        model = name.removesuffix(TILT)
        tilt = {'tilt': True} if name.endswith(TILT) else {}
        choice = GeneratorChoice.of({'model': model, **tilt, **(options or {})})
        shown = choice.name + (TILT if choice.tilt else '')
        fit = FitConfig(epochs=epochs) if choice.is_cgt else FitConfig()
        return cls(shown, choice.to_dict(), fit)


@dataclass(frozen=True)
class ComparedGraph:
    r"""A graph of a comparison.

    Args:
        name (str): Its name in tables.
        load (callable): Returns the graph with the split of a seed.
    """

    name: str
    load: Callable[[int], Data]


@dataclass(frozen=True)
class BuildSettings:
    r"""What all builds of a comparison share.

    Args:
        k (int, optional): The minimum number of nodes of a feature vector.
            (default: :obj:`30`)
        num_neighbors (tuple[int, ...], optional): The fan-out of each layer.
            (default: :obj:`(5, 5)`)
    """

    k: int = 30
    num_neighbors: tuple[int, ...] = (5, 5)


def named_graph(name: str, seed: int) -> Data:
    r"""A named graph as in the paper: the largest component, split 50/10/40 by the
    seed. Heterophilous graphs have their own splits.

    Args:
        name (str): The name.
        seed (int): The seed of the split.
    """
    own = name in OWN_SPLITS
    data = load_source(name, largest_component=not own, random_split=not own)[0]
    if not own:
        data.update(masks_of(random_split(data.y >= 0, seed)))
    return data


def build_generator(
    data: Data,
    generator: ComparedGenerator,
    settings: BuildSettings,
    seed: int,
    root: Path,
    limits: Limits | None = None,
    again: bool = False,
) -> SyntheticCGTDataset:
    r"""Builds a synthetic dataset, or reads it.

    Args:
        data (Data): The graph.
        generator (ComparedGenerator): The generator.
        settings (BuildSettings): What all builds share.
        seed (int): The seed of the build.
        root (Path): The folder of builds.
        limits (Limits, optional): The time and the memory of the build.
            (default: :obj:`None`)
        again (bool, optional): Whether to build what is there already.
            (default: :obj:`False`)
    """
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # homogeneous clusters, and other builds of the graph
        return SyntheticCGTDataset(
            data,
            k=settings.k,
            num_neighbors=settings.num_neighbors,
            root=root,
            seed=seed,
            device='cpu',
            force_reload=again,
            log=False,
            generator=generator.generator,
            fit=generator.fit,
            limits=limits,
        )


def measure_build(
    data: Data,
    generator: ComparedGenerator,
    settings: BuildSettings,
    seed: int,
    root: Path,
    limits: Limits,
) -> dict[str, Any]:
    r"""Builds anew and returns what is guaranteed. Runs in a limited process. The
    arguments are those of :meth:`build_generator`.
    """
    dataset = build_generator(data, generator, settings, seed, root, limits, again=True)
    return {
        'guaranteed': guarantee_of(dataset),
        'sentences': dataset.privacy.guaranteed,
        'not_guaranteed': dataset.privacy.not_guaranteed,
    }


def guarantee_of(dataset: SyntheticCGTDataset) -> str:
    r"""What is guaranteed, in a few words.

    Args:
        dataset (SyntheticCGTDataset): The dataset.
    """
    card = dataset.privacy
    words = f'k = {card.k_reached} per feature vector' if card.k_reached != 1 else 'nothing'
    return f'{words}; neighbourhoods are COPIES' if card.copies_trees else words


class GraphScores:
    r"""The trees of one graph and seed, cut into batches, and scores of GNNs on them.

    Args:
        data (Data): The graph.
        settings (BuildSettings): What all builds share.
        seed (int): The seed of builds and training.
        root (Path): The folder of builds.
    """

    def __init__(self, data: Data, settings: BuildSettings, seed: int, root: Path) -> None:
        self.data, self.settings, self.seed, self.root = data, settings, seed, root
        self.source: Source = check_source(data)
        self._batches: dict[str, ZooTrees] = {}

    @cached_property
    def reference(self) -> SyntheticCGTDataset:
        r"""A build with the clusters of all generators, which have the same seed."""
        own = ComparedGenerator('reference', REFERENCE)
        return build_generator(self.data, own, self.settings, self.seed, self.root)

    def dataset(self, generator: ComparedGenerator) -> SyntheticCGTDataset:
        r"""The kept build of a generator."""
        return build_generator(self.data, generator, self.settings, self.seed, self.root)

    @cached_property
    def quantized(self) -> TokenTrees:
        r"""Computation graphs of the source over its codebook."""
        assert self.reference.cluster is not None
        codebook = as_rows(self.reference.codebook)
        encoded = self._encode(0)
        return encoded.map_tokens(self.reference.cluster, codebook.size(0), codebook)

    def shared(self, column: str) -> ZooTrees:
        r"""The batches of the original, the ceiling or the quantized graph."""
        if column not in self._batches:
            if column == 'quantized':
                trees = self.quantized
            else:
                run = CEILING_SEED if column == CEILING else 0
                encoded = self._encode(run)
                x = as_rows(self.source.data.x)
                trees = encoded.map_tokens(None, encoded.num_tokens, x)
                trees = resplit(trees, CEILING_SEED + self.seed) if run else trees
            self._batches[column] = ZooTrees(trees, seed=self.seed)
        return self._batches[column]

    def score(
        self, name: str, batches: ZooTrees, config: ZooConfig, transfer: bool, is_ceiling: bool
    ) -> dict[str, Any]:
        r"""Trains a model and returns its score and, after the test on the original, its
        transfer.
        """
        seed = CEILING_SEED + self.seed if is_ceiling else self.seed
        model = train_zoo(name, batches, seed, config)
        metric = batches.metric
        found = {'metric': metric, 'score': zoo_metrics(model, batches.test, self.seed)[metric]}
        if transfer:
            test = self.shared('original').test
            found['transfer'] = zoo_metrics(model, test, self.seed)[metric]
        return found

    def statistics(self, dataset: SyntheticCGTDataset) -> dict[str, Any]:
        r"""Histograms of null slots and duplicates, and their Wasserstein distances to
        the quantized graph.
        """
        trees = {'quantized': self.quantized, 'generated': generated_trees(dataset)}
        out: dict[str, Any] = {'histograms': {}, 'wasserstein': {}}
        for name, statistic in STATISTICS.items():
            counts = histograms(statistic, trees)
            out['histograms'][name] = counts
            out['wasserstein'][name] = wasserstein(counts['generated'], counts['quantized'])
        return out

    def _encode(self, run: int) -> TokenTrees:
        return encode_source(self.source, TreeShape.of(self.settings.num_neighbors), self.seed, run)


def recipe_of(graph: Data, settings: BuildSettings, more: dict[str, Any] | None = None) -> str:
    r"""A digest of a graph and of the settings that its results depend on.

    Args:
        graph (Data): The graph.
        settings (BuildSettings): What all builds share.
        more (dict, optional): Further settings. (default: :obj:`None`)
    """
    content = {
        'source': check_source(graph).fingerprint(),
        'settings': asdict(settings),
        'version': __version__,
        **(more or {}),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def default_generators() -> list[str]:
    r"""The names of all generators, CGT first."""
    return [CGT, *(name for name in GENERATORS if name != CGT)]
