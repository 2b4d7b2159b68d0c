from tests.helpers.cells import agreement_of, by_key, pair_cell, some_cells, table_of
from torch_geometric_cgt.report.text_tables import TextTable, row_table, summary_table


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
    assert agreement_of(by_key(cell)).run == 0


def test_text_is_aligned():
    table = TextTable(
        'Title',
        ['Dataset', 'Model', 'Score'],
        [['Cora', 'GCN', '0.1'], ['Cora', 'a_b', '0.25 ± 0.1'], ['[x]', '*', 'not run']],
    )
    assert table.to_text().splitlines() == [
        'Dataset  Model       Score',
        'Cora     GCN           0.1',
        '         a_b    0.25 ± 0.1',
        '[x]      *         not run',
    ]


def test_leading_columns_are_shown_once():
    table = TextTable('', ['a', 'b', 'c'], [list(row) for row in ('xx1', 'xx2', 'xy3', 'yy4')], 2)
    assert table.grouped == [['x', 'x', '1'], ['', '', '2'], ['', 'y', '3'], ['y', 'y', '4']]
    assert [table.span(i) for i in range(4)] == [3, 0, 0, 1]


def test_text_of_summaries():
    cells = some_cells()
    lines = [('Noise', agreement_of(cells)), ('Link', agreement_of({}, 'link'))]
    table = summary_table('', 'Experiment', lines)
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
        return summary_table('', '', [('x', agreement_of(cells, dataset='Cora'))]).marks

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
    found = agreement_of(by_key(*shaky), dataset='Cora')
    assert found.common['mse'].high > found.same['mse'].value > found.common['mse'].value
    assert marks(by_key(*shaky))[0, 2] == 'better unsure'
    worse = [pair_cell(0.8, 0.5), pair_cell(0.7, 0.6, model='SGC')]
    assert (0, 2) not in marks(by_key(*worse))


def test_links_say_what_their_score_is():
    table = table_of({}, 'link')
    assert table.metric_name == 'AUC' and table_of({}).metric_name == 'accuracy'
    assert 'does not name its measure' in row_table(table).notes[0]


def test_broken_variant_is_never_better():
    cells = by_key(pair_cell(0.8, 0.8, experiment='ablation', variant='no label'))
    found = agreement_of(cells, 'ablation', variant='no label')
    assert found.is_better('mse')
    assert summary_table('', '', [('x', found)]).marks == {}


def test_distances_and_exchanged_graphs():
    line = row_table(table_of(some_cells(), 'statistics')).body[0]
    assert line == ['Cora', '5', '0.250', '0.250', '0.500', '0.500', '1']
    lines = row_table(table_of(some_cells(), 'exchange')).body
    assert lines[0] == ['Cora', 'original / original', 'GCN', 'not run', '', '0.860', '']
    assert lines[3] == ['Cora', 'generated / original', 'GCN', '0.810', '1', '0.770', '0.800']
