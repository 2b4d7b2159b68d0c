r"""The time of a build, phase by phase, with two checkouts of this package side by side.

.. code-block:: bash

    python benchmarks/build_time.py --before ../old --after . --out build_time.jsonl
    python benchmarks/build_time.py --out build_time.jsonl --show

Each build is a process of its own with one thread, and the two checkouts take turns. Times are
processor seconds; a ratio is the median of the ratios of the turns. Beside them stand the held-out
loss of the fit and the distance of the probe scores of the seven views from those of the source, so
that a faster build that is worse is seen. Cora is looked for in ``$CGT_DATA_ROOT``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any


def build(source: str, seed: int) -> dict[str, Any]:
    r"""One build with the package on the path."""
    begin = time.process_time()
    import torch

    import torch_geometric_cgt
    from torch_geometric_cgt.datasets import load_source
    from torch_geometric_cgt.pipeline import (
        BuildConfig,
        KAnonymity,
        KAnonymousPipeline,
        check_source,
    )

    torch.set_num_threads(1)
    warnings.simplefilter('ignore')  # clusters of one label
    checked = check_source(load_source(source))
    config = BuildConfig(privacy=KAnonymity(), seed=seed)
    seconds = {'start': time.process_time() - begin}
    with tempfile.TemporaryDirectory() as work:
        run = KAnonymousPipeline(checked, config, Path(work), log=False, belongs_to='build_time')
        for stage in run.stages():
            begin = time.process_time()
            run.run_stage(stage)
            seconds[stage.name] = time.process_time() - begin
            print(f'{stage.name} {seconds[stage.name]:.2f}', file=sys.stderr, flush=True)
        history = run.result().history
    views, errors = history['views'], []
    for found in views['rounds']:
        gaps = [found[name] - aim for name, aim in views['aim'].items()]
        errors.append((sum(gap**2 for gap in gaps) / len(gaps)) ** 0.5)
    return {
        'package': str(Path(torch_geometric_cgt.__file__).parents[1]),
        'seconds': {name: round(value, 3) for name, value in seconds.items()},
        'holdout_nll': min(history['holdout_nll']),
        'view_gap': min(errors),  # root mean square over the views, of the best round
        'effective': views['effective'],  # candidates per tree
    }


def run_build(checkout: Path, source: str, seed: int) -> dict[str, Any]:
    r"""One build in a process of its own."""
    path = os.environ.get('PYTHONPATH')
    both = os.pathsep.join([str(checkout.resolve()), *([path] if path else [])])
    command = [sys.executable, __file__, '--here', '--source', source, '--seed', str(seed)]
    environment = {**os.environ, 'PYTHONPATH': both, 'OMP_NUM_THREADS': '1'}
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    cell = json.loads(out.stdout.strip().splitlines()[-1])
    if Path(cell.pop('package')) != checkout.resolve():
        raise RuntimeError(f"'{checkout}' was not the package that ran")
    return cell


def show(turns: list[dict[str, Any]]) -> None:
    r"""A table per source."""
    for source in dict.fromkeys(turn['source'] for turn in turns):
        rows = [turn for turn in turns if turn['source'] == source]
        print(f'{source}, {len(rows)} turns, processor seconds of one thread')
        print(f'  {"phase":12} {"before":>8} {"after":>8} {"before / after":>15}')
        phases = list(rows[0]['before']['seconds'])
        for phase in [*phases, 'all']:
            pairs = [[_seconds(row[side], phase) for side in ('before', 'after')] for row in rows]
            before, after = (median(values) for values in zip(*pairs, strict=True))
            ratio = median(a / max(b, 1e-3) for a, b in pairs)
            print(f'  {phase:12} {before:8.2f} {after:8.2f} {ratio:15.2f}')
        for name in ('holdout_nll', 'view_gap', 'effective'):
            found = [[row[side][name] for row in rows] for side in ('before', 'after')]
            texts = [' '.join(f'{value:.4f}' for value in values) for values in found]
            print(f'  {name:12} before {texts[0]}; after {texts[1]}')


def _seconds(cell: dict[str, Any], phase: str) -> float:
    seconds = cell['seconds']
    return sum(seconds.values()) if phase == 'all' else seconds.get(phase, 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--before', type=Path, help='folder of one checkout')
    parser.add_argument('--after', type=Path, help='folder of the other')
    parser.add_argument('--source', default='Cora')
    parser.add_argument('--seed', type=int, default=0, help='of the first turn')
    parser.add_argument('--turns', type=int, default=1, help='each with the next seed')
    parser.add_argument('--out', type=Path, default=Path('build_time.jsonl'))
    parser.add_argument('--show', action='store_true', help='print what is there, run nothing')
    parser.add_argument('--here', action='store_true', help='run one build, print it')
    args = parser.parse_args()
    if args.here:
        print(json.dumps(build(args.source, args.seed)))
        return
    if not args.show and (args.before is None or args.after is None):
        parser.error('--before and --after are needed')
    for seed in range(args.seed, args.seed + args.turns * (not args.show)):
        turn = {'source': args.source, 'seed': seed}
        for side in ('before', 'after'):
            turn[side] = run_build(getattr(args, side), args.source, seed)
        with open(args.out, 'a') as file:
            file.write(json.dumps(turn) + '\n')
    lines = args.out.read_text().splitlines() if args.out.exists() else []
    show([json.loads(line) for line in lines])


if __name__ == '__main__':
    main()
