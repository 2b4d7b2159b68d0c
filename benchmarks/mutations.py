r"""Planted bugs in private and k-anonymous builds, and which check finds each of them.

    python benchmarks/mutations.py --cells docs/results/mutations.jsonl
    python benchmarks/mutations.py --cells docs/results/mutations.jsonl --only 'no noise'
    python benchmarks/mutations.py --cells docs/results/mutations.jsonl --show > mutations.md

Each bug is one edit of the source code, in a copy of the package. First, a build with the bug is
audited with what the owner has (`cgt audit`: noise, sensitivity, groups). If the audit finds
nothing, the tests that are named beside the bug run. A bug that neither finds is a gap. Correct
builds are audited as often as ``--correct`` says, and must all pass. A run that was stopped goes
on where it was.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cells import add_cell, read_cells

ROOT = Path(__file__).parents[1]
PACKAGE = 'torch_geometric_cgt'
TIMEOUT = 600
# Builds a release of a made-up graph with communities and a hub, and audits it.
AUDIT = r"""
import json, sys, tempfile, warnings
import torch
warnings.simplefilter('ignore')
torch.set_num_threads(1)
from torch_geometric.data import Data
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.audit import run_audit
from torch_geometric_cgt.pipeline import DifferentialPrivacy, KAnonymity
promise, seed = json.loads(sys.argv[1]), int(sys.argv[2])
rng = torch.Generator().manual_seed(seed)
size = 900
y = torch.randint(3, (size,), generator=rng)
a, b = torch.randint(size, (2, 9000), generator=rng)
near = (y[a] == y[b]) | (torch.rand(9000, generator=rng) < 0.15)
a, b = a[near & (a != b)][:2500], b[near & (a != b)][:2500]
hub = torch.arange(1, 400)
edges = torch.cat([torch.stack([a, b]), torch.stack([hub, torch.zeros_like(hub)])], dim=1)
edges = torch.cat([edges, edges.flip(0)], dim=1)
words = torch.rand(size, 900, generator=rng) < 0.01
words |= torch.rand(size, 900, generator=rng) < 0.05 * (torch.arange(900) // 300 == y[:, None])
data = Data(x=words.float(), edge_index=edges, y=y)
private = 'epsilon' in promise
given = DifferentialPrivacy(**promise) if private else KAnonymity(**promise)
checks = ['noise', 'sensitivity'] if private else ['groups']
with tempfile.TemporaryDirectory() as root:
    small = {'hidden_channels': 16, 'num_layers': 1, 'num_heads': 2}
    options = {} if private else {'generator': small}
    options |= {'root': root, 'log': False, 'privacy': given, 'num_neighbors': [3, 3]}
    dataset = SyntheticCGTDataset(data, **options)
    audit = run_audit(dataset, data, checks=checks, log=False)
print(json.dumps([check.name for check in audit.of("above the limit")]))
"""


@dataclass(frozen=True)
class Mutation:
    r"""One planted bug.

    Args:
        name (str): What is wrong.
        file (str): The file, relative to the package.
        old (str): The text that is replaced, which must occur.
        new (str): The wrong text.
        tests (str): The tests that should find it, if the audit does not.
        promise (dict): The promise of the build that is audited.
    """

    name: str
    file: str
    old: str
    new: str
    tests: str = ''
    promise: tuple[tuple[str, object], ...] = (('epsilon', 4.0),)


def without_noise(entry: str) -> Mutation:
    r"""An answer without noise."""
    return Mutation(
        f"no noise in '{entry}'",
        'privacy/queries.py',
        'released = exact + noise.view_as(exact)',
        f"released = exact if name == '{entry}' else exact + noise.view_as(exact)",
        'tests/privacy/test_queries.py',
    )


CHOICES = '../benchmarks/adaptive_tables.py'  # no part of the package, so tests must find its bugs
GROUPS = (('k', 10),)
FROZEN = (('epsilon', 8.0), ('unit', 'frozen_record'), ('form', 'histograms'))
DP_SGD = (('epsilon', 8.0), ('unit', 'frozen_record'), ('form', 'dp_sgd'))
MUTATIONS = [
    Mutation(
        'noise of sums halved',
        'privacy/queries.py',
        'grid = self._grid(name)\n        return self._answer(name, sums_on_grid',
        'grid = self._grid(name) / 2\n        return self._answer(name, sums_on_grid',
    ),
    Mutation(
        'noise of sums quartered',
        'privacy/queries.py',
        'grid = self._grid(name)\n        return self._answer(name, sums_on_grid',
        'grid = self._grid(name) / 4\n        return self._answer(name, sums_on_grid',
    ),
    Mutation(
        'all noise divided by 1.05',
        'privacy/queries.py',
        'return self.sigma(name) / (1 << GRID_BITS)',
        'return self.sigma(name) / 1.05 / (1 << GRID_BITS)',
        'tests/privacy/test_queries.py',
        (('epsilon', 40.0),),  # more feature vectors, so that there are enough values
    ),
    *map(
        without_noise,
        [
            'labels and splits',
            'median length',
            'prefix counts',
            'decoded sums',
            'root tokens per label',
            'edges at several rates',
            'numbers of children',
            'mutual edges',
            'labels of neighbours',
            'pairs of children',
        ],
    ),
    Mutation(
        'no noise in histograms of trees',
        'privacy/queries.py',
        'released = exact + noise.view_as(exact)',
        "released = exact if 'layer' in name else exact + noise.view_as(exact)",
        'tests/privacy/test_queries.py',
        FROZEN,
    ),
    Mutation(
        'the same noise in every answer',
        'privacy/queries.py',
        'noise = discrete_gaussian(exact.numel(), float(1 << GRID_BITS), self.generator)',
        'noise = discrete_gaussian(exact.numel(), float(1 << GRID_BITS), '
        'torch.Generator().manual_seed(0))',
    ),
    Mutation(
        'one query more than was paid for',
        'privacy/queries.py',
        'if asked >= entry.count:',
        'if asked > entry.count:',
        'tests/privacy/test_queries.py',
    ),
    Mutation(
        'nodes counted four times',
        'privacy/queries.py',
        'torch.bincount(index[index >= 0], minlength=num_bins))',
        '4 * torch.bincount(index[index >= 0], minlength=num_bins))',
    ),
    Mutation(
        'trees counted four times',
        'models/histograms.py',
        'queries.sums(name, self.rows(), one_bin, 1)',
        'queries.sums(name, torch.cat([self.rows()] * 4), one_bin.repeat(4), 1)',
        'tests/models/test_histograms.py tests/pipeline/test_neighbours.py',
        (('epsilon', 60.0), ('unit', 'edge'), ('form', 'histograms')),
    ),
    Mutation(
        'no clipping of rows',
        'privacy/queries.py',
        'scale = (bound / norms.clamp(min=1e-300)).clamp(max=1.0) * MARGIN / grid',
        'scale = torch.full_like(norms, MARGIN / grid)',
        'tests/privacy/test_queries.py',
    ),
    Mutation(
        'rows are not divided by their length, and not clipped',
        'quantizer/private_kmeans.py',
        '        rows = unit_rows(x)\n        if self.space',
        '        rows = x.double() if x.layout == torch.strided else unit_rows(x)\n'
        '        if self.space',
        'tests/quantizer/test_private_kmeans.py',
    ),
    Mutation(
        'no cap on labels of neighbours',
        'models/edge_counts.py',
        'found.append(capped_pairs(part, cap, cap))',
        'found.append(part.size(1))',
        'tests/models/test_edge_counts.py',
    ),
    Mutation(
        'no cap on the parents of a child',
        'models/edge_counts.py',
        'found = [capped_pairs(self.edges, cap, j) for j in range(1, fan_out + 1)]',
        'found = [capped_pairs(self.edges, None, j) for j in range(1, fan_out + 1)]',
        'tests/models/test_edge_counts.py',
    ),
    Mutation(
        'no cap on pairs of children',
        'models/edge_counts.py',
        'capped_items(part, self.num_nodes, self.caps.wedges)',
        'float(part.size(0))',
        'tests/models/test_edge_counts.py',
    ),
    Mutation(
        'no cap on mutual edges',
        'models/edge_counts.py',
        'return torch.tensor(capped_pairs(self.edges[:, torch.isin(back, code)], cap, cap))',
        'return torch.isin(back, code).sum()',
        'tests/models/test_edge_counts.py',
    ),
    Mutation(
        'edges thinned by one global permutation',
        'models/edge_counts.py',
        'return keyed_uniform(self.edges.sort(dim=0).values, KEY)',
        'return torch.rand(self.edges.size(1), generator=torch.Generator().manual_seed(KEY))',
        'tests/models/test_edge_counts.py',
    ),
    Mutation(
        'a bound counts a node as a child only',
        'models/edge_counts.py',
        'node = math.sqrt((2 * self.same) ** 2 + 2 * (num_classes - 1) * self.other**2)',
        'node = math.sqrt(self.same**2 + (num_classes - 1) * self.other**2)',
        'tests/models/test_edge_counts.py',
    ),
    Mutation(
        'edges at several rates are not paid for',
        'models/edge_counts.py',
        'return self._bounds(2 * self.rates * size, 0.0, 2 * size)',
        'return self._bounds(1e-3, 0.0, 1e-3)',
        'tests/models/test_edge_counts.py',
    ),
    Mutation(
        'trees from one global permutation of edges',
        'sampler/stable_edges.py',
        'pairs, keyed_hash(pairs, key), num_nodes',
        'pairs, np.random.default_rng(key).permutation(pairs.size(1)), num_nodes',
        'tests/sampler/test_stable_edges.py tests/privacy/test_units.py',
        (('epsilon', 60.0), ('unit', 'edge'), ('form', 'histograms')),
    ),
    Mutation(
        'changed trees priced as one tree',
        'pipeline/plan.py',
        'unit, number = self.config.unit, self.changed_trees',
        'unit, number = self.config.unit, 1',
        'tests/pipeline/test_plan.py tests/pipeline/test_neighbours.py',
        (('epsilon', 60.0), ('unit', 'edge'), ('form', 'histograms')),
    ),
    Mutation(
        'replaced attributes priced as removed ones',
        'privacy/units.py',
        "SUMS = {'node': 1.0, 'attributes': 2.0,",
        "SUMS = {'node': 1.0, 'attributes': 0.5,",
        'tests/privacy/test_units.py tests/pipeline/test_neighbours.py',
        (('epsilon', 8.0), ('unit', 'attributes')),
    ),
    Mutation(
        'a codebook of exact means',
        'quantizer/private_kmeans.py',
        'self.cluster_centers_ = (self.scale_ * means).numpy()',
        'self.cluster_centers_ = torch.stack([(unit_rows(x).to_dense() if x.is_sparse else '
        'unit_rows(x))[centers.index == i].mean(dim=0) for i in range(len(means))])'
        '.nan_to_num().double().numpy()',
        'tests/quantizer/test_private_kmeans.py',
    ),
    Mutation(
        'tables of the model from exact counts',
        'models/mixing.py',
        'self.neighbor.copy_(back_off(pairs, queries.sigma(LABELS), prior))',
        'exact = counter.labels(rate).view(self.neighbor.shape).double()\n'
        '        self.neighbor.copy_((exact + 1) / (exact + 1).sum(dim=1, keepdim=True))',
        'tests/models/test_mixing.py',
    ),
    Mutation(
        'half of the distance in the accountant',
        'privacy/accounting.py',
        'return math.sqrt(2 * squares)',
        'return math.sqrt(squares) / math.sqrt(2)',
        'tests/privacy/test_accounting.py tests/privacy/test_ledger.py',
    ),
    Mutation(
        'runs of an entry are not counted',
        'privacy/accounting.py',
        'squares = sum(loss.count * loss.noise.concentrated(loss.shift) for loss in losses)',
        'squares = sum(loss.noise.concentrated(loss.shift) for loss in losses)',
        'tests/privacy/test_accounting.py tests/privacy/test_ledger.py',
    ),
    Mutation(
        'DP-SGD without noise',
        'training/dp_sgd.py',
        'weight.grad = weight.summed_grad + noise',
        'weight.grad = weight.summed_grad',
        'tests/training/test_dp_sgd.py',
        DP_SGD,
    ),
    Mutation(
        'DP-SGD without clipping',
        'training/dp_sgd.py',
        "GradSampleModuleFastGradientClipping(log_prob, loss_reduction='sum', max_grad_norm=clip)",
        "GradSampleModuleFastGradientClipping(log_prob, loss_reduction='sum', max_grad_norm=1e9)",
        'tests/training/test_dp_sgd.py',
        DP_SGD,
    ),
    Mutation(
        'batches of DP-SGD of a fixed size',
        'training/dp_sgd.py',
        'return torch.from_numpy(np.flatnonzero(rng.random(num_trees) < probability))',
        'return torch.arange(round(num_trees * probability))',
        'tests/training/test_dp_sgd.py',
        DP_SGD,
    ),
    Mutation(
        'trees count twice in DP-SGD',
        'training/dp_sgd.py',
        'weight.grad = weight.summed_grad + noise',
        'weight.grad = 2 * weight.summed_grad + noise',
        'tests/training/test_dp_sgd.py',
        DP_SGD,
    ),
    Mutation(
        'DP-SGD makes more steps than were paid for',
        'training/dp_sgd.py',
        'steps = int(noise.steps)',
        'steps = int(1.1 * noise.steps)',
        'tests/training/test_dp_sgd.py',
        DP_SGD,
    ),
    Mutation(
        'DP-SGD moves weights by another gradient than it keeps',
        'training/dp_sgd.py',
        '        optimizer.step()\n',
        '        optimizer.step()\n'
        '        for weight in optimizer.params:\n'
        '            weight.data.add_(weight.summed_grad, alpha=-1e-4)\n',
        'tests/training/test_dp_sgd.py',
        DP_SGD,
    ),
    Mutation(
        'a choice of tables without noise',
        CHOICES,
        'place = _uniform(1, scores.numel(), generator)',
        'place = scores.argmax().view(1)',
        'tests/test_adaptive_benchmark.py',
    ),
    Mutation(
        'a choice of tables at half of its price',
        CHOICES,
        'return float(1 / (log_ndtr(0.5 / sigma) - log_ndtr(-0.5 / sigma)))',
        'return float(0.5 / (log_ndtr(0.5 / sigma) - log_ndtr(-0.5 / sigma)))',
        'tests/test_adaptive_benchmark.py',
    ),
    Mutation(
        'a chosen table is not divided by its largest change',
        CHOICES,
        'chosen.unit / chosen.change)',
        'chosen.unit)',
        'tests/test_adaptive_benchmark.py',
    ),
    Mutation(
        'the bound of a table that may be chosen counts a node as a parent only',
        CHOICES,
        'rows = (2 * caps.same) ** 2 + caps.same**2 + caps.other**2 + 2 * others * caps.other**2',
        'rows = caps.same**2 + caps.other**2',
        'tests/test_adaptive_benchmark.py',
    ),
    Mutation(
        'groups of k - 1 nodes',
        'pipeline/k_anonymity.py',
        '        return Quantize(\n            self.min_size,',
        '        return Quantize(\n            self.min_size - 1,',
        'tests/pipeline/test_k_anonymous.py',
        GROUPS,
    ),
    Mutation(
        'nodes move to the nearest centre after the constraint',
        'pipeline/k_anonymous.py',
        "tensors = {'cluster': found.cluster, ",
        'nearest = torch.cdist(data.x.to_dense().float(), found.codebook.float()).argmin(dim=1)\n'
        "        tensors = {'cluster': nearest, ",
        'tests/pipeline/test_k_anonymous.py',
        GROUPS,
    ),
]


def audit(folder: Path, promise: tuple[tuple[str, object], ...], seed: int) -> list[str] | str:
    r"""The checks that are above their limit in the audit of a build, or an error."""
    found = run([sys.executable, '-c', AUDIT, json.dumps(dict(promise)), str(seed)], folder)
    if found.returncode:  # the build itself refuses
        kind, _, why = found.stderr.strip().splitlines()[-1].partition(': ')
        why = re.sub(r"'/[^']*'", 'the build', why)  # paths differ from run to run
        return f'{kind.rpartition(".")[2]}: {why}'[:200]
    return json.loads(found.stdout.strip().splitlines()[-1])


def test(folder: Path, files: str) -> str:
    r"""The first failing test."""
    present = [name for name in files.split() if (ROOT / name).exists()]
    if not present:
        return ''
    call = [sys.executable, '-m', 'pytest', '-x', '-q', '-m', 'not slow and not native', *present]
    out = run(call, folder).stdout
    failed = [line for line in out.splitlines() if line.startswith(('FAILED', 'ERROR'))]
    return failed[0].split(' - ')[0].split(maxsplit=1)[1] if failed else ''


def run(call: list[str], folder: Path) -> subprocess.CompletedProcess:
    env = {**os.environ, 'PYTHONPATH': str(folder), 'OMP_NUM_THREADS': '1'}
    return subprocess.run(
        call, cwd=folder, env=env, capture_output=True, text=True, timeout=TIMEOUT
    )


def copy_package(folder: Path) -> None:
    r"""Copies package and tests."""
    skip = shutil.ignore_patterns('__pycache__', '.venv')
    for name in (PACKAGE, 'tests', 'benchmarks', 'examples', 'docs'):
        shutil.copytree(ROOT / name, folder / name, ignore=skip)
    for name in ('pyproject.toml', 'README.md', 'CONTRIBUTING.md', 'CHANGELOG.md'):
        shutil.copy(ROOT / name, folder)


def run_mutation(mutation: Mutation) -> dict:
    r"""Plants a bug and looks for it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_package(folder)
        path = folder / PACKAGE / mutation.file
        text = path.read_text()
        if mutation.old not in text:
            raise ValueError(f"'{mutation.name}': the text to replace is not in {mutation.file}")
        path.write_text(text.replace(mutation.old, mutation.new))
        found = audit(folder, mutation.promise, 0)
        failed = '' if found else test(folder, mutation.tests)
    return {
        'name': mutation.name,
        'promise': dict(mutation.promise),
        'audit': found,
        'test': failed,
        'found': bool(found) or bool(failed),
    }


def show(cells: list[dict]) -> None:
    r"""Prints the table of bugs, and how many correct builds passed."""
    print('| planted bug | build | found by the audit | found by a test |\n|---|---|---|---|')
    bugs = [cell for cell in cells if cell['name'] != 'correct']
    for cell in bugs:
        promise = ', '.join(f'{name} = {value}' for name, value in cell['promise'].items())
        audit = ', '.join(cell['audit']) if isinstance(cell['audit'], list) else cell['audit']
        print(f'| {cell["name"]} | {promise} | {audit or "no"} | {cell["test"] or "not run"} |')
    correct = [cell for cell in cells if cell['name'] == 'correct']
    passed = sum(cell['audit'] == [] for cell in correct)
    print(f'\nFound: {sum(cell["found"] for cell in bugs)} of {len(bugs)} planted bugs.')
    print(f'Correct builds that pass the audit: {passed} of {len(correct)}.')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--cells', type=Path, default=Path('mutations.jsonl'))
    parser.add_argument('--only', default='', help='bugs whose name contains this')
    parser.add_argument('--correct', type=int, default=25, help='number of correct builds')
    parser.add_argument('--show', action='store_true', help='print what is there, run nothing')
    args = parser.parse_args()
    cells = read_cells(args.cells)
    if args.show:
        return show(cells)
    done = {cell['name'] for cell in cells if cell['name'] != 'correct'}
    for mutation in MUTATIONS:
        if args.only in mutation.name and mutation.name not in done:
            add_cell(args.cells, cell := run_mutation(mutation))
            print(cell, flush=True)
    edges = (('epsilon', 1.0), ('unit', 'edge'))
    promises = [(('epsilon', 4.0),), edges, GROUPS, FROZEN, DP_SGD]
    for seed in range(sum(cell['name'] == 'correct' for cell in cells), args.correct):
        promise = promises[seed % len(promises)]
        found = audit(ROOT, promise, seed)
        cell = {'name': 'correct', 'promise': dict(promise), 'seed': seed, 'audit': found}
        add_cell(args.cells, cell)
        print(cell, flush=True)


if __name__ == '__main__':
    main()
