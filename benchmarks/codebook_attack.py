r"""Membership read from the codebook of a k-anonymous release, and what protection costs.

    python benchmarks/codebook_attack.py
    python benchmarks/codebook_attack.py --sources Cora --parts attack sizes
    python benchmarks/codebook_attack.py --show

k = 30, largest component. Parts:

- attack: a random half of the nodes is quantized, and the attacks of ``audit/codebook_attack.py``
  tell this half from the other one;
- sizes: the size of each group is searched for as the common denominator of its mean;
- person: the codebook is computed again without one of 20 persons, in the same groups and, where
  ``--again`` names the graph, in groups that are found again;
- quantized: GNNs are trained and tested on the graph with codewords as features;
- generated: the same on generated graphs (Cora and Digits).

A cell is one (part, graph, seed, protection); it is stored when it is finished, and a run that was
stopped goes on where it was. The tables go to ``docs/results/codebook_attack.md``. Raw files are
looked for in ``$CGT_DATA_ROOT``.
"""

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch
from cells import add_cell, read_cells
from codebook_tables import write_page
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from torch_geometric_cgt import KAnonymity, SyntheticCGTDataset
from torch_geometric_cgt.audit.codebook_attack import attack_codebook, feature_kind
from torch_geometric_cgt.benchmark.gnn_training import score_gnns
from torch_geometric_cgt.benchmark.metrics import as_rows, compared_trees
from torch_geometric_cgt.data import TokenTrees, TreeShape, random_split, tokens_of
from torch_geometric_cgt.datasets import load_source
from torch_geometric_cgt.pipeline.source import check_source
from torch_geometric_cgt.quantizer import protected_means
from torch_geometric_cgt.sampler import InNeighbors, sample_trees
from torch_geometric_cgt.transforms import Quantize

K, NUM_PERSONS = 30, 20
RESULTS = Path(__file__).parents[1] / 'docs' / 'results'
DEFAULT = KAnonymity(K)
PROTECTIONS: dict[str, tuple[int | None, float | None]] = {  # min_value_support, rounding
    'exact means': (None, None),
    't = 2': (2, None),
    't = 3': (3, None),
    't = 5': (5, None),
    't = 10': (10, None),
    'rounding 1/3': (None, 0.3333),
    't = 5, rounding 1/6': (5, 0.1667),
    'default': (DEFAULT.value_support, DEFAULT.step),
}
FEW = ('exact means', 't = 5', 't = 5, rounding 1/6', 'default')
GNNS = {
    'Cora': 'GCN,SGC,GIN,GAT',
    'Digits': 'GCN,SGC,GIN,GAT',
    'PubMed': 'GCN,GIN',
    'CS': 'GCN,GIN',
}
UNITS = {'Cora': 1.0, 'CS': 1.0, 'Digits': 1 / 16}  # features are multiples of these


@cache
def load(name: str) -> Data:
    return load_source(name, largest_component=True, random_split=True)[0]


@cache
def members(name: str, seed: int) -> Tensor:
    r"""A random half of the nodes, ``[N]``."""
    size = int(load(name).num_nodes)
    mask = torch.zeros(size, dtype=torch.bool)
    mask[torch.randperm(size, generator=torch.Generator().manual_seed(seed))[: size // 2]] = True
    return mask


def quantize(data: Data, mask: Tensor, seed: int) -> Tensor:
    r"""The group of each node of a part of the graph, as a build finds it."""
    edge_index, _ = subgraph(mask, data.edge_index, relabel_nodes=True, num_nodes=data.num_nodes)
    part = Data(x=data.x[mask], edge_index=edge_index, y=data.y[mask])
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # groups of one label
        return Quantize(K, seed=seed, task_weight='auto').cluster(part).cluster


@cache
def half(name: str, seed: int) -> tuple[Tensor, Tensor]:
    r"""The features of the members, and the group of each."""
    mask = members(name, seed)
    return load(name).x[mask], quantize(load(name), mask, seed)


def codebook_of(x: Tensor, cluster: Tensor, protection: str) -> Tensor:
    return protected_means(x, cluster, int(cluster.max()) + 1, *PROTECTIONS[protection])


def run_attack(name: str, seed: int, protection: str) -> dict:
    codebook, mask = codebook_of(*half(name, seed), protection), members(name, seed)
    found = attack_codebook(codebook, load(name).x, mask)
    return {
        'kind': feature_kind(load(name).x),
        'nonzero': float((codebook != 0).double().mean()),
        'scores': {score: attack.to_dict() for score, attack in found.items()},
    }


def run_sizes(name: str, seed: int, protection: str) -> dict:
    r"""Searches the size of each group: the smallest number that all sums are integers for."""
    x, cluster = half(name, seed)
    codebook = codebook_of(x, cluster, protection).double() / UNITS[name]
    sizes, found = torch.bincount(cluster), []
    for row in codebook:
        total = row[None] * torch.arange(K, 4 * K)[:, None]
        error = (total - total.round()).abs().max(dim=1).values
        fits = (error < 1e-3 * max(1.0, float(row.max()))).nonzero()
        found.append(K + int(fits[0]) if len(fits) else 0)
    right = torch.tensor(found) == sizes
    return {
        'groups': sizes.numel(),
        'recovered': int(right.sum()),
        'of_size_k': int((sizes == K).sum()),
        'recovered_other': int((right & (sizes != K)).sum()),
    }


def run_person(name: str, seed: int, protection: str, again: bool) -> dict:
    r"""The entries of the codebook that show that one person is missing."""
    x, cluster = half(name, seed)
    codebook, node = codebook_of(x, cluster, protection), members(name, seed).nonzero().view(-1)
    rng = torch.Generator().manual_seed(seed)
    persons = torch.randperm(len(x), generator=rng)[:NUM_PERSONS].tolist()
    cell: dict = {'values': [], 'changed': [], 'own': [], 'codewords': codebook.size(0)}
    for person in persons:
        keep = torch.arange(len(x)) != person
        other = codebook_of(x[keep], cluster[keep], protection)
        changed = (other - codebook).abs() > 1e-6
        own = x[person] != 0
        cell['values'].append(int(own.sum()))
        cell['changed'].append(int(changed.sum()))
        cell['own'].append(int(changed[cluster[person]][own].sum()))
        if again:
            mask = members(name, seed).clone()
            mask[node[person]] = False
            found = codebook_of(x[keep], reclustered(name, seed, int(node[person])), protection)
            equal = (torch.cdist(found, codebook, p=float('inf')) < 1e-6).any(dim=1)
            cell.setdefault('kept', []).append(int(equal.sum()))
    return cell


@cache
def reclustered(name: str, seed: int, node: int) -> Tensor:
    mask = members(name, seed).clone()
    mask[node] = False
    return quantize(load(name), mask, seed)


@cache
def quantized_graph(name: str, seed: int) -> tuple[Tensor, Callable[[Tensor, Tensor], dict]]:
    r"""The groups of all nodes, and a function that scores GNNs on a table of features."""
    data, shape = load(name), TreeShape.of([5, 5])
    cluster = quantize(data, torch.ones(data.num_nodes, dtype=torch.bool), seed)
    graph = InNeighbors.from_edge_index(data.edge_index, data.num_nodes)
    rng = torch.Generator().manual_seed(seed)
    tree = sample_trees(graph, torch.arange(data.num_nodes), shape, rng)
    split, num_classes = random_split(data.y >= 0, seed), int(data.y.max()) + 1

    def scores(x: Tensor, row: Tensor) -> dict[str, float]:
        tokens = tokens_of(tree, row, x.size(0))
        trees = TokenTrees(tokens, data.y, split, x.size(0), num_classes, shape, as_rows(x))
        return score_gnns(GNNS[name].split(','), trees, seed)

    return cluster, scores


def run_quantized(name: str, seed: int, protection: str) -> dict:
    cluster, scores = quantized_graph(name, seed)
    x = load(name).x
    if protection == 'original':
        return {'scores': scores(x, torch.arange(len(x)))}
    codebook = codebook_of(x, cluster, protection)
    empty = int((codebook.abs().sum(dim=1) == 0).sum())
    return {'scores': scores(codebook, cluster), 'empty': empty, 'codewords': codebook.size(0)}


def run_generated(name: str, seed: int, protection: str) -> dict:
    data, (support, step) = load(name), PROTECTIONS[protection]
    promise = KAnonymity(K, min_value_support=support, rounding=step)
    with tempfile.TemporaryDirectory() as root, warnings.catch_warnings():
        warnings.simplefilter('ignore')  # groups of one label
        dataset = SyntheticCGTDataset(data, privacy=promise, seed=seed, root=root, log=False)
        trees = compared_trees(check_source(data), dataset, seed)
    models = GNNS[name].split(',')
    columns = ('original', 'quantized', 'generated')
    return {'scores': {column: score_gnns(models, trees[column], seed) for column in columns}}


def run_cell(key: dict, again: list[str]) -> dict:
    started, place = time.monotonic(), (key['source'], key['seed'], key['protection'])
    if key['part'] == 'person':
        cell = run_person(*place, again=key['source'] in again)
    else:
        parts = {'attack': run_attack, 'sizes': run_sizes, 'quantized': run_quantized}
        cell = {**parts, 'generated': run_generated}[key['part']](*place)
    support, step = PROTECTIONS.get(key['protection'], (None, None))
    rules = {'min_value_support': support, 'rounding': step}
    return {**key, **rules, **cell, 'seconds': round(time.monotonic() - started, 1)}


def keys_of(part: str, name: str, seed: int) -> list[dict]:
    r"""The cells of one part."""
    protections = {
        'attack': list(PROTECTIONS),
        'sizes': list(FEW) if name in UNITS else [],
        'person': list(FEW),
        'quantized': ['original', *FEW],
        'generated': ['exact means', 'default'] if name in ('Cora', 'Digits') else [],
    }[part]
    if part == 'quantized' and name in ('Cora', 'Digits'):
        protections = ['original', *PROTECTIONS]
    if part == 'quantized' and name in ('PubMed', 'CS') and seed > 0:
        protections = []
    return [
        {'part': part, 'source': name, 'seed': seed, 'protection': protection}
        for protection in protections
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--sources', default='Cora,Digits,PubMed,CS')
    parts = ['attack', 'sizes', 'person', 'quantized', 'generated']
    parser.add_argument('--parts', nargs='+', default=parts, choices=parts)
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1])
    parser.add_argument('--again', nargs='*', default=['Cora', 'Digits'])
    parser.add_argument('--cells', type=Path, default=RESULTS / 'codebook_attack.jsonl')
    parser.add_argument('--page', type=Path, default=RESULTS / 'codebook_attack.md')
    parser.add_argument('--show', action='store_true', help='write the page, run nothing')
    args = parser.parse_args()
    torch.set_num_threads(1)

    cells = read_cells(args.cells)
    names = ('part', 'source', 'seed', 'protection')
    done = {tuple(cell[name] for name in names) for cell in cells}
    for seed in [] if args.show else args.seeds:
        for part in args.parts:
            for name in args.sources.split(','):
                for key in keys_of(part, name, seed):
                    if tuple(key.values()) not in done:
                        cells.append(run_cell(key, args.again))
                        add_cell(args.cells, cells[-1])
                        print(*key.values(), f'{cells[-1]["seconds"]} s', flush=True)
    print(write_page(args.page, cells, list(PROTECTIONS)))


if __name__ == '__main__':
    main()
