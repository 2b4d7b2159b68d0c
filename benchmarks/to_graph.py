r"""Joined trees beside their source, a block model and a configuration model.

    python benchmarks/to_graph.py --sources Cora,Photo,PubMed --cells docs/results/to_graph.jsonl
    python benchmarks/to_graph.py --cells docs/results/to_graph.jsonl --page

Each (graph, seed, kind) is one cell: statistics of one graph, and the accuracy of the four GNNs
on computation graphs of it, s = 5, L = 2, 50/10/40, largest component, k = 30. The two rivals draw
features from the same codebook, given the label. A cell is stored when it is finished, and a run
that was stopped goes on where it was. Builds are kept below `--builds`. Raw files are looked for in
``$CGT_DATA_ROOT``.
"""

import argparse
import statistics
import time
import warnings
from functools import cached_property
from pathlib import Path

from cells import add_cell, read_cells
from torch_geometric.data import Data

from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.baselines import ConfigurationModel, DegreeCorrectedSBM
from torch_geometric_cgt.benchmark import MODELS
from torch_geometric_cgt.benchmark.experiments import GraphSpec
from torch_geometric_cgt.benchmark.graph_comparison import (
    choose_tail,
    degree_distance,
    degrees_of,
    graph_scores,
    graph_statistics,
)
from torch_geometric_cgt.benchmark.measure_cell import load_graph
from torch_geometric_cgt.data import TreeShape, join_trees
from torch_geometric_cgt.report.zoo_tables import STATISTIC_NAMES
from torch_geometric_cgt.utils.files import write_text

RESULTS = Path(__file__).parents[1] / 'docs' / 'results'
FAN_OUTS = (5, 5)
SOURCES = ('Cora', 'CiteSeer', 'Photo', 'PubMed')
RIVALS = {'DC-SBM': DegreeCorrectedSBM, 'configuration': ConfigurationModel}
TITLES = {
    'original': 'Source',
    'joined': 'Joined trees',
    'DC-SBM': 'DC-SBM',
    'configuration': 'Configuration model',
    'without profile': 'Joined trees, no profile',
}
COMPARED = [
    name for name in STATISTIC_NAMES if name not in ('num_nodes', 'num_edges', 'max_degree')
]
TEXT = """\
# Joined trees, measured

`dataset.to_graph()` beside the source and two other generators of whole graphs. Releases have
k = 30, s = 5 and L = 2; graphs are the largest components, split 50/10/40. GNNs are trained and
tested inside of each graph, on computation graphs of it. **Bold**: of the three substitutes, the
one that is closest to the source. [One graph](../one_graph.md) explains the method.

The substitutes do not know the same things. The degree-corrected stochastic block model (DC-SBM)
and the configuration model are given the exact degree and label of every node, and the DC-SBM also
the exact number of edges between labels. None of this is protected. Their degrees, and the
homophily of the DC-SBM, are therefore those of the source, up to repeated edges that are left out.
Joined trees are computed from the release alone, with [the
profile](../one_graph.md#the-profile-of-the-graph) that it holds. The last column has degrees and
homophily that are estimated from the trees, as they are for releases without a profile. Features of
all three are codewords of the same codebook; those of the two rivals are drawn given the label of
the node. The constants of the method were chosen on Cora and CiteSeer.

```text
python benchmarks/to_graph.py --sources Cora,CiteSeer,Photo,PubMed
python benchmarks/to_graph.py --page
```
"""


class Graphs:
    r"""The graphs of one source and seed, made when they are asked for."""

    def __init__(self, name: str, seed: int, builds: Path) -> None:
        self.seed, self.builds = seed, builds
        self.original = load_graph(GraphSpec(name, FAN_OUTS, seed=seed))

    @cached_property
    def dataset(self) -> SyntheticCGTDataset:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # homogeneous clusters
            return SyntheticCGTDataset(
                self.original, k=30, seed=self.seed, root=self.builds, log=False
            )

    def make(self, kind: str) -> Data:
        if kind == 'original':
            return self.original
        if kind == 'joined':
            return self.dataset.to_graph(self.seed)
        if kind == 'without profile':
            return join_trees(self.dataset.trees, self.dataset.codebook, self.seed)
        data = Data(edge_index=self.original.edge_index, y=self.original.y)
        data.cluster, data.codebook = self.dataset.cluster, self.dataset.codebook
        data.num_nodes = self.original.num_nodes
        for mask in ('train_mask', 'val_mask', 'test_mask'):
            data[mask] = self.original[mask]
        return RIVALS[kind]().fit(data).sample(self.seed)


def run_cell(graphs: Graphs, name: str, kind: str, with_gnns: bool) -> dict:
    r"""Measures one graph."""
    if kind != 'original':
        _ = graphs.dataset  # built before the clock starts
    started = time.process_time()
    graph = graphs.make(kind)
    made = time.process_time() - started
    tail_start = choose_tail(degrees_of(graphs.original))
    cell = {'source': name, 'seed': graphs.seed, 'kind': kind, 'seconds': round(made, 1)}
    cell['statistics'] = graph_statistics(graph, tail_start).to_dict()
    cell['statistics']['degree_distance'] = degree_distance(graph, graphs.original)
    cell['scores'] = {}
    if with_gnns:
        cell['scores'] = graph_scores(graph, TreeShape.of(FAN_OUTS), MODELS, graphs.seed)
    return cell


def key_of(cell: dict) -> tuple[str, int, str]:
    return cell['source'], cell['seed'], cell['kind']


def latest(cells: list[dict]) -> list[dict]:
    r"""The last cell of each key: one with GNNs replaces one without."""
    return list({key_of(cell): cell for cell in cells}.values())


def table(cells: list[dict]) -> list[str]:
    r"""The lines of the table of one source: means over seeds."""
    kinds = [kind for kind in TITLES if any(cell['kind'] == kind for cell in cells)]
    compared = 1 + len([k for k in kinds[1:] if k != 'without profile' or 'joined' not in kinds])
    rows = [
        (STATISTIC_NAMES[key], [_mean(cells, k, 'statistics', key) for k in kinds])
        for key in COMPARED
    ]
    rows += [(model, [_mean(cells, k, 'scores', model) for k in kinds]) for model in MODELS]
    gaps = [[abs(v - values[0]) for v in values[1:]] for _, values in rows[-len(MODELS) :]]
    if all(None not in values for _, values in rows[-len(MODELS) :]):
        mean_gaps = [0.0, *(statistics.fmean(column) for column in zip(*gaps, strict=True))]
        rows.append(('Mean gap of the four GNNs', mean_gaps))
    lines = [
        '| | ' + ' | '.join(TITLES[kind] for kind in kinds) + ' |',
        '|---' * len(kinds) + '|---|',
    ]
    for name, values in rows:
        known = [abs(v - values[0]) for v in values[1:compared] if v is not None]
        texts = ['' if v is None else f'{v:.3f}' for v in values]
        for i, value in enumerate(values[1:compared], start=1):
            if value is not None and abs(value - values[0]) <= min(known) + 5e-4:
                texts[i] = f'**{texts[i]}**'
        lines.append(f'| {name} | ' + ' | '.join(texts) + ' |')
    return lines


def _mean(cells: list[dict], kind: str, part: str, key: str) -> float | None:
    values = [c[part][key] for c in cells if c['kind'] == kind and key in c[part]]
    return statistics.fmean(values) if values else None


def page(cells: list[dict]) -> str:
    r"""The page of all cells."""
    missing = [name for name in SOURCES if name not in {cell['source'] for cell in cells}]
    parts = [TEXT, f'Not run yet: {", ".join(missing)}.\n'] if missing else [TEXT]
    for name in dict.fromkeys(cell['source'] for cell in cells):
        own = [cell for cell in cells if cell['source'] == name]
        start = own[0]['statistics']['tail_start']
        seeds = sorted({cell['seed'] for cell in own})
        joined = [cell for cell in own if cell['kind'] in ('joined', 'without profile')]
        seconds = max(cell['seconds'] for cell in joined)
        parts.append(
            f'## {name}\n\n{own[0]["statistics"]["num_nodes"]:,} nodes, seeds '
            f'{", ".join(map(str, seeds))}. The exponent is that of degrees of at least {start}. '
            f'Joining took {seconds:.1f} s of processor.\n'
        )
        parts.append('\n'.join(table(own)) + '\n')
    return '\n'.join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--sources', default=','.join(SOURCES))
    parser.add_argument('--seeds', type=int, nargs='+', default=[0])
    parser.add_argument('--kinds', nargs='+', default=list(TITLES), choices=list(TITLES))
    parser.add_argument('--cells', type=Path, default=RESULTS / 'to_graph.jsonl')
    parser.add_argument('--builds', type=Path, help="(default: the user's cache folder)")
    parser.add_argument('--no-gnns', action='store_true', help='measure statistics only')
    parser.add_argument('--page', action='store_true', help='write the page, run nothing')
    args = parser.parse_args()

    cells = latest(read_cells(args.cells))
    done = {key_of(cell) for cell in cells if args.no_gnns or cell['scores']}
    for seed in [] if args.page else args.seeds:
        for name in args.sources.split(','):
            graphs = None
            for kind in args.kinds:
                if (name, seed, kind) not in done:
                    graphs = graphs or Graphs(name, seed, args.builds)
                    cells.append(run_cell(graphs, name, kind, not args.no_gnns))
                    add_cell(args.cells, cells[-1])
                    print(cells[-1], flush=True)
    if args.page:
        write_text(RESULTS / 'to_graph.md', page(latest(cells)))


if __name__ == '__main__':
    main()
