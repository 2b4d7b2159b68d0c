"""One generator on one graph: names, splits, scores and statistics."""

import pytest
import torch

from tests.helpers.graphs import random_graph
from torch_geometric_cgt.benchmark.generator_runs import (
    BuildSettings,
    ComparedGenerator,
    GraphScores,
    default_generators,
    guarantee_of,
    named_graph,
    recipe_of,
)
from torch_geometric_cgt.benchmark.zoo import ZooConfig
from torch_geometric_cgt.data import masks_of, random_split

SETTINGS = BuildSettings(10, (3, 2))


def split_graph(seed=0):
    data = random_graph(num_nodes=200, num_edges=500)
    data.update(masks_of(random_split(data.y >= 0, seed)))
    return data


@pytest.fixture(scope='module')
def scores(tmp_path_factory):
    return GraphScores(split_graph(), SETTINGS, 0, tmp_path_factory.mktemp('builds'))


def test_names_of_generators():
    tilted = ComparedGenerator.of('ngram+tilt', {'order': 1}, epochs=3)
    assert (tilted.name, tilted.fit.epochs) == ('NGram+tilt', None)
    assert tilted.generator == {'model': 'NGram', 'tilt': True, 'order': 1}
    assert ComparedGenerator.of('cgt', epochs=3).fit.epochs == 3
    assert default_generators()[0] == 'CGT' and 'NGram' in default_generators()
    with pytest.raises(ValueError, match="Unknown model 'GPT'"):
        ComparedGenerator.of('GPT')


def test_a_named_graph_is_split_by_the_seed():
    first, again, other = (named_graph('Digits', seed) for seed in (0, 0, 1))
    assert torch.equal(first.train_mask, again.train_mask)
    assert not torch.equal(first.train_mask, other.train_mask)


def test_the_ceiling_has_another_split_and_other_neighbours(scores):
    original, ceiling, quantized = map(scores.shared, ('original', 'ceiling', 'quantized'))
    assert scores.shared('original') is original
    same = torch.cat([b.y for b in original.test]), torch.cat([b.y for b in ceiling.test])
    assert same[0].numel() == same[1].numel() and not torch.equal(*same)
    assert torch.equal(same[0], torch.cat([b.y for b in quantized.test]))
    config = ZooConfig(epochs=2)
    found = scores.score('GCN', quantized, config, transfer=True, is_ceiling=False)
    assert found['metric'] == 'accuracy' and 0 <= found['transfer'] <= 1
    assert 'transfer' not in scores.score('GCN', original, config, False, False)


def test_statistics_compare_with_the_quantized_graph(scores):
    dataset = scores.dataset(ComparedGenerator.of('Resampled'))
    assert torch.equal(dataset.cluster, scores.reference.cluster)
    assert guarantee_of(dataset) == 'k = 10 per feature vector; neighbourhoods are COPIES'
    found = scores.statistics(dataset)
    assert sum(found['histograms']['duplicates']['generated']) == 200
    assert 0 <= found['wasserstein']['zero vectors'] < 1
    independent = scores.statistics(scores.dataset(ComparedGenerator.of('Independent')))
    near, far = found['wasserstein'], independent['wasserstein']
    assert far['duplicates'] > 2 * near['duplicates']


def test_a_recipe_is_that_of_graph_and_settings():
    data = split_graph()
    assert recipe_of(data, SETTINGS) == recipe_of(split_graph(), SETTINGS)
    others = [
        recipe_of(split_graph(1), SETTINGS),
        recipe_of(data, BuildSettings(11, (3, 2))),
        recipe_of(data, SETTINGS, {'generator': {'model': 'NGram'}}),
    ]
    assert len({recipe_of(data, SETTINGS), *others}) == 4
