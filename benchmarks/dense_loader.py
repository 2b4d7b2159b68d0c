r"""Batches of one shape beside NeighborLoader, with and without torch.compile.

    OMP_NUM_THREADS=1 python benchmarks/dense_loader.py --release release

Both sides train the same network, two layers of GCN, on all trees of a release. One side takes
batches of ``dataset.loader()``, PyG's ``NeighborLoader``, and PyG's ``GCNConv``. The other takes
batches of ``dataset.dense_loader()`` and ``TreeGCNConv``, which computes the same function. All
four combinations take turns. Times are CPU seconds of this process, so that other programs on the
machine change them little; the first epoch, which compiles, is not counted.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch_geometric.nn import GCN

from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.nn import TreeGCNConv, TreeGNN

SIDES = ('NeighborLoader', 'NeighborLoader, compiled', 'dense', 'dense, compiled')


def make_side(
    name: str, dataset: SyntheticCGTDataset, batch_size: int, width: int
) -> tuple[Iterable, Callable[[Any], tuple[Tensor, Tensor]], torch.nn.Module, Any]:
    r"""The loader, the outputs and labels of a batch, the network and a counter of graphs."""
    torch.manual_seed(0)
    sizes = dataset.num_features, width, dataset.num_classes
    counter = CompileCounterWithBackend('inductor')
    compiled = name.endswith('compiled')
    if name.startswith('dense'):
        convs = [TreeGCNConv(sizes[0], sizes[1]), TreeGCNConv(sizes[1], sizes[2])]
        model: torch.nn.Module = TreeGNN(convs, dataset.trees.shape, dropout=0.0)
        loader: Iterable = dataset.dense_loader('all', batch_size, shuffle=True)
        forward = torch.compile(model, dynamic=False, backend=counter) if compiled else model
        return loader, lambda b: (forward(b.codebook, b.tokens), b.y), model, counter
    model = GCN(sizes[0], sizes[1], 2, sizes[2])
    loader = dataset.loader('all', batch_size, shuffle=True)
    forward = torch.compile(model, backend=counter) if compiled else model
    return (
        loader,
        lambda b: (forward(b.x, b.edge_index)[: b.batch_size], b.y[: b.batch_size]),
        model,
        counter,
    )


def load_only(loader: Iterable) -> float:
    r"""CPU seconds to load one epoch."""
    started = time.process_time()
    for _ in loader:
        pass
    return time.process_time() - started


def epoch(loader: Iterable, outputs: Callable, optimizer: torch.optim.Optimizer) -> float:
    r"""CPU seconds to load and train one epoch."""
    started = time.process_time()
    for batch in loader:
        optimizer.zero_grad()
        out, y = outputs(batch)
        F.cross_entropy(out, y).backward()
        optimizer.step()
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--release', required=True)
    parser.add_argument('--batch-size', type=int, default=256)
    parser.add_argument('--width', type=int, default=64)
    parser.add_argument('--epochs', type=int, default=5)
    parser.add_argument('--out', type=Path, help='where to add the results as a line of JSON')
    args = parser.parse_args()
    dataset = SyntheticCGTDataset.load(args.release)
    sides = {name: make_side(name, dataset, args.batch_size, args.width) for name in SIDES}
    optimizers = {
        name: torch.optim.Adam(model.parameters(), lr=0.01)
        for name, (_, _, model, _) in sides.items()
    }
    for name, (loader, outputs, _, _) in sides.items():  # compiles
        epoch(loader, outputs, optimizers[name])
    load: dict[str, list[float]] = {name: [] for name in SIDES}
    train: dict[str, list[float]] = {name: [] for name in SIDES}
    for _ in range(args.epochs):
        for name, (loader, outputs, _, _) in sides.items():
            load[name].append(load_only(loader))
            train[name].append(epoch(loader, outputs, optimizers[name]))
    num_batches = -(-len(dataset.trees) // args.batch_size)
    base = median(train[SIDES[0]])
    rows = {}
    for name in SIDES:
        rows[name] = {
            'batches_per_second': round(num_batches / median(load[name]), 1),
            'seconds_per_epoch': round(median(train[name]), 3),
            'times_faster': round(base / median(train[name]), 2),
            'compilations': sides[name][3].frame_count,
        }
        print(name, rows[name])
    if args.out:
        facts = {'trees': len(dataset.trees), 'batch_size': args.batch_size, 'width': args.width}
        with args.out.open('a') as file:
            file.write(json.dumps({**facts, 'sides': rows}) + '\n')


if __name__ == '__main__':
    main()
