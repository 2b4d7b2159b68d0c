"""Clusterings of rows that the processes of a world hold together."""

import sys
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits, make_blobs

from torch_geometric_cgt.quantizer import FlowKMeans
from torch_geometric_cgt.training import World, join_world, leave_world

SEEDS = range(3)
LARGE = {'n_clusters': 60, 'cell_size': 400}
KINDS = ['normal', 'duplicates', 'zeros', 'clumps', 'offset']


def rows_of(kind: str, n: int, num_features: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, num_features))
    if kind == 'duplicates':
        x = x[rng.integers(0, max(1, n // 7), n)]
    elif kind == 'zeros':
        x[:] = 0.0
    elif kind == 'clumps':  # most of the coarse parts have fewer than k rows
        x = np.round(x) * 100 + 0.01 * x
    elif kind == 'offset':
        x += 1e4
    return x


def cases() -> list[tuple[np.ndarray, int, dict]]:
    """Rows, k and arguments: from one row per process to many cells, with k from one to n."""
    rng, out = np.random.default_rng(7), []
    for i in range(30):
        size_min = int(rng.choice([1, 2, 3, 5, 9]))
        n = int(rng.integers(max(size_min, 4), 160)) if i else 2  # first, more processes than rows
        most = n // min(size_min, n)
        m = most if i % 3 else int(rng.integers(1, most + 1))
        dtype = [np.float16, np.float32, np.float64][i % 3]
        kind = KINDS[i % len(KINDS)]
        x = rows_of(kind, n, int(rng.integers(1, 5)), i).astype(dtype)
        size = int(rng.choice([6, 12, 25, 10_000]))
        out.append((x, min(size_min, n), {'n_clusters': m, 'cell_size': size, 'random_state': i}))
    return out


def blobs() -> np.ndarray:
    return make_blobs(2_000, 8, centers=25, cluster_std=5.0, random_state=0)[0]


def digits() -> np.ndarray:
    return load_digits(return_X_y=True)[0] / 16.0


def clustered(x: np.ndarray, size_min: int, arguments: dict, world: World) -> FlowKMeans:
    """A clustering whose labels are those of all rows."""
    model = FlowKMeans(size_min=size_min, max_iter=6, world=world, **arguments)
    model.fit(x[world.share(len(x))])
    model.labels_ = np.concatenate(world.gather(model.labels_))
    model.world = None
    return model


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    world = join_world()
    models = [clustered(*case, world) for case in cases()]
    again = [clustered(*case, world) for case in cases()[1:6]]
    large = [
        [clustered(x, 25, {**LARGE, 'random_state': seed}, world) for seed in SEEDS]
        for x in (blobs(), digits())
    ]
    few = clustered(blobs(), 25, {'n_clusters': 6, 'cell_size': 50}, world)  # of many rows each
    y = np.arange(2_000) % 3
    diverse = FlowKMeans(60, 25, min_labels=2, world=world)
    diverse.fit(blobs()[world.share(2_000)], y[world.share(2_000)])
    diverse.labels_ = np.concatenate(world.gather(diverse.labels_))
    diverse.world = None
    if world.is_first:
        found = {'models': models, 'again': again, 'large': large, 'few': few, 'diverse': diverse}
        torch.save(found, folder / f'{world.size}.pt')
    leave_world()


if __name__ == '__main__':
    main(Path(sys.argv[1]))
