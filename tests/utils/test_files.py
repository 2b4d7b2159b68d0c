import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from torch_geometric_cgt.errors import CorruptFileError, NotWritableError
from torch_geometric_cgt.utils.files import (
    atomic_folder,
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
