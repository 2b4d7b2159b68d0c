r"""The experiments of the benchmark, as data: who is measured where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch_geometric_cgt.benchmark.cells import CellKey
from torch_geometric_cgt.benchmark.models import ALL_MODELS
from torch_geometric_cgt.benchmark.variants import PAPER, find_variant
from torch_geometric_cgt.datasets import SOURCES

DATASETS = ('Cora', 'CiteSeer', 'PubMed', 'Computers', 'Photo', 'CS', 'Physics')
AGGREGATION = ('GCN', 'SGC', 'GIN', 'GAT')
SAMPLING = ('GraphSAGE', 'AS-GCN', 'FastGCN', 'PASS')
EDGES = ('edge addition x2', 'edge addition x10', 'edge deletion 50 %', 'edge deletion 100 %')
NOISE = 'attribute noise x5'

# What cells measure, and the protocol of that: another number whenever scores change their meaning,
# so that cells of before are not taken for what is measured now.
PROTOCOLS = {'classes': 1, 'links': 2, 'exchange': 1, 'statistics': 1}


@dataclass(frozen=True)
class Experiment:
    r"""One table: datasets x levels x models x variants of the generator."""

    name: str
    title: str
    level_name: str
    levels: tuple[str, ...]
    models: tuple[str, ...]
    datasets: tuple[str, ...] = DATASETS
    variants: tuple[str, ...] = ('',)
    scenario: str | None = None  # the number it has in the paper
    metric: str = 'accuracy'
    variant_name: str = 'generator'
    compares_methods: bool = False  # by what others could find out
    measures: str = 'classes'  # one of PROTOCOLS
    level_is: str = ''  # 'noise', 'alpha', 'fan_out' or 'num_sampled', where it is a number

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
        and variants. Cells that share a generated graph are together.
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


def _check(what: str, names: Sequence[str], known: tuple[str, ...], of: str = '') -> None:
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ValueError(f'Unknown {what} {unknown}{of}; choose from {list(known)}')


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
            level_is='noise',
        ),
        Experiment(
            'sampling',
            'Noisy edges and sampling',
            'noisy edges',
            ('0', '2', '4'),
            SAMPLING,
            scenario='2',
            level_is='noise',
        ),
        Experiment(
            'number',
            'Number of sampled neighbours',
            'neighbours',
            ('1', '3', '5'),
            SAMPLING,
            scenario='3',
            level_is='num_sampled',
        ),
        Experiment(
            'shift',
            'Shift between training and test',
            'alpha',
            ('iid', '0.01', '0.3'),
            ('GCN', 'SGC', 'GAT', 'PPNP'),
            scenario='4',
            level_is='alpha',
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
            level_is='noise',
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
            level_is='fan_out',
        ),
        Experiment(
            'control',
            'Graphs that must not pass',
            'noisy edges',
            ('0',),
            AGGREGATION,
            DATASETS[:2],
            ('shuffled labels', 'random children'),
            level_is='noise',
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
            level_is='noise',
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
            level_is='noise',
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
