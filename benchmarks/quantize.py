r"""Time, memory and inertia of the quantizers, each case in a process of its own.

.. code-block:: bash

    python benchmarks/quantize.py                            # all but the largest case
    python benchmarks/quantize.py cora citeseer 20k          # some cases
    python benchmarks/quantize.py 2.4m --json quantize.json  # the largest: some 15 minutes

The real graphs are read from :obj:`--root` or :obj:`$CGT_DATA_ROOT`, which holds the raw files of
each graph as :obj:`<name>/raw`; nothing is written there.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

K = 30
GRAPHS = {'cora': 'Cora', 'citeseer': 'CiteSeer', 'cs': 'CS', 'physics': 'Physics'}
SYNTHETIC = {  # rows, columns, limit in seconds, limit in GB
    '20k': (20_000, 64, 20.0, None),
    '20k-100': (20_000, 100, None, None),
    '170k': (170_000, 128, 90.0, 2.0),
    '600k': (600_000, 100, None, None),
    '2.4m': (2_400_000, 100, 1800.0, 8.0),
}
CASES = [*GRAPHS, *SYNTHETIC]


def mixture(num_rows: int, num_columns: int, seed: int = 0) -> Tensor:
    r"""A mixture of Gaussians: one component per 1,000 rows, 16 shared directions, and noise."""
    generator = torch.Generator().manual_seed(seed)
    count = max(1, num_rows // 1000)
    directions = torch.randn(16, num_columns, generator=generator) / 4
    means = 2 * torch.randn(count, 16, generator=generator) @ directions
    x = torch.empty(num_rows, num_columns)
    for block in x.split(65536):  # A block at a time, for the memory figures' sake.
        component = torch.randint(count, (block.size(0),), generator=generator)
        block.copy_(means[component])
        block += torch.randn(block.size(0), 16, generator=generator) @ directions
        block += 0.3 * torch.randn(block.shape, generator=generator)
    return x


def load_planetoid(root: Path, name: str) -> Tensor:
    r"""The features of the largest component."""
    from torch_geometric.datasets import Planetoid
    from torch_geometric.transforms import LargestConnectedComponents

    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(f'{folder}/{name}')
        os.symlink((root / name / 'raw').resolve(), f'{folder}/{name}/raw')
        return LargestConnectedComponents()(Planetoid(folder, name)[0]).x


def load_coauthor(root: Path, name: str) -> Tensor:
    r"""The features as they are stored: a sparse matrix."""
    file = {'CS': 'ms_academic_cs.npz', 'Physics': 'ms_academic_phy.npz'}[name]
    with np.load(root / name / 'raw' / file, allow_pickle=True) as raw:
        parts = [torch.from_numpy(raw[f'attr_{key}']) for key in ('indptr', 'indices', 'data')]
        shape = tuple(raw['attr_shape'].tolist())
    return torch.sparse_csr_tensor(
        parts[0].long(), parts[1].long(), (parts[2] > 0).float(), shape, check_invariants=False
    )


def peak_memory() -> float:
    r"""The largest memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    r"""What the function returns, and the seconds it took."""
    start = time.perf_counter()
    out = function()
    return out, time.perf_counter() - start


def run_exact(name: str, root: Path) -> dict[str, Any]:
    r"""Ours beside k-means-constrained, at the same number of clusters."""
    from k_means_constrained import KMeansConstrained

    from torch_geometric_cgt.quantizer import FlowKMeans, reduce_features

    x = reduce_features(load_planetoid(root, GRAPHS[name]))
    FlowKMeans(4, K, max_iter=1).fit(x[:500])  # First use loads libraries; keep it out of the time.
    m = x.size(0) // K
    rows = []
    for seed in range(3):
        exact = KMeansConstrained(
            m, size_min=K, init='k-means++', n_init=1, max_iter=50, random_state=seed
        )
        ours = FlowKMeans(m, K, random_state=seed)
        exact_time = timed(partial(exact.fit, x.numpy()))[1]
        our_time = timed(partial(ours.fit, x))[1]
        rows.append(
            (
                ours.inertia_ / float(exact.inertia_),
                exact_time / our_time,
                exact_time,
                our_time,
                int(ours.sizes_.min()),
            )
        )
    mean = np.mean(rows, axis=0).tolist()
    return {
        'n': x.size(0),
        'm': m,
        'inertia_ratio': mean[0],
        'worst': max(r[0] for r in rows),
        'speedup': mean[1],
        'exact_s': mean[2],
        'seconds': mean[3],
        'min_size': min(r[4] for r in rows),
        'gb': peak_memory(),
        'ok': max(r[0] for r in rows) <= 1.01 and mean[1] >= 3 and mean[4] >= K,
    }


def run_sparse(name: str, root: Path) -> dict[str, Any]:
    r"""Reduction, clustering and means from sparse features."""
    from torch_geometric_cgt.quantizer import FlowKMeans, cluster_means, reduce_features

    x = load_coauthor(root, GRAPHS[name])
    m = x.size(0) // K
    z, reduce_time = timed(lambda: reduce_features(x))
    model, fit_time = timed(lambda: FlowKMeans(m, K).fit(z))
    codebook, mean_time = timed(lambda: cluster_means(x, model.labels_, m))
    total = reduce_time + fit_time + mean_time
    return {
        'n': x.size(0),
        'm': m,
        'columns': x.size(1),
        'reduce_s': reduce_time,
        'fit_s': fit_time,
        'means_s': mean_time,
        'seconds': total,
        'min_size': int(model.sizes_.min()),
        'codebook': list(codebook.shape),
        'gb': peak_memory(),
        'ok': total <= 60 and peak_memory() <= 3 and int(model.sizes_.min()) >= K,
    }


def run_synthetic(name: str) -> dict[str, Any]:
    r"""Clustering of a mixture of Gaussians with as many clusters as the minimum size allows."""
    from torch_geometric_cgt.quantizer import FlowKMeans

    n, columns, max_seconds, max_gb = SYNTHETIC[name]
    x = mixture(n, columns)
    start = time.process_time()
    model, seconds = timed(lambda: FlowKMeans(n // K, K).fit(x))
    cpu = time.process_time() - start
    ok = int(model.sizes_.min()) >= K
    ok &= max_seconds is None or seconds <= max_seconds
    ok &= max_gb is None or peak_memory() <= max_gb
    path = model.inertia_path_
    return {
        'n': n,
        'm': n // K,
        'columns': columns,
        'seconds': seconds,
        'cpu_s': cpu,
        'gb': peak_memory(),
        'min_size': int(model.sizes_.min()),
        'steps': model.n_iter_,
        'inertia_end_to_start': path[-1] / path[0],
        'never_rises': all(b <= a for a, b in pairwise(path)),
        'ok': bool(ok),
    }


def run_case(name: str, root: Path | None) -> dict[str, Any]:
    if name in SYNTHETIC:
        return run_synthetic(name)
    if root is None:
        raise SystemExit(f"'{name}' needs the raw files: set --root or $CGT_DATA_ROOT")
    return run_exact(name, root) if name in ('cora', 'citeseer') else run_sparse(name, root)


def growth(results: dict[str, dict[str, Any]]) -> str | None:
    r"""The exponent of time in the number of rows, at 100 columns."""
    largest = next((c for c in ('2.4m', '600k') if c in results), None)
    if largest is None or '20k-100' not in results:
        return None
    small, large = results['20k-100'], results[largest]
    rows = math.log(large['n'] / small['n'])
    wall, cpu = (math.log(large[key] / small[key]) / rows for key in ('seconds', 'cpu_s'))
    return (
        f'growth of time from 20k to {largest}: n^{wall:.2f} (target <= 1.2); '
        f'of processor time: n^{cpu:.2f}'
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('cases', nargs='*', metavar='case', help=', '.join(CASES))
    parser.add_argument('--root', type=Path, default=os.environ.get('CGT_DATA_ROOT'))
    parser.add_argument('--json', type=Path, help='append each result to this file, one per line')
    parser.add_argument('--threads', type=int, default=1, help='threads of torch (default: 1)')
    parser.add_argument('--here', action='store_true', help='run in this process, print JSON only')
    args = parser.parse_args()
    cases = args.cases or [c for c in CASES if c not in ('600k', '2.4m')]
    unknown = [c for c in cases if c not in CASES]
    if unknown:
        parser.error(f"unknown case (got '{unknown[0]}'), choose from {', '.join(CASES)}")
    root = None if args.root is None else Path(args.root)

    if args.here:
        torch.set_num_threads(args.threads)
        print(json.dumps(run_case(cases[0], root)))
        return

    results: dict[str, dict[str, Any]] = {}
    for case in cases:
        command = [sys.executable, __file__, case, '--here', '--threads', str(args.threads)]
        command += [] if root is None else ['--root', str(root)]
        out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        results[case] = {'case': case, **json.loads(out.strip().splitlines()[-1])}
        if args.json is not None:
            with open(args.json, 'a') as f:
                f.write(json.dumps(results[case]) + '\n')
        shown = {k: f'{v:.4g}' if isinstance(v, float) else v for k, v in results[case].items()}
        print('  '.join(f'{k}={v}' for k, v in shown.items()), flush=True)
    line = growth(results)
    if line is not None:
        print(line)


if __name__ == '__main__':
    main()
