r"""One estimate from all noisy answers of the form `mixing`, beside one from each answer.

    python benchmarks/joint_estimates.py --cells docs/results/joint_estimates.jsonl
    python benchmarks/joint_estimates.py --cells docs/results/joint_estimates.jsonl --show

The form `mixing` estimates each of its tables from one noisy answer. Some answers must agree with
each other, and the joint estimate is the weighted least squares solution under what is known:

* The number of nodes per label is counted twice, with splits and with tokens, and the total is
  public. The rows of the table of tokens get these sums.
* If edges are mutual, the counts of parents and children of two labels are equal in both orders.
  The half difference of two such cells is shrunk by the share of edges that are not mutual.
* Edges are counted at several rates. All rates at which caps hardly bind estimate the same degree.

Both models have the same answers, and trees are sampled with the same random numbers. 'token' and
'neighbor' are the total variation distances between the tables and those of the source without
noise and caps, 'degree' is the relative error. Largest component, 75/10/15 split, unit node.
"""

import argparse
import copy
import tempfile
from collections import defaultdict
from dataclasses import replace
from math import sqrt
from pathlib import Path
from statistics import mean, stdev

import torch
from cells import add_cell, read_cells
from private import load
from torch import Tensor

from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.benchmark.gnn_training import GNNConfig, gnn_accuracy, train_gnn
from torch_geometric_cgt.benchmark.metrics import compared_trees
from torch_geometric_cgt.models import PrivateMixing
from torch_geometric_cgt.models.mixing import (
    FEWEST_EDGES,
    HALF_FULL,
    LABELS,
    RATES,
    ROOTS,
    WEDGES,
    concentration_of,
    homophily_prior,
)
from torch_geometric_cgt.models.noisy_tables import COMMON, marginal, project_to_simplex
from torch_geometric_cgt.pipeline import DifferentialPrivacy, check_source
from torch_geometric_cgt.pipeline.plan import LABELS as SPLITS

MEASURES = ('token', 'neighbor', 'degree', 'generated', 'transfer')


def joint_model(dataset: SyntheticCGTDataset, num_roots: int, num_nodes: int) -> PrivateMixing:
    r"""The model of a dataset with tables that are estimated jointly."""
    model = copy.deepcopy(dataset.model)
    ledger = dataset.card['privacy']['ledger']
    sigma = {e['name']: e['noise']['sigma'] for e in ledger['entries'] if e['noise']}
    stages = dataset.answers['labels'] + dataset.answers['fit']
    noisy = {answer.name: answer.released.double() * answer.grid for answer in stages}
    size = model.token.shape

    tokens, variance = noisy[ROOTS].view(size), sigma[ROOTS] ** 2
    sums = (noisy[SPLITS].view(-1, size[0]).sum(dim=0), tokens.sum(dim=1))
    weight = (1 / (4 * sigma[SPLITS] ** 2), 1 / (size[1] * variance))
    total = (weight[0] * sums[0] + weight[1] * sums[1]) / sum(weight)
    roots = torch.tensor([float(num_roots)], dtype=torch.double)
    total = project_to_simplex(total[None], roots)[0].clamp(min=1)
    tokens = tokens + ((total - sums[1]) / size[1])[:, None]
    rest = torch.full_like(tokens, variance * (1 - 1 / size[1]))
    model.token.copy_(back_off(tokens, rest, None, total))

    pairs, variance = joint_pairs(
        noisy[LABELS].view(model.neighbor.shape), sigma[LABELS], float(model.mutual)
    )
    prior = homophily_prior(pairs, total / total.sum())
    rows = pairs.sum(dim=1)
    floor = float(variance.max().sqrt())
    model.neighbor.copy_(back_off(pairs, variance, prior, rows.clamp(min=floor)))
    model.degree.fill_(joint_degree(noisy[RATES], num_nodes, model.caps.rates))
    model.concentration.fill_(concentration_of(noisy[WEDGES], sigma[WEDGES], model.neighbor, rows))
    return model


def joint_pairs(pairs: Tensor, sigma: float, mutual: float) -> tuple[Tensor, Tensor]:
    r"""Counts of the labels of parents and children, and the variance of their noise."""
    middle, half = (pairs + pairs.t()) / 2, (pairs - pairs.t()) / 2
    signal = ((1 - mutual) * middle).square()
    kept = signal / (signal + sigma**2 / 2)
    variance = sigma**2 * (1 + kept.square()) / 2
    return middle + kept * half, variance.fill_diagonal_(sigma**2)


def joint_degree(rates: Tensor, num_nodes: int, cap: int) -> float:
    r"""The mean number of edges into a node. Rates are weighted by the inverse of variances."""
    share = (rates / num_nodes).clamp(min=0)
    free = (share < HALF_FULL * cap).nonzero().view(-1)
    first = int(free[0]) if free.numel() else share.numel() - 1
    place = torch.arange(first, share.numel(), dtype=share.dtype)
    weight = 4.0 ** (first - place)
    return max(FEWEST_EDGES, float((weight * share[first:] * 2**place).sum() / weight.sum()))


def back_off(noisy: Tensor, variance: Tensor, prior: Tensor | None, total: Tensor) -> Tensor:
    r"""As in the package, with a variance of each count and given sums of rows."""
    common = marginal(noisy, float(variance.max().sqrt()))
    prior = common if prior is None else (1 - COMMON) * prior + COMMON * common
    expected = total[:, None] * prior
    difference = noisy - expected
    spread = (difference.square() - variance).sum().clamp(min=0) / expected.sum()
    signal = spread * expected
    counts = project_to_simplex(expected + difference * signal / (signal + variance), total)
    return counts / counts.sum(dim=1, keepdim=True)


def errors(model: PrivateMixing, data, cluster: Tensor) -> dict[str, float]:
    r"""The distances between the tables and those of the source."""
    y, (child, parent) = data.y, data.edge_index
    out = {}
    for name, row, column in (('token', y, cluster), ('neighbor', y[parent], y[child])):
        table = getattr(model, name)
        code = row * table.size(1) + column
        exact = torch.bincount(code, minlength=table.numel()).view(table.shape).double()
        sums = exact.sum(dim=1, keepdim=True)
        distance = (exact / sums.clamp(min=1) - table).abs().sum(dim=1) / 2
        out[name] = float((distance * sums[:, 0]).sum() / sums.sum())
    degree = data.num_edges / data.num_nodes
    return {**out, 'degree': abs(float(model.degree) / degree - 1)}


def run(cell: dict) -> None:
    r"""Builds one private graph, and scores its tables and a GNN with both estimates."""
    data, draw = load(cell['source']), cell['draw']
    with tempfile.TemporaryDirectory() as root:
        promise = DifferentialPrivacy(cell['epsilon'])
        dataset = SyntheticCGTDataset(data, seed=draw, root=root, log=False, privacy=promise)
        trees = compared_trees(check_source(data), dataset, 0)
    original, generated = trees['original'], trees['generated']
    config = GNNConfig.for_roots(original.rows('train').numel())
    both = {
        'single': dataset.model,
        'joint': joint_model(dataset, int((data.y >= 0).sum()), data.num_nodes),
    }
    for name, model in both.items():
        rng = torch.Generator().manual_seed(draw)
        tokens = torch.cat([model.sample(y, rng) for y in generated.y.split(4096)])
        sampled = replace(generated, tokens=tokens)
        gnn = train_gnn('GCN', sampled, config, draw)
        scores = {
            **errors(model, data, dataset.cluster),
            'generated': gnn_accuracy(gnn, sampled, sampled.rows('test')),
            'transfer': gnn_accuracy(gnn, original, original.rows('test')),
        }
        cell[name] = {key: round(value, 4) for key, value in scores.items()}


def show(cells: list[dict]) -> None:
    r"""Prints the means of both estimates, and the mean difference with its standard error."""
    print(f'| graph | epsilon | draws | {" | ".join(MEASURES)} |')
    print(f'|---|---|---|{"---|" * len(MEASURES)}')
    groups = defaultdict(list)
    for cell in cells:
        groups[cell['source'], cell['epsilon']].append(cell)
    for (source, epsilon), same in sorted(groups.items()):
        columns = [
            ' to '.join(f'{mean(c[name][key] for c in same):.3f}' for name in ('single', 'joint'))
            for key in MEASURES
        ]
        print(f'| {source} | {epsilon:g} | {len(same)} | {" | ".join(columns)} |')
    columns = []
    for key in MEASURES:
        change = [c['joint'][key] - c['single'][key] for c in cells]
        columns.append(f'{mean(change):+.4f} ± {stdev(change) / sqrt(len(change)):.4f}')
    print(f'| change, all | | {len(cells)} | {" | ".join(columns)} |')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--sources', default='Cora,PubMed,Photo')
    parser.add_argument('--epsilon', type=float, nargs='+', default=[1.0, 4.0])
    parser.add_argument('--draws', type=int, nargs='+', default=list(range(10)))
    parser.add_argument('--cells', type=Path, default=Path('joint_estimates.jsonl'))
    parser.add_argument('--show', action='store_true', help='print what is there, run nothing')
    args = parser.parse_args()
    cells = read_cells(args.cells)
    if args.show:
        return show(cells)
    done = {(c['source'], c['epsilon'], c['draw']) for c in cells}
    for draw in args.draws:
        for source in args.sources.split(','):
            for epsilon in args.epsilon:
                if (source, epsilon, draw) not in done:
                    run(cell := {'source': source, 'epsilon': epsilon, 'draw': draw})
                    add_cell(args.cells, cell)
                    print(cell, flush=True)


if __name__ == '__main__':
    main()
