r"""What a build costs, by formula: seconds and memory per phase as a function of the graph.

    python benchmarks/cost_model.py --cells docs/results/scaling.jsonl
    python benchmarks/cost_model.py --nodes 1e9 --edges 2e10 --features 128 --classes 40 --gpus 8
    python benchmarks/cost_model.py --nodes 1.11e8 --edges 3.23e9 --classes 172 --processes 64

The first form puts prediction and measurement of each phase side by side. The second predicts. The
third says what each of several processes computes, holds and sends.
``docs/scaling.md`` explains the formulas. Seconds are processor seconds of the cores that measured;
those of fit and sample are floating-point operations by the speed of the device.
"""

import argparse
from dataclasses import dataclass, replace
from math import log10, prod
from pathlib import Path

from cells import read_cells

CORE_FLOPS = 40e9  # per second, of one core that measured, in the default model
STEP = 0.045  # seconds per step of a fit: small operations and the optimiser, whatever the batch
EXCHANGE = 1.2e-9  # processor seconds per byte of gradients that a process sends
SELECT = 2e-4  # seconds per tree of the release: statistics of its candidates, selection
GPU_FLOPS = 10e12  # assumed, not measured: a fraction of what a data-centre GPU of 2023 reaches
ROW, FLOW = 2.0e-4, 1.4e-4  # seconds per clustered row: splits, flows between cells of large graphs
TRIAL_ROWS = 50_000  # are clustered, at most, per weight of the task that is tried
ASSIGN = 5e-11  # seconds per row, trial centre and dimension
SMOOTH = 0.7e-9  # seconds per edge, component and hop
PROBE = 2.0  # seconds per weight: linear models
DRAW = 8e-8  # seconds per slot of a tree of the source
CHOOSE = 1.2e-6  # seconds per sampled tree and square root of the number of clusters
SCENE_ROW = 1.1e-4  # seconds per root
CALIBRATE, CALIBRATION_ROOTS = 22.0, 4_000  # seconds of linear models, and roots that are drawn
LIBRARIES = 0.45  # GB
COMPONENTS, COLUMNS, STEPS = 64, 8, 13  # of quantization and scenes; steps with the first split
ROUND = 0.4  # GB of rows that are on the way, and of the flows of a cell
WEIGHTS_PER_CLUSTER = 110
BATCH = 128  # trees of a step per process
MESSAGES = 0.3e9  # bytes per second between processes of one machine that was busy


@dataclass(frozen=True)
class Graph:
    r"""The numbers that cost depends on."""

    nodes: float
    edges: float  # directed
    features: int
    classes: int
    k: int = 30
    fan_outs: tuple[int, ...] = (5, 5)
    trees: float = 0.0  # that are fitted, over all epochs; one epoch where zero
    trials: int = 5  # weights of the task that are tried

    @property
    def clusters(self) -> float:
        return self.nodes / self.k

    @property
    def layers(self) -> list[int]:
        r"""The slots of each layer."""
        return [prod(self.fan_outs[:i]) for i in range(len(self.fan_outs) + 1)]

    @property
    def flops_per_tree(self) -> float:
        r"""Floating-point operations of a training step, counted for s = 5, L = 2; other shapes in
        proportion to their slots with children.
        """
        m = self.clusters
        here = 16 + 5 * log10(m) + 0.07 * m**0.5
        return 1e6 * here * (1 + sum(self.layers[:-1])) / 7


def cluster(rows: float) -> float:
    r"""Seconds to cluster some rows."""
    return rows * (ROW + FLOW * min(1.0, rows / 100_000))


def seconds(
    graph: Graph, flops: float = CORE_FLOPS, step: float = STEP, select: float = SELECT
) -> dict[str, float]:
    r"""Seconds per phase, fit and sample at some speed."""
    n, d = graph.nodes, min(graph.features, 128) + graph.classes
    rows = min(n, TRIAL_ROWS)
    choose = CHOOSE * CORE_FLOPS * graph.clusters**0.5
    tree = (graph.flops_per_tree / 4 + choose) / flops  # that is sampled
    candidates = max(3, min(12, 100_000 // n))  # per tree
    trial = cluster(rows) + PROBE + 2 * SMOOTH * graph.edges * min(graph.features, 128)
    if n > rows:
        trial += ASSIGN * n * rows / graph.k * d
    return {
        'quantize': graph.trials * trial + cluster(n),
        'encode': DRAW * n * sum(graph.layers),
        'find_scenes': graph.classes / 13 + 128 * SMOOTH * graph.edges + SCENE_ROW * n,
        'fit': (graph.trees or n) * (graph.flops_per_tree / flops + step / BATCH),
        'match_views': CALIBRATE + min(n, CALIBRATION_ROOTS) * candidates * tree,
        'sample': n * (candidates * tree + select),
    }


def gigabytes(graph: Graph) -> dict[str, float]:
    r"""Memory per phase: the graph, and what the phase holds beside it."""
    n, edges, floats = graph.nodes, graph.edges, 4e-9
    held = LIBRARIES + edges * 24e-9 + n * graph.features * floats  # edge_index, in-neighbours, x
    d = min(graph.features, 128) + graph.classes
    return {
        'quantize': held + n * (2 * min(graph.features, 128) + 3 * d) * floats,
        'encode': held + n * (1 + graph.fan_outs[0]) * floats,
        'find_scenes': held + n * (4 * 64 + 3 * graph.classes) * floats,
        'fit': held,
        'match_views': held + 1.2,
        'sample': held + n * 24e-9 + 1.2,
    }


@dataclass(frozen=True)
class Cost:
    r"""What a phase costs one of several processes."""

    seconds: float
    gigabytes: float  # beside mapped files
    moved: float = 0.0  # GB that the process sends


def costs(
    graph: Graph, processes: int, roots: float, batch: float = 0.0, flops: float = CORE_FLOPS
) -> dict[str, Cost]:
    r"""The cost of each phase for each process; fit and sample at the speed of one process. A
    step has so many trees of all processes, by default 128 of each.
    """
    n, p, m, wide = graph.nodes, processes, graph.clusters, COMPONENTS + graph.classes
    alone = seconds(replace(graph, nodes=roots), flops)  # what depends on the roots only
    rows = min(n, TRIAL_ROWS)
    assign = graph.trials * ASSIGN * n * rows / graph.k * wide if n > rows else 0.0
    trials = -(-graph.trials // p) * (cluster(rows) + PROBE)
    away = (p - 1) / p
    sums = 8e-9 * m * wide
    quantize = Cost(
        (cluster(n) + assign) / p + trials,
        LIBRARIES
        + n / p * (8 * COMPONENTS + 12 * graph.classes) * 1e-9
        + 3 * sums
        + 24e-9 * n
        + ROUND,
        STEPS * (n / p * away * (4 * wide + 16) * 1e-9 + 2 * sums) if p > 1 else 0.0,
    )
    scenes = Cost(
        (graph.classes / 13 + 128 * SMOOTH * graph.edges * roots / n + SCENE_ROW * roots) / p,
        LIBRARIES
        + (roots / p * (8 * COMPONENTS + 12 * graph.classes) + n / p * 4 * COMPONENTS) * 1e-9
        + n * (4 * COLUMNS + 16) * 1e-9,
        n / p * 4e-9 * COMPONENTS * (p - 1),
    )
    weights = 4.0 * (1.2e6 + WEIGHTS_PER_CLUSTER * m)  # bytes
    trees = graph.trees or roots
    steps = trees / (batch or BATCH * p)
    gradients = 2 * weights * away  # bytes that a process sends in a step
    fit = trees / p * graph.flops_per_tree / flops + steps * (STEP + EXCHANGE * gradients)
    in_memory = LIBRARIES + 16e-9 * n
    return {
        'quantize': quantize,
        'find_scenes': scenes,
        'encode': Cost(alone['encode'], in_memory + roots * 24e-9),
        'fit': Cost(fit, in_memory + 5e-9 * weights, gradients * steps * 1e-9),
        'match_views': Cost(alone['match_views'], in_memory + 1.2),
        'sample': Cost(alone['sample'] / p, in_memory + roots * 24e-9 + 1.2),
    }


def measured(cell: dict) -> tuple[Graph, dict[str, float]]:
    r"""The graph of a cell, and its processor seconds. Phases that were stopped count as if they
    had run at their speed to the end.
    """
    features, classes = {'arxiv': (128, 40), 'products': (100, 47)}[cell['graph']]
    done, steps = cell['steps']
    share = {'fit': done / steps, **cell.get('share', {})}
    graph = Graph(cell['nodes'], cell['edges'], features, classes, trees=128.0 * steps)
    phases = cell['phases'].items()
    return graph, {phase: facts['processor'] / share.get(phase, 1.0) for phase, facts in phases}


def predicted(cell: dict, graph: Graph) -> tuple[dict[str, float], float]:
    r"""Seconds per phase of each process, and the peak memory of a process."""
    if cell['processes'] == 1:
        return seconds(graph), max(gigabytes(graph).values())
    found = costs(graph, cell['processes'], graph.nodes, batch=BATCH)
    held = graph.edges * 24e-9 + graph.nodes * graph.features * 4e-9
    expected = {phase: cost.seconds for phase, cost in found.items()}
    return expected, held + max(cost.gigabytes for cost in found.values())


def compare(cells: list[dict]) -> None:
    r"""Prediction and measurement of each phase, of builds whose phases are those of today."""
    for cell in cells:
        graph, found = measured(cell)
        if 'match_views' not in found:
            continue
        expected, memory = predicted(cell, graph)
        name = f'{cell["graph"]} x {cell["scale"]:g}, {cell["nodes"]:,.0f} nodes'
        print(f'{name}, {cell["processes"]} processes' if cell['processes'] > 1 else name)
        for phase, value in found.items():
            ratio = f'{expected[phase] / value:5.2f}' if value >= 1 else '    -'
            print(
                f'  {phase:12} predicted {expected[phase]:8,.0f} s  measured {value:8,.0f} s  '
                f'ratio {ratio}'
            )
        total, whole = sum(expected.values()), sum(found.values())
        print(f'  {"all":12} predicted {total:8,.0f} s  measured {whole:8,.0f} s  ', end='')
        print(f'ratio {total / whole:5.2f}')
        print(
            f'  {"memory":12} predicted {memory:8.1f} GB measured {cell["peak"]:8.1f} GB ', end=''
        )
        print(f'ratio {memory / cell["peak"]:5.2f}')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--cells', type=Path)
    parser.add_argument('--nodes', type=float, default=1e9)
    parser.add_argument('--edges', type=float, default=2e10)
    parser.add_argument('--features', type=int, default=128)
    parser.add_argument('--classes', type=int, default=40)
    parser.add_argument('--k', type=int, default=30)
    parser.add_argument('--fan-outs', type=int, nargs='+', default=[5, 5])
    parser.add_argument('--trees', type=float, default=0.0, help='that are fitted (default: nodes)')
    parser.add_argument('--gpus', type=int, default=8)
    parser.add_argument('--processes', type=int, default=0, help='cost of each of so many')
    parser.add_argument('--roots', type=float, default=0.0, help='labelled nodes (default: nodes)')
    args = parser.parse_args()
    if args.cells:
        compare(read_cells(args.cells))
        return
    graph = Graph(
        args.nodes,
        args.edges,
        args.features,
        args.classes,
        args.k,
        tuple(args.fan_outs),
        args.trees,
    )
    if args.processes:
        for phase, cost in costs(graph, args.processes, args.roots or args.nodes).items():
            sent = cost.moved * 1e9 / MESSAGES / 3600
            print(
                f'{phase:12} {cost.seconds / 3600:9.2f} hours of one core, and {sent:6.2f} of '
                f'messages ({cost.moved:8.1f} GB), {cost.gigabytes:8.1f} GB of memory'
            )
        return
    memory = gigabytes(graph)
    for phase, value in seconds(graph, GPU_FLOPS * args.gpus, 0.0, 0.0).items():
        print(f'{phase:12} {value / 3600:10,.2f} hours  {memory[phase]:10,.1f} GB')


if __name__ == '__main__':
    main()
