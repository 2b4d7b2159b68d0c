r"""One build by one and by several processes, on a memory-mapped graph: time and memory per phase.

    python benchmarks/processes.py --nodes 2e5 --processes 1 2 --cells processes.jsonl
    python benchmarks/processes.py --nodes 2e6 --processes 2 --phases quantize scenes encode
    python benchmarks/processes.py --nodes 2e7 --processes 2 --folder graph --keep stages \
        --phases quantize scenes encode sample --samples 200000 --cells processes.jsonl
    python benchmarks/processes.py --cells processes.jsonl --show

The graph is made up: ten edges per node, 64 features of type float16, ten labels, written as
``.npy`` files. Each number of processes builds it in the same run, one after the other, each
process with one thread. Times are those of the slowest process, on the wall and in processor
seconds; on a machine that others use as well, the second ones say how the work is shared. Memory
is what the operating system says: the peak of everything, and the peak without mapped files, which
it may take back at any time. With ``--folder`` and ``--keep``, a run that was stopped goes on, and
the times of its phases are added up. ``--steps`` limits the fit, ``--samples`` the release.
``--show`` prints ratios, and the exponent of growth between sizes.
"""

import argparse
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from cells import add_cell, read_cells
from phase_clock import PhaseClock

from torch_geometric_cgt import FitConfig
from torch_geometric_cgt.datasets.array_files import read_npy_folder
from torch_geometric_cgt.pipeline import BuildConfig, KAnonymity, KAnonymousPipeline, check_source
from torch_geometric_cgt.training import fit, join_world, leave_world

NUM_FEATURES, NUM_CLASSES, DEGREE = 64, 10, 10
SIGNAL, HOMOPHILY = 0.5, 0.7
BLOCK = 1 << 18  # rows that are written at a time
PHASES = ('quantize', 'scenes', 'encode', 'fit', 'sample')


def write_graph(folder: Path, num_nodes: int, seed: int) -> None:
    r"""Writes a graph block by block. Edges mostly join nodes of one label."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    y = rng.integers(NUM_CLASSES, size=num_nodes)
    np.save(folder / 'y.npy', y)
    order = np.argsort(y, kind='stable')
    first = np.searchsorted(y[order], np.arange(NUM_CLASSES + 1))
    centers = SIGNAL * rng.normal(size=(NUM_CLASSES, NUM_FEATURES))
    mixing = rng.normal(size=(16, NUM_FEATURES)) / 4  # features are correlated
    shape = (num_nodes, NUM_FEATURES)
    x = np.lib.format.open_memmap(folder / 'x.npy', 'w+', np.float16, shape)
    shape = (2, DEGREE * num_nodes)
    edges = np.lib.format.open_memmap(folder / 'edge_index.npy', 'w+', np.int64, shape)
    for start in range(0, num_nodes, BLOCK):
        stop = min(start + BLOCK, num_nodes)
        label = y[start:stop]
        noise = rng.normal(size=(stop - start, 16)) @ mixing
        noise += 0.5 * rng.normal(size=(stop - start, NUM_FEATURES))
        x[start:stop] = centers[label] + noise
        target = np.arange(start, stop).repeat(DEGREE)
        label = y[target]
        alike = first[label] + (rng.random(target.size) * (first[label + 1] - first[label]))
        any_node = rng.integers(num_nodes, size=target.size)
        is_alike = rng.random(target.size) < HOMOPHILY
        edges[0, start * DEGREE : stop * DEGREE] = np.where(
            is_alike, order[alike.astype(np.int64)], any_node
        )
        edges[1, start * DEGREE : stop * DEGREE] = target
    x.flush()
    edges.flush()


def worker(args: argparse.Namespace) -> None:
    r"""One process: runs the phases, and prints the time and memory of all processes."""
    torch.set_num_threads(1)
    world = join_world()
    clock = PhaseClock(args.work.with_name(f'{args.work.name}-{world.rank}.phases.json'))
    source = check_source(read_npy_folder(args.folder)[0])
    config = BuildConfig(
        KAnonymity(args.k, task_weight=args.task_weight),
        fit=FitConfig(epochs=1),
        num_samples=args.samples,
    )
    facts, made = {}, []

    def read() -> None:
        made.append(KAnonymousPipeline(source, config, args.work, log=False, world=world))

    facts['read'] = clock.run('read', read)
    run = made[0]
    for stage in run.stages():
        needs_model = stage.name in ('fit', 'match_views', 'sample')
        if stage.name not in args.phases and not (needs_model and 'sample' in args.phases):
            continue
        if stage.name == 'fit':
            stage = replace(stage, run=lambda: fit_some(run, args.steps))
        facts[stage.name] = clock.run(stage.name, partial(run.run_stage, stage))
    sizes = torch.bincount(run.cluster)
    found = {'phases': world.gather(facts), 'clusters': sizes.numel(), 'least': int(sizes.min())}
    if world.is_first:
        print(json.dumps(found))
    leave_world()


def fit_some(run: KAnonymousPipeline, steps: int) -> None:
    r"""Fits on as many roots as take so many steps in one epoch, with all processes."""
    sizes = (run.codebook.size(0), run.source.num_classes)
    torch.manual_seed(0)
    run.model = run.config.make_model(*sizes, run.table.num_scenes)
    count = round(steps * FitConfig.batch_size / 0.9)
    rng = torch.Generator().manual_seed(0)
    some = torch.randperm(run.root.numel(), generator=rng)[:count]
    fit(
        run.model.generator,
        lambda index, rng: run.draws.tokens(some[index], rng),
        run.y[some],
        FitConfig(epochs=1),
        log=False,
        scene=run.scene[some],
        world=run.world,
    )


def measure(args: argparse.Namespace, num_processes: int, folder: Path) -> dict:
    r"""Runs the phases with so many processes. The result has the slowest time of each phase, and
    the largest memory of a process.
    """
    with socket.socket() as free:
        free.bind(('localhost', 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(dir=args.scratch) as temporary:
        work = (args.keep or Path(temporary)) / f'{num_processes}'
        work.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, __file__, '--worker', '--folder', folder, '--work', work]
        command += ['--k', args.k, '--steps', args.steps, '--phases', *args.phases]
        command += ['--task-weight', args.task_weight]
        command += [] if args.samples is None else ['--samples', args.samples]
        environment = {**os.environ, 'OMP_NUM_THREADS': '1', 'WORLD_SIZE': str(num_processes)}
        environment |= {'MASTER_ADDR': 'localhost', 'MASTER_PORT': str(port)}
        children = [
            subprocess.Popen(
                list(map(str, command)),
                env={**environment, 'RANK': str(rank)},
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(num_processes)
        ]
        outputs = [child.communicate()[0] for child in children]
        if any(child.returncode for child in children):
            raise SystemExit(f'A process of {num_processes} failed')
    found = json.loads(outputs[0].splitlines()[-1])
    per_process = found.pop('phases')
    found['phases'] = {
        phase: {name: max(facts[phase][name] for facts in per_process) for name in first}
        for phase, first in per_process[0].items()
    }
    return found


def show(cells: list[dict]) -> None:
    r"""Times, ratios to one process, and exponents of growth."""
    for cell in cells:
        runs = cell['runs']
        print(f'{cell["nodes"]:,} nodes, k = {cell["k"]}, load {cell["load"]}')
        for phase in next(iter(runs.values()))['phases']:
            line = f'  {phase:12}'
            for count, run in runs.items():
                facts = run['phases'][phase]
                used = facts['processor']
                line += f' | {count}: {facts["wall"]:7.1f} s, processor {used:6.1f} s, '
                line += f'{facts["own"]:4.2f} GB'
                if '1' in runs and count != '1':
                    for name in ('wall', 'processor'):
                        one, here = (r['phases'][phase][name] for r in (runs['1'], run))
                        line += f', {name} ratio {one / here:.2f}' if here >= 1 else ''
            print(line)
    cells = sorted(cells, key=lambda cell: cell['nodes'])
    for before, after in pairwise(cells):
        for count in before['runs'].keys() & after['runs'].keys():
            for phase, facts in after['runs'][count]['phases'].items():
                old = before['runs'][count]['phases'].get(phase, {}).get('processor')
                if old and after['nodes'] > before['nodes'] and old > 1:
                    growth = math.log(facts['processor'] / old)
                    growth /= math.log(after['nodes'] / before['nodes'])
                    sizes = f'{before["nodes"]:,} to {after["nodes"]:,}'
                    print(f'{phase}, {count} processes, {sizes}: exponent {growth:.2f}')


def weight(text: str) -> float | str:
    return text if text == 'auto' else float(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--nodes', type=float)
    parser.add_argument('--processes', type=int, nargs='+', default=[1, 2])
    parser.add_argument('--phases', nargs='+', choices=PHASES, default=['quantize', 'scenes'])
    parser.add_argument('--k', type=int, default=30)
    parser.add_argument('--steps', type=int, default=100, help='steps of the fit')
    parser.add_argument('--task-weight', type=weight, default='auto')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--folder', type=Path, help='where the graph is, or is written')
    parser.add_argument('--samples', type=int, help='trees of the release (default: all)')
    parser.add_argument('--scratch', type=Path, help='where stages are written')
    parser.add_argument('--keep', type=Path, help='where a run that was stopped goes on')
    parser.add_argument('--cells', type=Path)
    parser.add_argument('--show', action='store_true')
    parser.add_argument('--worker', action='store_true', help=argparse.SUPPRESS)
    parser.add_argument('--work', type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker(args)
        return
    if args.nodes is not None:
        with tempfile.TemporaryDirectory(dir=args.scratch) as temporary:
            folder = args.folder or Path(temporary)
            if not (folder / 'edge_index.npy').exists():
                write_graph(folder, int(args.nodes), args.seed)
            cell = {'nodes': int(args.nodes), 'k': args.k, 'seed': args.seed, 'runs': {}}
            cell['load'] = round(os.getloadavg()[0], 1)
            for count in args.processes:
                cell['runs'][str(count)] = measure(args, count, folder)
                print(json.dumps(cell['runs'][str(count)]), flush=True)
        if args.cells is not None:
            add_cell(args.cells, cell)
        show([cell])
    if args.show and args.cells is not None:
        show(read_cells(args.cells))


if __name__ == '__main__':
    main()
