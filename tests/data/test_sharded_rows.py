"""Rows in several files: every selection equals that of the tensor in memory."""

import copy
import pickle

import pytest
import torch

from torch_geometric_cgt.data.sharded_rows import ShardedRows
from torch_geometric_cgt.utils.files import write_tensors

WHOLE = torch.arange(70, dtype=torch.int32).view(10, 7)
INDICES = {
    'all': slice(None),
    'across files': slice(2, 8),
    'one file': slice(3, 6),
    'steps': slice(1, None, 2),
    'long steps': slice(2, 9, 5),
    'beyond the end': slice(20, 30),
    'no rows': slice(5, 5),
    'from the end': slice(-4, -1),
    'one row': 4,
    'last row': -1,
    'rows': torch.tensor([9, 0, -1, 4, 4]),
    'no numbers': torch.tensor([], dtype=torch.long),
    'matrix of rows': torch.tensor([[1, 2], [8, 9]]),
    'mask': torch.arange(10) % 3 == 0,
    'column': (slice(None), 0),
    'columns': (slice(None), slice(1, 3)),
    'some of a column': (torch.tensor([3, 5]), 2),
    'rows and columns': (slice(2, 9, 3), 4),
    'pairs': (torch.tensor([3, 5]), torch.tensor([0, 6])),
    'mask of values': WHOLE > 30,
}


def sharded(folder, whole, rows_per_shard=3):
    paths = []
    for number, rows in enumerate(whole.split(rows_per_shard)):
        paths.append(folder / f'{number}.safetensors')
        write_tensors(paths[-1], {'other': torch.zeros(1), 'rows': rows})
    return ShardedRows(paths, 'rows', whole.shape, whole.dtype, rows_per_shard)


@pytest.mark.parametrize('name', INDICES)
def test_selections(name, tmp_path):
    rows, index = sharded(tmp_path, WHOLE), INDICES[name]
    assert rows[index].shape == WHOLE[index].shape and rows[index].dtype == torch.int32
    assert torch.equal(rows[index], WHOLE[index])


def test_vectors(tmp_path):
    vector = torch.arange(10, dtype=torch.uint8)
    rows = sharded(tmp_path, vector)
    assert rows.shape == (10,) and int(rows[7]) == 7
    assert torch.equal(rows[torch.tensor([8, 1])], vector[[8, 1]])
    assert torch.equal((rows >> 1) & 1 == 1, (vector >> 1) & 1 == 1)


def test_other_operations_read_everything(tmp_path):
    rows = sharded(tmp_path, WHOLE)
    assert len(rows) == 10 and rows.dim() == 2 and rows.int() is rows
    assert torch.equal(rows, WHOLE) and torch.equal(rows != 3, WHOLE != 3)
    assert torch.equal(rows.long().sum(0), WHOLE.long().sum(0))
    assert [part.tolist() for part in rows.split(4)] == [part.tolist() for part in WHOLE.split(4)]
    assert 'files=4' in repr(rows) and type(rows.load()) is torch.Tensor


def test_only_needed_files_are_opened(tmp_path):
    rows = sharded(tmp_path, WHOLE)
    for number in (0, 1, 3):
        (tmp_path / f'{number}.safetensors').unlink()
    assert torch.equal(rows[6:9], WHOLE[6:9])
    assert torch.equal(rows[torch.tensor([8, 7])], WHOLE[[8, 7]])
    with pytest.raises(FileNotFoundError):
        rows[5]


def test_rows_cannot_be_changed(tmp_path):
    rows = sharded(tmp_path, WHOLE)
    for change in (
        lambda: rows.add_(1),
        lambda: rows.__setitem__((0, 0), 5),
        lambda: torch.add(WHOLE, 1, out=rows),
    ):
        with pytest.raises(TypeError, match='cannot be changed'):
            change()
    assert torch.equal(rows, WHOLE)


@pytest.mark.parametrize('index', [10, -11])
def test_rows_outside(tmp_path, index):
    rows = sharded(tmp_path, WHOLE)
    with pytest.raises(IndexError):
        rows[torch.tensor([index])]
    with pytest.raises(IndexError):
        rows[index]


def test_other_processes_open_the_files_themselves(tmp_path):
    rows = sharded(tmp_path, WHOLE)
    content = pickle.dumps(rows)
    assert len(content) < 2000
    assert torch.equal(pickle.loads(content), WHOLE)
    assert torch.equal(copy.deepcopy(rows), WHOLE)
