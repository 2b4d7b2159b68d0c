import json

import pytest
import torch

from tests.helpers.tables import CLASSES, node_frame, own_graph, write_tables
from torch_geometric_cgt.datasets import TableOptions, from_files, read_tables
from torch_geometric_cgt.errors import SourceError


@pytest.mark.parametrize('suffix', ['.csv', '.tsv.gz', '.parquet'])
def test_a_graph_and_its_files(tmp_path, suffix):
    if suffix == '.tsv.gz':  # written with commas: the separator is found in the file
        folder = write_tables(tmp_path, own_graph(), '.tsv.gz')
    else:
        folder = write_tables(tmp_path, own_graph(), suffix)
    data = from_files(folder / f'nodes{suffix}', folder / f'edges{suffix}', label='y')
    expected = own_graph()
    assert set(data.keys()) == set(expected.keys())
    for name, value in expected.to_dict().items():
        assert torch.equal(data[name], value), name


def test_what_was_decided_is_an_object(tmp_path):
    folder = write_tables(tmp_path, own_graph())
    table = node_frame(own_graph())
    table['colour'] = ['red', 'blue'] * 60
    table['mail'] = [f'{i}@x' for i in range(120)]
    table.to_csv(folder / 'nodes.csv', index=False)
    paths = folder / 'nodes.csv', folder / 'edges.csv'
    data, reading = read_tables(*paths, TableOptions(drop=['mail']))
    assert reading.classes == CLASSES and len(reading.features) == data.num_features == 10
    rows = {role: (columns, detail) for role, columns, detail in reading.rows()}
    assert rows['one-hot'] == ('colour', '2 values (blue, red)')
    assert rows['dropped'][0] == 'mail' and rows['numeric'] == (
        'f0, f1, f2, f3, f4, f5, f6, f7',
        'as they are',
    )
    assert reading.text().startswith('read 120 nodes with 10 features and ')
    assert json.loads(json.dumps(reading.to_dict()))['classes'] == list(CLASSES)


def test_options_name_columns_of_either_table(tmp_path):
    folder = write_tables(tmp_path, own_graph())
    paths = folder / 'nodes.csv', folder / 'edges.csv'
    with pytest.raises(SourceError, match=r"Neither .* has a column 'colour'"):
        from_files(*paths, drop=['colour'])
    with pytest.raises(SourceError, match='by its suffix'):
        from_files(folder, folder / 'edges.csv')
    text = (folder / 'edges.csv').read_text().splitlines()
    more = '\n'.join([f'{text[0]},note', *(f'{line},{i}' for i, line in enumerate(text[1:]))])
    (folder / 'edges.csv').write_text(more)
    assert 'edge_attr' in from_files(*paths)
    assert 'edge_attr' not in from_files(*paths, drop=['note'])


def test_a_source_that_is_no_table_takes_no_options():
    TableOptions().refuse_for('Cora')
    with pytest.raises(ValueError, match=r"'--label'.*'Cora', which is not a table"):
        TableOptions(label='y').refuse_for('Cora')


@pytest.mark.parametrize('name', ['drop', 'categorical'])
def test_one_column_is_a_list_of_one(name):
    with pytest.raises(ValueError, match=rf"'{name}' must be a list .*{name}=\['age'\]"):
        TableOptions(**{name: 'age'})
