"""Checksums of large files: the same verdict for any number of threads."""

import hashlib

import pytest

from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.utils import block_checksums
from torch_geometric_cgt.utils.block_checksums import check_file, file_checksum


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A file of five blocks, of which the last one is short."""
    monkeypatch.setattr(block_checksums, 'BLOCK_BYTES', 1000)
    path = tmp_path / 'tensors'
    path.write_bytes(bytes(i % 251 for i in range(4321)))
    return path


def test_blocks_by_hand(file):
    content = file.read_bytes()
    parts = [content[i : i + 1000] for i in range(0, 4321, 1000)]
    expected = [hashlib.sha256(part).hexdigest() for part in parts]
    for num_threads in (None, 1, 2, 5):
        found = file_checksum(file, num_threads)
        assert found == {'block_bytes': 1000, 'sha256': expected}
        check_file(file, found, num_threads)


def test_a_small_file_has_one_checksum(tmp_path):
    path = tmp_path / 'small'
    for content in (b'', b'abc'):
        path.write_bytes(content)
        assert file_checksum(path) == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize('num_threads', [1, 2])
@pytest.mark.parametrize('place', [0, 2500, 4320])
def test_a_flipped_byte_is_found_in_its_block(file, place, num_threads):
    stated, content = file_checksum(file), bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)
    with pytest.raises(CorruptFileError, match=f'1 of 5 blocks .* {place // 1000 * 1000:,}$'):
        check_file(file, stated, num_threads)


def test_lengths_and_other_forms_are_refused(file):
    stated, content = file_checksum(file), file.read_bytes()
    for other in (content[:-1], content + b'0', content[:4000], content + bytes(1000), b''):
        file.write_bytes(other)
        with pytest.raises(CorruptFileError, match='truncated or was altered'):
            check_file(file, stated)
    file.write_bytes(content)
    one_byte = {'block_bytes': 1, 'sha256': stated['sha256']}
    for other in ('0' * 64, one_byte, {'sha256': 7}, {**stated, 'sha256': []}, None, [stated]):
        with pytest.raises(CorruptFileError, match='truncated or was altered'):
            check_file(file, other)


def test_one_checksum_of_a_large_file_is_accepted(file):
    """As earlier versions wrote it."""
    check_file(file, hashlib.sha256(file.read_bytes()).hexdigest())
    assert isinstance(file_checksum(file), dict)
