from collections import Counter

import pytest

from tests.helpers.cells import table_of
from torch_geometric_cgt.benchmark.experiments import EXPERIMENTS, CellKey
from torch_geometric_cgt.benchmark.metrics import agreement
from torch_geometric_cgt.benchmark.variants import PAPER as PAPER_FORM
from torch_geometric_cgt.benchmark.variants import reidentification_of
from torch_geometric_cgt.report.experiment_tables import read_paper

PAPER = read_paper()
NOISE = 'attribute noise x5'


def pairs(experiment, variant='', dataset=None):
    rows = [
        row.mean
        for key, row in PAPER.items()
        if (key.experiment, key.variant) == (experiment, variant) and dataset in (None, key.dataset)
    ]
    return [r['original'] for r in rows], [r['generated'] for r in rows]


@pytest.mark.parametrize(
    'experiment, number, mse, pearson',
    [
        ('aggregation', 84, 0.0109, 0.920),
        ('sampling', 84, 0.0235, 0.938),
        ('number', 84, 0.0225, 0.967),
        ('shift', 84, 0.0068, 0.913),
        ('link', 40, 0.0076, 0.742),
    ],
)
def test_the_paper_reaches_what_it_is_known_to_reach(experiment, number, mse, pearson):
    original, generated = pairs(experiment)
    found = agreement(original, generated)
    assert len(original) == number
    assert round(found['mse'], 4) == mse and round(found['pearson'], 3) == pearson


@pytest.mark.parametrize(
    'experiment, dataset, mse',
    [
        ('aggregation', 'Physics', 0.0215),
        ('aggregation', 'Computers', 0.0063),
        ('sampling', 'CiteSeer', 0.0121),
        ('number', 'PubMed', 0.0143),
        ('shift', 'Photo', 0.0009),
    ],
)
def test_per_dataset(experiment, dataset, mse):
    assert round(agreement(*pairs(experiment, dataset=dataset))['mse'], 4) == mse


@pytest.mark.parametrize(
    'variant, mse, pearson, spearman',
    [
        ('', 0.0179, 0.944, 0.914),  # printed: 0.017 0.943 0.914
        ('no label', 0.0666, 0.593, 0.592),
        ('no layer position', 0.0723, 0.411, 0.413),
        ('no attention mask', 0.0854, 0.330, 0.287),
        ('none of the three', 0.0335, 0.739, 0.574),
    ],
)
def test_ablations(variant, mse, pearson, spearman):
    found = agreement(*pairs('ablation', variant))
    assert round(found['mse'], 4) == mse
    assert (round(found['pearson'], 3), round(found['spearman'], 3)) == (pearson, spearman)


def test_every_row_is_a_cell_of_an_experiment():
    for name in ('aggregation', 'sampling', 'number', 'shift', 'link', 'ablation', 'exchange'):
        planned = {k for k in EXPERIMENTS[name].keys() if k.variant != PAPER_FORM}
        assert {key for key in PAPER if key.experiment == name} == planned


def test_rows_by_hand():
    row = PAPER[CellKey('number', 'Cora', '3', 'GraphSAGE')]
    assert row.mean == {'original': 0.83, 'quantized': 0.74, 'generated': 0.69}
    assert row.std == {'original': 0.007, 'quantized': 0.008, 'generated': 0.018}
    assert row.doubtful == 'printed as level 2'
    exchanged = PAPER[CellKey('exchange', 'Cora', 'generated / original', 'GCN')]
    assert exchanged.mean == {'score': 0.77}


def test_doubtful_rows():
    found = Counter((key.experiment, row.doubtful) for key, row in PAPER.items() if row.doubtful)
    assert found == {
        ('aggregation', 'the row repeats the one of PubMed'): 8,
        ('number', 'printed as level 0'): 8,
        ('number', 'printed as level 2'): 8,
        ('number', 'printed as level 4'): 8,
        ('number', 'AS-GCN and FastGCN look swapped'): 6,
        ('shift', 'printed as GraphSage, GCN in the text'): 21,
        ('ablation', 'seems to be with one sampled neighbour, as in scenario 3'): 60,
        ('privacy', "printed as 'No privacy'; the numbers are those of scenario 1 with k = 30"): 12,
        ('privacy', 'with delta = 0.01: more than one of n nodes'): 36,
        ('privacy', 'with delta = 0.1: more than one of n nodes'): 24,
    }


@pytest.mark.parametrize(
    'variant, mse, pearson',  # as printed
    [
        ('k=30', 0.008, 0.934),
        ('k=100', 0.026, 0.916),
        ('k=500', 0.136, 0.862),
        ('k=1000', 0.427, 0.030),
        ('clusters epsilon=1', 0.134, 0.874),
        ('clusters epsilon=10', 0.093, 0.844),
        ('clusters epsilon=25', 0.063, 0.804),
        ('dp-sgd epsilon=1e6', 0.396, 0.112),
        ('dp-sgd epsilon=1e9', 0.053, 0.890),
    ],
)
def test_rows_give_what_the_paper_prints_of_privacy(variant, mse, pearson):
    found = agreement(*pairs('privacy', variant))
    assert (round(found['mse'], 3), round(found['pearson'], 3)) == (mse, pearson)


@pytest.mark.parametrize(
    'variant, mse, node, edge',  # as printed
    [
        ('edge addition x2', 0.021, 1, 0.5),
        ('edge addition x10', 0.168, 1, 0.1),
        ('edge deletion 50 %', 0.001, 1, 0.5),
        ('edge deletion 100 %', 0.014, 1, 0),
        (NOISE, 0.106, 0.2, 1),
        (f'{NOISE} + edge addition x2', 0.169, 0.2, 0.5),
        (f'{NOISE} + edge addition x10', 0.449, 0.2, 0.1),
        (f'{NOISE} + edge deletion 50 %', 0.120, 0.2, 0.5),
        (f'{NOISE} + edge deletion 100 %', 0.291, 0.2, 0),
        ('k=5', 0.001, 0.2, 0.2),
        ('k=100', 0.010, 0.01, 0.01),
        ('k=500', 0.114, 0.002, 0.002),
        ('k=1000', 0.548, 0.001, 0.001),
    ],
)
def test_rows_give_what_the_paper_prints_of_baselines(variant, mse, node, edge):
    assert agreement(*pairs('baselines', variant))['mse'] == pytest.approx(mse, abs=0.00051)
    assert reidentification_of(variant) == pytest.approx((node, edge))


def test_which_rows_the_paper_has():
    paper = set(PAPER)
    planned = set(EXPERIMENTS['baselines'].keys())
    assert {key for key in paper if key.experiment == 'baselines'} == planned
    planned = set(EXPERIMENTS['privacy'].keys())
    theirs = {key for key in paper if key.experiment == 'privacy'}
    assert {key.variant for key in theirs - planned} == {'dp-sgd epsilon=1e6', 'dp-sgd epsilon=1e9'}
    shown = {row.key for row in table_of({}, 'privacy').rows}
    assert shown == planned | theirs
