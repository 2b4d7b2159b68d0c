"""The arguments of a dataset: groups, old spellings, and names of caches."""

import inspect
import warnings

import pytest
import torch

from torch_geometric_cgt import (
    CGTGenerator,
    DifferentialPrivacy,
    FitConfig,
    KAnonymity,
    SyntheticCGTDataset,
)
from torch_geometric_cgt.datasets.options import DEPRECATED, make_config
from torch_geometric_cgt.errors import BudgetError
from torch_geometric_cgt.pipeline import BuildConfig, PrivateClusters, check_source
from torch_geometric_cgt.release import cache_name
from torch_geometric_cgt.training.dp_sgd import DPSGDConfig


def config(k=None, epsilon=None, delta=None, num_neighbors=(5, 5), num_samples=None, **options):
    seed = options.pop('seed', 0)
    return make_config(k, epsilon, delta, num_neighbors, num_samples, seed, options)


def test_the_constructor_names_twelve_arguments():
    parameters = inspect.signature(SyntheticCGTDataset).parameters
    named = [p for p in parameters.values() if p.kind is not p.VAR_KEYWORD]
    assert [p.name for p in named] == [
        'source',
        'k',
        'num_neighbors',
        'num_samples',
        'root',
        'epsilon',
        'delta',
        'seed',
        'device',
        'transform',
        'force_reload',
        'log',
    ]


def test_short_arguments_are_promises():
    assert config().privacy == KAnonymity(k=30)
    assert config(k=7).privacy == KAnonymity(k=7)
    assert config(epsilon=4.0, delta=1e-6).privacy == DifferentialPrivacy(4.0, 1e-6)
    assert config(privacy=KAnonymity(5, l=2)) == BuildConfig(KAnonymity(5, l=2))


@pytest.mark.parametrize(
    'old, new',
    [
        ({'k': 7, 'l': 2}, {'privacy': KAnonymity(7, l=2)}),
        ({'min_support': 3}, {'privacy': KAnonymity(min_support=3)}),
        ({'num_clusters': 4}, {'privacy': KAnonymity(num_clusters=4)}),
        ({'task_weight': 0.5}, {'privacy': KAnonymity(task_weight=0.5)}),
        ({'cluster_epsilon': 2.0}, {'privacy': KAnonymity(cluster_epsilon=2.0)}),
        ({'num_scenes': 0}, {'generator': {'num_scenes': 0}}),
        ({'generator_args': {'num_heads': 2}}, {'generator': {'num_heads': 2}}),
        ({'fit_config': FitConfig(epochs=3)}, {'fit': FitConfig(epochs=3)}),
        ({'resume': False}, {'fit': FitConfig(resume=False)}),
        (
            {'epsilon': 4.0, 'private_args': {'unit': 'node', 'dp_sgd': {'epochs': 2.0}}},
            {'privacy': DifferentialPrivacy(4.0, unit='node', dp_sgd=DPSGDConfig(epochs=2.0))},
        ),
        (
            {'epsilon': 4.0, 'private_args': {'clusters': {'space': 'projected'}}},
            {'privacy': DifferentialPrivacy(4.0, clusters=PrivateClusters(space='projected'))},
        ),
    ],
)
def test_old_spellings_work_and_say_what_to_use(old, new):
    (name,) = set(old) & set(DEPRECATED)
    with pytest.warns(DeprecationWarning, match=f"'{name}' is deprecated: use '") as caught:
        translated = config(**old)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert translated == config(**new)


def test_the_warning_points_at_the_line_of_the_user(graph, tmp_path):
    with (
        pytest.warns(DeprecationWarning, match='num_clusters') as caught,
        pytest.raises(ValueError),
    ):
        SyntheticCGTDataset(graph, k=10, num_clusters=13, root=tmp_path, log=False)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    'wrong, error, message',
    [
        ({'colour': 1}, TypeError, "unexpected keyword argument 'colour'"),
        ({'k': 5, 'privacy': KAnonymity()}, ValueError, r"'privacy' or \['k'\], not both"),
        ({'epsilon': 5.0, 'privacy': KAnonymity()}, ValueError, r"'privacy' or \['epsilon'\]"),
        ({'l': 2, 'privacy': KAnonymity()}, ValueError, r"'privacy' or \['l'\], not both"),
        ({'privacy': 30}, ValueError, "KAnonymity or DifferentialPrivacy object .got 'int'"),
        ({'k': 5, 'epsilon': 1.0}, ValueError, "'k' is for k-anonymity"),
        ({'delta': 0.1}, BudgetError, "give an 'epsilon'"),
        ({'epsilon': 4.0, 'l': 2}, ValueError, "'l' is for k-anonymity"),
        ({'epsilon': 4.0, 'cluster_epsilon': 2.0}, ValueError, "is for builds without 'epsilon'"),
        ({'epsilon': 4.0, 'num_scenes': 2}, ValueError, "'num_scenes' is for k-anonymity"),
        ({'epsilon': 4.0, 'generator': {'num_heads': 2}}, ValueError, "'generator' is for k-anon"),
        ({'generator': {'colour': 1}}, ValueError, "Unknown argument in 'generator'.*colour"),
        (
            {'fit': FitConfig(), 'fit_config': FitConfig()},
            ValueError,
            "'fit' or 'fit_config', not both",
        ),
    ],
)
def test_contradictions_are_refused(wrong, error, message):
    with warnings.catch_warnings(), pytest.raises(error, match=message):
        warnings.simplefilter('ignore')
        config(**wrong)


CHANGES = [
    {'k': 11},
    {'num_neighbors': [2, 3]},
    {'num_samples': 7},
    {'seed': 1},
    {'epsilon': 4.0},
    {'epsilon': 4.0, 'delta': 1e-5},
    {'privacy': KAnonymity(num_clusters=3)},
    {'privacy': KAnonymity(l=2)},
    {'privacy': KAnonymity(min_support=2)},
    {'privacy': KAnonymity(task_weight=0.5)},
    {'privacy': KAnonymity(cluster_epsilon=3.0)},
    {'privacy': DifferentialPrivacy(4.0, unit='node')},
    {'privacy': DifferentialPrivacy(4.0, unit='node', max_parents=3)},
    {'privacy': DifferentialPrivacy(4.0, form='histograms')},
    {'privacy': DifferentialPrivacy(4.0, clusters=PrivateClusters(n_clusters=9))},
    {'privacy': DifferentialPrivacy(4.0, dp_sgd=DPSGDConfig(epochs=3.0))},
    {'privacy': DifferentialPrivacy(4.0, num_classes=9)},
    {'generator': {'num_scenes': 3}},
    {'generator': {'num_heads': 1}},
    {'fit': FitConfig(epochs=1)},
    {'fit': FitConfig(precision='bfloat16')},
    {'fit': FitConfig(accumulate=2)},
]


def test_every_parameter_has_a_cache_of_its_own(graph):
    source = check_source(graph)
    names = [cache_name(source, config(**change)) for change in [{}, *CHANGES]]
    assert len(set(names)) == len(names)
    runtime = FitConfig(compile=True, checkpoint_minutes=1.0, resume=False)
    assert cache_name(source, config(fit=runtime)) == names[0]  # how it is run is no parameter


@pytest.mark.parametrize('attribute', ['x', 'edge_index', 'y', 'train_mask'])
def test_a_changed_source_has_a_cache_of_its_own(graph, attribute):
    changed = graph.clone()
    if attribute == 'train_mask':
        changed.train_mask = torch.ones(graph.num_nodes, dtype=torch.bool)
    else:
        changed[attribute].view(-1)[0] = (changed[attribute].view(-1)[0] + 1) % 3
    names = [cache_name(check_source(data), config()) for data in (graph, graph.clone(), changed)]
    assert names[0] == names[1] != names[2]


@pytest.mark.parametrize('change', [{}, *CHANGES])
def test_parameters_survive_a_file(change):
    given = config(**change)
    assert BuildConfig.from_dict(given.to_dict()) == given


def test_generator_arguments_reach_the_generator():
    model = config(generator={'hidden_channels': 16, 'num_heads': 2}).make_model(5, 3, 2)
    assert isinstance(model.generator, CGTGenerator)
    assert model.config()['hidden_channels'] == 16 and model.num_scenes == 2
