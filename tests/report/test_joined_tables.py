"""The table of a release as one graph."""

from torch_geometric_cgt.report.joined_tables import joined_table
from torch_geometric_cgt.report.publication import publication_of

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
