r"""Trees per second of the sampler, against loops and PyG's loader; growth and memory.

.. code-block:: bash

    OMP_NUM_THREADS=1 python benchmarks/sampling.py
    OMP_NUM_THREADS=1 python benchmarks/sampling.py --shared data --graphs arxiv

Times are processor seconds; what is compared takes turns within one process, and a ratio is the
median of the ratios of the turns. Photo is looked for in ``$CGT_DATA_ROOT``, the structure of
ogbn-arxiv there or in ``--shared``; without it, a made-up graph of its size takes its place.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from big_graphs import arxiv_like
from loops import loop_over_lists, loop_over_tensors, neighbor_lists
from torch import Tensor
from torch_geometric import typing
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.datasets import load_source
from torch_geometric_cgt.sampler import InNeighbors, TreeNeighborSampler, sample_trees

SHAPE = TreeShape.of([5, 5])
BATCH = 1024
TURNS = 7
LOOP_ROOTS = 500
GROWTH = [10_000, 20_000, 40_000, 80_000, 160_000]
NODES, DEGREE = 200_000, 10  # of the graphs for memory
OURS, LISTS, TENSORS = 'sample_trees, one call', 'loop over lists', 'loop over tensors'
STOCK, TREE_LOADER = 'NeighborLoader', 'NeighborLoader, TreeNeighborSampler'


def load_graph(name: str, shared: Path | None) -> tuple[InNeighbors, str]:
    r"""A graph, and what it is."""
    data = load_source('Photo')[0] if name == 'photo' else arxiv_like(0, shared)
    note = 'Photo' if name == 'photo' else f'arxiv ({data.note.split(",")[0]})'
    return InNeighbors.from_edge_index(data.edge_index, data.num_nodes), note


def edges_of(graph: InNeighbors) -> Data:
    r"""The graph without features: a loader then has nothing to do but to sample."""
    target = torch.arange(graph.num_nodes).repeat_interleave(graph.ptr.diff())
    return Data(edge_index=torch.stack([graph.source, target]), num_nodes=graph.num_nodes)


def run_loader(data: Data, root: Tensor, sampler: TreeNeighborSampler | None = None) -> int:
    r"""Goes through the batches of PyG's loader; returns the number of roots."""
    loader = NeighborLoader(
        data,
        list(SHAPE.num_neighbors),
        input_nodes=root,
        batch_size=BATCH,
        neighbor_sampler=sampler,
    )
    return sum(batch.batch_size for batch in loader)


def run_batches(graph: InNeighbors, root: Tensor) -> None:
    for part in root.split(BATCH):
        sample_trees(graph, part, SHAPE)


def contenders(graph: InNeighbors) -> tuple[dict[str, tuple[Callable[[], Any], int]], str]:
    r"""What samples trees and how many of them a turn; and the engine of the stock loader."""
    root = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))[:65_536]
    lists, few = neighbor_lists(graph), root[:LOOP_ROOTS]
    many = root[: 8 * LOOP_ROOTS].tolist()
    data, fan_outs = edges_of(graph), SHAPE.num_neighbors
    runs: dict[str, tuple[Callable[[], Any], int]] = {
        OURS: (partial(sample_trees, graph, root, SHAPE), root.numel()),
        f'sample_trees, batches of {BATCH:,}': (partial(run_batches, graph, root), root.numel()),
        TENSORS: (partial(loop_over_tensors, graph, few, fan_outs), few.numel()),
        LISTS: (partial(loop_over_lists, lists, many, fan_outs), len(many)),
    }
    sampler = TreeNeighborSampler(data, list(fan_outs))
    runs[TREE_LOADER] = partial(run_loader, data, root, sampler), root.numel()
    engine = 'pyg-lib' if typing.WITH_PYG_LIB else 'torch-sparse'
    if not typing.WITH_PYG_LIB and not typing.WITH_TORCH_SPARSE:
        return runs, 'not installed'
    runs[STOCK] = partial(run_loader, data, root), root.numel()
    return runs, engine


def run_speed(name: str, shared: Path | None) -> dict[str, Any]:
    r"""Trees per second of everything that samples."""
    graph, note = load_graph(name, shared)
    runs, engine = contenders(graph)
    times: dict[str, list[float]] = {key: [] for key in runs}
    for turn in range(TURNS + 1):
        for key, (run, trees) in runs.items():
            spent = seconds(run) / trees
            if turn:  # the first one loads libraries
                times[key].append(spent)
    rows = {}
    for key, spent in times.items():
        ratios = [theirs / ours for theirs, ours in zip(spent, times[OURS], strict=True)]
        rows[key] = {
            'trees_per_s': 1 / median(spent),
            'ratio': median(ratios),
            'low': min(ratios),
            'high': max(ratios),
        }
    return {'graph': note, 'engine': engine, 'rows': rows}


def run_growth(name: str, shared: Path | None) -> dict[str, Any]:
    r"""Seconds from few roots to many, which take turns."""
    graph, note = load_graph(name, shared)
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))
    times: dict[int, list[float]] = {n: [] for n in GROWTH}
    for turn in range(TURNS + 1):
        for n in GROWTH:
            root = order[torch.arange(n) % order.numel()]
            spent = seconds(partial(sample_trees, graph, root, SHAPE))
            if turn:
                times[n].append(spent)
    rows = {n: median(spent) for n, spent in times.items()}
    x, z = (torch.tensor([math.log(v) for v in values]) for values in (rows, rows.values()))
    x, z = x - x.mean(), z - z.mean()
    return {'graph': note, 'seconds': rows, 'exponent': float(x @ z / (x @ x))}


def memory_graph(kind: str) -> InNeighbors:
    r"""Graphs of equally many nodes and edges, made without sorting: the peak is the sampler's.
    Every node of a star has the hub among its neighbours.
    """
    degree = torch.full((NODES,), DEGREE)
    if kind == 'star':
        degree -= 1
        degree[0] += NODES
    ptr = torch.cat([degree.new_zeros(1), degree.cumsum(0)])
    rng = torch.Generator().manual_seed(0)
    source = torch.randint(1, NODES, (NODES * DEGREE,), generator=rng)
    if kind == 'star':
        source[ptr[1:-1]] = 0
    return InNeighbors(ptr, source, torch.empty(0, dtype=torch.long))


def run_memory(kind: str) -> dict[str, Any]:
    r"""The peak of this process in MB, before and after it sampled a tree of every node."""
    graph = memory_graph(kind)
    sample_trees(graph, torch.arange(1), SHAPE)
    start = peak_memory()
    sample_trees(graph, torch.arange(NODES), SHAPE)
    return {'start': start, 'peak': peak_memory(), 'degree': int(graph.ptr.diff().max())}


def peak_memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def seconds(function: Callable[[], Any]) -> float:
    r"""The processor time of a call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def show_memory(rows: dict[str, dict[str, Any]]) -> None:
    print(f'memory, trees of all nodes at once, {NODES:,} nodes, {NODES * DEGREE:,} edges')
    for kind, row in rows.items():
        print(
            f'  {kind:8} largest degree {row["degree"]:7,}  peak {row["peak"]:6.1f} MB'
            f'  above the start {row["peak"] - row["start"]:6.1f} MB'
        )
    print(f'  star / regular: {rows["star"]["peak"] / rows["regular"]["peak"]:.3f}')


def show_speed(cell: dict[str, Any]) -> None:
    print(f'speed, {cell["graph"]}, fan-outs {list(SHAPE.num_neighbors)}')
    for key, row in cell['rows'].items():
        print(
            f'  {key:36} {row["trees_per_s"]:10,.0f} trees/s  one call is x {row["ratio"]:6.1f}'
            f'  ({row["low"]:.1f} to {row["high"]:.1f})'
        )
    print(f'  engine of the stock NeighborLoader (pyg-lib or torch-sparse): {cell["engine"]}')


def show_growth(cell: dict[str, Any]) -> None:
    spent = ', '.join(f'{n // 1000}k {1e3 * s:.0f}' for n, s in cell['seconds'].items())
    print(f'growth, {cell["graph"]}: roots and milliseconds {spent}: n^{cell["exponent"]:.3f}')


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--graphs', nargs='+', choices=['photo', 'arxiv'])
    parser.add_argument('--shared', type=Path, help='folder that has ogbn_arxiv/structure.npz')
    parser.add_argument('--memory', help='measure this graph in this process, print JSON only')
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if args.memory:
        print(json.dumps(run_memory(args.memory)))
        return
    # Memory comes first: a child starts from the peak of its parent.
    command = [sys.executable, __file__, '--memory']
    out = {k: subprocess.check_output([*command, k], text=True) for k in ('regular', 'star')}
    show_memory({kind: json.loads(text) for kind, text in out.items()})
    for name in args.graphs or ['photo', 'arxiv']:
        show_speed(run_speed(name, args.shared))
    for name in args.graphs or ['arxiv']:
        show_growth(run_growth(name, args.shared))


if __name__ == '__main__':
    main()
