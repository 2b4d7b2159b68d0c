import json
from dataclasses import replace

import pytest
import torch

from tests.helpers.graphs import random_graph
from tests.helpers.pages import Page
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.benchmark import (
    Evaluation,
    GNNConfig,
    ZooConfig,
    evaluate_dataset,
    evaluation,
)
from torch_geometric_cgt.benchmark.zoo import train_zoo
from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.data.token_trees import SparseRows
from torch_geometric_cgt.report.html_pages import render_evaluation
from torch_geometric_cgt.report.report_files import write_evaluation

QUICK = GNNConfig(epochs=3)


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    return tmp_path_factory.mktemp('root')


@pytest.fixture
def dataset(graph, quick, root):
    return SyntheticCGTDataset(graph, **{**quick, 'root': root})  # built once, then read


@pytest.fixture
def evaluated(graph, dataset):
    result = evaluate_dataset(graph, [dataset, dataset], ['GCN', 'GIN'], QUICK, log=False)
    return {'card': dataset.card, 'fit': dataset.history, **result.to_dict()}


def test_every_column_has_every_model_and_seed(evaluated):
    assert list(evaluated['scores']) == ['original', 'quantized', 'generated', 'transfer']
    for scores in evaluated['scores'].values():
        assert {name: len(runs) for name, runs in scores.items()} == {'GCN': 2, 'GIN': 2}
        assert all(0 <= value <= 1 for runs in scores.values() for value in runs)
    assert set(evaluated['agreement']) == {'quantized', 'generated'}
    for counts in evaluated['histograms'].values():
        assert {sum(c) for c in counts.values()} == {120}
    json.dumps(evaluated, allow_nan=False)


def test_views_are_scored_in_every_column(evaluated, graph):
    assert {'root', 'children', '2 hops', 'maximum', 'layers apart'} < set(evaluated['views'])
    for scores in evaluated['views'].values():
        assert list(scores) == ['original', 'quantized', 'generated']
        assert all(0 <= score <= 1 for score in scores.values())
    assert '<h2 id="views">' in render_evaluation(evaluated)


def test_sparse_and_dense_features_have_the_same_views():
    rng = torch.Generator().manual_seed(0)
    x = (torch.rand(50, 8, generator=rng) < 0.3).float()
    tokens = torch.randint(50, (400, 3), generator=rng)
    y = x[tokens[:, 0], 0].long() + x[tokens[:, 1], 1].long()
    split = torch.where(torch.arange(400) % 2 == 0, 1, 4)
    trees = TokenTrees(tokens, y, split, 50, 3, TreeShape.of([2]), x=x)
    sparse = replace(trees, x=SparseRows.from_matrix(x))
    dense, other = (evaluation.compared_views({'a': own}) for own in (trees, sparse))
    assert {view: pytest.approx(scores, abs=0.02) for view, scores in dense.items()} == other


def test_a_release_has_no_quantized_column(graph, dataset, tmp_path):
    dataset.save(tmp_path / 'release')
    loaded = SyntheticCGTDataset.load(tmp_path / 'release')
    result = evaluate_dataset(graph, [loaded], ['SGC'], QUICK, log=False)
    assert list(result.scores) == ['original', 'generated', 'transfer']


def test_what_may_be_published_follows_from_the_release_alone(dataset, tmp_path):
    result = evaluate_dataset(None, [dataset], ['SGC'], QUICK, log=False, publishable=True)
    assert list(result.scores) == ['generated']
    assert all(list(scores) == ['generated'] for scores in result.views.values())
    assert result.to_dict()['agreement'] == result.wasserstein == {}
    assert result.text().split() == ['generated', 'SGC', f'{result.mean("generated")[0]:.3f}']
    dataset.save(tmp_path / 'release')
    loaded = SyntheticCGTDataset.load(tmp_path / 'release')
    again = evaluate_dataset(None, [loaded], ['SGC'], QUICK, log=False, publishable=True)
    assert again.to_dict() == result.to_dict()


def test_wrong_input(graph, dataset):
    with pytest.raises(ValueError, match='choose from'):
        evaluate_dataset(graph, [dataset], ['MLP'])
    with pytest.raises(ValueError, match='not made from this source'):
        evaluate_dataset(random_graph(num_features=5), [dataset], ['GCN'])


def test_report_stands_by_itself(evaluated, tmp_path):
    paths = write_evaluation(tmp_path, evaluated)
    assert [path.name for path in paths] == ['report.json', 'report.html']
    assert json.loads(paths[0].read_text())['models'] == ['GCN', 'GIN']
    text = paths[1].read_text()
    page = Page(text)
    assert page.tags.count('svg') == 4 and 'script' not in page.tags
    assert page.links == []  # nothing is fetched
    best = evaluated['fit']['best_epoch']
    assert all(f'>{label}</text>' in text for label in ['training', 'held out', 'kept'])
    assert f'epoch {best + 1} were kept' in text
    assert f'{evaluated["fit"]["holdout_nll"][best]:.3f} on held-out' in text
    assert text.count('<td>GCN</td>') == 1 and 'Trained on generated' in text
    for sentence in evaluated['card']['privacy']['not_guaranteed']:
        assert sentence.split("'")[0][:40] in text


def test_names_in_a_card_cannot_inject_html(evaluated):
    evaluated['card']['source']['name'] = '<script>alert(1)</script>'
    assert '<script>' not in render_evaluation(evaluated)


def test_without_the_report_extra_there_is_json(evaluated, tmp_path, monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, 'find_spec', lambda name: None if name == 'jinja2' else find(name)
    )
    with pytest.warns(UserWarning, match=r'\[report\]'):
        paths = write_evaluation(tmp_path, evaluated)
    assert [path.name for path in paths] == ['report.json']


def test_scores_as_text():
    scores = {
        'original': {'GCN': [0.5, 0.7], 'SGC': [0.8]},
        'generated': {'GCN': [0.5], 'SGC': [1]},
    }
    table, facts = Evaluation(['GCN', 'SGC'], scores).text().rsplit('\n', 1)
    assert [line.split() for line in table.splitlines()] == [
        ['original', 'generated'],
        ['GCN', '0.600', '0.500'],
        ['SGC', '0.800', '1.000'],
    ]
    assert facts.startswith('generated against original: ') and 'mse 0.0250' in facts


@pytest.fixture
def zoo(graph, dataset):
    config = ZooConfig(epochs=2)
    models = ['MLP', 'GCN', 'SAGE', 'Shuffled']
    return evaluate_dataset(graph, [dataset] * 2, models, config, log=False, zoo=True)


def test_the_zoo_has_a_ceiling(zoo, dataset):
    assert list(zoo.scores) == [
        'original',
        'ceiling',
        'quantized',
        'generated',
        'transfer',
        'quantized transfer',
    ]
    assert zoo.floor == ['Shuffled'] and zoo.metric == 'accuracy'
    content = zoo.to_dict()
    assert set(content['judged']['columns']) == {'ceiling', 'quantized', 'generated'}
    assert content['judged']['columns']['ceiling']['multiple'] == 1
    assert content['judged']['num_models'] == 3 and content['judged']['num_seeds'] == 2
    json.dumps(content, allow_nan=False)
    page = render_evaluation({'card': dataset.card, **content})
    assert 'id="judged"' in page and 'Ceiling' in page and 'floor: features shuffled' in page
    assert 'id="probes"' in page
    unmeasured = render_evaluation({'card': dataset.card, **content, 'views': {}})
    assert 'id="probes"' not in unmeasured
    assert 'over 3 models (means of' in ' '.join(page.split())
    assert 'quantized transfer' in zoo.text()


def test_the_ceiling_has_another_split_other_neighbours_and_another_seed(
    graph, dataset, monkeypatch
):
    seen = []

    def record(name, trees, seed, config):
        seen.append((trees, seed))
        return train_zoo(name, trees, seed, config)

    monkeypatch.setattr(evaluation, 'train_zoo', record)
    config = ZooConfig(epochs=1)
    evaluate_dataset(graph, [dataset], ['MLP'], config, log=False, zoo=True)
    (original, seed), (ceiling, other_seed) = seen[:2]
    assert seed != other_seed
    roots = [batches.test[0].table(0).rows for batches in (original, ceiling)]
    assert roots[0].shape == roots[1].shape and not torch.equal(*roots)  # other test roots
    assert torch.equal(original.test[0]._x, ceiling.test[0]._x)  # of the same features
    sizes = [sum(b.token.numel() for b in t.train + t.val + t.test) for t in (original, ceiling)]
    assert sizes[0] != sizes[1]  # other neighbours, which have other numbers of neighbours


def test_the_zoo_of_a_release_alone(dataset):
    found = evaluate_dataset(
        None, [dataset], ['MLP'], ZooConfig(epochs=1), log=False, publishable=True, zoo=True
    )
    assert list(found.scores) == ['generated'] and found.judged() is None
    with pytest.raises(ValueError, match=r"'FastGCN'.*SAGE-max"):
        evaluate_dataset(None, [dataset], ['FastGCN'], zoo=True, publishable=True)


def test_views_are_shown_where_they_are_measured(zoo, dataset):
    zoo.views = {'root': {'original': 0.5, 'quantized': 0.375, 'generated': 0.25}}
    content = {'card': dataset.card, **zoo.to_dict()}
    assert content['views'] == zoo.views
    page = render_evaluation(content)
    assert 'id="probes"' in page and '>0.375</td>' in page
    assert 'the accuracies of views' in page  # not for publication


def test_no_correlation_below_the_noise_of_seeds():
    steady = {'A': [0.7, 0.7], 'B': [0.6, 0.61], 'C': [0.5, 0.5]}
    found = Evaluation(list(steady), {'original': steady, 'generated': steady})
    assert found.no_correlations() is None and found.agreement()['pearson'] == pytest.approx(1)
    noisy = {'A': [0.7, 0.5], 'B': [0.5, 0.69], 'C': [0.6, 0.6]}
    found = Evaluation(list(noisy), {'original': noisy, 'generated': noisy})
    assert 'below the noise' in found.no_correlations()
    assert found.agreement()['spearman'] is None and found.agreement()['mse'] == 0
    assert found.text().endswith(f'(no correlations: {found.no_correlations()})')
    assert found.to_dict()['no_correlations'] == found.no_correlations()


def test_the_four_gnns_have_a_ceiling_and_a_control(graph, dataset):
    how = {'ceiling': True, 'control': True, 'log': False}
    found = evaluate_dataset(graph, [dataset], ['SGC', 'GIN', 'GCN'], GNNConfig(epochs=30), **how)
    columns = ['original', 'ceiling', 'quantized', 'generated', 'control']
    assert list(found.scores) == [*columns, 'transfer', 'control transfer']
    judged = found.to_dict()['judged']
    assert list(judged['columns']) == columns[1:]
    assert judged['columns']['control']['mse'] > judged['columns']['ceiling']['mse']
    lost = [sum(a) - sum(b) for a, b in [map(found.mean, ('transfer', 'control transfer'))]]
    assert lost[0] > 0  # a model that learned from shuffled neighbours is worse
    page = render_evaluation({'card': dataset.card, **found.to_dict()})
    first = page[: page.index('id="publication"')]
    assert 'Can I use it instead of the original?' in first and 'Control, must fail' in first


def test_a_page_has_no_correlation_below_the_noise(graph, dataset):
    found = evaluate_dataset(graph, [dataset], ['SGC', 'GCN'], QUICK, log=False, ceiling=True)
    for column, scores in {'original': [0.9, 0.91], 'ceiling': [0.93, 0.88]}.items():
        found.scores[column] = {'SGC': scores[:1], 'GCN': scores[1:]}
    page = render_evaluation({'card': dataset.card, **found.to_dict()})
    assert 'There are no correlations, because models differ by' in page
    assert '</b> Pearson' not in page and 'There is nothing to choose' in page
