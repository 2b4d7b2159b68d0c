r"""More synthetic trees than fit into memory: time, memory and bytes on disk by their number.

    OMP_NUM_THREADS=1 python benchmarks/streaming.py --trees 10000 10000000 --cells streaming.jsonl
    python benchmarks/streaming.py --cells streaming.jsonl --show

Builds ``SyntheticCGTDataset(Digits(), num_samples=...)`` with a short fit, reads a few batches of
it, and states the peak memory of the process, as the operating system counts it, beside that before
the build. Each number runs in a process of its own.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

from cells import add_cell, read_cells
from memory import peak_memory

from torch_geometric_cgt import FitConfig, SyntheticCGTDataset
from torch_geometric_cgt.datasets import Digits


def build(num_samples: int, fan_outs: list[int], root: Path) -> dict:
    r"""Builds, and reads what was built."""
    source = Digits()
    before, started = peak_memory(), time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # homogeneous clusters
        dataset = SyntheticCGTDataset(
            source,
            num_neighbors=fan_outs,
            num_samples=num_samples,
            root=root,
            fit=FitConfig(epochs=2),
            log=True,
        )
    seconds = time.monotonic() - started
    batches = iter(dataset.loader('train', batch_size=1024))
    roots = sum(next(batches).batch_size for _ in range(3))
    return {
        'trees': num_samples,
        'fan_outs': fan_outs,
        'seconds': round(seconds, 1),
        'before': round(before),
        'peak': round(peak_memory()),
        'disk': round(sum(f.stat().st_size for f in root.rglob('*') if f.is_file()) / 2**20, 1),
        'roots_read': roots,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--trees', type=int, nargs='+', default=[10_000, 10_000_000])
    parser.add_argument('--fan-outs', type=int, nargs='+', default=[3, 3])
    parser.add_argument('--cells', type=Path, default=Path('streaming.jsonl'))
    parser.add_argument('--show', action='store_true')
    parser.add_argument('--here', type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.here:
        print(json.dumps(build(args.trees[0], args.fan_outs, args.here)))
        return
    for num_samples in [] if args.show else args.trees:
        with tempfile.TemporaryDirectory(dir=args.cells.absolute().parent) as folder:
            fan_outs = map(str, args.fan_outs)
            command = [sys.executable, __file__, '--here', folder, '--trees', str(num_samples)]
            done = subprocess.run(
                [*command, '--fan-outs', *fan_outs], stdout=subprocess.PIPE, text=True, check=True
            )
        add_cell(args.cells, json.loads(done.stdout.splitlines()[-1]))
    for cell in read_cells(args.cells):
        print(
            f'{cell["trees"]:>12,} trees {cell["fan_outs"]}: {cell["seconds"]:8,.0f} s, peak '
            f'{cell["peak"]:6,} MB ({cell["before"]:,} MB before), {cell["disk"]:8,.0f} MB on disk'
        )


if __name__ == '__main__':
    main()
