r"""Differential privacy from end to end: GNN scores of private releases, and of two controls.

    python benchmarks/private.py --sources Cora,PubMed --epsilon 1 4 10 16 --cells private.jsonl
    python benchmarks/private.py --sources Cora --unit edge --epsilon 1 --cells private.jsonl
    python benchmarks/private.py --forms histograms dp_sgd --max-degree 10 --cells private.jsonl
    python benchmarks/private.py --cells private.jsonl --show > private.md

Largest component, s = 5, L = 2, 75/10/15 split, delta = n^-1.1, noise from the operating system.
Each cell is one draw of the noise. 'generated' is trained and tested on generated graphs,
'transfer' is trained on generated and tested on original ones. Two controls have the same unit,
budget, split and number of draws:

* ``rows``: the generator with edges ignored. Its trees are roots.
* ``perceptron``: no release at all. A perceptron is trained by DP-SGD on the features and labels
  of the training nodes, and tested on the original test nodes.

A release that is worse than both has no reason to exist. A run that was stopped goes on where it
was. Raw files are looked for in ``$CGT_DATA_ROOT``.
"""

import argparse
import tempfile
import time
from functools import cache
from math import sqrt
from pathlib import Path
from statistics import mean, stdev

import torch
from cells import add_cell, read_cells
from scipy.sparse import csr_matrix
from scipy.stats import t as student
from torch import nn

from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.benchmark.gnn_training import GNNConfig, gnn_accuracy, train_gnn
from torch_geometric_cgt.benchmark.metrics import compared_trees
from torch_geometric_cgt.data import MASKS
from torch_geometric_cgt.datasets import load_source
from torch_geometric_cgt.errors import BudgetError
from torch_geometric_cgt.pipeline import DifferentialPrivacy, check_source
from torch_geometric_cgt.privacy import Budget, Entry, Ledger, SampledGaussian
from torch_geometric_cgt.privacy.noise import SystemRandom
from torch_geometric_cgt.quantizer.feature_space import unit_rows
from torch_geometric_cgt.training.dp_sgd import sample_batch

COLUMNS = ('original', 'generated', 'transfer')
KEY = ('source', 'unit', 'epsilon', 'form', 'draw')


@cache
def load(name: str):
    r"""The largest component with a fixed 75/10/15 split."""
    data = load_source(name, largest_component=True)[0]
    order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(0))
    for mask, (low, high) in zip(MASKS, ((0, 0.75), (0.75, 0.85), (0.85, 1)), strict=True):
        data[mask] = torch.zeros(data.num_nodes, dtype=torch.bool)
        data[mask][order[int(low * len(order)) : int(high * len(order))]] = True
    return data


@cache
def original_score(name: str, model: str) -> float:
    r"""The score of a GNN on the original graph."""
    data = load(name)
    with tempfile.TemporaryDirectory() as root:
        promise = DifferentialPrivacy(100.0, form='rows')
        dataset = SyntheticCGTDataset(data, root=root, log=False, privacy=promise)
        trees = compared_trees(check_source(data), dataset, 0)['original']
    config = GNNConfig.for_roots(trees.rows('train').numel())
    return gnn_accuracy(train_gnn(model, trees, config, 0), trees, trees.rows('test'))


def known_original(cells: list[dict], source: str, model: str) -> float:
    r"""The score of a GNN on the original graph, from a finished cell if there is one: it does not
    depend on the release.
    """
    known = [
        c['original'][model]
        for c in cells
        if c['source'] == source and model in c.get('original', {})
    ]
    return known[0] if known else original_score(source, model)


def run_release(cell: dict, models: list[str], max_degree: int | None, cells: list[dict]) -> None:
    r"""Builds one private graph and scores the GNNs."""
    data = load(cell['source'])
    trees_of_nodes = cell['unit'] == 'node' and cell['form'] in ('histograms', 'dp_sgd')
    promise = DifferentialPrivacy(
        cell['epsilon'],
        unit=cell['unit'],
        form=cell['form'],
        max_degree=max_degree if trees_of_nodes else None,
    )
    with tempfile.TemporaryDirectory() as root:
        started = time.monotonic()
        try:
            dataset = SyntheticCGTDataset(
                data, seed=cell['draw'], root=root, log=False, privacy=promise
            )
        except BudgetError as error:  # this form has no signal at this budget
            cell |= {'max_degree': promise.max_degree, 'refused': str(error)}
            return
        cell['seconds'] = round(time.monotonic() - started, 1)
        trees = compared_trees(check_source(data), dataset, 0)
    cell |= {
        'spent': round(dataset.privacy.epsilon, 4),
        'delta': dataset.privacy.delta,
        'clusters': dataset.privacy.num_clusters,
        'max_degree': promise.max_degree,
    }
    original, generated = trees['original'], trees['generated']
    config = GNNConfig.for_roots(original.rows('train').numel())
    for name in models:
        model = train_gnn(name, generated, config, cell['draw'])
        scores = {
            'original': known_original(cells, cell['source'], name),
            'generated': gnn_accuracy(model, generated, generated.rows('test')),
            'transfer': gnn_accuracy(model, original, original.rows('test')),
        }
        for column in COLUMNS:
            cell.setdefault(column, {})[name] = round(scores[column], 4)


@cache
def perceptron_noise(name: str, epsilon: float, epochs: float = 30.0) -> SampledGaussian:
    r"""The noise and the batches of the perceptron. A row is a node."""
    data = load(name)
    size = int(data.train_mask.sum())
    probability = min(1.0, max(256, size // 10) / size)
    noise = SampledGaussian(1.0, probability, round(epochs / probability))
    entry = Entry('fit', 'DP-SGD', {'frozen_record': 1.0}, noise)
    budget = Budget.of(epsilon, None, data.num_nodes, 'frozen_record')
    return Ledger(['fit'], [entry]).calibrate(budget).entries[0].noise


@cache
def sparse_rows(name: str) -> csr_matrix:
    r"""The features, divided by their lengths. A batch of few rows is then cheap."""
    x = unit_rows(load(name).x)
    return csr_matrix((x if x.layout == torch.strided else x.to_dense()).float().numpy())


def run_perceptron(cell: dict, hidden: int = 64, clip: float = 1.0) -> None:
    r"""Trains a perceptron on rows alone by DP-SGD, with the unit of one node."""
    data, x = load(cell['source']), sparse_rows(cell['source'])
    train, test = data.train_mask.nonzero().view(-1), data.test_mask.nonzero().view(-1)
    started = time.monotonic()
    noise = perceptron_noise(cell['source'], cell['epsilon'])
    torch.manual_seed(cell['draw'])
    model = nn.Sequential(
        nn.Linear(x.shape[1], hidden), nn.ReLU(), nn.Linear(hidden, int(data.y.max()) + 1)
    )
    rng = SystemRandom()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(int(noise.steps)):
        rows = train[sample_batch(len(train), noise.sampling_probability, rng)]
        clipped_gradients(model, x[rows.numpy()], data.y[rows], clip)
        for weight in model.parameters():
            extra = torch.from_numpy(rng.standard_normal(weight.shape)).to(weight)
            weight.grad = (weight.grad + noise.noise_multiplier * clip * extra) / (
                noise.sampling_probability * len(train)
            )
        optimizer.step()
    right = logits(model, x[test.numpy()])[2].argmax(dim=1) == data.y[test]
    cell['seconds'] = round(time.monotonic() - started, 1)
    cell['transfer'] = {'perceptron': round(float(right.double().mean()), 4)}


@torch.no_grad()
def logits(model: nn.Sequential, x: csr_matrix) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    r"""The hidden layer before and after ReLU, and the logits, of some rows."""
    before = torch.from_numpy(x @ model[0].weight.numpy().T) + model[0].bias
    return before, before.relu(), model[2](before.relu())


@torch.no_grad()
def clipped_gradients(model: nn.Sequential, x: csr_matrix, y: torch.Tensor, clip: float) -> None:
    r"""Sums the gradients of all rows, each clipped. The norm of the gradient of a linear layer is
    the product of the norms of its input, with one for the bias, and of its output gradient.
    """
    before, hidden, top = logits(model, x)
    top = torch.softmax(top, dim=1)
    top[torch.arange(len(y)), y] -= 1
    below = (top @ model[2].weight) * (before > 0)
    square = (1 + hidden.square().sum(dim=1)) * top.square().sum(dim=1)
    length = torch.from_numpy(x.multiply(x).sum(axis=1)).view(-1)
    square += (1 + length) * below.square().sum(dim=1)
    scale = (clip / square.sqrt().clamp(min=1e-12)).clamp(max=1.0)[:, None]
    top, below = top * scale, below * scale
    model[2].weight.grad, model[2].bias.grad = top.t() @ hidden, top.sum(dim=0)
    model[0].weight.grad = torch.from_numpy((x.T @ below.numpy()).T.copy())
    model[0].bias.grad = below.sum(dim=0)


def interval(values: list[float]) -> str:
    r"""The mean, with half the width of its 95 % interval from three draws on."""
    if len(values) < 3 or min(values) == max(values):
        return f'{mean(values):.3f}'
    half = student.ppf(0.975, len(values) - 1) * stdev(values) / sqrt(len(values))
    return f'{mean(values):.3f} ± {half:.3f}'


def show(cells: list[dict]) -> None:
    r"""Prints one table per unit: means of all draws, with 95 % intervals."""
    for unit in sorted({cell['unit'] for cell in cells}, key=lambda u: (u != 'node', u)):
        print(f'\n## Unit: {unit}\n')
        print('| graph | epsilon | form | draws | vectors | original | generated | transfer |')
        print('|---|---|---|---|---|---|---|---|')
        of_unit = [cell for cell in cells if cell['unit'] == unit]
        for key in sorted({(c['source'], c['epsilon'], c['form']) for c in of_unit}):
            same = [c for c in of_unit if (c['source'], c['epsilon'], c['form']) == key]
            if 'refused' in same[0]:
                least = same[0]['refused'].split('use at least ')[-1]
                print(f'| {key[0]} | {key[1]:g} | {key[2]} | | | | refused, needs {least} | |')
                continue
            columns = []
            for column in COLUMNS:
                values = [mean(cell[column].values()) for cell in same if column in cell]
                columns.append(interval(values) if values else '')
            form = key[2] + (f' (D = {same[0]["max_degree"]})' if same[0].get('max_degree') else '')
            sizes = [c['clusters'] for c in same if 'clusters' in c]
            vectors = ' to '.join(map(str, sorted({min(sizes), max(sizes)}))) if sizes else ''
            facts = [key[0], f'{key[1]:g}', form, str(len(same)), vectors, *columns]
            print(f'| {" | ".join(facts)} |')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--sources', default='Cora')
    parser.add_argument('--epsilon', type=float, nargs='+', default=[1.0, 4.0, 10.0, 16.0])
    parser.add_argument('--unit', default='node')
    parser.add_argument('--forms', nargs='+', default=['mixing', 'rows', 'perceptron'])
    parser.add_argument('--models', nargs='+', default=['GCN'])
    parser.add_argument('--draws', type=int, nargs='+', default=[0, 1, 2, 3, 4])
    parser.add_argument('--max-degree', type=int, default=10, help='of histograms and dp_sgd')
    parser.add_argument('--cells', type=Path, default=Path('private_cells.jsonl'))
    parser.add_argument('--show', action='store_true', help='print what is there, run nothing')
    args = parser.parse_args()

    cells = read_cells(args.cells)
    todo = [
        dict(zip(KEY, (name, args.unit, epsilon, form, draw), strict=True))
        for draw in args.draws
        for name in args.sources.split(',')
        for epsilon in args.epsilon
        for form in args.forms
    ]
    for cell in [] if args.show else todo:
        if any(all(done.get(k) == v for k, v in cell.items()) for done in cells):
            continue
        if cell['form'] == 'perceptron':
            run_perceptron(cell)
        else:
            run_release(cell, args.models, args.max_degree, cells)
        add_cell(args.cells, cell)
        cells.append(cell)
        print(cell, flush=True)
    if args.show:
        show(cells)


if __name__ == '__main__':
    main()
