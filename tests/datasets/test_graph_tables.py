"""The tables of nodes and edges of a graph."""

import pytest
import torch

from torch_geometric_cgt.datasets.column_encoding import EncodingOptions
from torch_geometric_cgt.datasets.graph_tables import read_edges, read_nodes
from torch_geometric_cgt.errors import SourceError

REFUSED = {
    'no id': ('key,y,a\n0,0,1\n', {}, "'--id'.*'key', 'y', 'a'"),
    'another id': ('id,y,a\n0,0,1\n', {'id': 'key'}, "no column 'key' of ids"),
    'no label': ('id,class,a\n0,0,1\n', {}, "'--label'"),
    'two labels': ('id,y,label,a\n0,0,0,1\n', {}, "Which column.*'--label'"),
    'dropped label': ('id,y,a\n0,0,1\n', {'label': 'y', 'drop': ['y']}, "no column 'y' of labels"),
    'one column for both': ('id,a\n0,1\n', {'label': 'id'}, 'cannot be both'),
    'unknown drop': ('id,y,a\n0,0,1\n', {'drop': ['b']}, r"no column \['b'\]"),
    'double ids': ('id,y,a\n7,0,1\n7,1,1\n', {}, '1 ids .*more than one row, e.g. 7'),
    'missing ids': ('id,y,a\n,0,1\n', {}, '1 rows .*no id'),
    'no rows': ('id,y,a\n', {}, 'no rows'),
    'nothing labelled': ('id,y,a\n0,,1\n', {}, 'no label'),
    'fractions': ('id,y,a\n0,0.5,1\n1,1,1\n', {}, r'must hold classes .got fractions .0.5'),
    'no features': ('id,y\n0,0\n', {}, 'no column of features'),
    'unknown split': ('id,y,a,split\n0,0,1,left\n', {}, r'got left.*--drop split'),
    'two splits': ('id,y,a,split,val_mask\n0,0,1,,0\n', {}, r"'split' and .*'val_mask'"),
    'no mask': ('id,y,a,val_mask\n0,0,1,7\n', {}, "'val_mask' .*true and false.*got 7"),
}
IDS = ['a', '1', '02']


def nodes_of(tmp_path, text, label=None, id=None, drop=()):
    (tmp_path / 'nodes.csv').write_text(text)
    return read_nodes(tmp_path / 'nodes.csv', label, id, drop, EncodingOptions())


def test_ids_labels_and_features(tmp_path):
    nodes = nodes_of(tmp_path, 'node,label,a,b\n01,oak,1,2\nx,,3,4\n2,ash,5,6\n3,NA,7,8\n')
    assert nodes.ids == ['01', 'x', '2', '3'] and nodes.classes == ('ash', 'oak')
    assert nodes.y.tolist() == [1, -1, 0, -1] and nodes.features == ('a', 'b')
    assert nodes.x.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]] and nodes.masks == {}
    details = {each.role: each.detail for each in nodes.decisions}
    assert details['label'].startswith('2 classes: ash = 0, oak = 1; 2 nodes without')
    assert 'random' in details['split']


@pytest.mark.parametrize(
    'cells, classes, y',
    [
        ('2 10 2 -1', ('2', '10'), [0, 1, 0, -1]),
        ('0.0 1.0 NaN 0', ('0', '1'), [0, 1, -1, 0]),
        ('3 a 3 a', ('3', 'a'), [0, 1, 0, 1]),
    ],
)
def test_integers_are_sorted_by_value_and_negative_ones_are_no_labels(tmp_path, cells, classes, y):
    rows = [f'{i},{cell},1' for i, cell in enumerate(cells.split())]
    nodes = nodes_of(tmp_path, '\n'.join(['id,y,a', *rows]))
    assert nodes.classes == classes and nodes.y.tolist() == y


def test_a_column_of_splits(tmp_path):
    nodes = nodes_of(tmp_path, 'id,y,a,split\n0,0,1,train\n1,1,1,Valid\n2,0,1,\n3,1,1,test\n')
    assert nodes.masks['train_mask'].tolist() == [True, False, False, False]
    assert nodes.masks['val_mask'].tolist() == [False, True, False, False]
    assert nodes.masks['test_mask'].tolist() == [False, False, False, True]
    assert nodes.features == ('a',)


@pytest.mark.parametrize('true, false', [('true', 'false'), ('True', 'False'), ('1', '0')])
def test_columns_of_masks(tmp_path, true, false):
    text = f'id,y,a,train_mask,test_mask\n0,0,1,{true},{false}\n1,1,1,{false},{true}\n'
    nodes = nodes_of(tmp_path, text)
    assert torch.equal(nodes.masks['train_mask'], torch.tensor([True, False]))
    assert torch.equal(nodes.masks['test_mask'], torch.tensor([False, True]))
    assert set(nodes.masks) == {'train_mask', 'test_mask'}


@pytest.mark.parametrize('name', REFUSED)
def test_a_wrong_table_ends_with_a_sentence(tmp_path, name):
    text, options, message = REFUSED[name]
    with pytest.raises(SourceError, match=message):
        nodes_of(tmp_path, text, **options)


def test_the_numbers_of_rows_are_no_feature(tmp_path):
    text = ',id,y,a\n0,a,0,1\n1,b,1,1\n'
    with pytest.raises(SourceError, match=r'Column 1 of .*has no name, .*--drop "Unnamed: 0"'):
        nodes_of(tmp_path, text)
    assert nodes_of(tmp_path, text, drop=['Unnamed: 0']).features == ('a',)
    nodes = nodes_of(tmp_path, text.replace('id', 'b'), id='Unnamed: 0', drop=['b'])
    assert nodes.ids == ['0', '1'] and nodes.features == ('a',)
    with pytest.raises(SourceError, match=r'Column 4 of .*has no name'):
        nodes_of(tmp_path, 'id,y,a,\n0,1,1,\n1,1,1,\n')


def test_a_number_for_each_node_is_no_class(tmp_path):
    rows = '\n'.join(f'{i},{i},1' for i in range(9))
    with pytest.raises(SourceError, match='9 values in 9 rows'):
        nodes_of(tmp_path, f'id,y,a\n{rows}\n')


def edges_of(tmp_path, text, directed=False, drop=()):
    (tmp_path / 'edges.csv').write_text(text)
    return read_edges(tmp_path / 'edges.csv', IDS, directed, drop, EncodingOptions())


@pytest.mark.parametrize('names', ['source,target', 'src,dst', 'from,to', 'x,y'])
def test_edges_get_both_directions(tmp_path, names):
    edges = edges_of(tmp_path, f'{names}\na,1\n02,1\n')
    assert edges.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert edges.edge_weight is None and edges.edge_attr is None
    assert edges.counts.startswith('2 rows, both directions; 0 self-loops removed, 0 duplicates')


def test_endpoints_are_found_by_name_before_their_place(tmp_path):
    edges = edges_of(tmp_path, 'weight,target,source\n2,1,a\n', directed=True)
    assert edges.edge_index.tolist() == [[0], [1]] and edges.edge_weight.tolist() == [2]


def test_self_loops_and_duplicates_are_counted_and_weights_averaged(tmp_path):
    text = 'source,target,weight,kind,n\na,1,1,u,5\n1,a,3,v,7\na,a,9,u,1\n02,1,4,v,0\n'
    edges = edges_of(tmp_path, text)
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
    edges = edges_of(tmp_path, 'source,target,weight\na,1,1\n1,a,3\na,1,2\n', directed=True)
    assert edges.edge_index.tolist() == [[0, 1], [1, 0]]
    assert edges.edge_weight.tolist() == [1.5, 3]
    assert edges.counts.endswith('1 duplicates merged, their values averaged')
    plain = edges_of(tmp_path, 'source,target\na,1\na,1\n', directed=True)
    assert plain.counts.endswith('1 duplicates merged')


def test_columns_are_left_out(tmp_path):
    edges = edges_of(tmp_path, 'source,target,note\na,1,hello\n', drop=['note'])
    assert edges.edge_attr is None


@pytest.mark.parametrize(
    'text, message',
    [
        (
            'source,target\na,2\nb,2\na,1\n',
            r"2 ids of no node, in 3 cells: 'b', '2'.*like 'a', '1', '02'.*Remove these rows",
        ),
        ('source,target\na,\n', "1 rows .*no id in column 'target'"),
        ('source\na\n', 'needs two columns'),
        ('a,1\n02,1\n', 'first row of .*edges.csv. holds ids of nodes .a, 1. instead of names'),
        (',u,v\n0,a,1\n', 'Column 1 of .*edges.csv. has no name, .*index=False'),
        ('source,target\n', 'has no rows: a graph needs edges'),
        ('source,target,weight\na,1,\n', "'weight' in 1 rows"),
    ],
)
def test_a_wrong_table_of_edges_ends_with_a_sentence(tmp_path, text, message):
    with pytest.raises(SourceError, match=message):
        edges_of(tmp_path, text)
