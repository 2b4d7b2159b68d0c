"""Tables of a comparison of generators."""

from tests.helpers.comparisons import compared, results
from torch_geometric_cgt.benchmark.generator_verdicts import compare_results
from torch_geometric_cgt.report.generator_tables import generator_table, overall_table


def test_each_generator_has_a_line():
    table = generator_table(compared())
    lines = {row[1]: dict(zip(table.header, row, strict=True)) for row in table.body[:6]}
    assert list(lines) == ['ceiling', 'quantized', 'CGT', 'NGram', 'VGAE', 'Broken']
    assert lines['CGT']['MSE'] == '0.00013' and lines['CGT']['x ceiling'] == '2.0'
    assert lines['CGT']['Spearman'].startswith('1.00')
    assert lines['CGT']['W zero'] == '0.25' and lines['CGT']['W dup.'] == '0.50'
    assert lines['CGT']['Attack AUC'] == '0.60 [0.55, 0.65]'
    assert (lines['CGT']['CPU min'], lines['CGT']['GiB']) == ('1.0', '1.0')
    assert lines['NGram']['Guaranteed'].endswith('COPIES')
    assert lines['VGAE']['MSE'] == 'out of memory' and lines['VGAE']['Spearman'] == ''
    assert lines['Broken']['MSE'] == 'failed: MLP on its trees: ValueError: no roots'
    assert 'out of memory' in table.to_text()


def test_a_build_whose_processor_time_is_not_known_has_no_time():
    old = [{k: v for k, v in r.items() if k != 'processor_seconds'} for r in results()]
    table = generator_table(compare_results(old))
    line = dict(zip(table.header, table.body[2], strict=True))
    assert (line['Generator'], line['CPU min'], line['GiB']) == ('CGT', '-', '1.0')


def test_correlations_without_meaning_are_not_printed():
    flat = {'original': [0.7, 0.701, 0.7], 'ceiling': [0.6, 0.8, 0.7], 'CGT': [0.7, 0.7, 0.701]}
    table = generator_table(compare_results(results(scores=flat)))
    line = dict(zip(table.header, table.body[1], strict=True))
    assert (line['Generator'], line['Pearson'], line['Spearman']) == ('CGT', '-', '-')
    assert table.notes[0].startswith('tiny: no correlations, models differ by')


def test_all_graphs_have_a_table():
    table = overall_table(compared())
    lines = {row[0]: row[1:] for row in table.body}
    assert lines['CGT'][:2] == ['2 of 2', '0.00013'] and lines['NGram'][-1] == '-1.000'
