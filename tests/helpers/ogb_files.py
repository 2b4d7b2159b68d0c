"""A small graph in the raw format of OGB."""

import gzip
from pathlib import Path

import torch
from torch_geometric.data import Data

# Five nodes; 0-1 is given in both directions, 1-2 twice, 4 is joined to itself.
FILES = {
    'raw/num-node-list': '5\n',
    'raw/num-edge-list': '7\n',
    'raw/edge': '0,1\n1,0\n1,2\n1,2\n3,0\n4,4\n2,3\n',
    'raw/node-feat': '0.5,-1.25\n0,1e-3\n3,4\n-0.057943,0\n1,1\n',
    'raw/node-label': '2\n0\n1\n1\n0\n',
    'split/time/train': '3\n0\n',
    'split/time/valid': '1\n',
    'split/time/test': '4\n',
}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / f'{name}.csv.gz'
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, 'wt') as file:
            file.write(text)
    return folder


def check(data: Data) -> None:
    assert data.edge_index.tolist() == [
        [0, 0, 1, 1, 2, 2, 3, 3, 4],
        [1, 3, 0, 2, 1, 3, 0, 2, 4],
    ]
    assert data.x.dtype == torch.float32
    expected = [[0.5, -1.25], [0, 1e-3], [3, 4], [-0.057943, 0], [1, 1]]
    assert torch.equal(data.x, torch.tensor(expected))
    assert data.y.dtype == torch.long and data.y.tolist() == [2, 0, 1, 1, 0]
    assert data.train_mask.tolist() == [True, False, False, True, False]
    assert data.val_mask.tolist() == [False, True, False, False, False]
    assert data.test_mask.tolist() == [False, False, False, False, True]
    assert data.num_nodes == 5 and set(data.keys()) == {
        *('x', 'edge_index', 'y', 'train_mask', 'val_mask', 'test_mask')
    }
