"""Large tables in mapped files: the same content, no file left, and a full disk is an error."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from torch_geometric_cgt.utils import scratch as module
from torch_geometric_cgt.utils.scratch import Scratch


def resident(name):
    for line in Path('/proc/self/status').read_text().splitlines():
        if line.startswith(f'{name}:'):
            return int(line.split()[1]) / 1024
    raise AssertionError(name)


def test_small_tables_and_tables_without_a_folder_are_in_memory(tmp_path, monkeypatch):
    assert not Scratch(tmp_path).maps((10, 3), torch.float32)
    monkeypatch.setattr(module, 'MAP_FROM', 100)
    assert Scratch(tmp_path).maps((10, 3), torch.float32)
    assert not Scratch().maps((10, 3), torch.float32)
    assert Scratch().empty((10, 3), torch.float32).shape == (10, 3)


def test_a_mapped_table_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(module, 'MAP_FROM', 1)
    one, other = (Scratch(tmp_path).empty((1000, 7), torch.float64) for _ in range(2))
    one.fill_(1.0)
    other.fill_(2.0)
    assert float(one.sum()) == 7000 and float(other.sum()) == 14000
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != 'linux', reason='reads /proc')
def test_a_mapped_table_is_not_memory_of_the_process(tmp_path):
    before = resident('RssAnon')
    table = Scratch(tmp_path).empty((1 << 26, 2), torch.float32).fill_(1.0)  # 512 MiB
    assert resident('RssAnon') - before < 64 and float(table[-1, 0]) == 1.0


@pytest.mark.skipif(sys.platform != 'linux', reason='limits the size of files')
def test_no_space_is_an_error_and_not_a_signal(tmp_path):
    code = f"""
import resource, signal, torch
from pathlib import Path
from torch_geometric_cgt.utils.scratch import Scratch
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    Scratch(Path({str(tmp_path)!r})).empty((1 << 27,), torch.float32)
except OSError as error:
    print('refused', error.errno)
"""
    found = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert 'refused' in found.stdout, found.stderr
    assert list(tmp_path.iterdir()) == []
