r"""Training GraphSAGE from lazy stores, beside a loader on the same trees in memory.

    OMP_NUM_THREADS=1 python benchmarks/stores.py --trees 100000 --features 500

Both loaders are PyG's ``NeighborLoader`` with batches of 1,024 trees (s = 5, L = 2); the stock
sampler needs pyg-lib or torch-sparse, and where neither is installed, ``TreeNeighborSampler`` takes
its place on the side of the in-memory graph, too. Each side runs in a process of its own: its peak
memory above the start is what the operating system says. Both take turns for speed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import torch
import torch.nn.functional as F
import torch_geometric.typing
from memory import peak_memory
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GraphSAGE
from zipf import zipf_trees

from torch_geometric_cgt import TreeNeighborSampler
from torch_geometric_cgt.data import (
    CodebookFeatureStore,
    ForestGraphStore,
    LazyForest,
    TokenTrees,
    TreeShape,
    root_nodes,
)
from torch_geometric_cgt.utils.files import read_tensors, write_tensors

NUM_TOKENS, NUM_CLASSES, FAN_OUTS, BATCH = 1_000, 10, [5, 5], 1_024
STOCK = torch_geometric.typing.WITH_PYG_LIB or torch_geometric.typing.WITH_TORCH_SPARSE


def make_files(folder: Path, num_trees: int, num_features: int) -> None:
    r"""Trees and codebook as a release has them."""
    rng = torch.Generator().manual_seed(0)
    tokens, y = zipf_trees(num_trees, NUM_TOKENS, rng)
    codebook = torch.randn(NUM_TOKENS, num_features, generator=rng)
    write_tensors(folder / 'trees.safetensors', {'tokens': tokens.int(), 'y': y})
    write_tensors(folder / 'codebook.safetensors', {'codebook': codebook})


def make_loader(folder: Path, side: str) -> NeighborLoader:
    r"""Batches of computation graphs, by stores or from one graph in memory."""
    tensors = read_tensors(folder / 'trees.safetensors')
    codebook = read_tensors(folder / 'codebook.safetensors')['codebook']
    tokens, y = tensors['tokens'], tensors['y']
    shape = TreeShape.of(FAN_OUTS)
    trees = TokenTrees(tokens, y, torch.ones_like(y), NUM_TOKENS, NUM_CLASSES, shape)
    common = {'num_neighbors': FAN_OUTS, 'batch_size': BATCH, 'shuffle': True}
    if side == 'stores':
        forest = LazyForest.of(trees)
        stores = CodebookFeatureStore(forest, codebook), ForestGraphStore(forest)
        sampler = TreeNeighborSampler(stores, FAN_OUTS)
        roots = root_nodes(forest, 'train')
        return NeighborLoader(stores, input_nodes=roots, neighbor_sampler=sampler, **common)
    data = trees.to_data(codebook)
    sampler = None if STOCK else TreeNeighborSampler(data, FAN_OUTS)
    roots = data.train_mask.nonzero().view(-1)
    return NeighborLoader(data, input_nodes=roots, neighbor_sampler=sampler, **common)


def train(loader: NeighborLoader, num_batches: int, width: int) -> float:
    r"""Trains on some batches; returns the seconds of each."""
    torch.manual_seed(0)
    model = GraphSAGE(width, 64, len(FAN_OUTS), NUM_CLASSES)
    optimizer = torch.optim.Adam(model.parameters())
    started = time.process_time()
    for i, batch in enumerate(loader):
        if i == num_batches:
            break
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        F.cross_entropy(out, batch.y[: batch.batch_size]).backward()
        optimizer.step()
    return (time.process_time() - started) / num_batches


def memory_of(folder: Path, side: str, num_batches: int, width: int) -> dict[str, float]:
    r"""The peak of this process: before the loader, with it, and after training."""
    facts = {'start': peak_memory()}
    loader = make_loader(folder, side)
    facts['loader'] = peak_memory()
    train(loader, num_batches, width)
    facts['trained'] = peak_memory()
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--trees', type=int, default=100_000)
    parser.add_argument('--features', type=int, default=500)
    parser.add_argument('--batches', type=int, default=20)
    parser.add_argument('--side', choices=['stores', 'memory'], help='for the program itself')
    parser.add_argument('--folder', type=Path, help='for the program itself')
    args = parser.parse_args()
    if args.side:
        facts = memory_of(args.folder, args.side, args.batches, args.features)
        print(json.dumps(facts))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_files(folder, args.trees, args.features)
        grown = {}
        for side in ('stores', 'memory'):
            command = [sys.executable, *sys.argv, '--side', side, '--folder', str(folder)]
            out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            facts = json.loads(out.splitlines()[-1])
            grown[side] = facts['trained'] - facts['start']
            print(
                f'{side:8} peak {facts["trained"]:8.0f} MB, above the start {grown[side]:8.0f} MB'
            )
        loaders = {side: make_loader(folder, side) for side in ('stores', 'memory')}
        times: dict[str, list[float]] = {side: [] for side in loaders}
        for _ in range(5):
            for side, loader in loaders.items():
                times[side].append(train(loader, args.batches, args.features))
        ratios = [b / a for a, b in zip(times['stores'], times['memory'], strict=True)]
        engine = 'stock sampler' if STOCK else 'TreeNeighborSampler (no native extension installed)'
        for side, seconds in times.items():
            print(f'{side:8} {1 / median(seconds):6.2f} batches of {BATCH} trees per second')
        print(f'in memory: {engine}')
        print(f'stores / memory: {median(ratios):.2f} in speed', end=', ')
        print(f'{grown["stores"] / grown["memory"]:.3f} in memory')


if __name__ == '__main__':
    main()
