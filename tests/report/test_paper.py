from collections import Counter

import pytest

from torch_geometric_cgt.benchmark.cells import CellKey
from torch_geometric_cgt.benchmark.experiments import EXPERIMENTS
from torch_geometric_cgt.benchmark.metrics import agreement
from torch_geometric_cgt.benchmark.variants import PAPER as PAPER_FORM
from torch_geometric_cgt.report.paper import read_paper

PAPER = read_paper()


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
