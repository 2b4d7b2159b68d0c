r"""A graph of the size of ogbn-arxiv or ogbn-products, from end to end: time and memory per phase.

    OMP_NUM_THREADS=2 python benchmarks/scaling.py arxiv --shared data --cells scaling.jsonl
    OMP_NUM_THREADS=2 python benchmarks/scaling.py products --steps 200 --cells scaling.jsonl
    torchrun --standalone --nproc-per-node 2 benchmarks/scaling.py arxiv --work work --shared data
    python benchmarks/scaling.py --cells scaling.jsonl --show

k = 30, s = 5, L = 2. Each phase is timed on the wall and in processor seconds, and the peak memory
of the process so far is what the operating system says. With ``--steps`` the fit stops after so
many steps and the time of a whole one is extrapolated; everything else is measured. Features of
both graphs are made up, see ``big_graphs.py``. With several processes, times and memory are those
of the first one. A build that was stopped goes on where it was when ``--work`` names its folder.
The times of its phases are kept beside this folder and added up, with the work that was lost. A
cell of a build that was never finished has the ``share`` of each phase that was measured.
"""

import argparse
import tempfile
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from big_graphs import arxiv_like, products_like
from cells import add_cell, read_cells
from memory import peak_memory
from phase_clock import PhaseClock

from torch_geometric_cgt import FitConfig
from torch_geometric_cgt.benchmark import MODELS
from torch_geometric_cgt.benchmark.gnn_training import score_gnns
from torch_geometric_cgt.benchmark.metrics import as_rows
from torch_geometric_cgt.data import TokenTrees
from torch_geometric_cgt.pipeline import (
    BuildConfig,
    KAnonymity,
    KAnonymousPipeline,
    check_source,
)
from torch_geometric_cgt.sampler import sample_trees
from torch_geometric_cgt.training import World, fit, join_world, leave_world
from torch_geometric_cgt.training.batches import MAX_HOLDOUT

PHASES = {'scenes': 'find_scenes'}  # as results name them


def peak_gigabytes() -> float:
    return peak_memory() / 1024


def fit_some(pipeline: KAnonymousPipeline, steps: int) -> None:
    r"""Fits on as many roots as take so many steps in one epoch."""
    sizes = (pipeline.codebook.size(0), int(pipeline.y.max()) + 1)
    pipeline.model = pipeline.config.make_model(*sizes, pipeline.table.num_scenes)
    some = torch.randperm(pipeline.root.numel())[: round(steps * FitConfig.batch_size / 0.9)]
    fit(
        pipeline.model.generator,
        lambda index, rng: pipeline.draws.tokens(some[index], rng),
        pipeline.y[some],
        FitConfig(epochs=1),
        scene=pipeline.scene[some],
        world=pipeline.world,
    )


def run_cell(args: argparse.Namespace, work: Path, world: World) -> dict:
    r"""Runs all phases of a build, and the GNNs where that was asked for."""
    if args.graph == 'arxiv':
        data = arxiv_like(args.seed, args.shared, args.scale)
    else:
        data = products_like(args.seed, args.scale)
    source = check_source(data)
    epochs = FitConfig(epochs=args.epochs).num_epochs(source.root.numel())
    num_held_out = min(int(FitConfig.holdout * source.root.numel()), MAX_HOLDOUT)
    whole_steps = epochs * -(-(source.root.numel() - num_held_out) // FitConfig.batch_size)
    config = BuildConfig(
        privacy=KAnonymity(task_weight=args.task_weight),
        seed=args.seed,
        fit=FitConfig(epochs=epochs),
    )
    cell: dict = {
        'graph': args.graph,
        'scale': args.scale,
        'seed': args.seed,
        'note': data.note,
        'nodes': data.num_nodes,
        'edges': data.num_edges,
        'threads': torch.get_num_threads(),
        'processes': world.size,
        'epochs': epochs,
        'steps': [args.steps or whole_steps, whole_steps],
        'memory_before': round(peak_gigabytes(), 2),
        'phases': {},
    }
    run = KAnonymousPipeline(
        source, config, work, log=world.is_first, world=world, belongs_to='scaling'
    )
    clock = PhaseClock(work.with_name(f'{work.name}-{world.rank}.phases.json'))
    for stage in run.stages():
        if stage.name == 'fit' and args.steps is not None:
            stage = replace(stage, run=lambda: fit_some(run, args.steps))
        facts = clock.run(stage.name, partial(run.run_stage, stage))
        cell['phases'][PHASES.get(stage.name, stage.name)] = facts
        if world.is_first:
            print(f'{stage.name:12} {facts}', flush=True)
    cell['views'] = run.match.to_dict()
    cell['clusters'], cell['task_weight'] = run.codebook.size(0), run.task_weight
    cell['peak'] = round(peak_gigabytes(), 2)
    if args.gnns and world.is_first:
        trees = run.trees
        rng = torch.Generator().manual_seed(args.seed)
        tree = sample_trees(run.graph, run.root, run.shape, rng)
        null = data.num_nodes
        original = TokenTrees(
            tree.masked_fill(tree < 0, null),
            run.y,
            run.split,
            null,
            source.num_classes,
            run.shape,
            as_rows(data.x),
        )
        generated = replace(trees, tokens=trees.tokens.long(), x=as_rows(run.codebook))
        cell['original'] = score_gnns(MODELS, original, args.seed)
        cell['generated'] = score_gnns(MODELS, generated, args.seed)
    return cell


def show(cells: list[dict]) -> None:
    r"""A table per run."""
    for cell in cells:
        print(
            f'{cell["graph"]} x {cell["scale"]:g}: {cell["nodes"]:,} nodes, {cell["edges"]:,} '
            f'edges, {cell["clusters"]:,} clusters, {cell["threads"]} threads ({cell["note"]})'
        )
        total, whole = 0.0, 0.0
        for phase, facts in cell['phases'].items():
            done, steps = cell['steps'] if phase == 'fit' else (1, 1)
            share = cell.get('share', {}).get(phase, done / steps)
            total, whole = total + facts['wall'], whole + facts['wall'] / share
            rest = f', all of it: processor {facts["processor"] / share:,.0f} s' * (share < 1)
            print(
                f'  {phase:12} {facts["wall"]:8,.0f} s  processor {facts["processor"]:8,.0f} s  '
                f'peak {facts["peak"]:5.2f} GB{rest}'
            )
        print(f'  measured {total / 60:.1f} minutes, whole build {whole / 60:.1f} minutes')
        for column in ('original', 'generated'):
            if column in cell:
                scores = ' '.join(f'{m} {v:.3f}' for m, v in cell[column].items())
                print(f'  {column:9} {scores}')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('graph', nargs='?', choices=['arxiv', 'products'])
    parser.add_argument('--shared', help="folder with 'ogbn_arxiv/structure.npz'")
    parser.add_argument('--scale', type=float, default=1.0)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--epochs', type=int)
    parser.add_argument('--steps', type=int, help='of the fit; all by default')
    parser.add_argument(
        '--task-weight', type=lambda t: t if t == 'auto' else float(t), default='auto'
    )
    parser.add_argument('--gnns', action='store_true', help='score the GNNs, too')
    parser.add_argument('--work', type=Path, help='where an interrupted build is kept')
    parser.add_argument('--cells', type=Path, default=Path('scaling.jsonl'))
    parser.add_argument('--show', action='store_true')
    args = parser.parse_args()
    warnings.simplefilter('ignore')  # homogeneous clusters
    if not args.show:
        world = join_world()
        if world.size > 1 and args.work is None:
            parser.error("several processes need '--work', a folder that they share")
        with tempfile.TemporaryDirectory() as folder:
            work = args.work or Path(folder) / 'work'
            work.mkdir(parents=True, exist_ok=True)
            cell = run_cell(args, work, world)
            if world.is_first:
                add_cell(args.cells, cell)
        leave_world()
        if not world.is_first:
            return
    show(read_cells(args.cells))


if __name__ == '__main__':
    main()
