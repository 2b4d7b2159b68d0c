r"""Tables that are chosen by the data, beside those that `mixing` fixes beforehand.

    python benchmarks/adaptive.py --cells docs/results/adaptive.jsonl
    python benchmarks/adaptive.py --cells docs/results/adaptive.jsonl --show

Each cell is one private build with the form `mixing`. Four more models have the same codebook:

* ``joint``: one estimate from all answers of the build, see ``joint_estimates.py``;
* ``adaptive``: tables are chosen in rounds, see ``adaptive_tables.py``. It costs as much as the
  model of the build, so that the total is the same;
* ``exact``: the tables of `mixing` without noise and caps. No choice of these tables is better;
* ``quantized``: no model, but the real trees with private tokens, as a perfect model draws them.

The last two are not private. Trees are sampled with the same random numbers, and a GCN is trained
on them. 'generated' is tested on such trees, 'transfer' on those of the original graph. Largest
component, 75/10/15 split, unit node.
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
from adaptive_tables import AdaptiveMixing, plan_adaptive
from cells import add_cell, read_cells
from joint_estimates import joint_model
from private import load
from torch import Tensor

from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.benchmark.gnn_training import GNNConfig, gnn_accuracy, train_gnn
from torch_geometric_cgt.benchmark.metrics import compared_trees
from torch_geometric_cgt.models import PrivateMixing, TokenGraph
from torch_geometric_cgt.models.tree_model import STAGE
from torch_geometric_cgt.pipeline import DifferentialPrivacy, check_source
from torch_geometric_cgt.privacy import Ledger, Queries

MODELS = ('default', 'joint', 'adaptive', 'exact', 'quantized')
SCORES = ('generated', 'transfer')


def adaptive_model(dataset: SyntheticCGTDataset, graph: TokenGraph) -> tuple[AdaptiveMixing, dict]:
    r"""A model with chosen tables that costs as much as the model of the dataset, and facts."""
    ledger = Ledger.from_dict(dataset.card['privacy']['ledger'], verify=False)
    model = dataset.model
    old = [e for e in ledger.entries if e.stage == STAGE and e.noise is not None]
    cost = sum(e.noise.concentrated(e.changes['node']) for e in old)
    entries = plan_adaptive(model.caps, cost)
    rest = [e for e in ledger.entries if e.stage != STAGE]
    delta = dataset.privacy.delta
    spent = Ledger(ledger.stages, [*rest, *entries]).total('node', delta).epsilon
    assert spent <= dataset.privacy.epsilon * 1.0001
    sizes = (model.num_tokens, model.num_classes, model.num_neighbors, model.caps)
    found = AdaptiveMixing(*sizes)
    chosen = found.fit_chosen(graph, Queries(entries))  # noise of the operating system
    return found, {'chosen': chosen, 'spent': round(spent, 4)}


def exact_model(model: PrivateMixing, graph: TokenGraph) -> PrivateMixing:
    r"""The model with tables of the source, without noise and caps."""
    model = copy.deepcopy(model)
    y, (child, parent) = graph.y, graph.edge_index
    model.token.copy_(shares(y, graph.token, model.token.shape))
    model.neighbor.copy_(shares(y[parent], y[child], model.neighbor.shape))
    degree = torch.bincount(parent, minlength=graph.num_nodes)
    at_least = [(degree >= j).double().mean() for j in range(model.at_least.numel())]
    model.at_least.copy_(torch.stack(at_least))
    model.degree.fill_(float(degree.double().mean()))
    code = child * graph.num_nodes + parent
    back = parent * graph.num_nodes + child
    model.mutual.fill_(float(torch.isin(back, code).double().mean()))
    number = counts(parent, y[child], (graph.num_nodes, model.num_classes))
    number, label = number[degree > 1], y[degree > 1]
    total = number.sum(dim=1)
    equal = (number * (number - 1)).sum(dim=1) / (total * (total - 1))  # of pairs of children
    independent = model.neighbor.square().sum(dim=1)[label]
    excess = float((equal - independent).sum() / (1 - independent).sum())
    model.concentration.fill_(max(0.3, 1 / max(excess, 1e-4) - 1))
    return model


def counts(row: Tensor, column: Tensor, size: tuple[int, ...] | torch.Size) -> Tensor:
    code = row * size[1] + column
    return torch.bincount(code, minlength=size[0] * size[1]).view(*size).double()


def shares(row: Tensor, column: Tensor, size: tuple[int, ...] | torch.Size) -> Tensor:
    table = counts(row, column, size) + 1e-9
    return table / table.sum(dim=1, keepdim=True)


def run(cell: dict, names: list[str]) -> None:
    r"""Builds one private graph, and scores a GNN on the trees of some models."""
    data, draw = load(cell['source']), cell['draw']
    with tempfile.TemporaryDirectory() as root:
        promise = DifferentialPrivacy(cell['epsilon'])
        dataset = SyntheticCGTDataset(data, seed=draw, root=root, log=False, privacy=promise)
        trees = compared_trees(check_source(data), dataset, 0)
    original, generated = trees['original'], trees['generated']
    config = GNNConfig.for_roots(original.rows('train').numel())
    graph = TokenGraph(dataset.cluster, data.y, data.edge_index)
    adaptive, facts = adaptive_model(dataset, graph)
    cell |= facts
    models = {
        'default': dataset.model,
        'joint': joint_model(dataset, int((data.y >= 0).sum()), data.num_nodes),
        'adaptive': adaptive,
        'exact': exact_model(dataset.model, graph),
    }
    for name in names:
        if name == 'quantized':
            sampled = trees['quantized']
        else:
            rng = torch.Generator().manual_seed(draw)
            tokens = torch.cat([models[name].sample(y, rng) for y in generated.y.split(4096)])
            sampled = replace(generated, tokens=tokens)
        gnn = train_gnn('GCN', sampled, config, draw)
        cell[name] = {
            'generated': round(gnn_accuracy(gnn, sampled, sampled.rows('test')), 4),
            'transfer': round(gnn_accuracy(gnn, original, original.rows('test')), 4),
        }


def show(cells: list[dict]) -> None:
    r"""Prints the means of all models, and mean differences to the default with standard errors."""
    for score in SCORES:
        print(f'\n| {score} | epsilon | draws | {" | ".join(MODELS)} |')
        print(f'|---|---|---|{"---|" * len(MODELS)}')
        groups = defaultdict(list)
        for cell in cells:
            groups[cell['source'], cell['epsilon']].append(cell)
        for (source, epsilon), same in sorted(groups.items()):
            values = [[c[name][score] for c in same if name in c] for name in MODELS]
            columns = [f'{mean(v):.3f}' if v else '' for v in values]
            print(f'| {source} | {epsilon:g} | {len(same)} | {" | ".join(columns)} |')
        columns = ['']
        for name in MODELS[1:]:
            change = [c[name][score] - c['default'][score] for c in cells if name in c]
            error = f' ± {stdev(change) / sqrt(len(change)):.4f}' if len(change) > 1 else ''
            columns.append(f'{mean(change):+.4f}{error} ({len(change)})' if change else '')
        print(f'| change, all | | {len(cells)} | {" | ".join(columns)} |')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--sources', default='PubMed,Photo,Physics')
    parser.add_argument('--epsilon', type=float, nargs='+', default=[4.0, 16.0])
    parser.add_argument('--draws', type=int, nargs='+', default=[0, 1, 2])
    parser.add_argument('--models', nargs='+', default=list(MODELS))
    parser.add_argument('--cells', type=Path, default=Path('adaptive.jsonl'))
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
                    run(cell := {'source': source, 'epsilon': epsilon, 'draw': draw}, args.models)
                    add_cell(args.cells, cell)
                    print(cell, flush=True)


if __name__ == '__main__':
    main()
