import pytest

from torch_geometric_cgt.datasets.column_encoding import EncodingOptions
from torch_geometric_cgt.datasets.edge_table import read_edges
from torch_geometric_cgt.errors import SourceError

IDS = ['a', '1', '02']


def read(tmp_path, text, directed=False, drop=()):
    (tmp_path / 'edges.csv').write_text(text)
    return read_edges(tmp_path / 'edges.csv', IDS, directed, drop, EncodingOptions())


@pytest.mark.parametrize('names', ['source,target', 'src,dst', 'from,to', 'x,y'])
def test_edges_get_both_directions(tmp_path, names):
    edges = read(tmp_path, f'{names}\na,1\n02,1\n')
    assert edges.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert edges.edge_weight is None and edges.edge_attr is None
    assert edges.counts.startswith('2 rows, both directions; 0 self-loops removed, 0 duplicates')


def test_endpoints_are_found_by_name_before_their_place(tmp_path):
    edges = read(tmp_path, 'weight,target,source\n2,1,a\n', directed=True)
    assert edges.edge_index.tolist() == [[0], [1]] and edges.edge_weight.tolist() == [2]


def test_self_loops_and_duplicates_are_counted_and_weights_averaged(tmp_path):
    text = 'source,target,weight,kind,n\na,1,1,u,5\n1,a,3,v,7\na,a,9,u,1\n02,1,4,v,0\n'
    edges = read(tmp_path, text)
    assert edges.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert edges.edge_weight.tolist() == [2, 2, 4, 4]
    assert edges.edge_attr.tolist() == [[0.5, 0.5, 6], [0.5, 0.5, 6], [0, 1, 0], [0, 1, 0]]
    assert '4 rows' in edges.counts and '1 self-loops removed, 1 duplicates' in edges.counts
    assert [each.role for each in edges.decisions] == [
        'edges',
        'edge weight',
        'edge numeric',
        'edge one-hot',
    ]


def test_directed_edges_stay_as_they_are(tmp_path):
    edges = read(tmp_path, 'source,target,weight\na,1,1\n1,a,3\na,1,2\n', directed=True)
    assert edges.edge_index.tolist() == [[0, 1], [1, 0]]
    assert edges.edge_weight.tolist() == [1.5, 3] and '1 duplicates merged' in edges.counts


def test_columns_are_left_out(tmp_path):
    edges = read(tmp_path, 'source,target,note\na,1,hello\n', drop=['note'])
    assert edges.edge_attr is None


@pytest.mark.parametrize(
    'text, message',
    [
        (
            'source,target\na,2\nb,2\na,1\n',
            r"2 ids .*, 3 times, e.g. 'b', '2'.*like 'a', '1', '02'",
        ),
        ('source,target\na,\n', "1 rows .*no id in column 'target'"),
        ('source\na\n', 'needs two columns'),
        ('source,target,weight\na,1,\n', "'weight' in 1 rows"),
    ],
)
def test_a_wrong_table_ends_with_a_sentence(tmp_path, text, message):
    with pytest.raises(SourceError, match=message):
        read(tmp_path, text)
