import json

import pytest

from tests.helpers.pages import CHROMIUM, Page, look
from tests.helpers.zoo import judged
from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.report.html_pages import render_graphs
from torch_geometric_cgt.report.publication import publication_of
from torch_geometric_cgt.report.report_files import write_graphs
from torch_geometric_cgt.report.zoo_tables import (
    evaluation_tables,
    graphs_table,
    joined_table,
    judged_table,
    read_judged,
    views_table,
)

REASON = 'models differ by 0.0010, below the noise of seeds 0.0020'
STATISTICS = {
    'num_nodes': 2485,
    'num_edges': 5069,
    'mean_degree': 4.0797,
    'max_degree': 168,
    'degree_exponent': None,
    'tail_start': 6,
    'homophily': 0.8041,
    'assortativity': -0.0714,
    'clustering': 0.2376,
    'transitivity': 0.09,
}
BOTH = {
    'statistics': {'original': STATISTICS, 'generated': {**STATISTICS, 'max_degree': 1110}},
    'degree_distance': {'original': 0.0, 'generated': 0.1553},
    'scores': {'original': {'GCN': 0.871}, 'generated': {'GCN': 0.81}},
}


def test_measures_of_one_graph():
    table = judged_table(judged())
    assert table.header[:3] == ['Column', 'MSE', 'x ceiling']
    ceiling, generated = table.body
    assert ceiling[:3] == ['Ceiling', '0.00100', '1.0'] and ceiling[-1] == ''
    assert generated == [
        'Generated',
        '0.00200',
        '2.0',
        *['0.70 [0.60, 0.80]'] * 3,
        '1.00',
        '0.020',
        '0.650',
    ]
    assert 'accuracy' in table.notes[-1] and 'itself: 0.750' in table.notes[-1]
    assert 'ROC AUC' in judged_table(judged(metric='roc_auc')).notes[-1]


def test_a_correlation_below_the_noise_is_no_number():
    table = judged_table(judged(reason=REASON))
    assert all(row[3:6] == ['-'] * 3 for row in table.body)
    assert table.notes[0] == f'No correlations: {REASON}.'
    text = render_graphs(graphs_table([('Cora', judged(reason=REASON)), ('Actor', judged())]))
    assert f'Cora: {REASON}.' in text


def test_means_over_graphs():
    table = graphs_table([('Cora', judged()), ('Actor', judged(4.0, REASON))])
    assert [row[0] for row in table.body] == ['Cora'] * 2 + ['Actor'] * 2 + ['Mean'] * 2
    mean = table.body[-1]
    assert mean[2:7] == ['0.00300', '3.0', '0.70', '0.70', '0.70']  # correlations: Cora's alone
    assert len(graphs_table([('Cora', judged())]).body) == 2  # no mean of one graph


def test_views():
    views = {'root': {'original': 0.5, 'generated': 0.25}, 'children': {'original': 0.75}}
    table = views_table(views)
    assert table.header == ['View', 'Original', 'Generated']
    assert table.body == [['root', '0.500', '0.250'], ['children', '0.750', 'n/a']]
    assert evaluation_tables({'judged': None, 'views': {}}) == []
    found = evaluation_tables({'judged': judged(), 'views': views})
    assert [table.title for table in found] == ['Ranking of models', 'Views']


def test_files_of_several_graphs(tmp_path):
    paths = []
    for name in ('Cora', '<b>x</b>'):
        path = tmp_path / f'{len(paths)}.json'
        path.write_text(json.dumps({'card': {'source': {'name': name}}, 'judged': judged()}))
        paths.append(path)
    graphs = read_judged(paths)
    written = write_graphs(tmp_path / 'out', graphs)
    assert [path.name for path in written] == ['zoo.json', 'zoo.md', 'zoo.html']
    assert json.loads(written[0].read_text())[0]['source'] == 'Cora'
    page = Page(written[2].read_text())
    assert page.links == [] and page.tags.count('table') == 1
    assert '<b>x</b>' not in written[2].read_text() + written[1].read_text()
    assert 'Generated' in written[1].read_text()


@pytest.mark.parametrize(
    'content, error, message',
    [
        ('[]', CorruptFileError, 'no report'),
        ('{"card": {}}', CorruptFileError, 'no report'),
        ('{', CorruptFileError, 'no report'),
        ('{"card": {"source": {"name": "Cora"}}, "judged": null}', ValueError, '--zoo'),
    ],
)
def test_other_files_are_refused(tmp_path, content, error, message):
    (tmp_path / 'report.json').write_text(content)
    with pytest.raises(error, match=message):
        read_judged([tmp_path / 'report.json'])


@pytest.mark.skipif(CHROMIUM is None, reason='there is no chromium to open the page with')
def test_page_in_a_browser(tmp_path):
    graphs = [('Cora', judged()), ('squirrel_filtered', judged(3, REASON))]
    page = render_graphs(graphs_table(graphs)).replace('</body>', '<figure><svg/></figure></body>')
    for found in look(page, tmp_path, [360, 1200]):
        assert found['errors'] == [] and found['loaded'] == 0
        assert found['needed'] == found['width']  # nothing sticks out
        assert max(found['boxes']) <= found['width']
        margin = 40 if found['width'] == 360 else 100
        ends = found['ends']
        assert all(right <= found['width'] and 0 <= left < margin for left, right in ends)


def test_the_table_by_hand():
    table = joined_table(BOTH)
    assert table.header == ['', 'Original', 'Joined trees']
    rows = {row[0]: row[1:] for row in table.body}
    assert rows['Nodes'] == ['2,485', '2,485'] and rows['Largest degree'] == ['168', '1,110']
    assert rows['Wasserstein distance of degrees'] == ['0.000', '0.155']
    assert rows['Exponent of degrees'] == ['', ''] and rows['Homophily of edges'][0] == '0.804'
    assert rows['GCN, accuracy'] == ['0.871', '0.810']
    assert 'degrees of at least 6' in table.notes[0]


def test_without_a_source_there_is_no_distance():
    alone = {name: {'generated': part['generated']} for name, part in BOTH.items()}
    alone['degree_distance'] = {}
    table = joined_table(alone)
    assert table.header == ['', 'Joined trees']
    assert not any('Wasserstein' in row[0] for row in table.body)


def test_statistics_of_the_source_are_not_for_publication():
    card = {'privacy': {'mechanism': 'k-anonymity'}}
    report = {'scores': {'generated': {}}, 'histograms': {}, 'card': card, 'graph': BOTH}
    found = publication_of(report)
    assert not found['publishable'] and 'as one graph' in found['notice']
    report['graph'] = {'statistics': {'generated': STATISTICS}}
    assert publication_of(report)['publishable']
