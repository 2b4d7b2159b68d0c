r"""GNN scores on quantized graphs beside those on the originals.

    python benchmarks/quantized_graph.py --sources Cora,Photo --seeds 3 --cells cells.jsonl
    python benchmarks/quantized_graph.py --cells cells.jsonl --show

Each (graph, noisy edges, seed) is one cell: the four GNNs on the original and on its quantizations,
s = 5 (+ the noisy edges), L = 2, 50/10/40, largest component. A cell is stored when it is finished,
and a run that was stopped goes on where it was. Raw files are looked for in ``$CGT_DATA_ROOT``.
"""

import argparse
import time
import warnings
from collections import defaultdict
from pathlib import Path

import torch
from cells import add_cell, read_cells

from torch_geometric_cgt.benchmark import MODELS
from torch_geometric_cgt.benchmark.gnn_training import score_gnns
from torch_geometric_cgt.benchmark.metrics import as_rows
from torch_geometric_cgt.data import TokenTrees, TreeShape, random_split, tokens_of
from torch_geometric_cgt.datasets import load_source
from torch_geometric_cgt.quantizer import label_homogeneity
from torch_geometric_cgt.sampler import InNeighbors, sample_trees
from torch_geometric_cgt.transforms import AddNoisyEdges, Quantize

PAPER = ['Cora', 'CiteSeer', 'PubMed', 'Computers', 'Photo', 'CS', 'Physics']


def run_cell(name: str, noise: int, seed: int, variants: list[str]) -> dict:
    r"""Trains the GNNs on one graph and on its quantizations."""
    data = load_source(name, largest_component=True, random_split=True)[0]
    data = AddNoisyEdges(noise, seed)(data)
    shape = TreeShape.of([5 + noise, 5 + noise])
    graph = InNeighbors.from_edge_index(data.edge_index, data.num_nodes)
    rng = torch.Generator().manual_seed(seed)
    tree = sample_trees(graph, torch.arange(data.num_nodes), shape, rng)
    split, num_classes = random_split(data.y >= 0, seed), int(data.y.max()) + 1

    def scores(x: torch.Tensor, row: torch.Tensor) -> dict[str, float]:
        tokens = tokens_of(tree, row, x.size(0))
        trees = TokenTrees(tokens, data.y, split, x.size(0), num_classes, shape, as_rows(x))
        return score_gnns(MODELS, trees, seed)

    cell: dict = {'source': name, 'noise': noise, 'seed': seed, 'nodes': data.num_nodes}
    started = time.monotonic()
    cell['original'] = scores(data.x, torch.arange(data.num_nodes))
    cell['seconds'] = {'original': time.monotonic() - started}
    for variant in variants:
        k, weight, share = variant.split('/')
        started = time.monotonic()
        quantize = Quantize(
            k=int(k),
            num_clusters=int(float(share) * (data.num_nodes // int(k))),
            seed=seed,
            task_weight=weight if weight == 'auto' else float(weight),
        )
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # homogeneous clusters are counted below
            out = quantize.cluster(data)
        quantized = time.monotonic() - started
        labels = label_homogeneity(out.cluster, data.y)
        cell[variant] = scores(out.codebook, out.cluster)
        cell.setdefault('facts', {})[variant] = {
            'task_weight': out.task_weight,
            'smallest': int(torch.bincount(out.cluster).min()),
            'clusters': len(labels.distinct),
            'homogeneous': labels.num_homogeneous,
            'seconds': quantized,
        }
    return cell


def show(cells: list[dict]) -> None:
    r"""Means over seeds, and the mean squared error against the original."""
    groups = defaultdict(list)
    for cell in cells:
        groups[cell['source'], cell['noise']].append(cell)
    for (name, noise), runs in groups.items():
        original = [sum(r['original'][m] for r in runs) / len(runs) for m in MODELS]
        text = ' '.join(f'{value:.3f}' for value in original)
        print(f'{name:10} noise {noise}  {len(runs)} seeds  original      {text}')
        for variant in runs[0].get('facts', {}):
            both = [r for r in runs if variant in r]
            mean = [sum(r[variant][m] for r in both) / len(both) for m in MODELS]
            same = [sum(r['original'][m] for r in both) / len(both) for m in MODELS]
            mse = sum((a - b) ** 2 for a, b in zip(mean, same, strict=True)) / len(mean)
            facts = [r['facts'][variant] for r in both]
            weight = sum(f['task_weight'] for f in facts) / len(facts)
            alike = sum(f['homogeneous'] / f['clusters'] for f in facts) / len(facts)
            text = ' '.join(f'{value:.3f}' for value in mean)
            print(
                f'{"":31} {variant:13} {text}  MSE {mse:.5f}  weight {weight:.2f}  '
                f'one label only {alike:.0%}  smallest {min(f["smallest"] for f in facts)}  '
                f'quantized in {max(f["seconds"] for f in facts):.0f} s'
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--sources', default=','.join(PAPER))
    parser.add_argument('--noise', type=int, nargs='+', default=[0])
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1, 2])
    parser.add_argument(
        '--variants',
        nargs='+',
        default=['30/0/1', '30/auto/1', '100/auto/1'],
        help="k / task weight / share of n // k clusters (default: '30/0/1' '30/auto/1' ...)",
    )
    parser.add_argument('--cells', type=Path, default=Path('quantized_cells.jsonl'))
    parser.add_argument('--show', action='store_true', help='print what is there, run nothing')
    args = parser.parse_args()

    cells = read_cells(args.cells)
    done = {(c['source'], c['noise'], c['seed']) for c in cells}
    for seed in [] if args.show else args.seeds:
        for noise in args.noise:
            for name in args.sources.split(','):
                if (name, noise, seed) not in done:
                    cells.append(run_cell(name, noise, seed, args.variants))
                    add_cell(args.cells, cells[-1])
                    show(cells[-1:])
    show(cells)


if __name__ == '__main__':
    main()
