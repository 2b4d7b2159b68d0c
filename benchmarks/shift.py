r"""What a biased training set costs GNNs, on original and on generated graphs.

    python benchmarks/shift.py --sources Cora --seeds 0 1 --cells cells.jsonl
    python benchmarks/shift.py --cells cells.jsonl --show

The paper's scenario 4: training nodes close to one seed node per label by personalised PageRank,
k = 30, s = 5, L = 2, largest component, 50/10/40; with another share of training nodes, all that
remain beside the 10 % for validation are tested. A cell is one (graph, share, alpha, seed); it is
stored when it is finished, and a run that was stopped goes on where it was. Raw files are looked
for in ``$CGT_DATA_ROOT``.
"""

import argparse
import tempfile
import time
import warnings
from collections import defaultdict
from pathlib import Path
from statistics import mean

import torch
from cells import add_cell, read_cells

from torch_geometric_cgt import FitConfig, SyntheticCGTDataset
from torch_geometric_cgt.benchmark import MODELS
from torch_geometric_cgt.benchmark.gnn_training import score_gnns
from torch_geometric_cgt.benchmark.metrics import compared_trees
from torch_geometric_cgt.data import TokenTrees, masks_of
from torch_geometric_cgt.datasets import load_source
from torch_geometric_cgt.pipeline.source import check_source
from torch_geometric_cgt.transforms import BiasedTraining

COLUMNS = ('original', 'quantized', 'generated')


def load_biased(name: str, alpha: float | None, share: float, seed: int):
    r"""A graph with a split of which the training nodes may be biased."""
    data = load_source(name, largest_component=True, random_split=True)[0]
    node = (data.y >= 0).nonzero().view(-1)
    node = node[torch.randperm(node.numel(), generator=torch.Generator().manual_seed(seed))]
    code = torch.zeros(data.num_nodes, dtype=torch.long)
    code[node] = 4
    code[node[: round((share + 0.1) * node.numel())]] = 2
    code[node[: round(share * node.numel())]] = 1
    for mask, value in masks_of(code).items():
        data[mask] = value
    return BiasedTraining(alpha, seed=seed)(data)


def distance(trees: TokenTrees) -> float:
    r"""How far the tokens around training roots are from those around test roots of the same label:
    total variation between the histograms of the first layer, mean over labels.
    """
    tokens = trees.tokens[:, trees.shape.layer_slice(1)]
    histograms = []
    for rows in (trees.rows('train'), trees.rows('test')):
        label = trees.y[rows, None].expand(-1, tokens.size(1))
        key = label * (trees.num_tokens + 1) + tokens[rows]
        size = trees.num_classes * (trees.num_tokens + 1)
        count = torch.bincount(key.flatten(), minlength=size).view(trees.num_classes, -1)
        count = count[:, :-1].double()  # the last one is null
        histograms.append(count / count.sum(dim=1, keepdim=True).clamp(min=1))
    return float((histograms[0] - histograms[1]).abs().sum(dim=1).mean() / 2)


def run_cell(name: str, alpha: float | None, share: float, seed: int, epochs: int | None) -> dict:
    r"""Builds one synthetic graph and scores the GNNs."""
    data = load_biased(name, alpha, share, seed)
    cell: dict = {'source': name, 'share': share, 'alpha': alpha, 'seed': seed, 'epochs': epochs}
    with tempfile.TemporaryDirectory() as root, warnings.catch_warnings():
        warnings.simplefilter('ignore')  # homogeneous clusters
        started = time.monotonic()
        dataset = SyntheticCGTDataset(
            data,
            k=30,
            num_neighbors=[5, 5],
            seed=seed,
            root=root,
            fit=FitConfig(epochs=epochs),
            log=False,
        )
        cell['seconds'] = round(time.monotonic() - started, 1)
    trees = compared_trees(check_source(data), dataset, seed)
    for column in COLUMNS:
        cell[column] = score_gnns(MODELS, trees[column], seed)
    cell['distance'] = {c: round(distance(trees[c]), 4) for c in ('quantized', 'generated')}
    cell['nll'] = round(min(dataset.history['holdout_nll']), 4)
    cell['best_epoch'] = dataset.history['best_epoch']
    return cell


def accuracy(cells: list[dict], column: str) -> float:
    r"""The mean accuracy over models and seeds."""
    return mean(mean(c[column].values()) for c in cells)


def show(cells: list[dict]) -> None:
    r"""A table per graph and share, then what the bias costs in each column."""
    groups: dict = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        groups[cell['source'], cell['share']][cell['alpha']].append(cell)
    for (name, share), by_alpha in groups.items():
        seeds = sorted({c['seed'] for runs in by_alpha.values() for c in runs})
        print(f'{name}, {share:.0%} of the nodes trained on, seeds {seeds}')
        print(f'\n| alpha | column | {" | ".join(MODELS)} | mean | distance |')
        print(f'|---|---|{"---|" * (len(MODELS) + 2)}')
        for alpha, runs in by_alpha.items():
            for column in COLUMNS:
                values = [mean(c[column][m] for c in runs) for m in MODELS]
                far = '-'
                if column in runs[0]['distance']:
                    far = f'{mean(c["distance"][column] for c in runs):.3f}'
                row = ' | '.join(f'{v:.3f}' for v in [*values, mean(values)])
                print(f'| {"iid" if alpha is None else alpha} | {column} | {row} | {far} |')
        print()
        for alpha in [a for a in by_alpha if a is not None and None in by_alpha]:
            drop = {c: accuracy(by_alpha[None], c) - accuracy(by_alpha[alpha], c) for c in COLUMNS}
            of_original = drop['generated'] / drop['original'] if drop['original'] else 0.0
            drops = ', '.join(f'{c} {v:.3f}' for c, v in drop.items())
            print(f'Drop from iid to {alpha}: {drops}; generated / original {of_original:.2f}\n')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--sources', default='Cora')
    parser.add_argument('--alphas', nargs='+', default=['iid', '0.3', '0.01'])
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1])
    parser.add_argument('--share', type=float, default=0.5, help='of nodes to train on')
    parser.add_argument('--epochs', type=int, help='the default of FitConfig, if not given')
    parser.add_argument('--cells', type=Path, default=Path('shift_cells.jsonl'))
    parser.add_argument('--show', action='store_true', help='print what is there, run nothing')
    args = parser.parse_args()

    cells = read_cells(args.cells)
    for seed in [] if args.show else args.seeds:
        for name in args.sources.split(','):
            for alpha in [None if a == 'iid' else float(a) for a in args.alphas]:
                key = {'source': name, 'share': args.share, 'alpha': alpha, 'seed': seed}
                if any(all(c[k] == v for k, v in key.items()) for c in cells):
                    continue
                cells.append(run_cell(name, alpha, args.share, seed, args.epochs))
                add_cell(args.cells, cells[-1])
                show(cells)
    show(cells)


if __name__ == '__main__':
    main()
