r"""How many computation graphs change if an edge or a node is removed, against the proven bounds.

    python benchmarks/stable_trees.py

Removes 200 random edges and 100 nodes (the 20 with most neighbours and 80 random ones) of Cora and
Photo, one at a time, computes the sample of edges and all trees again, and counts the trees that
differ. Compares the stable rule with the rule of one permutation of all edges. The bounds are also
compared with all changes of small random graphs. Writes the cells to ``stable_trees.jsonl`` and the
tables to ``stable_trees.md`` in ``docs/results``. ``--show`` writes the tables from the cells. Raw
files are looked for in ``$CGT_DATA_ROOT``.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from cells import read_cells
from torch import Tensor

from torch_geometric_cgt.data import InNeighbors, TreeShape
from torch_geometric_cgt.datasets import load_source
from torch_geometric_cgt.privacy import StableSample
from torch_geometric_cgt.sampler import sample_trees, stable_children, unroll_trees
from torch_geometric_cgt.utils.files import write_text
from torch_geometric_cgt.utils.rows import rank_among_equals

SHAPE = TreeShape.of([5, 5])
PARENTS = (1, 2, 3)
MAX_DEGREE = {'Cora': 10, 'Photo': 50}
NUM_EDGES, NUM_NODES, NUM_HUBS = 200, 100, 20
SMALL_GRAPHS, SMALL_NODES = 1000, 10
RESULTS = Path(__file__).parents[1] / 'docs' / 'results'
UNITS = ('edge', 'attributes', 'node')
INTRODUCTION = f"""# Stable trees

How many computation graphs change if an edge or a node is removed and everything is computed again:
{NUM_EDGES} random edges and {NUM_NODES} nodes (the {NUM_HUBS} with most neighbours, the others at
random), one at a time. For the attributes of these nodes, the trees that contain the node are
counted. Largest component, fan-outs {list(SHAPE.num_neighbors)}, a tree of every node. K is the
largest number of parents of a node. [Proofs](../privacy_proofs.md) has the rule and the bounds.
"Permutation" is the rule of one permutation of all edges, drawn again with the same seed.

```sh
python benchmarks/stable_trees.py
```
"""
SMALL_INTRODUCTION = f"""All changes of {SMALL_GRAPHS:,} random undirected graphs of 4 to
{SMALL_NODES} nodes per row, fan-outs 3. An entry is the change that came nearest to its bound:
trees that changed, of the bound for this change. Graphs of this size are too small for the larger
bounds. The tests have graphs that reach each bound."""
#: From edges [2, E] to the trees of all nodes [N, T].
Trees = Callable[[Tensor], Tensor]
#: The unit, the nodes in it, the number of nodes with an edge into it, the trees that change.
Change = tuple[str, tuple[int, ...], int, int]


def stable(
    edge_index: Tensor, num_nodes: int, parents: int, key: int, shape: TreeShape = SHAPE
) -> Tensor:
    r"""Trees by priorities of pairs."""
    lists = stable_children(edge_index, num_nodes, parents, max(shape.num_neighbors), key)
    return unroll_trees(lists, torch.arange(num_nodes), shape)


def permuted(edge_index: Tensor, num_nodes: int, parents: int, seed: int) -> Tensor:
    r"""Trees by one permutation of all edges, drawn again with the same seed."""
    rng = torch.Generator().manual_seed(seed)
    kept = cap_parents(edge_index, num_nodes, parents, max(SHAPE.num_neighbors), rng)
    return unroll_trees(
        InNeighbors.from_edge_index(kept, num_nodes), torch.arange(num_nodes), SHAPE
    )


def cap_parents(
    edge_index: Tensor, num_nodes: int, max_parents: int, max_children: int, rng: torch.Generator
) -> Tensor:
    r"""Keeps random edges with bounded degrees: the rule of releases before format 3. Edges to
    parents with few children come first.
    """
    edge_index = edge_index[:, torch.randperm(edge_index.size(1), generator=rng)]
    in_degree = torch.bincount(edge_index[1], minlength=num_nodes)
    crowded = in_degree[edge_index[1]] > max_children
    edge_index = edge_index[:, crowded.long().argsort(stable=True)]
    for end, most in ((0, max_parents), (1, max_children)):
        edge_index = edge_index[:, rank_among_equals(edge_index[end]) < most]
    return edge_index


def uncapped(edge_index: Tensor, num_nodes: int, seed: int) -> Tensor:
    r"""Trees by a uniform sample of all neighbours."""
    graph = InNeighbors.from_edge_index(edge_index, num_nodes)
    rng = torch.Generator().manual_seed(seed)
    return sample_trees(graph, torch.arange(num_nodes), SHAPE, rng)


def slots(trees: Tensor) -> float:
    r"""The mean number of real slots per tree."""
    return float((trees >= 0).sum(dim=1).double().mean())


def removals(trees: Trees, edge_index: Tensor, edges: Tensor, nodes: Tensor) -> Iterator[Change]:
    r"""Removes edges and nodes one at a time and counts the trees that change."""
    before = trees(edge_index)
    child, parent = edge_index

    def number(gone: Tensor) -> int:
        return int((trees(edge_index[:, ~gone]) != before).any(dim=1).sum())

    for u, v in edges.t().tolist():
        gone = ((child == u) & (parent == v)) | ((child == v) & (parent == u))
        yield 'edge', (u, v), 0, number(gone)
    for node in nodes.tolist():
        degree = child[(parent == node) & (child != node)].unique().numel()
        yield 'attributes', (node,), degree, int((before == node).any(dim=1).sum())
        yield 'node', (node,), degree, number((child == node) | (parent == node))


def bound_of(unit: str, parents: int, depth: int, degree: int) -> int:
    r"""The bound of :class:`StableSample`; for a node, the one with its own degree as limit."""
    return int(getattr(StableSample(parents, depth, max(degree, 1)), f'trees_per_{unit}'))


def chosen(edge_index: Tensor, num_nodes: int, seed: int) -> tuple[Tensor, Tensor]:
    r"""Random edges, and nodes of which some are the largest hubs."""
    rng = torch.Generator().manual_seed(seed)
    one_way = edge_index[:, edge_index[0] < edge_index[1]].unique(dim=1)
    edges = one_way[:, torch.randperm(one_way.size(1), generator=rng)[:NUM_EDGES]]
    degree = torch.bincount(edge_index[1], minlength=num_nodes)
    hubs = degree.argsort(descending=True)[:NUM_HUBS]
    others = torch.randperm(num_nodes, generator=rng)
    others = others[~torch.isin(others, hubs)][: NUM_NODES - NUM_HUBS]
    return edges, torch.cat([hubs, others])


def run_graph(name: str, parents: int, seed: int) -> Iterator[dict]:
    r"""The cells of one graph and number of parents, for both rules."""
    data = load_source(name, largest_component=True, random_split=True)[0]
    edge_index, n = data.edge_index, int(data.num_nodes)
    edges, nodes = chosen(edge_index, n, seed)
    cell = {'graph': name, 'num_nodes': n, 'parents': parents, 'seed': seed}
    rules: dict[str, Trees] = {
        'stable': partial(stable, num_nodes=n, parents=parents, key=seed),
        'permuted': partial(permuted, num_nodes=n, parents=parents, seed=seed),
    }
    yield {**cell, 'rule': 'uncapped', 'slots': round(slots(uncapped(edge_index, n, seed)), 3)}
    for rule, trees in rules.items():
        found = list(removals(trees, edge_index, edges, nodes))
        size = round(slots(trees(edge_index)), 3)
        yield {**cell, 'rule': rule, 'slots': size, 'changes': found}


def run_small(parents: int, depth: int, seed: int) -> dict:
    r"""All changes of many small graphs: the largest number of trees that change per unit, beside
    the bound of that very change, and how many changes were made.
    """
    rng = np.random.default_rng(seed)
    cell: dict = {'small': True, 'parents': parents, 'depth': depth, 'changes': 0}
    shape = TreeShape.of([3] * depth)
    for _ in range(SMALL_GRAPHS):
        n = int(rng.integers(4, SMALL_NODES + 1))
        pairs = torch.from_numpy(rng.integers(0, n, (2, int(rng.integers(n, 3 * n)))))
        edge_index = torch.cat([pairs, pairs.flip(0)], dim=1).unique(dim=1)
        key = int(rng.integers(2**62))
        trees = partial(stable, num_nodes=n, parents=parents, key=key, shape=shape)
        edges = edge_index[:, edge_index[0] <= edge_index[1]]
        for unit, _, degree, number in removals(trees, edge_index, edges, torch.arange(n)):
            cell['changes'] += 1
            share = [number, bound_of(unit, parents, depth, degree)]
            most = cell.setdefault(unit, share)
            if share[0] * most[1] > most[0] * share[1]:
                cell[unit] = share
    return cell


def summary(numbers: list[int]) -> str:
    r"""Mean, 95 % quantile and maximum."""
    if not numbers:
        return '- | - | -'
    return f'{np.mean(numbers):.1f} | {np.quantile(numbers, 0.95):.0f} | {max(numbers)}'


def changes(cells: list[dict], name: str, parents: int, rule: str) -> list[Change]:
    r"""The changes of a graph that were counted under a rule."""
    key = name, parents, rule
    return next(c['changes'] for c in cells if (c.get('graph'), c['parents'], c.get('rule')) == key)


def table_of(cells: list[dict], name: str) -> list[str]:
    r"""Changed trees per unit and number of parents, both rules."""
    limit = MAX_DEGREE[name]
    lines = [
        '| K | change | number | mean | 95 % | max | bound | above the bound '
        '| permutation: mean | 95 % | max |',
        '|---|---|---|---|---|---|---|---|---|---|---|',
    ]
    rows = {
        'an edge removed': ('edge', lambda degree: True),
        'attributes of a node': ('attributes', lambda degree: True),
        f'a node with at most {limit} edges removed': ('node', lambda degree: degree <= limit),
        f'a node with more than {limit} edges removed': ('node', lambda degree: degree > limit),
    }
    for parents in PARENTS:
        for title, (unit, inside) in rows.items():
            ours, other = (
                [n for u, _, d, n in changes(cells, name, parents, rule) if u == unit and inside(d)]
                for rule in ('stable', 'permuted')
            )
            bound = bound_of(unit, parents, SHAPE.depth, limit)
            over = str(sum(n > bound for n in ours))
            shown = f'{bound} | {over}'
            if 'more' in title:
                shown = f'none ({bound} for at most {limit}) | {over} of {len(ours)}'
            lines.append(
                f'| {parents} | {title} | {len(ours)} | {summary(ours)} | {shown} '
                f'| {summary(other)} |'
            )
    return lines


def slots_table(cells: list[dict]) -> list[str]:
    r"""Real slots per tree by rule."""
    lines = [
        '| graph | not capped | K | stable | one permutation |',
        '|---|---|---|---|---|',
    ]
    value = {(c['graph'], c['parents'], c['rule']): c['slots'] for c in cells if 'slots' in c}
    for name in MAX_DEGREE:
        for parents in PARENTS:
            free, ours, other = (
                value[name, parents, rule] for rule in ('uncapped', 'stable', 'permuted')
            )
            lines.append(f'| {name} | {free:.1f} | {parents} | {ours:.2f} | {other:.2f} |')
    return lines


def small_table(cells: list[dict]) -> list[str]:
    r"""How near small graphs come to the bounds."""
    lines = [f'| K | L | changes | {" | ".join(UNITS)} |', '|---|---|---|---|---|---|']
    for c in cells:
        if 'small' in c:
            shares = ' | '.join(f'{c[unit][0]} of {c[unit][1]}' for unit in UNITS)
            lines.append(f'| {c["parents"]} | {c["depth"]} | {c["changes"]:,} | {shares} |')
    return lines


def page(cells: list[dict]) -> str:
    r"""The page of results."""
    number, above = 0, 0
    for name in MAX_DEGREE:
        for parents in PARENTS:
            for unit, _, degree, changed in changes(cells, name, parents, 'stable'):
                number += 1
                above += changed > bound_of(unit, parents, SHAPE.depth, degree)
    lines = [
        INTRODUCTION,
        f'Of {number:,} changes under the stable rule, {above} exceed their bound. Here a node, '
        'hubs included, has the',
        'bound for its own number of edges.',
    ]
    for name in MAX_DEGREE:
        size = next(c['num_nodes'] for c in cells if c.get('graph') == name)
        lines += ['', f'## {name}, {size:,} trees', '', *table_of(cells, name)]
    lines += ['', '## Real slots per tree', '', *slots_table(cells)]
    lines += [
        '',
        '## How near small graphs come to the bounds',
        '',
        SMALL_INTRODUCTION,
        '',
        *small_table(cells),
        '',
        'Cells: [`stable_trees.jsonl`](stable_trees.jsonl).',
        '',
    ]
    return '\n'.join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--show', action='store_true', help='write the page from the cells only')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--folder', type=Path, default=RESULTS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    path = args.folder / 'stable_trees.jsonl'
    if not args.show:
        cells = []
        for name in MAX_DEGREE:
            for parents in PARENTS:
                cells += run_graph(name, parents, args.seed)
                print(f'{name}, K = {parents}: done', flush=True)
        cells += [run_small(k, depth, args.seed) for k in PARENTS for depth in (1, 2, 3)]
        write_text(path, ''.join(json.dumps(cell) + '\n' for cell in cells))
    text = page(read_cells(path))
    write_text(args.folder / 'stable_trees.md', text)
    print(text)


if __name__ == '__main__':
    main()
