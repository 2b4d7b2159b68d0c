import sys

import pytest
import torch
from torch_geometric.utils import is_undirected

from tests.helpers.tables import own_graph, write_npz, write_pt, write_tables
from torch_geometric_cgt.datasets import TableOptions, load_source
from torch_geometric_cgt.datasets.source_kinds import open_source
from torch_geometric_cgt.errors import SourceError

MODULE = """
from torch_geometric.datasets import KarateClub
from tests.helpers.tables import own_graph
answer = 42
club = KarateClub
def graph():
    return own_graph()
def wrong():
    return [1]
def down():
    raise RuntimeError('the database' + chr(10) + 'is down')
def leave():
    raise SystemExit(3)
def needs(name):
    return own_graph()
def nothing():
    return None
def one_label():
    data = own_graph()
    data.y = data.y.clamp(max=0)
    return data
def no_training():
    data = own_graph()
    data.train_mask = data.y < 0
    data.test_mask = data.y >= 0
    return data
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a module of the user."""
    (tmp_path / 'users_module.py').write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop('users_module', None)


def test_names_of_files_folders_and_functions(folder):
    write_tables(folder / 'forest', own_graph())
    write_tables(folder / 'data', own_graph())
    (folder / 'data' / 'nodes.csv').rename(folder / 'data' / 'trees.csv')
    pair = (folder / 'data' / 'trees.csv', folder / 'data' / 'edges.csv')
    names = {
        'forest': 'forest',
        pair: 'trees',
        str(write_npz(folder / 'arrays.npz', own_graph())): 'arrays',
        str(write_pt(folder / 'saved.pt', own_graph())): 'saved',
        'users_module:graph': 'graph',
        'users_module:club': 'KarateClub',
    }
    path = list(sys.path)
    for source, name in names.items():
        assert open_source(source).name == name
        assert open_source(source, name='Mine').name == 'Mine'
    assert sys.path == path


def test_edges_of_tables_get_both_directions_and_others_stay(folder):
    data = own_graph()
    data.edge_index = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    write_tables(folder / 'forest', own_graph())
    one_way = str(write_npz(folder / 'arrays.npz', data))
    for source, directed, expected in (
        ('forest', None, True),
        ('forest', True, False),
        (one_way, None, False),
        (one_way, False, True),
    ):
        graph = open_source(source, directed=directed)[0]
        assert is_undirected(graph.edge_index) == expected


def test_each_access_is_a_copy_and_transforms_apply(folder):
    source = str(write_pt(folder / 'saved.pt', own_graph()))
    dataset = load_source(source, random_split=True)
    dataset[0].x.zero_()
    assert torch.equal(dataset[0].x, own_graph().x) and 'train_mask' not in dataset[0]
    assert dataset.num_classes == 3 and dataset.num_features == 8
    data = own_graph()
    data.edge_index = data.edge_index[:, (data.edge_index > 9).all(dim=0)]
    torch.save(data, folder / 'part.pt')
    assert load_source('part.pt', largest_component=True)[0].num_nodes < 111


@pytest.mark.parametrize(
    'source, message',
    [
        ('nothing.npz', "no file or folder 'nothing.npz'"),
        ('users_module.py', "by its suffix '.py'"),
        ('forest/nodes.csv', "'--nodes FILE --edges FILE'"),
        ('no_module:graph', 'cannot be imported from'),
        ('users_module:missing', "has no function 'missing'"),
        ('users_module:answer', "got 'int'"),
        ('users_module:wrong', "must return a PyG dataset.*got 'list'"),
        ('empty', 'must hold one table'),
        (
            'users_module:down',
            'failed with RuntimeError: the database is down. To see where: python -c "from users',
        ),
        ('users_module:leave', 'failed with SystemExit: 3'),
        ('users_module:needs', 'failed with TypeError: needs.. missing 1 required'),
        ('users_module:nothing', "got 'NoneType'"),
        ('users_module:one_label', "All labelled nodes of 'one_label' have the label 0: a graph"),
        ('users_module:no_training', "No node of 'no_training' with a label is in the training"),
        ('broken_module:graph', 'importing broken_module failed with SyntaxError'),
        ('half_module:graph', 'cannot be imported from .*: cannot import name'),
    ],
)
def test_what_is_no_source_is_named(folder, source, message):
    write_tables(folder / 'forest', own_graph())
    (folder / 'empty').mkdir()
    (folder / 'broken_module.py').write_text('def graph(:\n')
    (folder / 'half_module.py').write_text('from os import no_such_name\n')
    with pytest.raises(SourceError, match=message):
        load_source(source)


def test_splits_that_are_dropped_are_not_checked(folder):
    assert 'train_mask' not in load_source('users_module:no_training', random_split=True)[0]


def test_names_that_no_card_can_have_and_options_of_tables(folder):
    source = str(write_pt(folder / 'saved.pt', own_graph()))
    with pytest.raises(ValueError, match='printable'):
        open_source(source, name='two\nlines')
    with pytest.raises(ValueError, match='not a table'):
        open_source(source, options=TableOptions(label='y'))
