r"""The zoo of GNNs on original, quantized and generated graphs.

    python benchmarks/zoo.py --sources Cora,Actor --seeds 0 1 2 --tag now --cells cells.jsonl
    python benchmarks/zoo.py --cells cells.jsonl --show
    python benchmarks/zoo.py --cells docs/results/zoo.jsonl --page --seeds 1
    python benchmarks/zoo.py --views --seeds 1 --tag now --cells views.jsonl

A graph keeps `--roots` random roots; all its nodes stay neighbours. The paper's graphs are split
50/10/40 by seed (largest component), the heterophilous ones by their own splits. The ceiling is the
original with another split and other sampled neighbours. There is one build per (graph, seed, tag),
which is kept below `--builds`. A cell is one (graph, seed, kind, tag, model); it is stored when it
is finished, and a run that was stopped goes on where it was. Graphs with two classes are scored by
ROC AUC, others by accuracy. ``--views`` scores each view of the same trees by a network in place of
the GNNs. Raw files are looked for in ``$CGT_DATA_ROOT``.
"""

import argparse
import time
import warnings
from collections import defaultdict
from functools import cached_property
from pathlib import Path

import torch
from cells import add_cell, read_cells
from torch_geometric.data import Data

from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.benchmark.evaluation import compared_views
from torch_geometric_cgt.benchmark.judge import CEILING, judge
from torch_geometric_cgt.benchmark.metrics import Estimate, as_rows, compared_trees, encode_source
from torch_geometric_cgt.benchmark.zoo import (
    FLOOR,
    PLAIN,
    ZOO,
    ZooTrees,
    resplit,
    train_zoo,
    zoo_metrics,
)
from torch_geometric_cgt.data import TokenTrees, TreeShape, random_split, split_of
from torch_geometric_cgt.data.token_trees import masks_of
from torch_geometric_cgt.datasets import load_source
from torch_geometric_cgt.pipeline.source import check_source

PAPER = ['Cora', 'CiteSeer', 'PubMed', 'Computers', 'Photo', 'CS', 'Physics']
OTHERS = ['Actor', 'SquirrelFiltered', 'Minesweeper', 'Tolokers']
KINDS = ('original', CEILING, 'quantized', 'generated')


def load_graph(name: str, roots: int, seed: int) -> Data:
    r"""A graph with a split and some of its nodes as roots; the others have no label."""
    own = name in OTHERS
    data = load_source(name, largest_component=not own, random_split=not own)[0]
    rng = torch.Generator().manual_seed(seed)
    is_root = torch.zeros(data.num_nodes, dtype=torch.bool)
    is_root[torch.randperm(data.num_nodes, generator=rng)[:roots]] = True
    data.y = data.y.masked_fill(~is_root, -1)
    code = split_of(data) if own else random_split(is_root, seed)
    for mask, value in masks_of(code).items():
        data[mask] = value & is_root
    return data


class Graph:
    r"""One graph and seed: its trees by kind, and its build if one of them needs it."""

    def __init__(self, name: str, seed: int, args: argparse.Namespace) -> None:
        self.name, self.seed, self.args = name, seed, args
        self.data = load_graph(name, args.roots, seed)
        self.source = check_source(self.data)
        self._batches: dict[str, ZooTrees] = {}

    @cached_property
    def dataset(self) -> SyntheticCGTDataset:
        args = self.args
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # homogeneous clusters
            return SyntheticCGTDataset(
                self.data,
                k=args.k,
                num_neighbors=args.num_neighbors,
                seed=self.seed,
                root=args.builds / (args.tag or 'untagged'),
                log=False,
            )

    @cached_property
    def made(self) -> dict[str, TokenTrees]:
        return compared_trees(self.source, self.dataset, run=0)

    def trees(self, kind: str) -> TokenTrees:
        if kind in ('quantized', 'generated'):
            return self.made[kind]
        run = int(kind == CEILING)  # other neighbours
        shape = TreeShape.of(self.args.num_neighbors)
        encoded = encode_source(self.source, shape, self.seed, run)
        trees = encoded.map_tokens(None, encoded.num_tokens, as_rows(self.data.x))
        return resplit(trees, self.seed) if kind == CEILING else trees

    def batches(self, kind: str) -> ZooTrees:
        if kind not in self._batches:
            self._batches[kind] = ZooTrees(self.trees(kind), seed=self.seed)
        return self._batches[kind]


def run_cell(graph: Graph, kind: str, model: str, tag: str) -> dict:
    r"""Trains one model on one kind of graph."""
    trees = graph.batches(kind)
    training_seed = graph.seed + (1000 if kind == CEILING else 0)
    started = time.process_time()
    trained = train_zoo(model, trees, training_seed)
    cell = {'source': graph.name, 'seed': graph.seed, 'kind': kind, 'tag': tag, 'model': model}
    cell |= {'roots': graph.args.roots, 'k': graph.args.k, 'metric': trees.metric}
    cell |= {'s': list(graph.args.num_neighbors), 'seconds': time.process_time() - started}
    cell['scores'] = zoo_metrics(trained, trees.test, graph.seed)
    if kind in ('quantized', 'generated'):
        cell['transfer'] = zoo_metrics(trained, graph.batches('original').test, graph.seed)
    return cell


def key_of(cell: dict) -> tuple:
    return tuple(cell[name] for name in ('source', 'seed', 'kind', 'tag', 'model'))


def run(args: argparse.Namespace, cells: list[dict]) -> None:
    r"""Measures the cells that are missing."""
    done = {key_of(cell) for cell in cells}
    for seed in args.seeds:
        for name in args.sources:
            graph = None
            for kind in args.kinds:
                tag = '' if kind in ('original', CEILING) else args.tag
                missing = [m for m in args.models if (name, seed, kind, tag, m) not in done]
                for model in missing:
                    graph = graph or Graph(name, seed, args)
                    cells.append(run_cell(graph, kind, model, tag))
                    add_cell(args.cells, cells[-1])
                if missing:
                    seconds = sum(cell['seconds'] for cell in cells[-len(missing) :])
                    print(f'{name} seed {seed} {kind}: {seconds:.0f} s of processor', flush=True)


def run_views(args: argparse.Namespace, cells: list[dict]) -> None:
    r"""Scores the views of the trees of each graph and seed, where they are missing."""
    done = {(cell['source'], cell['seed'], cell['tag']) for cell in cells}
    for seed in args.seeds:
        for name in args.sources:
            if (name, seed, args.tag) in done:
                continue
            graph = Graph(name, seed, args)
            views = compared_views({kind: graph.trees(kind) for kind in args.kinds})
            cells.append({'source': name, 'seed': seed, 'tag': args.tag, 'views': views})
            add_cell(args.cells, cells[-1])


def show_views(cells: list[dict]) -> None:
    r"""Prints the scores of views as a Markdown table, and how far they are from the original."""
    names = list(cells[0]['views'])
    kinds = list(cells[0]['views'][names[0]])
    print(f'Each entry: {" / ".join(kinds)}.\n')
    print(f'| graph | seed | {" | ".join(names)} |')
    print('|---' * (2 + len(names)) + '|')
    far = defaultdict(list)
    for cell in cells:
        row = []
        for name in names:
            scores = cell['views'][name]
            row.append(' / '.join(f'{scores[kind]:.3f}' for kind in kinds))
            for kind in kinds[1:]:
                far[kind].append((scores[kind] - scores['original'], cell['source'], name))
        print(f'| {cell["source"]} | {cell["seed"]} | {" | ".join(row)} |')
    for kind, differences in far.items():
        sizes = [abs(difference) for difference, *_ in differences]
        within = sum(size <= 0.02 for size in sizes)
        print(f'\n{kind}: mean {sum(sizes) / len(sizes):.4f}, {within} of {len(sizes)} within 0.02')
        beyond = sorted((d for d in differences if abs(d[0]) > 0.02), key=lambda d: -abs(d[0]))
        print(', '.join(f'{source} {name} ({d:+.3f})' for d, source, name in beyond))


def tables(cells: list[dict], metric: str | None) -> dict[tuple[str, str], dict]:
    r"""The scores of each (graph, tag) by column, model and seed, of the seeds and models that are
    complete.
    """
    found: dict[str, dict] = defaultdict(dict)
    for cell in cells:
        chosen = metric if metric in cell['scores'] else cell['metric']
        column = (
            cell['kind'] if cell['kind'] in ('original', CEILING) else (cell['kind'], cell['tag'])
        )
        found[cell['source']][column, cell['model'], cell['seed']] = cell['scores'][chosen]
        if 'transfer' in cell:
            key = (f'{cell["kind"]} transfer', cell['tag']), cell['model'], cell['seed']
            found[cell['source']][key] = cell['transfer'][chosen]
    out = {}
    for name, scores in found.items():
        tags = sorted({c[1] for c, _, _ in scores if isinstance(c, tuple)}) or ['']
        for tag in tags:
            columns = {'original': 'original', CEILING: CEILING}
            for kind in ('quantized', 'generated', 'quantized transfer', 'generated transfer'):
                columns[kind] = (kind, tag)
            have = {kind: c for kind, c in columns.items() if any(k[0] == c for k in scores)}
            seeds = sorted({seed for _, _, seed in scores})
            models = [m for m in (*ZOO, *PLAIN) if any(k[1] == m for k in scores)]
            seeds = [
                s
                for s in seeds
                if any(all((c, m, s) in scores for c in have.values()) for m in models)
            ]
            models = [
                m for m in models if all((c, m, s) in scores for c in have.values() for s in seeds)
            ]
            out[name, tag] = {
                kind: {m: [scores[c, m, s] for s in seeds] for m in models}
                for kind, c in have.items()
            }
    return out


def show(cells: list[dict], metric: str | None) -> None:
    r"""Prints scores of models, and the measures of each graph with their means."""
    total = defaultdict(lambda: defaultdict(list))
    metrics = {cell['source']: cell['metric'] for cell in cells}
    for (name, tag), scores in tables(cells, metric).items():
        models = list(next(iter(scores.values())))
        if 'original' not in scores or not models:
            continue
        num_seeds = len(next(iter(scores['original'].values())))
        used = metric if metric and metrics[name] == 'roc_auc' else metrics[name]
        print(f'\n{name} {tag}: {len(models)} models, {num_seeds} seeds, {used}')
        print(f'{"":12}' + ''.join(f'{column:>20}' for column in scores))
        for model in models:
            means = [sum(runs[model]) / len(runs[model]) for runs in scores.values()]
            print(f'{model:12}' + ''.join(f'{mean:20.3f}' for mean in means))
        judged = [c for c in (CEILING, 'quantized', 'generated') if c in scores]
        resolution, verdicts = judge(scores, judged, FLOOR)
        for column, v in verdicts.items():
            parts = [
                f'MSE {v.mse:.5f}',
                f'x ceiling {number(v.multiple, 1)}',
                f'bias {v.bias:+.3f}',
            ]
            for correlation, estimate in v.correlations.items():
                parts.append(f'{correlation} {interval(estimate)}')
                total[tag, column][correlation].append(estimate.value)
            if not v.correlations and resolution:
                parts.append(f'no correlations: {resolution.text()}')
            parts += [f'top-1 {number(v.top1, 2)}', f'regret {v.regret:.4f}']
            if f'{column} transfer' in scores:
                transfer = mean_of(scores[f'{column} transfer'], models)
                parts.append(f'transfer {transfer:.3f}')
                total[tag, column]['transfer'].append(transfer)
            print(f'  {column:10}' + '  '.join(parts))
            for key in ('mse', 'multiple', 'top1', 'regret'):
                total[tag, column][key].append(getattr(v, key))
    print('\nmeans over graphs')
    for (tag, column), values in sorted(total.items()):
        parts = []
        for key, found in values.items():
            known = [value for value in found if value is not None]
            if known:
                parts.append(f'{key} {sum(known) / len(known):.4f} ({len(known)})')
        print(f'  {tag:10}{column:10}' + '  '.join(parts))


def page(cells: list[dict], metric: str | None) -> None:
    r"""Prints the measures of each graph and tag as a Markdown table."""
    header = 'graph|compared with the original|seeds|MSE|x ceiling|bias|Spearman|regret|transfer'
    print(f'| {" | ".join(header.split("|"))} |')
    print('|---|---|---|---|---|---|---|---|---|')
    shown = set()
    for (name, tag), scores in tables(cells, metric).items():
        models = list(next(iter(scores.values())))
        if 'original' not in scores or 'generated' not in scores or not models:
            continue
        num_seeds = len(next(iter(scores['original'].values())))
        judged = [c for c in (CEILING, 'quantized', 'generated') if c in scores]
        _, verdicts = judge(scores, judged, FLOOR)
        for column, v in verdicts.items():
            if column == CEILING and name in shown:
                continue
            rank = v.correlations.get('spearman')
            transfer = scores.get(f'{column} transfer')
            row = [
                name,
                column if column == CEILING else f'{column}, {tag}',
                str(num_seeds),
                f'{v.mse:.5f}',
                number(v.multiple, 1),
                f'{v.bias:+.3f}',
                'not resolved' if rank is None else interval(rank),
                f'{v.regret:.3f}',
                '' if transfer is None else f'{mean_of(transfer, models):.3f}',
            ]
            print(f'| {" | ".join(row)} |')
        shown.add(name)


def mean_of(scores: dict[str, list[float]], models: list[str]) -> float:
    runs = [score for model in models if model not in FLOOR for score in scores[model]]
    return sum(runs) / len(runs)


def number(value: float | None, digits: int) -> str:
    return 'n/a' if value is None else f'{value:.{digits}f}'


def interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return number(estimate.value, 2)
    return f'{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]'


def names(text: str) -> list[str]:
    return [name.strip() for name in text.split(',')]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--sources', type=names, default=[*PAPER, *OTHERS])
    parser.add_argument('--models', type=names, default=list(ZOO))
    parser.add_argument(
        '--seeds', type=int, nargs='+', help='(default: 0 1 2; all of them with --show or --page)'
    )
    parser.add_argument('--kinds', type=names, default=list(KINDS))
    parser.add_argument('--roots', type=int, default=2500, help='(default: %(default)s)')
    parser.add_argument('--k', type=int, default=30, help='(default: %(default)s)')
    parser.add_argument('--num-neighbors', type=int, nargs='+', default=[5, 5])
    parser.add_argument('--tag', default='', help='the version of the generator')
    parser.add_argument('--builds', type=Path, default=Path('zoo_builds'), help='folder of builds')
    parser.add_argument('--cells', type=Path, default=Path('zoo_cells.jsonl'))
    parser.add_argument('--metric', choices=['accuracy', 'roc_auc'], help='of binary graphs')
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--views', action='store_true', help='score views, not GNNs')
    parser.add_argument('--show', action='store_true', help='print what is there, run nothing')
    parser.add_argument('--page', action='store_true', help='print a Markdown table, run nothing')
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    cells = read_cells(args.cells)
    if args.show or args.page:
        cells = [cell for cell in cells if args.seeds is None or cell['seed'] in args.seeds]
    args.seeds = args.seeds or [0, 1, 2]
    if args.views:
        if not args.show:
            run_views(args, cells)
        show_views(cells)
        return
    if args.page:
        page(cells, args.metric)
        return
    if not args.show:
        run(args, cells)
    show(cells, args.metric)


if __name__ == '__main__':
    main()
