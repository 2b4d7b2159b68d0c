import pytest

from tests.helpers.cells import by_key, pair_cell, some_cells
from torch_geometric_cgt.benchmark.cells import Cell, CellKey
from torch_geometric_cgt.benchmark.experiments import EXPERIMENTS
from torch_geometric_cgt.benchmark.metrics import Estimate
from torch_geometric_cgt.report.summary import summarize
from torch_geometric_cgt.report.tables import tables_of
from torch_geometric_cgt.report.text_tables import TextTable, row_table, summary_table


def table_of(cells, name='aggregation'):
    return next(table for table in tables_of(cells) if table.experiment.name == name)


def total(cells, name='aggregation', dataset='', variant=''):
    found = summarize(table_of(cells, name))
    return next(s for s in found if (s.dataset, s.variant) == (dataset, variant))


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


def test_text_of_rows():
    cells = by_key(pair_cell(0.8, 0.7), pair_cell(0.6, 0.8, seed=1), pair_cell(0.5, 0.5, level='2'))
    table = row_table(table_of(cells))
    assert table.header[:3] == ['Dataset', 'Noisy edges', 'Model']
    shown = {tuple(row[:3]): row[3:] for row in table.body}
    assert shown['Cora', '0', 'GCN'] == [
        '0.700 ± 0.141',
        '0.690 ± 0.141',
        '0.750 ± 0.071',
        '+0.050',
        '2',
        '0.860',
        '0.830',  # the paper's quantized graph
        '0.760',
        '-0.100',
        '0.600 ± 0.141',  # macro F1
        '0.650 ± 0.071',
    ]
    assert table.header[8:] == [
        *(f'Paper: {name}' for name in ('original', 'quantized', 'generated', 'difference')),
        'Macro F1: original',
        'Macro F1: generated',
    ]
    assert shown['Cora', '2', 'GCN'][:5] == ['0.500', '0.490', '0.500', '+0.000', '1']
    assert shown['Cora', '0', 'SGC'][:5] == ['not run', 'not run', 'not run', '', '']
    assert shown['Computers', '2', 'GCN'][-4:] == ['0.680 [1]', '-0.100', '', '']
    assert table.notes == ['[1] the row repeats the one of PubMed']
    assert len(table.body) == 84


def test_score_that_a_cell_lacks_is_not_called_not_run():
    cell = pair_cell(0.8, float('nan'))
    line = row_table(table_of(by_key(cell))).body[0]
    assert line[3:8] == ['0.800', '0.790', 'n/a', 'n/a', '1']
    assert total(by_key(cell)).run == 0


def test_leading_columns_are_shown_once():
    table = TextTable('', ['a', 'b', 'c'], [list(row) for row in ('xx1', 'xx2', 'xy3', 'yy4')], 2)
    assert table.grouped == [['x', 'x', '1'], ['', '', '2'], ['', 'y', '3'], ['y', 'y', '4']]
    assert [table.span(i) for i in range(4)] == [3, 0, 0, 1]


def test_summary_on_the_same_rows_and_on_all():
    # The paper: 0.86 and 0.76 for GCN, 0.85 and 0.75 for SGC.
    cells = by_key(pair_cell(0.8, 0.75), pair_cell(0.7, 0.75, model='SGC'))
    found = total(cells)
    assert (found.run, found.asked, found.num_same, found.num_paper) == (2, 84, 2, 84)
    assert found.ours['mse'].value == pytest.approx(0.0025)
    assert found.ours['top1'].value == pytest.approx(1 / 2)  # a tie on the generated graph
    assert found.same['mse'].value == pytest.approx(0.01)
    assert found.same['top1'].value == 1
    assert round(found.paper['mse'].value, 4) == 0.0109
    assert found.is_better('mse') and not found.is_better('top1')
    assert not found.is_better('kendall')  # not defined: ours are tied
    cora = total(cells, dataset='Cora')
    assert (cora.run, cora.asked, cora.num_paper) == (2, 12, 12)
    assert total(cells, dataset='Photo').ours['mse'] == Estimate(None)


def test_summary_has_intervals_with_several_seeds_only():
    one = by_key(pair_cell(0.8, 0.75))
    assert total(one).ours['mse'].low is None
    two = one | by_key(pair_cell(0.8, 0.65, seed=1))
    found = total(two).ours['mse']
    assert (found.low, found.value, found.high) == pytest.approx((0.0025, 0.01, 0.0225))


def test_text_of_summaries():
    cells = some_cells()
    table = summary_table('', 'Experiment', [('Noise', total(cells)), ('Link', total({}, 'link'))])
    assert [row[1] for row in table.body] == [
        'ours',
        'paper, same rows',
        'paper, all rows',
        'ours',
        'paper, all rows',
    ]
    assert [row[-1] for row in table.body] == ['16 of 84', '16', '84', '0 of 40', '40']
    assert table.body[2][2] == '0.0109'
    assert '[' in table.body[0][2]
    assert set(table.body[3][2:-1]) == {'not run'}
    assert table.marks[0, 2] == 'better'


def test_better_needs_an_interval_or_enough_pairs():
    def marks(cells):
        return summary_table('', '', [('x', total(cells, dataset='Cora'))]).marks

    # The paper's MSE is 0.01 on these rows of Cora.
    few = [pair_cell(0.8, 0.79), pair_cell(0.7, 0.69, model='SGC')]
    assert marks(by_key(*few))[0, 2] == 'better unsure'
    many = [
        pair_cell(0.8, 0.79, level=level, model=model)
        for level in '02'
        for model in ('GCN', 'SGC', 'GIN', 'GAT')
    ]
    assert marks(by_key(*many))[0, 2] == 'better'
    assert marks(by_key(*many[:-1]))[0, 2] == 'better unsure'
    steady = [
        *many,
        *(pair_cell(0.8, 0.79, level=c.key.level, model=c.key.model, seed=1) for c in many),
    ]
    assert marks(by_key(*steady))[0, 2] == 'better'
    shaky = [
        *many,
        *(pair_cell(0.8, 0.65, level=c.key.level, model=c.key.model, seed=1) for c in many),
    ]
    found = total(by_key(*shaky), dataset='Cora')
    assert found.common['mse'].high > found.same['mse'].value > found.common['mse'].value
    assert marks(by_key(*shaky))[0, 2] == 'better unsure'
    worse = [pair_cell(0.8, 0.5), pair_cell(0.7, 0.6, model='SGC')]
    assert (0, 2) not in marks(by_key(*worse))


def test_rows_that_the_paper_lacks_do_not_make_it_better():
    cells = [pair_cell(0.8, 0.65), pair_cell(0.8, 0.65, model='SGC')]
    extra = [pair_cell(0.8, 0.8, model=f'mine {i}') for i in range(8)]
    found = total(by_key(*cells, *extra), dataset='Cora')
    assert found.ours['mse'].value < found.same['mse'].value < found.common['mse'].value
    assert not found.is_better('mse')


def test_links_say_what_their_score_is():
    table = table_of({}, 'link')
    assert table.metric_name == 'AUC' and table_of({}).metric_name == 'accuracy'
    assert 'does not name its measure' in row_table(table).notes[0]


def test_broken_variant_is_never_better():
    cells = by_key(pair_cell(0.8, 0.8, experiment='ablation', variant='no label'))
    found = total(cells, 'ablation', variant='no label')
    assert found.is_better('mse')
    assert summary_table('', '', [('x', found)]).marks == {}


def test_distances_and_exchanged_graphs():
    line = row_table(table_of(some_cells(), 'statistics')).body[0]
    assert line == ['Cora', '5', '0.250', '0.250', '0.500', '0.500', '1']
    lines = row_table(table_of(some_cells(), 'exchange')).body
    assert lines[0] == ['Cora', 'original / original', 'GCN', 'not run', '', '0.860', '']
    assert lines[3] == ['Cora', 'generated / original', 'GCN', '0.810', '1', '0.770', '0.800']


def test_cells_beyond_the_plan_have_rows():
    extra = by_key(
        pair_cell(0.8, 0.7, dataset='Digits'),
        pair_cell(0.8, 0.7, experiment='mine', level='high'),
    )
    tables = tables_of(extra)
    assert tables[0].datasets[-1] == 'Digits' and len(tables[0].rows) == 85
    assert tables[-1].experiment.name == 'mine'
    assert [row.key.level for row in tables[-1].rows] == ['high']
    assert total(extra).num_same == 0


@pytest.mark.parametrize('scores', [{}, {'original': 0.8}, {'original': {'accuracy': 'high'}}])
def test_odd_scores_are_not_numbers(scores):
    cell = Cell(CellKey('aggregation', 'Cora', '0', 'GCN'), scores)
    row = table_of(by_key(cell)).rows[0]
    assert row.is_run and row.mean('original') is None
