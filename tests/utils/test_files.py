import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from torch_geometric_cgt.errors import CorruptFileError, NotWritableError
from torch_geometric_cgt.utils import files
from torch_geometric_cgt.utils.files import (
    atomic_folder,
    check_file,
    file_checksum,
    read_sealed_json,
    read_tensors,
    write_sealed_json,
    write_tensors,
    write_text,
)


def test_failed_block_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError), atomic_folder(tmp_path / 'out') as draft:
        (draft / 'half').write_text('x')
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_folder_is_replaced_as_a_whole(tmp_path):
    for text in ['old', 'new']:
        with atomic_folder(tmp_path / 'out') as draft:
            (draft / text).write_text(text)
    assert [path.name for path in (tmp_path / 'out').iterdir()] == ['new']
    assert [path.name for path in tmp_path.iterdir()] == ['out']


def test_killed_writer_never_leaves_a_half_folder_under_the_name(tmp_path):
    script = (
        'import sys, pathlib\n'
        'from torch_geometric_cgt.utils.files import atomic_folder\n'
        'print("up", flush=True)\n'
        'for i in range(10**6):\n'
        '    with atomic_folder(pathlib.Path(sys.argv[1]) / "out") as draft:\n'
        '        for name in "ab":\n'
        '            (draft / name).write_text(str(i))\n'
    )
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, '-c', script, str(tmp_path)], stdout=subprocess.PIPE
        )
        process.stdout.readline()
        time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        out = tmp_path / 'out'
        if out.exists():  # between two renames the name is free for an instant
            assert sorted(os.listdir(out)) == ['a', 'b']
            assert (out / 'a').read_text() == (out / 'b').read_text()


def test_sealed_json_notices_every_change(tmp_path):
    write_text(tmp_path / 'a.txt', 'content')
    write_sealed_json(tmp_path / 'card.json', {'k': 30}, ['a.txt'])
    assert read_sealed_json(tmp_path / 'card.json')['k'] == 30

    card = json.loads((tmp_path / 'card.json').read_text())
    (tmp_path / 'card.json').write_text(json.dumps({**card, 'k': 300}))
    with pytest.raises(CorruptFileError, match='altered'):
        read_sealed_json(tmp_path / 'card.json')

    write_sealed_json(tmp_path / 'card.json', {'k': 30}, ['a.txt'])
    (tmp_path / 'a.txt').write_text('c0ntent')
    with pytest.raises(CorruptFileError, match=r'a\.txt'):
        read_sealed_json(tmp_path / 'card.json')
    (tmp_path / 'a.txt').unlink()
    with pytest.raises(CorruptFileError, match='missing'):
        read_sealed_json(tmp_path / 'card.json')


@pytest.mark.parametrize('text', ['', '{', '[]', '{"files": 3}', '\x00\xff'])
def test_nonsense_instead_of_json(tmp_path, text):
    (tmp_path / 'card.json').write_text(text)
    with pytest.raises(CorruptFileError):
        read_sealed_json(tmp_path / 'card.json')


def test_a_pickle_is_not_read_as_tensors(tmp_path):
    torch.save({'tokens': torch.zeros(3)}, tmp_path / 'x.safetensors')
    with pytest.raises(CorruptFileError):
        read_tensors(tmp_path / 'x.safetensors')


def test_truncated_tensors(tmp_path):
    path = tmp_path / 'x.safetensors'
    write_tensors(path, {'a': torch.arange(100)})
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(CorruptFileError, match='not a readable tensor file'):
        read_tensors(path)


def test_unwritable_place_is_named(tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(NotWritableError, match='file'), atomic_folder(tmp_path / 'file' / 'out'):
        pass


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A file of five blocks, of which the last one is short."""
    monkeypatch.setattr(files, 'BLOCK_BYTES', 1000)
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
