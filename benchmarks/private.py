r"""Differential privacy from end to end: GNN scores and canaries at some budgets.

    python benchmarks/private.py --sources Cora --epsilon 1 4 10 --cells private.jsonl
    python benchmarks/private.py --sources PubMed --epsilon 10 --unit node --cells private.jsonl
    python benchmarks/private.py --sources Cora --epsilon 1 4 --canaries 1000 --cells private.jsonl
    python benchmarks/private.py --epsilon 1 --canaries 1000 --without-noise --cells private.jsonl
    python benchmarks/private.py --cells private.jsonl --show

Every stage is in one ledger, delta = n^-1.1, s = 5, L = 2, largest component, 50/10/40, noise from
the operating system. 'generated' is trained and tested on generated graphs, 'transfer' trained on
generated and tested on original ones. With ``--canaries``, a build from the source with made-up
records is attacked instead, and the lower bound on epsilon is kept, beside the claim at the delta
where so many canaries can refute most. ``--without-noise`` leaves out the noise of all counts and
sums, which the audit must find out. A cell is one (graph, epsilon, unit, form, seed, canaries,
noise); a run that was stopped goes on where it was. Raw files are looked for in
``$CGT_DATA_ROOT``.
"""

import argparse
import tempfile
import time
from pathlib import Path
from statistics import mean

import torch
from cells import add_cell, read_cells
from torch import Tensor

from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.audit import audit_canaries, claim_of, mechanism_on, sharpest
from torch_geometric_cgt.benchmark import MODELS
from torch_geometric_cgt.benchmark.evaluate import compared_trees
from torch_geometric_cgt.benchmark.gnn_training import GNNConfig, gnn_accuracy, train_gnn
from torch_geometric_cgt.datasets import load_source
from torch_geometric_cgt.pipeline import DifferentialPrivacy
from torch_geometric_cgt.pipeline.config import BuildConfig
from torch_geometric_cgt.pipeline.source import check_source
from torch_geometric_cgt.privacy import mechanisms
from torch_geometric_cgt.privacy.noise_sampling import discrete_gaussian

COLUMNS = ('original', 'generated', 'transfer')


def run_scores(cell: dict, models: list[str]) -> None:
    r"""Builds one private graph and scores the GNNs."""
    data = load_source(cell['source'], largest_component=True, random_split=True)[0]
    with tempfile.TemporaryDirectory() as root:
        started = time.monotonic()
        dataset = SyntheticCGTDataset(
            data,
            seed=cell['seed'],
            root=root,
            privacy=DifferentialPrivacy(cell['epsilon'], unit=cell['unit'], form=cell['form']),
        )
        cell['seconds'] = round(time.monotonic() - started, 1)
        trees = compared_trees(check_source(data), dataset, cell['seed'])
    cell['used'] = dataset.privacy.form
    cell['spent'] = round(dataset.privacy.epsilon, 4)
    cell['clusters'] = dataset.privacy.num_clusters
    original, generated = trees['original'], trees['generated']
    config = GNNConfig.for_roots(original.rows('train').numel())
    for name in models:
        at_home = train_gnn(name, original, config, cell['seed'])
        model = train_gnn(name, generated, config, cell['seed'])
        scores = {
            'original': gnn_accuracy(at_home, original, original.rows('test')),
            'generated': gnn_accuracy(model, generated, generated.rows('test')),
            'transfer': gnn_accuracy(model, original, original.rows('test')),
        }
        for column in COLUMNS:
            cell.setdefault(column, {})[name] = round(scores[column], 4)


def run_canaries(cell: dict) -> None:
    r"""Builds from a source with canaries, and guesses which ones."""
    source = check_source(load_source(cell['source'], largest_component=True, random_split=True))
    private = DifferentialPrivacy(cell['epsilon'], unit=cell['unit'], form=cell['form'])
    config = BuildConfig(seed=cell['seed'], privacy=private)
    mechanism = mechanism_on(torch.device('cpu'))
    limit = sharpest(claim_of(source, config, cell['canaries']), cell['canaries'])
    if not cell['noise']:
        mechanisms.discrete_gaussian = no_noise
    found = audit_canaries(source, config, mechanism, cell['canaries'], limit.delta, cell['seed'])
    mechanisms.discrete_gaussian = discrete_gaussian
    best = found.best
    cell |= {'delta': limit.delta, 'claim': round(limit.epsilon, 3)}
    cell |= {'bound': round(best.epsilon, 3), 'most': round(found.most, 3), 'score': best.score}
    cell['right'] = f'{best.num_correct} of {best.num_guesses}'
    cell['verdict'] = found.check(limit).verdict


def no_noise(size: int, sigma: float, generator: torch.Generator | None = None) -> Tensor:
    r"""What stands for noise in a build without any."""
    return torch.zeros(size, dtype=torch.long)


def show(cells: list[dict]) -> None:
    r"""Two tables: scores, and canaries."""
    scores = [cell for cell in cells if not cell['canaries']]
    print('| graph | unit | epsilon | form | vectors | GNNs | original | generated | transfer |')
    print('|---|---|---|---|---|---|---|---|---|')
    for cell in sorted(scores, key=lambda c: (c['source'], c['unit'], c['epsilon'], c['form'])):
        means = ' | '.join(f'{mean(cell[column].values()):.3f}' for column in COLUMNS)
        facts = [cell[name] for name in ('source', 'unit', 'epsilon', 'used', 'clusters')]
        print(f'| {" | ".join(map(str, facts))} | {", ".join(cell["original"])} | {means} |')
    names = ['form', 'unit', 'epsilon', 'at delta', 'claim there', 'right guesses', 'by']
    print(f'\n| {" | ".join([*names, "lower bound", "largest possible"])} |')
    print('|---|---|---|---|---|---|---|---|---|')
    canaries = [cell for cell in cells if cell['canaries']]
    for cell in sorted(
        canaries, key=lambda c: (not c['noise'], c['form'], c['unit'], c['epsilon'])
    ):
        form = cell['form'] if cell['noise'] else f'{cell["form"]}, no noise'
        facts = ('claim', 'right', 'score', 'bound', 'most')
        values = ' | '.join(str(cell[name]) for name in facts)
        print(f'| {form} | {cell["unit"]} | {cell["epsilon"]} | {cell["delta"]:.0e} | {values} |')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--sources', default='Cora')
    parser.add_argument('--epsilon', type=float, nargs='+', default=[1.0, 4.0, 10.0])
    parser.add_argument('--unit', default='record')
    parser.add_argument('--forms', nargs='+', default=['histograms', 'dp_sgd'])
    parser.add_argument('--models', nargs='+', default=list(MODELS))
    parser.add_argument('--seeds', type=int, nargs='+', default=[0])
    parser.add_argument('--canaries', type=int, default=0)
    parser.add_argument('--without-noise', action='store_true', help='of counts and sums')
    parser.add_argument('--cells', type=Path, default=Path('private_cells.jsonl'))
    parser.add_argument('--show', action='store_true', help='print what is there, run nothing')
    args = parser.parse_args()

    cells = read_cells(args.cells)
    todo = [
        {
            'source': name,
            'epsilon': epsilon,
            'unit': args.unit,
            'form': form,
            'seed': seed,
            'canaries': args.canaries,
            **({'noise': not args.without_noise} if args.canaries else {}),
        }
        for seed in args.seeds
        for name in args.sources.split(',')
        for epsilon in args.epsilon
        for form in args.forms
    ]
    for key in [] if args.show else todo:
        if any(all(cell.get(k) == v for k, v in key.items()) for cell in cells):
            continue
        cell = dict(key)
        if args.canaries:
            run_canaries(cell)
        else:
            run_scores(cell, args.models)
        add_cell(args.cells, cell)
        cells.append(cell)
    show(cells)


if __name__ == '__main__':
    main()
