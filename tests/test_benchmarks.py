"""What the benchmark programs compare is the same thing."""

import importlib.util
import json
from functools import partial
from itertools import product
from pathlib import Path

import pytest
import torch

from tests.helpers.neighbours import changed_trees
from torch_geometric_cgt import CGTGenerator

BENCHMARKS = Path(__file__).parents[1] / 'benchmarks'


def load(name):
    spec = importlib.util.spec_from_file_location(f'benchmark_{name}', BENCHMARKS / f'{name}.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=[[4], [3, 2], [2, 3, 2]], ids=str)
def model(request):
    torch.manual_seed(0)
    model = CGTGenerator(5, 3, request.param, 16, 2, 2, siblings='independent').double().eval()
    for parameter in model.parameters():  # far from the symmetric start
        torch.nn.init.normal_(parameter, std=0.3)
    return model


@torch.no_grad()
def test_path_duplication_has_the_same_likelihood(model):
    y = torch.arange(3).repeat(10)
    tokens = model.sample(y, torch.Generator().manual_seed(0))
    assert (tokens[:, 1:] == model.num_tokens).any()
    naive = load('naive').NaivePaths(model)
    assert naive.slots.size(0) == model.shape.layer_sizes[-1]  # every path by itself
    expected = model.log_prob(tokens, y)
    assert torch.allclose(naive.log_prob(tokens, y), expected, rtol=0, atol=1e-9)


@torch.no_grad()
def test_path_duplication_draws_from_the_same_model(model):
    y = torch.zeros(6000, dtype=torch.long)
    torch.manual_seed(0)
    drawn = load('naive').NaivePaths(model).sample(y)
    assert model.shape.check_nulls(drawn != model.num_tokens)
    ours = model.sample(y, torch.Generator().manual_seed(0))
    for layer in range(model.shape.depth + 1):
        slots = model.shape.layer_slice(layer)
        shares = [torch.bincount(t[:, slots].flatten(), minlength=6) for t in (drawn, ours)]
        assert torch.allclose(*(s / s.sum() for s in shares), atol=0.03)


def test_trees_of_the_vocabulary_benchmark_are_valid():
    tokens, y = load('zipf').zipf_trees(200, 1000, torch.Generator().manual_seed(0))
    model = CGTGenerator(1000, 10, [5, 5], 16, 1, 2)
    assert tokens.shape == (200, model.shape.num_slots)
    assert model.shape.check_nulls(tokens != 1000)
    assert int(tokens.max()) == 1000 and int(tokens.min()) >= 0 and int(y.max()) < 10


@pytest.fixture
def zoo(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return load('zoo')


def test_tables_of_the_zoo_hold_complete_seeds_and_models(zoo):
    def cell(kind, model, seed, score, tag=''):
        more = {'transfer': {'accuracy': score / 2}} if tag else {}
        key = {'source': 'Cora', 'kind': kind, 'tag': tag, 'model': model, 'seed': seed}
        return {**key, 'metric': 'accuracy', 'scores': {'accuracy': score}, **more}

    cells = [
        cell(kind, model, seed, 0.5 + 0.1 * seed + (0.2 if tag == 'new' else 0), tag)
        for kind, tag in [
            ('original', ''),
            ('ceiling', ''),
            ('generated', 'old'),
            ('generated', 'new'),
        ]
        for model in ('MLP', 'GCN')
        for seed in (0, 1)
    ]
    cells.append(cell('original', 'MLP', 2, 0.9))  # a seed that is not finished
    cells.append(cell('original', 'SAGE', 0, 0.9))  # a model that is not finished
    found = zoo.tables(cells, None)
    assert set(found) == {('Cora', 'old'), ('Cora', 'new')}
    assert found['Cora', 'old']['original'] == {'MLP': [0.5, 0.6], 'GCN': [0.5, 0.6]}
    assert found['Cora', 'new']['generated']['GCN'] == pytest.approx([0.7, 0.8])
    assert found['Cora', 'old']['generated transfer']['GCN'] == [0.25, 0.3]


def test_views_that_are_far_from_the_original_are_named(zoo, capsys):
    views = {
        'root': {'original': 0.7, 'generated': 0.73},
        '1 hop': {'original': 0.8, 'generated': 0.81},
    }
    zoo.show_views([{'source': 'Cora', 'seed': 6, 'tag': 'now', 'views': views}])
    shown = capsys.readouterr().out
    assert '| Cora | 6 | 0.700 / 0.730 | 0.800 / 0.810 |' in shown
    assert 'generated: mean 0.0200, 1 of 2 within 0.02' in shown and 'Cora root (+0.030)' in shown


def test_roots_of_the_zoo_are_some_nodes_and_all_nodes_stay(zoo, data_root, monkeypatch, capsys):
    monkeypatch.setenv('CGT_DATA_ROOT', data_root)
    data = zoo.load_graph('Cora', 1000, seed=0)
    assert data.num_nodes == 2485 and int((data.y >= 0).sum()) == 1000
    sizes = [int(data[f'{name}_mask'].sum()) for name in ('train', 'val', 'test')]
    assert sizes == [500, 100, 400]
    other = zoo.load_graph('Cora', 1000, seed=1)
    assert not torch.equal(other.y, data.y)


@pytest.fixture
def stable_trees(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return load('stable_trees')


def test_removals_of_stable_trees_are_those_of_brute_force(stable_trees):
    one_way = torch.randint(12, (2, 25), generator=torch.Generator().manual_seed(0))
    edges = torch.cat([one_way, one_way.flip(0)], dim=1).unique(dim=1)
    trees = partial(stable_trees.stable, num_nodes=12, parents=2, key=3)
    up = edges[:, edges[0] <= edges[1]]
    ours = [(c[0], c[1], c[3]) for c in stable_trees.removals(trees, edges, up, torch.arange(12))]
    expected = [
        (unit, what if unit == 'edge' else (what,), number)
        for unit, what, _, number in changed_trees(trees, edges, 12)
        if unit != 'direction'
    ]
    assert ours == expected and max(number for *_, number in ours) > 5


def test_recorded_stable_trees_keep_the_bounds(stable_trees):
    cells = stable_trees.read_cells(stable_trees.RESULTS / 'stable_trees.jsonl')
    for name, parents in product(('Cora', 'Photo'), (1, 2, 3)):
        ours = stable_trees.changes(cells, name, parents, 'stable')
        units = [unit for unit, *_ in ours]
        assert units.count('edge') == 200 and units.count('node') == 100
        for unit, _, degree, number in ours:
            assert number <= stable_trees.bound_of(unit, parents, 2, degree)
    page = (stable_trees.RESULTS / 'stable_trees.md').read_text()
    assert page == stable_trees.page(cells)


@pytest.fixture
def to_graph(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return load('to_graph')


def test_tables_of_joined_trees_mark_the_closest_substitute(to_graph):
    def cell(kind, seed, homophily, gcn):
        found = {'homophily': homophily, 'tail_start': 6, 'num_nodes': 10}
        found |= {name: 1.0 for name in to_graph.COMPARED if name != 'homophily'}
        scores = {name: gcn for name in to_graph.MODELS}
        return {'source': 'Cora', 'seed': seed, 'kind': kind, 'seconds': 2.0} | {
            'statistics': found,
            'scores': scores,
        }

    cells = [cell('original', 0, 0.8, 0.9), cell('DC-SBM', 0, 0.8, 0.97)]
    cells += [cell('joined', 0, 0.6, 0.85), cell('joined', 1, 0.8, 0.87)]
    lines = to_graph.table(cells)
    assert lines[0] == '| | Source | Joined trees | DC-SBM |'
    assert '| Homophily of edges | 0.800 | 0.700 | **0.800** |' in lines
    assert '| GCN | 0.900 | **0.860** | 0.970 |' in lines
    assert lines[-1] == '| Mean gap of the four GNNs | 0.000 | **0.040** | 0.070 |'
    assert '10 nodes, seeds 0, 1.' in to_graph.page(cells)
    plain = cell('without profile', 0, 0.8, 0.9)  # exact, but shown for comparison only
    lines = to_graph.table([*cells, plain])
    assert '| GCN | 0.900 | **0.860** | 0.970 | 0.900 |' in lines
    alone = to_graph.table([c for c in cells if c['kind'] != 'joined'] + [plain])
    assert '| GCN | 0.900 | 0.970 | **0.900** |' in alone


def test_the_page_of_joined_trees_is_that_of_the_recorded_cells(to_graph):
    cells = to_graph.read_cells(to_graph.RESULTS / 'to_graph.jsonl')
    assert {cell['kind'] for cell in cells} == set(to_graph.TITLES)
    page = (to_graph.RESULTS / 'to_graph.md').read_text()
    assert page == to_graph.page(to_graph.latest(cells))


def test_the_time_of_a_run_that_was_stopped_counts(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    clock_of, path, calls = load('phase_clock').PhaseClock, tmp_path / 'phases.json', []
    stopped = {'wall': 100.0, 'processor': 50.0, 'own': 3.0, 'runs': 1, 'done': False}
    path.write_text(json.dumps({'fit': stopped}))
    found = clock_of(path).run('fit', lambda: calls.append(1))
    assert found['wall'] >= 100 and found['processor'] >= 50 and found['own'] >= 3
    assert found['runs'] == 2 and found['done']
    assert clock_of(path).run('fit', lambda: calls.append(2)) == found  # only reads the result
    assert calls == [1, 2]
