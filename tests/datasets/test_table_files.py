import builtins
import gzip

import pandas as pd
import pytest

from torch_geometric_cgt.datasets.table_files import find_table, read_table, table_suffix
from torch_geometric_cgt.errors import SourceError, UnsupportedError


def write(tmp_path, text, name='t.csv'):
    path = tmp_path / name
    path.write_text(text, encoding='utf-8')
    return path


def test_text_stays_text_and_numbers_may_be_missing(tmp_path):
    path = write(tmp_path, 'id,country,age,ok\n007,NA,1,true\n8,,NaN,false\n9,DE,2,true\n')
    table = read_table(path, ['id'])
    assert table['id'].tolist() == ['007', '8', '9']
    assert table['country'][0] == 'NA' and table['country'].isna().tolist() == [False, True, False]
    assert table['age'].dtype.kind == 'f' and table['age'].isna().tolist() == [False, True, False]
    assert table['ok'].dtype.kind == 'b'


@pytest.mark.parametrize('separator', [',', ';', '\t'])
def test_the_separator_is_found(tmp_path, separator):
    path = write(tmp_path, f'\ufeffa{separator} b\n1{separator}2\n')
    assert read_table(path).to_dict('list') == {'a': [1], 'b': [2]}


def test_compressed_files_and_parquet(tmp_path):
    (tmp_path / 't.csv.gz').write_bytes(gzip.compress(b'a,b\n1,x\n'))
    pd.DataFrame({'a': [1], 'b': ['x']}).to_parquet(tmp_path / 't.parquet')
    for name in ('t.csv.gz', 't.parquet'):
        assert read_table(tmp_path / name).to_dict('list') == {'a': [1], 'b': ['x']}
        assert table_suffix(tmp_path / name) is not None
    assert table_suffix(tmp_path / 't.txt') is None


def test_a_named_index_of_parquet_is_a_column(tmp_path):
    table = pd.DataFrame({'id': ['x', 'y'], 'a': [1, 2]})
    table.set_index('id').to_parquet(tmp_path / 't.parquet')
    assert read_table(tmp_path / 't.parquet').to_dict('list') == table.to_dict('list')
    table[1:].to_parquet(tmp_path / 't.parquet')
    assert list(read_table(tmp_path / 't.parquet').columns) == ['id', 'a']  # numbers of rows


@pytest.mark.parametrize(
    'name, content, message',
    [
        ('t.csv', b'', "t.csv' is empty"),
        ('t.csv', b'a,b\n1,2,3\n', 'is not a readable table'),
        ('t.csv', b'a,b,a\n1,2,3\n', "two columns of one name: .'a', 'b', 'a'.$"),
        ('t.csv', b'a,b\n\xff\xfe,1\n', 'is not text in UTF-8 .*at byte 4.: save it in this'),
        ('t.csv', 'a,b\nÖl,1\n'.encode('latin-1'), 'is not text in UTF-8'),
        ('t.parquet', b'PAR1', 'is not a readable table'),
        ('t.csv.gz', b'not compressed', 'is not a readable table'),
    ],
)
def test_a_damaged_file_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=message):
        read_table(tmp_path / name)


def test_a_folder_needs_one_table_of_a_name(tmp_path):
    with pytest.raises(SourceError, match='none of them'):
        find_table(tmp_path, 'nodes')
    write(tmp_path, 'id\n', 'nodes.csv')
    assert find_table(tmp_path, 'nodes').name == 'nodes.csv'
    write(tmp_path, 'id\n', 'nodes.tsv')
    with pytest.raises(SourceError, match='2 of them'):
        find_table(tmp_path, 'nodes')


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    path, load = write(tmp_path, 'a\n1\n'), builtins.__import__

    def without_pandas(name, *args, **kwargs):
        if name == 'pandas':
            raise ImportError(name)
        return load(name, *args, **kwargs)

    monkeypatch.setattr(builtins, '__import__', without_pandas)
    with pytest.raises(UnsupportedError, match=r'torch-geometric-cgt\[files\]'):
        read_table(path)
