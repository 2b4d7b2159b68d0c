r"""GNN scores and statistics of generated graphs beside those of the originals.

    python benchmarks/fidelity.py --sources Cora,CiteSeer,Photo --noise 0 2 4 --cells cells.jsonl
    python benchmarks/fidelity.py --forms scenes types independent --seeds 0 --cells forms.jsonl
    python benchmarks/fidelity.py --cells cells.jsonl --show

The paper's scenario 1: noisy edges x aggregation, k = 30, s = 5 (+ the noisy edges), L = 2,
50/10/40, largest component. A cell is one (graph, noisy edges, seed, form of the generator); it is
stored when it is finished, and a run that was stopped goes on where it was. Raw files are looked
for in ``$CGT_DATA_ROOT``.
"""

import argparse
import math
import tempfile
import time
import warnings
from collections import defaultdict
from pathlib import Path

import torch
from cells import add_cell, read_cells

from torch_geometric_cgt import FitConfig, SyntheticCGTDataset
from torch_geometric_cgt.benchmark import MODELS
from torch_geometric_cgt.benchmark.gnn_training import score_gnns
from torch_geometric_cgt.benchmark.metrics import (
    agreement,
    compared_trees,
    duplicates,
    histograms,
    wasserstein,
    zero_vectors,
)
from torch_geometric_cgt.data import TokenTrees, random_split
from torch_geometric_cgt.data.token_trees import masks_of
from torch_geometric_cgt.datasets import load_source
from torch_geometric_cgt.pipeline.source import check_source
from torch_geometric_cgt.transforms import AddNoisyEdges

# The paper's form, then what was added to it, one after the other; 'scenes' is the default.
FORMS: dict[str, dict] = {
    'independent': {'num_scenes': 0, 'siblings': 'independent'},
    'number': {'num_scenes': 0, 'num_types': 1, 'repeats': False},
    'repeats': {'num_scenes': 0, 'num_types': 1},
    'types': {'num_scenes': 0},
    'scenes, one type': {'num_types': 1},
    'scenes': {},
    'scenes, flat': {'vocabulary': 'flat'},
}


def orders_per_token(trees: TokenTrees) -> float:
    r"""What the paper's form is owed: it gives the same probability to every place of the null
    slots among siblings, where trees have them last. Logarithm of the number of places, per slot
    that carries likelihood.
    """
    shape, real = trees.shape, trees.real
    total = 0.0
    for layer, fan_out in enumerate(shape.num_neighbors):
        parents = real[:, shape.layer_slice(layer)]
        count = real[:, shape.layer_slice(layer + 1)].unflatten(1, (-1, fan_out)).sum(dim=2)
        table = torch.tensor([math.log(math.comb(fan_out, n)) for n in range(fan_out + 1)])
        total += float(table[count[parents]].sum())
    return total / counted_slots(trees)


def counted_slots(trees: TokenTrees) -> int:
    r"""The slots that carry likelihood: roots, and all below a real slot."""
    real = trees.real
    below = [
        int(real[:, trees.shape.layer_slice(layer)].sum()) * fan_out
        for layer, fan_out in enumerate(trees.shape.num_neighbors)
    ]
    return real.size(0) + sum(below)


def run_cell(
    name: str, noise: int, seed: int, form: str, epochs: int | None, reference: dict | None
) -> dict:
    r"""Builds one synthetic graph and scores the GNNs."""
    data = load_source(name, largest_component=True, random_split=True)[0]
    data = AddNoisyEdges(noise, seed)(data)
    for mask, value in masks_of(random_split(data.y >= 0, seed)).items():
        data[mask] = value
    cell: dict = {'source': name, 'noise': noise, 'seed': seed, 'form': form, 'epochs': epochs}
    with tempfile.TemporaryDirectory() as root, warnings.catch_warnings():
        warnings.simplefilter('ignore')  # homogeneous clusters
        started = time.monotonic()
        dataset = SyntheticCGTDataset(
            data,
            k=30,
            num_neighbors=[5 + noise] * 2,
            seed=seed,
            root=root,
            generator=FORMS[form],
            fit=FitConfig(epochs=epochs),
            log=False,
        )
        cell['seconds'] = time.monotonic() - started
    trees = compared_trees(check_source(data), dataset, seed)
    for column in ('original', 'quantized', 'generated'):
        known = reference is not None and column != 'generated'
        cell[column] = reference[column] if known else score_gnns(MODELS, trees[column], seed)
    for key, statistic in [('zero_vectors', zero_vectors), ('duplicates', duplicates)]:
        counts = histograms(statistic, trees)
        cell[key] = wasserstein(counts['quantized'], counts['generated'])
    cell['nll'] = min(dataset.history['holdout_nll'])
    cell['best_epoch'] = dataset.history['best_epoch']
    if form == 'independent':
        cell['nll'] -= orders_per_token(trees['quantized'])
    if FORMS[form].get('num_scenes') != 0:  # a tree and its scene together
        quantized = trees['quantized']
        cell['nll'] += dataset.history['scene_nll'] * len(quantized) / counted_slots(quantized)
        cell['views'] = dataset.history['views']
    return cell


def mean(cells: list[dict], column: str) -> list[float]:
    r"""The mean score of each model over seeds."""
    return [sum(c[column][m] for c in cells) / len(cells) for m in MODELS]


def show(cells: list[dict]) -> None:
    r"""Means over seeds per graph and form, then what they say over all graphs."""
    groups = defaultdict(list)
    for cell in cells:
        groups[cell['form'], cell['source'], cell['noise']].append(cell)
    pairs = defaultdict(list)
    for (form, name, noise), runs in groups.items():
        original, generated = mean(runs, 'original'), mean(runs, 'generated')
        pairs[form] += zip(original, generated, strict=True)
        mse = sum((a - b) ** 2 for a, b in zip(original, generated, strict=True)) / len(MODELS)
        facts = [sum(r[k] for r in runs) / len(runs) for k in ('zero_vectors', 'duplicates', 'nll')]
        print(
            f'{form:12} {name:9} noise {noise}  {len(runs)} seeds  original '
            + ' '.join(f'{v:.3f}' for v in original)
            + '  quantized '
            + ' '.join(f'{v:.3f}' for v in mean(runs, 'quantized'))
            + '  generated '
            + ' '.join(f'{v:.3f}' for v in generated)
            + f'  MSE {mse:.5f}  W zero {facts[0]:.2f} dup {facts[1]:.2f}  held-out {facts[2]:.4f}'
            + f'  built in {max(r["seconds"] for r in runs):.0f} s'
        )
    for form, both in pairs.items():
        found = agreement([a for a, _ in both], [b for _, b in both])
        pearson = 'undefined' if found['pearson'] is None else f'{found["pearson"]:.4f}'
        print(f'{form:12} {len(both)} pairs  MSE {found["mse"]:.5f}  Pearson {pearson}')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--sources', default='Cora,CiteSeer,Photo')
    parser.add_argument('--noise', type=int, nargs='+', default=[0, 2, 4])
    parser.add_argument('--seeds', type=int, nargs='+', default=[0])
    parser.add_argument('--forms', nargs='+', default=['scenes'], choices=list(FORMS))
    parser.add_argument('--epochs', type=int, help='(default: that of FitConfig)')
    parser.add_argument('--cells', type=Path, default=Path('fidelity_cells.jsonl'))
    parser.add_argument('--show', action='store_true', help='print what is there, run nothing')
    args = parser.parse_args()

    cells = read_cells(args.cells)
    keys = ('source', 'noise', 'seed')
    for seed in [] if args.show else args.seeds:
        for noise in args.noise:
            for name in args.sources.split(','):
                for form in args.forms:
                    same = [c for c in cells if [c[k] for k in keys] == [name, noise, seed]]
                    if any(c['form'] == form for c in same):
                        continue
                    reference = same[0] if same else None
                    cells.append(run_cell(name, noise, seed, form, args.epochs, reference))
                    add_cell(args.cells, cells[-1])
                    show(cells[-1:])
    show(cells)


if __name__ == '__main__':
    main()
