import pytest

from tests.helpers.cells import agreement_of, by_key, pair_cell, table_of
from torch_geometric_cgt.benchmark.cells import Cell, CellKey
from torch_geometric_cgt.benchmark.experiments import AGGREGATION, EXPERIMENTS, SAMPLING
from torch_geometric_cgt.report.experiment_tables import rows_not_run, tables_of


def test_every_cell_of_every_experiment_has_a_row():
    tables = tables_of({})
    assert [t.experiment.name for t in tables] == list(EXPERIMENTS)
    for table in tables:
        assert {row.key for row in table.rows} >= set(table.experiment.keys())
        assert {record['status'] for record in table.records()} == {'not run'}


def test_mean_and_deviation_over_seeds():
    cells = by_key(pair_cell(0.8, 0.7), pair_cell(0.6, 0.8, seed=1))
    first, second = table_of(cells).records()[:2]
    assert first['status'] == 'run' and first['seeds'] == 2
    assert first['original'] == pytest.approx(0.7)
    assert first['original std'] == pytest.approx(0.02**0.5)  # (0.1² + 0.1²) / (2 - 1)
    assert first['generated'] == pytest.approx(0.75)
    assert first['generated macro F1'] == pytest.approx(0.65)
    assert (first['paper original'], first['paper generated']) == (0.86, 0.76)
    assert second['status'] == 'not run' and second['original'] is None
    assert second['paper original'] == 0.85


def test_cells_beyond_the_plan_have_rows():
    extra = by_key(
        pair_cell(0.8, 0.7, dataset='Digits'),
        pair_cell(0.8, 0.7, experiment='mine', level='high'),
    )
    tables = tables_of(extra)
    assert tables[0].datasets[-1] == 'Digits' and len(tables[0].rows) == 85
    assert tables[-1].experiment.name == 'mine'
    assert [row.key.level for row in tables[-1].rows] == ['high']
    assert agreement_of(extra).num_same == 0


@pytest.mark.parametrize('scores', [{}, {'original': 0.8}, {'original': {'accuracy': 'high'}}])
def test_odd_scores_are_not_numbers(scores):
    cell = Cell(CellKey('aggregation', 'Cora', '0', 'GCN'), scores)
    row = table_of(by_key(cell)).rows[0]
    assert row.is_run and row.mean('original') is None


def said(cells, name):
    return rows_not_run(table_of(by_key(*cells), name))


def test_datasets_levels_and_models():
    cells = [pair_cell(0.8, 0.8, level=level, model=m) for level in '02' for m in AGGREGATION]
    cells += [
        pair_cell(0.8, 0.8, dataset, '0', m) for dataset in ('CS', 'Photo') for m in AGGREGATION
    ]
    cells.append(pair_cell(0.8, 0.8, 'Photo', '2', 'GCN'))
    assert said(cells, 'aggregation') == (
        'Cora (noisy edges 4); CiteSeer, PubMed, Computers, Physics (all); '
        'Photo (noisy edges 2 with SGC, GIN, GAT, 4); CS (noisy edges 2, 4)'
    )


def test_variants():
    some = [
        pair_cell(0.8, 0.8, model=m, experiment='ablation', variant=variant)
        for variant in EXPERIMENTS['ablation'].variants
        for m in (*AGGREGATION, *SAMPLING)
        if variant not in ('', 'no label') or m != 'PASS'
    ]
    some += [
        pair_cell(0.8, 0.8, model='PPNP', experiment='ablation', variant=variant)
        for variant in EXPERIMENTS['ablation'].variants
    ]
    assert said(some, 'ablation') == 'Cora [default, no label] (PASS); CiteSeer, PubMed (all)'


def test_nothing_is_missing():
    keys = EXPERIMENTS['control'].keys()
    cells = [
        pair_cell(0.8, 0.8, k.dataset, k.level, k.model, 'control', variant=k.variant) for k in keys
    ]
    assert said(cells, 'control') == ''
