"""The two tables on privacy: how their cells are measured, and how they are shown."""

import csv
import json
from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

from tests.helpers.cells import by_key, pair_cell, table_of
from torch_geometric_cgt.benchmark import measure_cell
from torch_geometric_cgt.benchmark.experiments import (
    BenchmarkConfig,
    CellKey,
    GraphSpec,
    graph_of,
)
from torch_geometric_cgt.benchmark.measure_cell import perturbed_trees
from torch_geometric_cgt.benchmark.runner import run_cells
from torch_geometric_cgt.benchmark.variants import find_variant, reidentification_of
from torch_geometric_cgt.pipeline import DifferentialPrivacy, KAnonymity
from torch_geometric_cgt.report.benchmark_results import Results
from torch_geometric_cgt.report.report_files import write_results
from torch_geometric_cgt.report.text_tables import to_text_table
from torch_geometric_cgt.transforms import AddAttributeNoise, AddRandomEdges, DropRandomEdges


def test_variants_of_privacy_by_name():
    assert find_variant('clusters epsilon=2.5').promise(7) == KAnonymity(7, cluster_epsilon=2.5)
    private = DifferentialPrivacy(1e6, unit='frozen_record', form='dp_sgd')
    assert find_variant('dp-sgd epsilon=1e6').promise(7) == private
    private = DifferentialPrivacy(10, unit='frozen_record', form='histograms')
    assert find_variant('histograms epsilon=10').promise(7) == private
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


def test_methods_beside_each_other():
    table = to_text_table(table_of(some_privacy_cells(), 'baselines'))
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
    assert to_text_table(table).body[-1][1:6] == ['<b>', 'n/a', 'n/a', 'ours', '0.700']


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
