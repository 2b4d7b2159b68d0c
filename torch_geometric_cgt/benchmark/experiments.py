r"""The experiments of the benchmark: the cells of each table, and what each cell computes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from torch_geometric_cgt.benchmark.gnn_training import ALL_MODELS
from torch_geometric_cgt.benchmark.variants import PAPER, find_variant
from torch_geometric_cgt.datasets import SOURCES

DATASETS = ('Cora', 'CiteSeer', 'PubMed', 'Computers', 'Photo', 'CS', 'Physics')
AGGREGATION = ('GCN', 'SGC', 'GIN', 'GAT')
SAMPLING = ('GraphSAGE', 'AS-GCN', 'FastGCN', 'PASS')
EDGES = ('edge addition x2', 'edge addition x10', 'edge deletion 50 %', 'edge deletion 100 %')
NOISE = 'attribute noise x5'

# What cells measure, and the version of that protocol. The version changes whenever scores change
# their meaning, so that older cells are not mixed with newer ones.
PROTOCOLS = {'classes': 1, 'links': 2, 'exchange': 1, 'statistics': 1}


@dataclass(frozen=True, order=True)
class CellKey:
    r"""Identifies a cell of a table."""

    experiment: str
    dataset: str
    level: str  # of the experiment, for instance '0' noisy edges
    model: str  # empty where no model is trained
    variant: str = ''  # of the generator; empty for the default
    seed: int = 0

    @classmethod
    def from_dict(cls, content: Any) -> CellKey:
        r"""Checks the content of a file, see :meth:`Cell.from_dict`."""
        if not isinstance(content, dict):
            raise ValueError('it has no key')
        *names, seed = asdict(key := cls(**content)).values()
        if not all(isinstance(name, str) for name in names) or type(seed) is not int:
            raise ValueError('its key is not made of names and a seed')
        return key


@dataclass(frozen=True)
class Experiment:
    r"""One table: datasets, levels, models and variants of the generator."""

    name: str
    title: str
    level_name: str
    levels: tuple[str, ...]
    models: tuple[str, ...]
    datasets: tuple[str, ...] = DATASETS
    variants: tuple[str, ...] = ('',)
    scenario: str | None = None  # its number in the paper
    metric: str = 'accuracy'
    variant_name: str = 'generator'
    compares_methods: bool = False  # by the risk of re-identification
    measures: str = 'classes'  # one of PROTOCOLS
    level_parameter: str = ''  # set by the level: noise, alpha, fan_out, num_sampled or none

    @property
    def protocol(self) -> int:
        return PROTOCOLS[self.measures]

    @property
    def trains(self) -> bool:
        r"""Whether cells train a GNN."""
        return self.measures != 'statistics'

    def keys(
        self,
        datasets: Sequence[str] | None = None,
        seeds: int = 1,
        levels: Sequence[str] | None = None,
        models: Sequence[str] | None = None,
        variants: Sequence[str] | None = None,
    ) -> list[CellKey]:
        r"""All cells of the table, or those of some datasets, levels, models
        and variants. Cells of the same generated graph are adjacent.
        """
        if datasets is not None:
            _check('datasets', datasets, tuple(SOURCES))
        if levels is not None:
            number = f' (scenario {self.scenario})' if self.scenario else ''
            _check('levels', levels, self.levels, f" of '{self.name}'{number}")
        if models is not None:
            _check('models', models, ALL_MODELS if self.models != ('',) else ('',))
        for variant in variants or ():
            find_variant(variant)
        return [
            CellKey(self.name, dataset, level, model, variant, seed)
            for seed in range(seeds)
            for dataset in datasets or self.datasets
            for level in levels or self.levels
            for variant in variants or self.variants
            for model in models or self.models
        ]


EXPERIMENTS = {
    e.name: e
    for e in (
        Experiment(
            'aggregation',
            'Noisy edges and aggregation',
            'noisy edges',
            ('0', '2', '4'),
            AGGREGATION,
            scenario='1',
            level_parameter='noise',
        ),
        Experiment(
            'sampling',
            'Noisy edges and sampling',
            'noisy edges',
            ('0', '2', '4'),
            SAMPLING,
            scenario='2',
            level_parameter='noise',
        ),
        Experiment(
            'number',
            'Number of sampled neighbours',
            'neighbours',
            ('1', '3', '5'),
            SAMPLING,
            scenario='3',
            level_parameter='num_sampled',
        ),
        Experiment(
            'shift',
            'Shift between training and test',
            'alpha',
            ('iid', '0.01', '0.3'),
            ('GCN', 'SGC', 'GAT', 'PPNP'),
            scenario='4',
            level_parameter='alpha',
        ),
        Experiment(
            'link',
            'Link prediction',
            'predictor',
            ('Dot', 'MLP'),
            AGGREGATION,
            DATASETS[:5],
            metric='auc',
            measures='links',
        ),
        Experiment(
            'ablation',
            'Parts of the generator left out',
            'noisy edges',
            ('0',),
            (*AGGREGATION, *SAMPLING, 'PPNP'),
            DATASETS[:3],
            (
                '',
                PAPER,
                'no label',
                'no layer position',
                'no attention mask',
                'none of the three',
            ),
            level_parameter='noise',
        ),
        Experiment(
            'exchange',
            'Trained on one graph, tested on another',
            'trained on / tested on',
            (
                'original / original',
                'CiteSeer / original',
                'PubMed / original',
                'generated / original',
                'original / generated',
                'generated / generated',
            ),
            ('GCN',),
            ('Cora',),
            measures='exchange',
        ),
        Experiment(
            'statistics',
            'Statistics of computation graphs',
            'neighbours',
            ('5', '20'),
            ('',),
            measures='statistics',
            level_parameter='fan_out',
        ),
        Experiment(
            'control',
            'Graphs that must not pass',
            'noisy edges',
            ('0',),
            AGGREGATION,
            DATASETS[:2],
            ('shuffled labels', 'random children'),
            level_parameter='noise',
        ),
        Experiment(
            'privacy',
            'Privacy and performance',
            'noisy edges',
            ('0', '2', '4'),
            AGGREGATION,
            DATASETS[:1],
            (
                'k=30',
                'k=100',
                'k=500',
                'k=1000',
                'clusters epsilon=1',
                'clusters epsilon=10',
                'clusters epsilon=25',
                'dp-sgd epsilon=1',
                'dp-sgd epsilon=10',
                'histograms epsilon=1',
                'histograms epsilon=10',
            ),
            variant_name='privacy',
            level_parameter='noise',
        ),
        Experiment(
            'baselines',
            'Simple privacy baselines',
            'noisy edges',
            ('0',),
            AGGREGATION,
            DATASETS[:1],
            (
                *EDGES,
                NOISE,
                *(f'{NOISE} + {edges}' for edges in EDGES),
                'k=5',
                'k=100',
                'k=500',
                'k=1000',
            ),
            variant_name='method',
            compares_methods=True,
            level_parameter='noise',
        ),
    )
}


def find_experiment(name: str) -> Experiment:
    r"""An experiment by its name or by its number in the paper."""
    for experiment in EXPERIMENTS.values():
        if name in (experiment.name, experiment.scenario):
            return experiment
    numbers = [e.scenario for e in EXPERIMENTS.values() if e.scenario]
    raise ValueError(f"Unknown scenario '{name}'; choose from {[*numbers, *EXPERIMENTS]}")


@dataclass(frozen=True)
class BenchmarkConfig:
    r"""The settings that all cells of a benchmark share."""

    k: int = 30
    num_neighbors: tuple[int, ...] = (5, 5)
    epochs: int | None = None  # of the generator; None: by the size of the graph

    def __post_init__(self) -> None:
        for name, value in [('k', self.k), ('epochs', self.epochs)]:
            if value is not None and value < 1:
                raise ValueError(f"'{name}' must be at least 1 (got {value})")


@dataclass(frozen=True)
class GraphSpec:
    r"""Which graphs a cell is measured on. Cells of several tables share them."""

    dataset: str
    num_neighbors: tuple[int, ...]
    noise: int = 0  # noisy edges per node
    alpha: float | None = None  # of a biased training set
    biased: bool = False  # whether training sets are chosen label by label
    variant: str = ''
    seed: int = 0


def graph_of(key: CellKey, config: BenchmarkConfig) -> GraphSpec:
    r"""The graphs that a cell is measured on.

    Args:
        key (CellKey): The cell.
        config (BenchmarkConfig): The settings of all cells.
    """
    if key.experiment not in EXPERIMENTS:
        raise ValueError(f"Unknown experiment '{key.experiment}'; choose from {list(EXPERIMENTS)}")
    experiment = EXPERIMENTS[key.experiment]
    variant = '' if key.variant == f'k={config.k}' else key.variant  # two names of one graph
    spec = GraphSpec(key.dataset, config.num_neighbors, variant=variant, seed=key.seed)
    if experiment.measures == 'links':  # both ends of an edge need a tree
        return replace(spec, num_neighbors=(config.num_neighbors[0], *config.num_neighbors))
    if experiment.level_parameter == 'noise':
        noise = int(key.level)
        grown = tuple(fan_out + noise for fan_out in config.num_neighbors)
        return replace(spec, num_neighbors=grown, noise=noise)
    if experiment.level_parameter == 'alpha':
        alpha = None if key.level == 'iid' else float(key.level)
        return replace(spec, alpha=alpha, biased=True)
    if experiment.level_parameter == 'fan_out':
        return replace(spec, num_neighbors=(int(key.level),) * len(config.num_neighbors))
    return spec


def num_sampled(key: CellKey, config: BenchmarkConfig) -> int | None:
    r"""The number of neighbours that the model of a cell samples. Noisy edges
    do not change it.
    """
    if EXPERIMENTS[key.experiment].level_parameter == 'num_sampled':
        return int(key.level)
    return config.num_neighbors[0] if key.model in SAMPLING else None


def computation_of(key: CellKey, config: BenchmarkConfig) -> Hashable:
    r"""Identifies the computation of a cell. Cells of different tables with
    equal values have equal scores.
    """
    graph = graph_of(key, config)
    measures = EXPERIMENTS[key.experiment].measures
    how = num_sampled(key, config) if measures == 'classes' else key.level
    return graph, measures, key.model, how


def _check(what: str, names: Sequence[str], allowed: tuple[str, ...], of: str = '') -> None:
    unknown = [name for name in names if name not in allowed]
    if unknown or not names:
        raise ValueError(f'Unknown {what} {unknown}{of}; choose from {list(allowed)}')
