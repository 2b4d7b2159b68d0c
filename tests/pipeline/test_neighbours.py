"""Private builds of neighbouring graphs: no unit moves a result by more than the ledger says.

Every query of a build is asked again about every graph that differs in one unit, with the answers
of the build. The exact results may differ by what the ledger prices, and nothing else may differ.
"""

import warnings

import numpy as np
import pytest
import torch

from tests.helpers.graphs import random_graph
from tests.helpers.private import QUICK_DP_SGD
from tests.helpers.replays import (
    build,
    check_neighbours,
    check_trees,
    graph_with_a_hub,
    matching,
    most_edges_into_a_node,
    ring,
    star,
    without_node,
)
from torch_geometric_cgt.errors import LedgerError
from torch_geometric_cgt.models import edge_counts, scenes
from torch_geometric_cgt.models.edge_counts import EdgeCaps, EdgeCounter
from torch_geometric_cgt.pipeline import private as private_module
from torch_geometric_cgt.privacy import Queries
from torch_geometric_cgt.sampler import stable_edges
from torch_geometric_cgt.transforms import Quantize

NODE = 'node'
UNITS = (NODE, 'attributes', 'edge')
HUB = 180  # nodes of a star in which two edges of the hub are kept at the smallest rate
COUNTS = ('edges at several rates', 'numbers of children', 'mutual edges', 'labels of neighbours')


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """The correction of scenes reads no data, and a few trees are enough for it."""
    monkeypatch.setattr(scenes, 'UNFOLDED_TREES', 100)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', UserWarning)  # clusters with one label
        yield


@pytest.fixture(scope='module', autouse=True)
def clusterings_once():
    """Replays of one build often cluster the same tensors again: each clustering is computed once.

    All that the clustering receives tells them apart: features, labels, edges and parameters.
    """
    cluster, known = Quantize.cluster, {}

    def once(self, data, *callback):
        tensors = [
            (name, tuple(x.shape), x.numpy().tobytes()) for name, x in data.to_dict().items()
        ]
        key = (*map(repr, vars(self).items()), *tensors)
        if key not in known:
            known[key] = cluster(self, data, *callback)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Quantize, 'cluster', once)
        yield


def promise_of(form, unit, graph):
    """The parameters of a build. Small graphs need large budgets; bounds depend on neither."""
    promise = {'form': form, 'unit': unit, 'epsilon': 200.0}
    if unit == 'edge':
        promise['k'] = 4
    if form in ('histograms', 'dp_sgd'):
        promise |= {'epsilon': 2e4, 'dp_sgd': QUICK_DP_SGD}
        if unit == NODE:
            promise['max_degree'] = most_edges_into_a_node(graph)
    return promise


def make(form, unit, graph, folder, **changes):
    return build(graph, folder, **{**promise_of(form, unit, graph), **changes})


@pytest.mark.parametrize('seed', range(3))
@pytest.mark.parametrize('unit', UNITS)
def test_counts_of_edges(unit, seed, tmp_path):
    graph = graph_with_a_hub(seed)
    pipeline, answers = make('mixing', unit, graph, tmp_path, epsilon=(40.0, 200.0)[seed % 2])
    reached = check_neighbours(pipeline, answers, unit)
    assert max(reached.values()) > 0.9  # it could fail


@pytest.mark.parametrize('seed', range(2))
@pytest.mark.parametrize('unit', UNITS)
def test_histograms_of_trees(unit, seed, tmp_path):
    graph = graph_with_a_hub(seed, num_nodes=18)
    pipeline, answers = make('histograms', unit, graph, tmp_path)
    reached = check_neighbours(pipeline, answers, unit)
    assert max(v for name, v in reached.items() if 'layer' in name) > 0.02
    assert 0 < check_trees(pipeline, unit) <= pipeline.plan.changed_trees


@pytest.mark.slow
@pytest.mark.parametrize('unit', UNITS)
def test_counts_beside_gradients(unit, tmp_path):
    """The steps of DP-SGD are priced by the number of trees that change."""
    sizes = {'num_neighbors': (3,), 'max_parents': 1, 'epsilon': 60.0}
    pipeline, answers = make('dp_sgd', unit, ring(60), tmp_path, **sizes)
    check_neighbours(pipeline, answers, unit, [(0, 1)] if unit == 'edge' else [0, 7])
    (steps,) = (e for e in pipeline.ledger.entries if e.name == 'gradients of whole trees')
    assert steps.changes[unit] == pipeline.plan.changed_trees >= check_trees(pipeline, unit) > 0


@pytest.mark.parametrize('unit', [NODE, 'attributes'])
def test_rows_without_edges(unit, tmp_path):
    """The control that ignores edges asks no query about them."""
    pipeline, answers = make('rows', unit, graph_with_a_hub(1), tmp_path)
    reached = check_neighbours(pipeline, answers, unit)
    assert set(reached) == {
        'labels and splits',
        'median length',
        'prefix counts',
        'decoded sums',
        'root tokens per label',
    }


def test_projected_rows(tmp_path):
    clusters = {'space': 'projected', 'n_components': 3}
    pipeline, answers = make('mixing', NODE, graph_with_a_hub(1), tmp_path, clusters=clusters)
    assert check_neighbours(pipeline, answers, NODE)['decoded sums'] > 0.9


def test_a_hub_reaches_the_bounds_of_a_node(tmp_path):
    """The bounds cannot be any smaller."""
    pipeline, answers = make('mixing', NODE, star(HUB), tmp_path)
    reached = check_neighbours(pipeline, answers, NODE, [0, 1])
    assert min(reached.values()) > 0.998


def test_a_hub_nearly_reaches_the_bounds_of_attributes(tmp_path):
    pipeline, answers = make('mixing', 'attributes', star(HUB), tmp_path)
    reached = check_neighbours(pipeline, answers, 'attributes', [0, 1])
    assert reached['labels of neighbours'] > 0.9
    assert reached['root tokens per label'] > 0.999
    assert all(reached[name] == 0 for name in COUNTS[:3])  # they depend on no label


def test_a_pair_of_nodes_reaches_the_bounds_of_an_edge(tmp_path):
    pipeline, answers = make('mixing', 'edge', matching(24), tmp_path)
    reached = check_neighbours(pipeline, answers, 'edge')
    assert min(reached[name] for name in COUNTS) > 0.999


@pytest.mark.parametrize('unit', UNITS)
@pytest.mark.parametrize('form', ['mixing', 'histograms'])
def test_the_noise_of_every_entry_is_as_wide_as_the_ledger_says(form, unit, tmp_path):
    """Residuals of many builds: what was released, without what is exact."""
    graph = graph_with_a_hub(1)
    residuals = {}
    for i in range(8):
        pipeline, answers = make(form, unit, graph, tmp_path / str(i), noise_seed=None)
        replayed = pipeline.replay(pipeline._source, answers).answers
        sigma = {e.name: e.noise.sigma for e in pipeline.ledger.entries if e.noise}
        for answer in replayed:
            noise = (answer.released - answer.exact).double() * answer.grid / sigma[answer.name]
            residuals.setdefault(answer.name, []).append(noise.flatten())
    for name, parts in residuals.items():
        noise = torch.cat(parts)
        error = 5 / (2 * noise.numel()) ** 0.5  # five standard errors of a standard deviation
        assert abs(float(noise.square().mean().sqrt()) - 1) < error, name
        assert abs(float(noise.mean())) < 5 / noise.numel() ** 0.5, name


def test_a_replay_returns_the_results_of_the_build(tmp_path):
    pipeline, answers = make('mixing', NODE, graph_with_a_hub(0), tmp_path)
    found = pipeline.replay(pipeline._source, answers)
    assert torch.equal(found.results['codebook'], pipeline.codebook)
    assert torch.equal(found.results['counts'], pipeline.counts)
    for name, value in pipeline.model.state_dict().items():
        assert torch.equal(found.results[f'model.{name}'], value), name
    given = [answer for stage in answers.values() for answer in stage]
    for before, after in zip(given, found.answers, strict=True):
        assert before.name == after.name and torch.equal(before.released, after.released)


def test_answers_of_another_build_are_not_replayed(tmp_path):
    pipeline, answers = make('mixing', NODE, graph_with_a_hub(0), tmp_path)
    other = {**answers, 'fit': answers['fit'][::-1]}
    with pytest.raises(LedgerError, match='answers belong to another build'):
        pipeline.replay(pipeline._source, other)
    fewer = {**answers, 'labels': []}
    with pytest.raises(LedgerError, match='answers belong to another build'):
        pipeline.replay(without_node(pipeline._source, 3), fewer)


# Planted bugs. Each must be found.


def smaller(method):
    """A bound that is too small by 10 %."""
    known = getattr(EdgeCaps, method)

    def bound(self, *args):
        return {unit: 0.9 * change for unit, change in known(self, *args).items()}

    return EdgeCaps, method, bound


def without_cap(*which):
    """Capped pairs without the first or the second cap."""
    known = edge_counts.capped_pairs

    def pairs(pairs, first, second):
        return known(pairs, None if 0 in which else first, None if 1 in which else second)

    return edge_counts, 'capped_pairs', pairs


def chance_by_permutation(self):
    """A number for each edge that depends on all edges."""
    size = self.edges.size(1)
    return torch.randperm(size, generator=torch.Generator().manual_seed(0)) / max(size, 1)


def numbers_without_child_cap(self, fan_out):
    known = edge_counts.capped_pairs
    return torch.tensor([known(self.edges, None, j) for j in range(1, fan_out + 1)])


def mutual_without_cap(self):
    back = self.edges.flip(0).t().tolist()
    there = set(map(tuple, self.edges.t().tolist()))
    return torch.tensor(sum(tuple(pair) in there for pair in back))


def labels_of_all(known):
    """Counts the nodes of each label without noise beside the noisy counts."""

    def counts(self, *args):
        tensors, facts = known(self, *args)
        exact = torch.bincount(self.source.data.y.clamp(min=0), minlength=3)
        return {**tensors, 'counts': tensors['counts'] + 1e-9 * exact}, facts

    return counts


def twice(known):
    """A histogram that counts every row twice."""

    def histogram(self, name, index, num_bins):
        return known(self, name, torch.cat([index, index]), num_bins)

    return histogram


def scale_without_noise(known):
    """The length of rows is taken from the data."""

    def median(self, name, values, *args):
        known(self, name, values, *args)
        return float(values.clamp(min=-1).mean())

    return median


PLANTED = {
    'bound on labels too small': smaller('change_of_labels'),
    'bound on numbers too small': smaller('change_of_numbers'),
    'bound on mutual edges too small': smaller('change_of_mutual'),
    'bound on rates too small': smaller('change_of_rates'),
    'bound on pairs of children too small': smaller('change_of_wedges'),
    'no cap of children': without_cap(0),
    'no cap of parents': without_cap(1),
    'no cap of pairs of children': (edge_counts, 'capped_items', lambda items, *_: len(items)),
    'no cap of children in numbers': (EdgeCounter, 'numbers', numbers_without_child_cap),
    'no cap of mutual edges': (EdgeCounter, 'mutual', mutual_without_cap),
    'thinning by a permutation': (EdgeCounter, '_chance', property(chance_by_permutation)),
    'labels without noise': (
        private_module.PrivatePipeline,
        'count_labels',
        labels_of_all(private_module.PrivatePipeline.count_labels),
    ),
    'rows counted twice': (Queries, 'histogram', twice(Queries.histogram)),
    'length without noise': (Queries, 'median', scale_without_noise(Queries.median)),
}


@pytest.mark.parametrize('name', PLANTED)
def test_a_planted_bug_is_found(name, tmp_path, monkeypatch):
    owner, attribute, wrong = PLANTED[name]
    # Noise of a choice among all edges shows where there are many, and caps seldom bind.
    graph = random_graph(400, 1200) if 'permutation' in name else star(HUB)
    monkeypatch.setattr(owner, attribute, wrong)
    pipeline, answers = make('mixing', NODE, graph, tmp_path)
    with pytest.raises(AssertionError, match=r'the ledger says|without noise'):
        check_neighbours(pipeline, answers, NODE, range(3))


def choices_by_permutation(edge_index, num_nodes, max_parents, max_children, key):
    """One order of all edges instead of a priority of each pair."""
    pairs = stable_edges.distinct_pairs(edge_index, num_nodes)
    order = np.random.default_rng(key % 2**32).permutation(pairs.size(1))
    return stable_edges.children_by_priority(pairs, order, num_nodes, max_parents, max_children)


def no_cap_of_parents(edge_index, num_nodes, max_parents, max_children, key):
    return stable_edges.stable_children(edge_index, num_nodes, num_nodes, max_children, key)


@pytest.mark.parametrize('wrong', [choices_by_permutation, no_cap_of_parents])
def test_trees_that_change_too_often_are_found(wrong, tmp_path, monkeypatch):
    monkeypatch.setattr(private_module, 'stable_children', wrong)
    graph = random_graph(200, 300) if wrong is choices_by_permutation else star(60)
    pipeline, _ = make('histograms', 'edge', graph, tmp_path)
    with pytest.raises(AssertionError, match='trees, the ledger says'):
        check_trees(pipeline, 'edge')
