r"""Cost of the generator: against path duplication, in the size of the graph and of the vocabulary.

.. code-block:: bash

    OMP_NUM_THREADS=1 python benchmarks/generator.py --out generator.jsonl
    python benchmarks/generator.py --parts training sampling --out generator.jsonl
    python benchmarks/generator.py --out generator.jsonl --show

A case is stored when it is finished; a run that was stopped goes on with the next one. Each case
runs in a process of its own. Times are processor seconds of one thread; what is compared takes
turns within one process, and a ratio is the median of the ratios of the turns. Cora is looked for
in ``$CGT_DATA_ROOT``.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch
from memory import peak_memory
from naive import NaivePaths
from torch import Tensor
from zipf import zipf_trees

from torch_geometric_cgt import CGTGenerator
from torch_geometric_cgt.data import TreeShape, tokens_of
from torch_geometric_cgt.nn.vocabulary import CellVocabulary
from torch_geometric_cgt.sampler import InNeighbors, sample_trees
from torch_geometric_cgt.training import evaluate
from torch_geometric_cgt.training.batches import make_batch
from torch_geometric_cgt.training.fit import warmup_cosine

WIDE = {'hidden_channels': 768, 'num_heads': 12, 'num_layers': 3}  # the paper's size
FORMS: dict[str, dict[str, Any]] = {
    'naive 768': {**WIDE, 'siblings': 'independent'},
    'trees 768': {**WIDE, 'siblings': 'independent', 'evaluation': 'trees'},
    'independent 768': {**WIDE, 'siblings': 'independent'},
    'typed 768': WIDE,
    'default': {},
    'default with scenes': {'num_scenes': 48},
}
NAIVE_BATCH = {5: 16, 20: 2}
BATCH = 128
SCALING = {'growing': None, 'fixed': 82, 'cells': None}
NODES = [1_000, 10_000, 50_000, 200_000]
VOCABULARY = [256, 1024, 10_000, 80_000]
LIKELIHOOD = {10_000: 300, 80_000: 60}  # tokens: steps of training


def cora_trees(fan_out: int) -> dict[str, Any]:
    r"""Token trees of all nodes of the largest component of Cora, two layers deep, k = 30."""
    from torch_geometric_cgt.datasets import load_source
    from torch_geometric_cgt.transforms import Quantize

    data = Quantize(k=30)(load_source('Cora', largest_component=True)[0])
    graph = InNeighbors.from_edge_index(data.edge_index, data.num_nodes)
    rng = torch.Generator().manual_seed(0)
    trees = sample_trees(graph, torch.arange(data.num_nodes), TreeShape.of([fan_out] * 2), rng)
    num_tokens = data.codebook.size(0)
    tokens = tokens_of(trees, data.cluster, num_tokens)
    return {
        'tokens': tokens,
        'y': data.y,
        'scene': torch.randint(48, data.y.shape, generator=rng),  # shares the fewest paths
        'm': num_tokens,
        'classes': int(data.y.max()) + 1,
    }


def load_trees(work: Path, fan_out: int) -> dict[str, Any]:
    return torch.load(work / f'cora{fan_out}.pt')


def make(form: str, trees: dict[str, Any], fan_out: int) -> CGTGenerator:
    torch.manual_seed(0)
    return CGTGenerator(trees['m'], trees['classes'], [fan_out] * 2, **FORMS[form])


def seconds(function: Callable[[], Any]) -> float:
    r"""The processor time of a call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def optimise(
    optimizer: torch.optim.Optimizer, loss: Callable[[], Tensor], keep: bool = False
) -> float:
    r"""One step; returns the loss. Gradients may be kept, as a peak of memory that does not depend
    on the batch.
    """
    optimizer.zero_grad(set_to_none=not keep)
    value = loss()
    value.backward()
    optimizer.step()
    return float(value.detach())


def make_step(
    form: str, trees: dict[str, Any], fan_out: int, keep: bool = False
) -> Callable[[int], float]:
    r"""A function that takes one optimiser step on the next graphs; it plans batches by itself."""
    model = make(form, trees, fan_out)
    naive = NaivePaths(model) if form.startswith('naive') else None
    optimizer = torch.optim.AdamW(model.parameters())
    order = torch.randperm(trees['y'].numel(), generator=torch.Generator().manual_seed(0))
    begin = 0

    def step(size: int) -> float:
        nonlocal begin
        rows = order[begin : begin + size]
        begin = (begin + size) % (order.numel() - size)
        tokens, y, scene = (trees[name][rows] for name in ('tokens', 'y', 'scene'))
        given = [scene] if model.num_scenes else []
        loss = naive.loss if naive else model
        return optimise(optimizer, lambda: loss(tokens, y, *given), keep)

    return step


def turns(
    steps: dict[str, Callable[[int], Any]],
    sizes: dict[str, int],
    repeats: dict[str, int],
    n: int,
    reference: Callable[[str], str] = lambda form: 'naive 768',
) -> dict[str, Any]:
    r"""Graphs per second of each form, in turns, and its speed relative to another form."""
    per_graph: dict[str, list[float]] = {form: [] for form in steps}
    for form, step in steps.items():  # loads libraries, makes the state of the optimiser
        step(min(sizes[form], 2))
    for _ in range(n):
        for form, step in steps.items():
            total = seconds(lambda: [step(sizes[form]) for _ in range(repeats[form])])  # noqa: B023
            per_graph[form].append(total / (sizes[form] * repeats[form]))
    out = {}
    for form, times in per_graph.items():
        speedups = [a / b for a, b in zip(per_graph[reference(form)], times, strict=True)]
        out[form] = {
            'batch': sizes[form],
            'graphs_per_s': 1 / median(times),
            'speedup': median(speedups),
            'speedups': speedups,
        }
    return out


def against(case: str) -> list[str]:
    r"""The forms at 768 channels that a case compares: all of them, or path duplication alone in
    a case such as :obj:`"5/default"`, which takes a third of the time.
    """
    return ['naive 768'] if case.endswith('/default') else [form for form in FORMS if '768' in form]


def run_check(work: Path, case: str) -> dict[str, Any]:
    r"""Path by path and all at once: the same likelihood, in double precision."""
    fan_out = int(case)
    trees = load_trees(work, fan_out)
    torch.manual_seed(0)
    model = CGTGenerator(
        trees['m'], trees['classes'], [fan_out] * 2, 32, siblings='independent'
    ).double()
    for parameter in model.eval().parameters():  # far from the symmetric start
        torch.nn.init.normal_(parameter, std=0.1)
    tokens, y = trees['tokens'][:16], trees['y'][:16]
    with torch.no_grad():
        ours, naive = model.log_prob(tokens, y), NaivePaths(model).log_prob(tokens, y)
    return {'trees': 16, 'mean': float(ours.mean()), 'max_gap': float((ours - naive).abs().max())}


def run_training(work: Path, case: str) -> dict[str, Any]:
    r"""Optimiser steps on real trees."""
    fan_out = int(case.split('/')[0])
    trees = load_trees(work, fan_out)
    forms = [form for form in FORMS if '768' not in form or form in against(case)]
    steps = {form: make_step(form, trees, fan_out) for form in forms}
    sizes = {form: NAIVE_BATCH[fan_out] if form.startswith('naive') else BATCH for form in forms}
    repeats = {form: 8 if form.startswith('default') else 1 for form in forms}
    model = make('default', trees, fan_out)
    batches = [torch.arange(i * BATCH, (i + 1) * BATCH) for i in range(8)]
    paths = [len(model.plan(trees['tokens'][b], trees['y'][b]).paths.y) for b in batches]
    null = float((trees['tokens'] == trees['m']).double().mean())
    facts = {'paths_per_graph': sum(paths) / (8 * BATCH), 'null_slots': null}
    return {**facts, 'forms': turns(steps, sizes, repeats, 5 if fan_out == 5 else 3)}


def run_memory(work: Path, case: str) -> dict[str, Any]:
    r"""The peak memory of training on batches of one size; without steps, that of the start."""
    form, fan_out, batch, num_steps = case.split('/')
    tiny = {'m': 5, 'classes': 2, 'tokens': torch.zeros(9, 3).long(), 'y': torch.zeros(9).long()}
    model = CGTGenerator(5, 2, [1, 1], 8, num_heads=2)
    optimise(torch.optim.AdamW(model.parameters()), lambda: model(tiny['tokens'], tiny['y']))
    trees = load_trees(work, int(fan_out))
    if num_steps == '0':  # weights, gradients and the state of the optimiser
        model = make(form, trees, int(fan_out))
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        torch.optim.AdamW(model.parameters()).step()
    else:
        step = make_step(form, trees, int(fan_out), keep=True)
        for _ in range(int(num_steps)):
            step(int(batch))
    return {'batch': int(batch), 'mb': peak_memory()}


def run_sampling(work: Path, case: str) -> dict[str, Any]:
    r"""Drawing trees; models start from the histograms of the data, so that nulls are as many."""
    fan_out = int(case.split('/')[0])
    trees = load_trees(work, fan_out)
    y, tokens = trees['y'], trees['tokens']
    draws: dict[str, Callable[[int], Any]] = {}
    for form in FORMS:
        if form == 'trees 768' or ('768' in form and form not in against(case)):
            continue
        model = make(form, trees, fan_out)
        scene = trees['scene'] if model.num_scenes else None
        model.set_marginals(tokens, y, scene)
        if model.siblings == 'independent':
            below = tokens[:, 1:][model.counted_slots(tokens)[:, 1:]]
            count = torch.bincount(below, minlength=trees['m'] + 1) + 0.5
            model.head.vocabulary.out.bias.data.copy_(count.log())
        draw = NaivePaths(model).sample if form.startswith('naive') else model.sample
        given = {} if scene is None else {'scene': scene}
        draws[form] = lambda size, draw=draw, given=given: draw(
            y[:size], **{name: value[:size] for name, value in given.items()}
        )
    sizes = {form: 2 * NAIVE_BATCH[fan_out] if 'naive' in form else y.numel() for form in draws}
    return {'forms': turns(draws, sizes, dict.fromkeys(draws, 1), 3)}


def make_scaling(series: str, n: int) -> tuple[dict[str, Any], Callable[[], list[float]]]:
    r"""A random graph of mean degree ten, and a function that draws trees, plans and trains once
    with the default size; it returns the milliseconds per graph of each of the three.
    """
    num_tokens = SCALING[series] or n // 30
    rng = torch.Generator().manual_seed(0)
    edges = torch.randint(n, (2, 5 * n), generator=rng)
    graph = InNeighbors.from_edge_index(torch.cat([edges, edges.flip(0)], dim=1), n)
    cluster = torch.randperm(n, generator=rng) % num_tokens
    y = torch.randint(10, (n,), generator=rng)
    torch.manual_seed(0)
    vocabulary = 'cells' if series == 'cells' else 'auto'
    model = CGTGenerator(num_tokens, 10, [5, 5], vocabulary=vocabulary)
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> list[float]:
        root = torch.randint(n, (BATCH,), generator=rng)
        clock = [time.process_time()]
        tokens = tokens_of(sample_trees(graph, root, model.shape, rng), cluster, num_tokens)
        clock.append(time.process_time())
        batch = make_batch(model, tokens, y[root], torch.zeros_like(root))
        clock.append(time.process_time())
        optimise(optimizer, lambda: model(batch.tokens, batch.y, batch.scene, batch.plan))
        clock.append(time.process_time())
        return [1e3 * (b - a) / BATCH for a, b in pairwise(clock)]

    is_cells = isinstance(model.head.vocabulary, CellVocabulary)
    return {'series': series, 'n': n, 'm': num_tokens, 'cells': is_cells}, step


def run_scaling(work: Path, case: str) -> dict[str, Any]:
    r"""Cost per graph from small graphs to large ones, which take turns."""
    steps = [make_scaling(series, n) for series in SCALING for n in NODES]
    times: list[list[list[float]]] = [[] for _ in steps]
    for turn in range(8):
        for i, (_, step) in enumerate(steps):
            spent = step()
            if turn > 0:
                times[i].append(spent)
    rows = []
    for (facts, _), spent in zip(steps, times, strict=True):
        parts = [median(column) for column in zip(*spent, strict=True)]
        total = median(sum(row) for row in spent)
        named = dict(zip(('draw', 'plan', 'train'), parts, strict=True))
        rows.append({**facts, 'graphs': BATCH * len(spent), **named, 'ms_per_graph': total})
    return {'rows': rows}


def vocabulary_models(num_tokens: int, forms: list[str]) -> dict[str, tuple]:
    models = {}
    for form in forms:
        torch.manual_seed(0)
        kind, siblings = form.split()
        model = CGTGenerator(num_tokens, 10, [5, 5], vocabulary=kind, siblings=siblings)
        models[form] = model, torch.optim.AdamW(model.parameters(), weight_decay=0.05)
    return models


def run_vocabulary(work: Path, case: str) -> dict[str, Any]:
    r"""Steps of one softmax beside two, and of the Transformer without any, default size."""
    num_tokens = int(case)
    tokens, y = zipf_trees(2048, num_tokens, torch.Generator().manual_seed(0))
    models = vocabulary_models(
        num_tokens, ['flat independent', 'cells independent', 'flat typed', 'cells typed']
    )
    rows = torch.randperm(tokens.size(0), generator=torch.Generator().manual_seed(0))

    def step(form: str, size: int) -> None:
        model, optimizer = models[form]
        optimise(optimizer, partial(model, tokens[rows[:size]], y[rows[:size]]))

    def streams_alone(size: int) -> None:
        model, optimizer = models['cells independent']
        optimizer.zero_grad()
        plan = model.plan(tokens[rows[:size]], y[rows[:size]])
        model.streams.paths(plan.paths).sum().backward()

    steps = {form: partial(step, form) for form in models}
    steps['(no vocabulary) independent'] = streams_alone  # what no vocabulary can be faster than
    sizes = dict.fromkeys(steps, BATCH)
    if num_tokens > 20_000:
        sizes['flat typed'] = 16  # more do not fit into memory
    repeats = {form: 1 if form.startswith('flat') else 4 for form in steps}
    forms = turns(steps, sizes, repeats, 3, lambda form: f'flat {form.split()[-1]}')
    return {'m': num_tokens, 'forms': forms}


def run_likelihood(work: Path, case: str) -> dict[str, Any]:
    r"""Held-out likelihood per token after the same steps on the same trees."""
    size, order = case.split('/')
    num_tokens = int(size)
    num_steps, shuffled = LIKELIHOOD[num_tokens], order == 'shuffled'
    rng = torch.Generator().manual_seed(0)
    held_out = zipf_trees(1024, num_tokens, rng, shuffled)
    batches = [zipf_trees(BATCH, num_tokens, rng, shuffled) for _ in range(num_steps)]
    out: dict[str, Any] = {'m': num_tokens, 'steps': num_steps, 'order': order}
    out['uniform'] = math.log(num_tokens + 1)
    for form, (model, optimizer) in vocabulary_models(
        num_tokens, ['flat independent', 'cells independent']
    ).items():
        start = time.process_time()
        for i, batch in enumerate(batches):
            optimizer.param_groups[0]['lr'] = 1e-3 * warmup_cosine(i, num_steps, 0.1)
            optimise(optimizer, partial(model, *batch))
        out[form] = {
            'nll': evaluate(model, *held_out, batch_size=BATCH),
            'seconds': time.process_time() - start,
        }
    flat, cells = (out[form]['nll'] for form in ('flat independent', 'cells independent'))
    return {**out, 'relative': cells / flat - 1}


PARTS: dict[str, tuple[Callable[[Path, str], dict[str, Any]], list[str]]] = {
    'check': (run_check, ['5', '20']),
    'training': (run_training, ['5', '20', '5/default']),
    'memory': (
        run_memory,
        [
            f'{form}/{fan_out}/{batch}/{steps}'
            for fan_out, batch in [(5, 32), (20, 4)]
            for form in FORMS
            for steps in (0, 2)
        ],
    ),
    'sampling': (run_sampling, ['5', '20', '5/default']),
    'scaling': (run_scaling, ['turns']),
    'vocabulary': (run_vocabulary, [str(m) for m in VOCABULARY]),
    'likelihood': (run_likelihood, ['10000/ordered', '80000/ordered', '10000/shuffled']),
}


def show_forms(part: str, cells: dict[str, dict[str, Any]]) -> None:
    for case, cell in cells.items():
        size = case.split('/')[0]
        name = f'm = {size}' if part == 'vocabulary' else f's = {size}, L = 2'
        if part == 'training':
            name += f' ({cell["paths_per_graph"]:.1f} distinct paths a graph,'
            name += f' {100 * cell["null_slots"]:.0f} % of slots null)'
        print(f'{part}, {name}')
        for form, row in cell['forms'].items():
            low, high = min(row['speedups']), max(row['speedups'])
            print(
                f'  {form:27} batch {row["batch"]:5}  {row["graphs_per_s"]:9.2f} graphs/s'
                f'  x {row["speedup"]:7.1f}  ({low:.1f} to {high:.1f})'
            )


def show_memory(cells: dict[str, dict[str, Any]]) -> None:
    used = {}
    for case, cell in cells.items():
        form, fan_out, batch, steps = case.split('/')
        start = cells.get(f'{form}/{fan_out}/{batch}/0')
        if steps != '0' and start:
            used[form, fan_out] = cell['mb'] - start['mb']
            ratio = used.get(('naive 768', fan_out), math.nan) / max(1.0, used[form, fan_out])
            print(
                f'memory, s = {fan_out}: {form:16} batch {batch:3}  peak {cell["mb"]:6.0f} MB, '
                f'above the start {used[form, fan_out]:6.0f} MB  naive / this {ratio:6.1f}'
            )


def show_scaling(cells: dict[str, dict[str, Any]]) -> None:
    for series in SCALING:
        rows = [row for cell in cells.values() for row in cell['rows'] if row['series'] == series]
        for row in rows:
            print(
                f'scaling, {series:8} n {row["n"]:7}  m {row["m"]:5}'
                f' {"cells" if row["cells"] else "flat "}  ms/graph {row["ms_per_graph"]:6.3f}'
                f' = draw {row["draw"]:.3f} + plan {row["plan"]:.3f} + train {row["train"]:.3f}'
                f'  epoch {row["ms_per_graph"] * row["n"] / 1e3:8.2f} s'
            )
        if len(rows) > 1:
            x = torch.tensor([row['n'] for row in rows]).double().log()
            z = torch.tensor([row['n'] * row['ms_per_graph'] for row in rows]).double().log()
            x, z = x - x.mean(), z - z.mean()
            print(f'scaling, {series:8} an epoch grows as n^{float(x @ z / (x @ x)):.3f}')


def show(cells: dict[str, dict[str, dict[str, Any]]]) -> None:
    r"""Prints what is there."""
    for case, cell in cells.get('check', {}).items():
        print(
            f'check, s = {case}: path by path minus ours, largest of {cell["trees"]} trees: '
            f'{cell["max_gap"]:.1e} of {cell["mean"]:.1f}'
        )
    for part in ('training', 'sampling', 'vocabulary'):
        show_forms(part, cells.get(part, {}))
    show_memory(cells.get('memory', {}))
    show_scaling(cells.get('scaling', {}))
    for cell in cells.get('likelihood', {}).values():
        flat, two = cell['flat independent'], cell['cells independent']
        print(
            f'likelihood, m = {cell["m"]} {cell["order"]}, {cell["steps"]} steps: nll per token '
            f'flat {flat["nll"]:.4f} ({flat["seconds"]:.0f} s), cells {two["nll"]:.4f} '
            f'({two["seconds"]:.0f} s), relative {100 * cell["relative"]:+.2f} % '
            f'(uniform {cell["uniform"]:.2f})'
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--parts', nargs='+', default=list(PARTS), choices=list(PARTS))
    parser.add_argument('--cases', nargs='+', help="such as '5/default' (default: all)")
    parser.add_argument('--out', type=Path, default=Path('generator.jsonl'))
    parser.add_argument('--show', action='store_true', help='print what is there, run nothing')
    parser.add_argument(
        '--here', nargs=2, metavar=('FOLDER', 'CASE'), help='run one case, print it'
    )
    args = parser.parse_args()
    if args.here:
        torch.set_num_threads(1)
        run = PARTS[args.parts[0]][0]
        print(json.dumps(run(Path(args.here[0]), args.here[1])))
        return

    cells: dict[str, dict[str, dict[str, Any]]] = {}
    for line in args.out.read_text().splitlines() if args.out.exists() else []:
        row = json.loads(line)
        cells.setdefault(row.pop('part'), {})[row.pop('case')] = row
    todo = [
        (part, case)
        for part in args.parts
        for case in PARTS[part][1]
        if case not in cells.get(part, {}) and case in (args.cases or PARTS[part][1])
    ]
    with tempfile.TemporaryDirectory() as work:
        if not args.show and any(p not in ('scaling', 'vocabulary', 'likelihood') for p, _ in todo):
            for fan_out in (5, 20):
                torch.save(cora_trees(fan_out), Path(work) / f'cora{fan_out}.pt')
        for part, case in [] if args.show else todo:
            command = [sys.executable, __file__, '--parts', part, '--here', work, case]
            out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            cell = json.loads(out.strip().splitlines()[-1])
            cells.setdefault(part, {})[case] = cell
            with open(args.out, 'a') as file:
                file.write(json.dumps({'part': part, 'case': case, **cell}) + '\n')
            print(f'{part} {case} done', flush=True)
    show(cells)


if __name__ == '__main__':
    main()
