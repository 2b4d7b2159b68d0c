"""The two tables on privacy: what the paper has, what is measured, and how it is shown."""

import csv
import json
from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

from tests.helpers.cells import by_key, pair_cell
from tests.report.test_paper import pairs
from torch_geometric_cgt.benchmark import measure_cell
from torch_geometric_cgt.benchmark.cells import CellKey
from torch_geometric_cgt.benchmark.experiments import (
    EXPERIMENTS,
    BenchmarkConfig,
    GraphSpec,
    graph_of,
)
from torch_geometric_cgt.benchmark.measure_cell import perturbed_trees
from torch_geometric_cgt.benchmark.metrics import agreement
from torch_geometric_cgt.benchmark.runner import run_cells
from torch_geometric_cgt.benchmark.variants import find_variant, reidentification_of
from torch_geometric_cgt.report.dot_figures import dots
from torch_geometric_cgt.report.method_tables import shown_table
from torch_geometric_cgt.report.paper import read_paper
from torch_geometric_cgt.report.results import Results, write_results
from torch_geometric_cgt.report.tables import tables_of
from torch_geometric_cgt.transforms import AddAttributeNoise, AddRandomEdges, DropRandomEdges

NOISE = 'attribute noise x5'


@pytest.mark.parametrize(
    'variant, mse, pearson',  # as printed
    [
        ('k=30', 0.008, 0.934),
        ('k=100', 0.026, 0.916),
        ('k=500', 0.136, 0.862),
        ('k=1000', 0.427, 0.030),
        ('clusters epsilon=1', 0.134, 0.874),
        ('clusters epsilon=10', 0.093, 0.844),
        ('clusters epsilon=25', 0.063, 0.804),
        ('dp-sgd epsilon=1e6', 0.396, 0.112),
        ('dp-sgd epsilon=1e9', 0.053, 0.890),
    ],
)
def test_rows_give_what_the_paper_prints_of_privacy(variant, mse, pearson):
    found = agreement(*pairs('privacy', variant))
    assert (round(found['mse'], 3), round(found['pearson'], 3)) == (mse, pearson)


@pytest.mark.parametrize(
    'variant, mse, node, edge',  # as printed
    [
        ('edge addition x2', 0.021, 1, 0.5),
        ('edge addition x10', 0.168, 1, 0.1),
        ('edge deletion 50 %', 0.001, 1, 0.5),
        ('edge deletion 100 %', 0.014, 1, 0),
        (NOISE, 0.106, 0.2, 1),
        (f'{NOISE} + edge addition x2', 0.169, 0.2, 0.5),
        (f'{NOISE} + edge addition x10', 0.449, 0.2, 0.1),
        (f'{NOISE} + edge deletion 50 %', 0.120, 0.2, 0.5),
        (f'{NOISE} + edge deletion 100 %', 0.291, 0.2, 0),
        ('k=5', 0.001, 0.2, 0.2),
        ('k=100', 0.010, 0.01, 0.01),
        ('k=500', 0.114, 0.002, 0.002),
        ('k=1000', 0.548, 0.001, 0.001),
    ],
)
def test_rows_give_what_the_paper_prints_of_baselines(variant, mse, node, edge):
    assert agreement(*pairs('baselines', variant))['mse'] == pytest.approx(mse, abs=0.00051)
    assert reidentification_of(variant) == pytest.approx((node, edge))


def test_which_rows_the_paper_has():
    paper = set(read_paper())
    planned = set(EXPERIMENTS['baselines'].keys())
    assert {key for key in paper if key.experiment == 'baselines'} == planned
    planned = set(EXPERIMENTS['privacy'].keys())
    theirs = {key for key in paper if key.experiment == 'privacy'}
    assert {key.variant for key in theirs - planned} == {'dp-sgd epsilon=1e6', 'dp-sgd epsilon=1e9'}
    shown = {row.key for row in table_of({}, 'privacy').rows}
    assert shown == planned | theirs


def test_variants_of_privacy_by_name():
    assert find_variant('clusters epsilon=2.5').build == {'cluster_epsilon': 2.5}
    assert find_variant('dp-sgd epsilon=1e6').build == {
        'epsilon': 1e6,
        'private_args': {'form': 'dp_sgd'},
    }
    assert find_variant('histograms epsilon=10').build['private_args'] == {'form': 'histograms'}
    noise, edges = find_variant('attribute noise x5 + edge addition x2').perturb(3)
    assert (type(noise), noise.factor, noise.seed) == (AddAttributeNoise, 5, 3)
    assert (type(edges), edges.factor, edges.seed) == (AddRandomEdges, 2, 3)
    (edges,) = find_variant('edge deletion 50 %').perturb(0)
    assert (type(edges), edges.share) == (DropRandomEdges, 0.5)


@pytest.mark.parametrize(
    'name, message',
    [
        ('clusters epsilon=0', 'positive number'),
        ('clusters epsilon=1.2.3', 'positive number'),
        ('dp-sgd epsilon=1e999', 'positive number'),
        ('clusters epsilon=-1', r"'clusters epsilon=...'"),
        ('edge addition x0.5', "'factor' must be at least 1"),
        ('edge deletion 101 %', "'share' must lie between 0 and 1"),
        ('edge deletion 50 % + nothing', "'edge deletion ... %'"),
    ],
)
def test_wrong_variants(name, message):
    with pytest.raises(ValueError, match=message):
        find_variant(name)
    assert reidentification_of(name) is None


def test_tables_share_their_work():
    config, key = BenchmarkConfig(), CellKey('aggregation', 'Cora', '2', 'GCN')
    same = replace(key, experiment='privacy', variant='k=30')
    assert graph_of(same, config) == graph_of(key, config)
    assert graph_of(same, BenchmarkConfig(k=100)) != graph_of(key, BenchmarkConfig(k=100))
    hundred = replace(key, experiment='baselines', variant='k=100')
    assert graph_of(hundred, config) == graph_of(replace(hundred, experiment='privacy'), config)
    assert graph_of(hundred, config) != graph_of(key, config)


def line_graph():
    x = torch.tensor([[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0]]).float()
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    train = torch.tensor([True, False, False])
    y = torch.tensor([0, 1, 0])
    return Data(x=x, edge_index=edge_index, y=y, train_mask=train, test_mask=~train)


def test_perturbed_graph_by_hand():
    spec = GraphSpec('line', (2,))
    data = line_graph()
    sets = perturbed_trees(data, [AddAttributeNoise(2), DropRandomEdges(1.0)], spec)
    assert list(sets) == ['original', 'generated']
    original, perturbed = sets.values()
    assert original.tokens.tolist() == [[0, 1, 3], [1, *original.tokens[1, 1:].tolist()], [2, 1, 3]]
    assert sorted(original.tokens[1].tolist()) == [0, 1, 2]
    assert perturbed.tokens.tolist() == [[0, 3, 3], [1, 3, 3], [2, 3, 3]]  # nobody has a neighbour
    assert torch.equal(original.y, perturbed.y) and torch.equal(original.split, perturbed.split)
    assert torch.equal(data.x.sum(dim=1), torch.ones(3)) and data.num_edges == 4
    noisy = AddAttributeNoise(2)(data).x
    assert torch.equal(noisy.sum(dim=1), torch.full((3,), 2.0))
    rows = perturbed.x if isinstance(perturbed.x, torch.Tensor) else None
    assert rows is None or torch.equal(rows, noisy)


def test_cells_of_perturbed_graphs(tmp_path, monkeypatch):
    config = BenchmarkConfig(num_neighbors=(3, 3))
    trained, train = [], measure_cell.train_gnn

    def watched(name, trees, *args):
        trained.append(trees.tokens)
        return train(name, trees, *args)

    monkeypatch.setattr(measure_cell, 'train_gnn', watched)
    keys = [
        CellKey('baselines', 'Digits', '0', 'SGC', variant)
        for variant in ('edge deletion 100 %', 'edge addition x10')
    ]
    cells = run_cells(keys, tmp_path / 'cells.jsonl', config, tmp_path, log=False)
    alone, crowded = (cells[key].scores for key in keys)
    assert len(trained) == 3  # the original once
    assert list(alone) == ['original', 'generated'] and alone['original'] == crowded['original']
    assert bool((trained[1][:, 1:] == 1770).all())  # null: the largest component has as many nodes
    assert crowded['generated']['accuracy'] < alone['generated']['accuracy']
    assert [path.name for path in tmp_path.iterdir()] == ['cells.jsonl']  # nothing was built


def some_privacy_cells():
    cells = [
        pair_cell(score, score - gap, model=model, experiment=experiment, variant=variant)
        for experiment, variant, gap in [
            ('privacy', 'k=30', 0.02),
            ('privacy', 'k=1000', 0.9),
            ('baselines', 'edge deletion 50 %', 0.1),
            ('baselines', 'k=5', 0.02),
        ]
        for model, score in [('GCN', 0.9), ('SGC', 0.8)]
    ]
    return by_key(*cells)


def table_of(cells, name):
    return next(table for table in tables_of(cells) if table.experiment.name == name)


def test_methods_beside_each_other():
    table = shown_table(table_of(some_privacy_cells(), 'baselines'))
    keys = ['Dataset', 'Method', 'Node', 'Edge', 'Whose']
    assert table.header == [*keys, 'GCN', 'SGC', 'GIN', 'GAT', 'MSE']
    lines = {(row[1], row[4]): row[2:4] + row[5:] for row in table.body}
    assert lines['original graph', 'ours'] == (
        ['100 %', '100 %', '0.900', '0.800', 'not run', 'not run', '']
    )
    assert lines['original graph', 'paper'][2:] == ['0.860', '0.850', '0.850', '0.830', '']
    assert lines['edge deletion 50 %', 'ours'] == (
        ['100 %', '50 %', '0.800', '0.700', 'not run', 'not run', '0.0100']
    )
    assert lines['edge deletion 50 %', 'paper'][2:] == [
        '0.830',
        '0.830',
        '0.820',
        '0.840',
        '0.0006',
    ]
    assert lines['k=5', 'ours'][:2] == ['20 %', '20 %'] and lines['k=5', 'ours'][-1] == '0.0004'
    assert lines['k=1000', 'ours'] == ['0.1 %', '0.1 %', *['not run'] * 5]
    assert [row[1] for row in table.grouped].count('k=1000') == 1  # the paper's line is below


def test_unknown_methods_have_no_probability():
    cell = pair_cell(0.8, 0.7, experiment='baselines', variant='<b>')
    table = table_of(by_key(cell), 'baselines')
    assert table.records()[-1]['node re-identification'] is None
    assert shown_table(table).body[-1][1:6] == ['<b>', 'n/a', 'n/a', 'ours', '0.700']


def test_privacy_is_in_all_files(tmp_path):
    write_results(tmp_path, Results.from_cells(some_privacy_cells()))
    report = json.loads((tmp_path / 'report.json').read_text())
    content = {e['name']: e for e in report['experiments']}
    found = {s['variant']: s for s in content['privacy']['summaries'] if not s['dataset']}
    assert found['k=30']['ours']['mse']['value'] == pytest.approx(0.0004)
    assert (found['k=30']['run'], found['k=30']['asked']) == (2, 12)
    assert round(found['dp-sgd epsilon=1e9']['paper']['pearson']['value'], 3) == 0.890
    assert found['dp-sgd epsilon=1e9']['run'] == 0

    with open(tmp_path / 'tables' / 'baselines.csv', newline='') as file:
        first = next(csv.DictReader(file))
    assert first['variant'] == 'edge addition x2' and first['paper generated'] == '0.82'
    assert (first['node re-identification'], first['edge re-identification']) == ('1.0', '0.5')
    assert 'quantized' not in first
    latex = (tmp_path / 'tables' / 'baselines.tex').read_text()
    assert r'edge deletion 50 \% & 100 \% & 50 \% & ours & 0.800 & 0.700' in latex
    assert 'Cora & 0 & k=30 & GCN & 0.900' in (tmp_path / 'tables' / 'privacy.tex').read_text()

    page = (tmp_path / 'report.html').read_text()
    assert '>k=30</th>' in page and '>clusters epsilon=25</th>' in page
    assert '>edge deletion 50 %</td>' in page and '>20 %</td>' in page
    assert 'Mean accuracy by privacy' in page and 'Mean accuracy by method' in page
    assert page.count('<figure>') == 2  # the dots of each table
    assert 'perturbed or generated</span>' in page and 'perturbed or generated</th>' not in page
    start = page.index('>k=30</th>')
    assert 'class="better unsure">0.0004</td>' in page[start : start + 200]  # of two pairs


def test_dots_show_what_was_not_run():
    labels = [f'method {i} + more' for i in range(12)]
    means = {'original': [0.8] * 12, 'generated': [None, *[0.5] * 11]}
    drawn = dots(labels, means, {'generated': [0.4] * 12}, (0.35, 0.9), 'AUC')
    assert all(f'method {i} +' in drawn for i in range(12)) and '>AUC</text>' in drawn
    assert 'not run' not in drawn
    assert '0.4</text>' in drawn and '>0.0</text>' not in drawn  # the axis says where it starts
    nothing = {**means, 'original': [None] + [0.8] * 11}
    assert 'not run' in dots(labels, nothing, {}, (0.35, 0.9))
