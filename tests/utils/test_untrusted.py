"""Bounded reading of files: what is refused, and that nothing else is."""

import json
import math
import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.utils.files import read_tensors, write_tensors
from torch_geometric_cgt.utils.limits import MAX_DIGITS, MAX_JSON_DEPTH
from torch_geometric_cgt.utils.untrusted import (
    TensorSpec,
    check_names,
    check_tensors,
    open_regular,
    parse_json,
    read_bounded,
)

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def parse(text, **arguments):
    return parse_json(text.encode(), 'card.json', **arguments)


@given(VALUES)
def test_json_is_read_as_it_was_written(value):
    text = json.dumps(value)
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:  # an infinite number, at any depth
        with pytest.raises(CorruptFileError, match='finite'):
            parse(text)
    else:
        assert parse(text) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content):
    try:
        parsed = parse_json(content, 'card.json')
    except CorruptFileError as error:
        assert 'card.json' in str(error)
    else:
        assert json.loads(content) == parsed


@pytest.mark.parametrize(
    'text, reason',
    [
        ('{"a": 1, "a": 1}', "'a' occurs twice"),
        ('{"b": {"a": 1, "c": 2, "a": 3}}', "'a' occurs twice"),
        ('NaN', 'NaN'),
        ('[-Infinity]', '-Infinity'),
        ('1e400', '1e400'),
        ('1' * (MAX_DIGITS + 1), 'digits'),
        ('0.' + '1' * MAX_DIGITS, 'length'),
        ('[' * (MAX_JSON_DEPTH + 1) + ']' * (MAX_JSON_DEPTH + 1), 'levels deep'),
        ('[' * 10**6, 'nested too deeply'),
        ('[1,' * 100 + '1' + ']' * 100, 'levels deep'),
        ('\ufeff{}', 'BOM'),
    ],
)
def test_dangerous_json_is_refused(text, reason):
    with pytest.raises(CorruptFileError, match=reason):
        parse(text)


def test_extents_up_to_the_limit_are_read():
    assert parse('[' * MAX_JSON_DEPTH + ']' * MAX_JSON_DEPTH) is not None
    assert parse('1' * MAX_DIGITS) == int('1' * MAX_DIGITS)
    assert parse('[1, 2, {"a": 3}]', max_items=4) == [1, 2, {'a': 3}]
    with pytest.raises(CorruptFileError, match='more than 3 values'):
        parse('[1, 2, {"a": 3}]', max_items=3)


def test_only_regular_files_are_opened(tmp_path):
    file = tmp_path / 'file'
    file.write_bytes(b'12345')
    assert read_bounded(file, 5) == b'12345'
    with pytest.raises(CorruptFileError, match='has 5 bytes, but at most 4 are allowed'):
        read_bounded(file, 4)
    (tmp_path / 'link').symlink_to(file)
    os.mkfifo(tmp_path / 'pipe')
    (tmp_path / 'folder').mkdir()
    kinds = {'link': 'symbolic link', 'pipe': 'named pipe', 'folder': 'a folder'}
    for name, kind in {**kinds, 'none': 'is missing', 'a\0b': 'null'}.items():
        with pytest.raises(CorruptFileError, match=kind):
            open_regular(tmp_path / name)
    with pytest.raises(CorruptFileError, match='a device'):
        open_regular('/dev/null')


def test_a_folder_holds_what_is_allowed_and_nothing_else(tmp_path):
    (tmp_path / 'a').touch()
    check_names(tmp_path, ['a', 'b'])
    with pytest.raises(CorruptFileError, match="holds 'a'"):
        check_names(tmp_path, ['b'])
    (tmp_path / 'b').mkdir()
    with pytest.raises(CorruptFileError, match='not a regular file'):
        check_names(tmp_path, ['a', 'b'])
    with pytest.raises(CorruptFileError, match='No such file'):
        check_names(tmp_path / 'none', [])


SPECS = {
    'a': TensorSpec(('I32',), (3, 2)),
    'b': TensorSpec(('F32', 'BF16'), (5,)),
    'c': TensorSpec(('U8',), (0,)),
}
TENSORS = {
    'a': torch.arange(6, dtype=torch.int32).view(3, 2),
    'b': torch.ones(5, dtype=torch.bfloat16),
    'c': torch.zeros(0, dtype=torch.uint8),
}


def test_tensors_as_declared_are_accepted(tmp_path):
    path = tmp_path / 'x.safetensors'
    write_tensors(path, TENSORS)
    check_tensors(path, SPECS, 1000)
    assert torch.equal(read_tensors(path)['a'], TENSORS['a'])


@pytest.mark.parametrize(
    'change',
    [
        {'a': torch.zeros(2, 3, dtype=torch.int32)},
        {'a': torch.zeros(3, 2, dtype=torch.int64)},
        {'b': torch.ones(5, dtype=torch.float64)},
        {'d': torch.ones(5)},
    ],
)
def test_other_tensors_than_declared_are_refused(tmp_path, change):
    path = tmp_path / 'x.safetensors'
    write_tensors(path, {**TENSORS, **change})
    with pytest.raises(CorruptFileError, match='not a readable tensor file'):
        check_tensors(path, SPECS, 1000)


@given(st.binary(max_size=60), st.integers(0, 200), st.integers(0, 255))
def test_a_header_is_accepted_only_where_tensors_can_be_read(tmp_path_factory, tail, place, byte):
    """Whatever the check accepts, the reader reads, with the declared shapes."""
    path = tmp_path_factory.getbasetemp() / 'x.safetensors'
    write_tensors(path, TENSORS)
    content = bytearray(path.read_bytes() + tail)
    content[place % len(content)] = byte
    path.write_bytes(content)
    try:
        check_tensors(path, SPECS, 1000)
    except CorruptFileError:
        return
    found = read_tensors(path)
    assert {name: tuple(value.shape) for name, value in found.items()} == {
        name: spec.shape for name, spec in SPECS.items()
    }


def test_declared_sizes_are_refused_before_the_file_is_opened(tmp_path):
    specs = {'a': TensorSpec(('I32',), (10**12, 10**12))}
    with pytest.raises(CorruptFileError, match=r"of 4,0.* bytes or more.*'max_bytes'"):
        check_tensors(tmp_path / 'none', specs, 1000)
    assert math.prod(specs['a'].shape) == 10**24
