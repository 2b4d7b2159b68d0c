r"""Cora's figures: GNN scores on original and generated graphs, and the time it takes.

    python benchmarks/cora.py [--seeds 3] [--out cora.json]

Cora's largest component, k = 30, s = 5, L = 2, split 50/10/40. Raw files are looked for in
``$CGT_DATA_ROOT``, else downloaded by PyG. The paper's figures for the same graph are beside ours.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.benchmark import evaluate_dataset
from torch_geometric_cgt.datasets import load_source

PAPER_MSE, PAPER_TRANSFER = 0.010, 0.77


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--source', default='Cora')
    parser.add_argument('--seeds', type=int, default=3)
    parser.add_argument('--out', type=Path)
    args = parser.parse_args()

    source = load_source(args.source, largest_component=True, random_split=True)
    datasets, seconds = [], []
    with tempfile.TemporaryDirectory() as root:
        for seed in range(args.seeds):
            started = time.monotonic()
            datasets.append(SyntheticCGTDataset(source, k=30, root=root, seed=seed))
            seconds.append(time.monotonic() - started)
        started = time.monotonic()
        SyntheticCGTDataset(source, k=30, root=root, seed=0)
        cached = time.monotonic() - started
        result = evaluate_dataset(source, datasets)

    print(result.text())
    agreement = result.agreement()
    transfer = min(result.mean('transfer') or [0.0])
    print(f'largest difference  {agreement["max_abs"]:.4f}  (asked: <= 0.03)')
    print(f'MSE                 {agreement["mse"]:.5f}  (asked: <= 0.001, paper: {PAPER_MSE})')
    print(f'transfer, lowest    {transfer:.3f}  (asked: >= 0.80, paper: {PAPER_TRANSFER})')
    print(f'quantize+fit+sample {max(seconds):.0f} s at most  (asked: <= 180 s on 2 cores)')
    print(f'cached load         {cached:.2f} s  (asked: < 2 s)')
    print('Wasserstein', json.dumps(result.wasserstein))
    if args.out:
        args.out.write_text(json.dumps({**result.to_dict(), 'seconds': seconds, 'cached': cached}))


if __name__ == '__main__':
    main()
