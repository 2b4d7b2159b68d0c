import pytest

from tests.helpers.cells import agreement_of, by_key, pair_cell, table_of
from torch_geometric_cgt.benchmark.cells import Cell
from torch_geometric_cgt.benchmark.experiments import AGGREGATION, EXPERIMENTS, SAMPLING, CellKey
from torch_geometric_cgt.benchmark.metrics import Estimate
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


def test_summary_on_the_same_rows_and_on_all():
    # The paper: 0.86 and 0.76 for GCN, 0.85 and 0.75 for SGC.
    cells = by_key(pair_cell(0.8, 0.75), pair_cell(0.7, 0.75, model='SGC'))
    found = agreement_of(cells)
    assert (found.run, found.asked, found.num_same, found.num_paper) == (2, 84, 2, 84)
    assert found.ours['mse'].value == pytest.approx(0.0025)
    assert found.ours['top1'].value == pytest.approx(1 / 2)  # a tie on the generated graph
    assert found.same['mse'].value == pytest.approx(0.01)
    assert found.same['top1'].value == 1
    assert round(found.paper['mse'].value, 4) == 0.0109
    assert found.is_better('mse') and not found.is_better('top1')
    assert not found.is_better('kendall')  # not defined: ours are tied
    cora = agreement_of(cells, dataset='Cora')
    assert (cora.run, cora.asked, cora.num_paper) == (2, 12, 12)
    assert agreement_of(cells, dataset='Photo').ours['mse'] == Estimate(None)


def test_summary_has_intervals_with_several_seeds_only():
    one = by_key(pair_cell(0.8, 0.75))
    assert agreement_of(one).ours['mse'].low is None
    two = one | by_key(pair_cell(0.8, 0.65, seed=1))
    found = agreement_of(two).ours['mse']
    assert (found.low, found.value, found.high) == pytest.approx((0.0025, 0.01, 0.0225))


def test_rows_that_the_paper_lacks_do_not_make_it_better():
    cells = [pair_cell(0.8, 0.65), pair_cell(0.8, 0.65, model='SGC')]
    extra = [pair_cell(0.8, 0.8, model=f'mine {i}') for i in range(8)]
    found = agreement_of(by_key(*cells, *extra), dataset='Cora')
    assert found.ours['mse'].value < found.same['mse'].value < found.common['mse'].value
    assert not found.is_better('mse')
