r"""Times of all phases on one or several GPUs, beside what a roofline expects.

    sh benchmarks/gpu.sh 8 --tflops 19.5 --bf16-tflops 312 --gbps 2039
    torchrun --nproc-per-node 8 benchmarks/gpu.py --cells gpu.jsonl
    python benchmarks/gpu.py --cells gpu.jsonl --show

The first form runs 1, 2, 4 and 8 processes. Trees, batches and rows are per process, so that a
perfect machine takes the same time for any number of processes. Trees are made up. Operations and
bytes are counted on the real step and the real block. The default speeds are those of the data
sheet of an NVIDIA A100 with 80 GB; pass those of your GPU. ``--device cpu`` runs on CPUs.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
from cells import add_cell, read_cells
from roofline import Machine, Work, count
from zipf import zipf_trees

from torch_geometric_cgt import CGTGenerator
from torch_geometric_cgt.quantizer import FlowKMeans
from torch_geometric_cgt.quantizer.kmeans_steps import candidate_costs
from torch_geometric_cgt.training import (
    FitConfig,
    World,
    join_world,
    leave_world,
    resolve_device,
)
from torch_geometric_cgt.training.batches import Batches
from torch_geometric_cgt.training.fit import train_step, wrap
from torch_geometric_cgt.training.sample import sample_blocks

NUM_CLASSES, K, WARMUP = 10, 30, 3
FITS = {
    'fit float32': {},
    'fit bfloat16': {'precision': 'bfloat16'},
    'fit compiled': {'compile': True},
}


def timed(run: Callable[[], object], world: World, device: torch.device) -> float:
    r"""Seconds until all processes have finished."""
    world.gather(0)
    start = time.perf_counter()
    run()
    if device.type != 'cpu':
        torch.accelerator.synchronize(device)
    world.gather(0)
    return time.perf_counter() - start


def measure_distances(args: argparse.Namespace, world: World, device: torch.device) -> dict:
    r"""Distances of rows to candidate centres: the part of quantization that the device does."""
    rng = torch.Generator().manual_seed(world.rank)
    num_clusters = max(2, args.cell_rows // K)
    x = torch.randn(args.cell_rows, args.features, generator=rng).to(device)
    labels = (torch.arange(args.cell_rows) % num_clusters).to(device)
    centers, sizes = x[:num_clusters].clone(), torch.full((num_clusters,), K, device=device)

    def cell() -> None:
        candidate_costs(x, labels, centers, 10, sizes, True)

    work = count(cell)
    seconds = timed(lambda: [cell() for _ in range(args.cells_per_process)], world, device)
    return {'work': vars(work.times(args.cells_per_process)), 'seconds': seconds}


def measure_quantize(args: argparse.Namespace, world: World, device: torch.device) -> dict:
    r"""A whole clustering with flows, which run on the host: there is no roofline for them."""
    rng = torch.Generator().manual_seed(world.rank)
    x = torch.randn(args.rows, args.features, generator=rng)
    clusters = FlowKMeans(max(1, args.rows // K), K, max_iter=5, device=str(device))
    return {'work': None, 'seconds': timed(lambda: clusters.fit(x), world, device)}


def make_generator(args: argparse.Namespace, device: torch.device) -> CGTGenerator:
    torch.manual_seed(0)
    return CGTGenerator(args.tokens, NUM_CLASSES, [5, 5], args.channels).to(device)


def measure_fit(
    args: argparse.Namespace, world: World, device: torch.device, **kwargs: object
) -> tuple[dict, dict]:
    r"""Training steps with their batches, and the share of the host: plans of batches."""
    generator = make_generator(args, device)
    tokens, y = zipf_trees(args.trees, args.tokens, torch.Generator().manual_seed(world.rank))
    config = FitConfig(batch_size=args.batch_size * world.size, holdout=0.0, **kwargs)
    batches = Batches(
        generator, lambda rows, _: tokens[rows], y, torch.zeros_like(y), config, 0, world
    )
    optimizer = torch.optim.AdamW(generator.parameters(), lr=1e-4, fused=True)
    order, spent = batches.order(0).repeat(args.steps + WARMUP), 0.0
    model = wrap(generator, batches, config, world, device)

    def step(i: int) -> None:
        nonlocal spent
        start = time.perf_counter()
        parts = batches.parts(order, 0, i)
        spent += time.perf_counter() - start
        train_step(model, optimizer, parts, config, i, world, device)

    parts = batches.parts(order, 0, 0)  # counted without wrappers, which hide operations
    work = count(lambda: train_step(generator, optimizer, parts, config, 0, World(), device))
    for i in range(WARMUP):
        step(i)
    spent = 0.0
    seconds = timed(lambda: [step(WARMUP + i) for i in range(args.steps)], world, device)
    trees = args.steps * config.batch_size
    plan = {'work': None, 'seconds': spent, 'trees': trees}
    return {'work': vars(work.times(args.steps)), 'seconds': seconds, 'trees': trees}, plan


def measure_sample(args: argparse.Namespace, world: World, device: torch.device) -> dict:
    r"""Blocks of sampled trees, which the processes share."""
    generator, size = make_generator(args, device), args.batch_size
    blocks = args.blocks * world.size
    y = torch.arange(blocks * size) % NUM_CLASSES
    own = list(range(world.rank, blocks, world.size))

    def run(some: list[int]) -> None:
        for _ in sample_blocks(generator, y, some, 0, size, device, False):
            pass

    work = count(lambda: run(own[:1]))
    seconds = timed(lambda: run(own), world, device)
    return {'work': vars(work.times(len(own))), 'seconds': seconds, 'trees': y.numel()}


def run(args: argparse.Namespace) -> dict:
    r"""Measures all phases with the processes of this run."""
    device = resolve_device(args.device)
    world = join_world(device)
    phases = {
        'quantize': measure_quantize(args, world, device),
        'distances': measure_distances(args, world, device),
    }
    for name, kwargs in FITS.items():
        if name in args.skip:
            continue
        phases[name], plan = measure_fit(args, world, device, **kwargs)
        phases.setdefault('plan on the host', plan)
    phases['sample'] = measure_sample(args, world, device)
    name = torch.cuda.get_device_name(device) if device.type == 'cuda' else device.type
    machine = {k: getattr(args, k) for k in ('tflops', 'bf16_tflops', 'gbps', 'launch')}
    cell = {'device': name, 'processes': world.size, 'machine': machine, 'phases': phases}
    if world.is_first:
        add_cell(args.cells, cell)
    leave_world()
    return cell


def show(cells: list[dict]) -> None:
    r"""A table per number of processes, and the efficiency against the fewest processes."""
    first = min(cells, key=lambda cell: cell['processes'])['phases']
    for cell in sorted(cells, key=lambda cell: cell['processes']):
        speed = cell['machine']
        print(f'\n{cell["processes"]} x {cell["device"]}, expected for {speed}')
        print(
            f'{"phase":17} {"GFLOP":>10} {"GB":>9} {"kernels":>9} {"expected s":>11} '
            f'{"limit":>11} {"measured s":>11} {"ratio":>8} {"trees/s":>10} {"efficiency":>11}'
        )
        for name, facts in cell['phases'].items():
            is_half = 'bfloat16' in name
            machine = Machine(
                speed['bf16_tflops' if is_half else 'tflops'], speed['gbps'], speed['launch']
            )
            columns = ['-'] * 5
            ratio = '-'
            if facts['work'] is not None:
                work = Work(**facts['work'])
                seconds, limit = machine.seconds(work, 'compiled' in name)
                columns = [f'{work.flops / 1e9:,.1f}', f'{work.bytes / 1e9:,.2f}']
                columns += [f'{work.kernels:,.0f}', f'{seconds:.4f}', limit]
                ratio = f'{facts["seconds"] / seconds:.1f}'
            rate = f'{facts["trees"] / facts["seconds"]:,.0f}' if 'trees' in facts else '-'
            share = first[name]['seconds'] / facts['seconds'] if name in first else float('nan')
            print(
                f'{name:17} {columns[0]:>10} {columns[1]:>9} {columns[2]:>9} {columns[3]:>11} '
                f'{columns[4]:>11} {facts["seconds"]:>11.4f} {ratio:>8} {rate:>10} {share:>11.2f}'
            )


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--device', default='auto')
    parser.add_argument('--tflops', type=float, default=19.5, help='of float32, 10^12 per second')
    parser.add_argument('--bf16-tflops', type=float, default=312.0, help='of bfloat16')
    parser.add_argument('--gbps', type=float, default=2039.0, help='of memory, 10^9 bytes/second')
    parser.add_argument('--launch', type=float, default=5.0, help='microseconds per kernel')
    parser.add_argument('--tokens', type=int, default=5_644, help='clusters of ogbn-arxiv')
    parser.add_argument('--channels', type=int, default=128)
    parser.add_argument('--trees', type=int, default=50_000)
    parser.add_argument('--batch-size', type=int, default=1024, help='trees per process and step')
    parser.add_argument('--steps', type=int, default=50)
    parser.add_argument('--blocks', type=int, default=8, help='of sampled trees, per process')
    parser.add_argument('--rows', type=int, default=20_000, help='that are quantized')
    parser.add_argument('--cell-rows', type=int, default=5_000)
    parser.add_argument('--cells-per-process', type=int, default=50)
    parser.add_argument('--features', type=int, default=128)
    parser.add_argument('--skip', nargs='*', default=[], choices=FITS)
    parser.add_argument('--cells', type=Path, default=Path('gpu.jsonl'))
    parser.add_argument('--show', action='store_true', help='print the table of finished runs')
    return parser.parse_args(argv)


def main() -> None:
    args = parse()
    if args.show:
        show(read_cells(args.cells))
    else:
        run(args)


if __name__ == '__main__':
    main()
