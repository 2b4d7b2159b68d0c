from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from torch_geometric_cgt.datasets.column_encoding import EncodingOptions, encode_columns
from torch_geometric_cgt.errors import SourceError


def encode(columns, **options):
    table = pd.DataFrame(columns)
    return encode_columns(table, list(columns), 'nodes.csv', EncodingOptions(**options))


def test_numbers_booleans_and_categories():
    found = encode(
        {
            'age': [1.5, 2.0, 4.0],
            'ok': [True, False, True],
            'colour': ['red', None, 'blue '],
            'size': [10, 2, 10],
        },
        categorical=('size',),
    )
    assert found.names == ('age', 'ok', 'colour=blue', 'colour=red', 'size=2', 'size=10')
    assert found.values.dtype == np.float32
    assert found.values.tolist() == [
        [1.5, 1, 0, 1, 0, 1],
        [2.0, 0, 0, 0, 1, 0],
        [4.0, 1, 1, 0, 0, 1],
    ]
    assert [(each.role, each.columns) for each in found.decisions] == [
        ('numeric', ('age',)),
        ('boolean', ('ok',)),
        ('one-hot', ('colour',)),
        ('one-hot', ('size',)),
    ]
    assert 'blue, red' in found.decisions[2].detail and '1 empty' in found.decisions[2].detail


def test_decimals_are_numbers():
    cells = [Decimal('1.50'), None, Decimal('-2')]
    found = encode({'price': pd.Series(cells, dtype=object)}, missing='mean')
    assert found.values.tolist() == [[1.5], [-0.25], [-2]] and found.names == ('price',)


def test_lists_of_numbers_are_several_features():
    found = encode({'v': [[1.0, 2.0], np.array([3.0, 4.0])]})
    assert found.names == ('v[0]', 'v[1]') and found.values.tolist() == [[1, 2], [3, 4]]


def test_missing_numbers_are_an_error_or_the_mean():
    table = {'a': [1.0, None, 3.0], 'b': [True, None, None], 'c': [1, 2, 3]}
    with pytest.raises(SourceError, match=r"'a' in 1 rows, 'b' in 2 rows.*--missing mean"):
        encode(table)
    found = encode(table, missing='mean')
    assert found.values.tolist() == [[1, 1, 1], [2, 1, 2], [3, 1, 3]]
    assert found.notes == ('missing numbers are the mean of their column: a (1), b (2)',)


def test_standardized_columns_have_one_scale():
    table = {'income': [10_000.0, 30_000.0], 'age': [20.0, 40.0], 'same': [1.0, 1.0]}
    (note,) = encode(table).notes
    assert "'income' is 1,000 times that of 'age'" in note and '--standardize' in note
    found = encode({**table, 'ok': [True, False]}, standardize=True)
    assert found.values.tolist() == [[-1, -1, 0, 1], [1, 1, 0, 0]] and found.notes == ()
    assert 'standard deviation 1' in found.decisions[0].detail


TEXT = [f'a person who wrote sentence number {i}' for i in range(40)]
REFUSED = {
    'free text': ({'bio': TEXT}, {}, "'bio'.*free text.*--drop bio"),
    'identifiers': ({'mail': [f'{i}@x' for i in range(30)]}, {}, "'mail'.*30 distinct.*one row"),
    'many values': ({'zip': [str(i % 150) + 'x' for i in range(900)]}, {}, "'zip' .*limit is 100"),
    'a lower limit': ({'c': list('abcabc')}, {'max_values': 2}, 'limit is 2'),
    'dates': ({'born': pd.to_datetime(['2020-01-01'] * 3)}, {}, "'born'.*dates.*--drop born"),
    'dates in text': ({'born': ['2020-01-01', '2020-01-02'] * 3}, {}, "'2020-01-01'.*--drop born"),
    'other dates': ({'born': ['1.12.1999', '24.12.99']}, {}, 'holds dates.*--categorical born'),
    'few decimal commas': ({'a': ['1,5', '2', '2,5']}, {}, "comma, e.g. '1,5'.*--categorical a"),
    'thousands': ({'a': ['1,000', '2,500,000']}, {}, "'1,000'.*thousands without a separator"),
    'infinite': ({'a': [1.0, np.inf]}, {}, "'a'.*infinite"),
    'empty text': ({'a': pd.Series([None, None], dtype=object)}, {}, "'a' .*is empty"),
    'empty numbers': ({'a': [np.nan, np.nan]}, {'missing': 'mean'}, 'are empty'),
    'lists of two lengths': ({'v': [[1.0], [1.0, 2.0]]}, {}, "'v'.*one length"),
    'empty lists': ({'v': [[], []]}, {}, r"'v'.*lengths \[0\]"),
    'bytes': ({'v': [b'ab', b'c']}, {}, "'v'.*type 'bytes'.*--drop v"),
    'records': ({'v': [{'a': 1}, {'a': 2}]}, {}, "'v'.*type 'dict'"),
    'unknown column': ({'a': [1]}, {'categorical': ('b',)}, r"no column \['b'\]"),
}


@pytest.mark.parametrize('name', REFUSED)
def test_a_column_that_cannot_be_encoded_is_named(name):
    columns, options, message = REFUSED[name]
    with pytest.raises(SourceError, match=message):
        encode(columns, **options)


def test_few_values_are_categories_even_if_each_is_in_one_row():
    assert encode({'c': list('abc')}).values.tolist() == np.eye(3).tolist()


@pytest.mark.parametrize('cells', [['2020-01-01', '2021-01-01'], ['1,5', '2,5']])
def test_dates_and_numbers_with_commas_are_categories_if_asked_for(cells):
    assert encode({'c': cells}, categorical=('c',)).values.tolist() == np.eye(2).tolist()


@pytest.mark.parametrize(
    'values, is_noted',
    [
        (range(100_000, 100_030), True),
        (np.arange(30.0), True),
        (range(20), False),  # few rows
        ([*range(29), 0], False),  # a value is there twice
        (np.arange(30) / 4, False),
    ],
)
def test_a_number_for_each_row_is_noted(values, is_noted):
    notes = ' '.join(encode({'number': list(values)}).notes)
    assert ("all values of 'number' are different whole numbers" in notes) == is_noted


@pytest.mark.parametrize('options', [{'missing': 'zero'}, {'max_values': 0}])
def test_wrong_options(options):
    with pytest.raises(ValueError, match=f"'{next(iter(options))}' must be"):
        EncodingOptions(**options)


@pytest.mark.parametrize(
    'cell, message',
    [
        ('heavy', "has numbers and text, e.g. 'heavy': correct these cells"),
        ('1e999', "has numbers and text, e.g. '1e999'"),
    ],
)
def test_text_among_numbers_is_shown(cell, message):
    with pytest.raises(SourceError, match=message):
        encode({'c': [*(f'0.{i}' for i in range(120)), cell]})


def test_a_decimal_comma_is_named():
    with pytest.raises(SourceError, match=r"a comma, e.g. '0,100': write decimals with a point"):
        encode({'c': [f'0,{i}' for i in range(100, 230)]})
