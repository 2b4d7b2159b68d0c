"""The arguments of a dataset: groups, old spellings, and names of caches."""

import inspect
import json
import warnings

import numpy as np
import pytest

from tests.helpers.configs import CHANGES, config
from torch_geometric_cgt import (
    CGTGenerator,
    DifferentialPrivacy,
    FitConfig,
    KAnonymity,
    SyntheticCGTDataset,
)
from torch_geometric_cgt.datasets.options import DEPRECATED
from torch_geometric_cgt.errors import BudgetError, NotEnoughMemoryError
from torch_geometric_cgt.pipeline import BuildConfig, PrivateClusters
from torch_geometric_cgt.training.dp_sgd import DPSGDConfig


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
        ({'generator': 'NGram'}, ValueError, "must be a dictionary .*{'model': 'NGram'}"),
        ({'fit': {'epochs': 2}}, ValueError, "'fit' must be a FitConfig object.*'dict'"),
        ({'limits': 60}, ValueError, "'limits' must be a Limits object.*60 of type 'int'"),
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


def test_numbers_of_numpy_are_those_of_python():
    numbers = {'k': np.int64(12), 'num_samples': np.int32(7), 'seed': np.int64(3)}
    fit = FitConfig(epochs=np.int64(2), lr=np.float32(0.5))
    given = config(**numbers, fit=fit, generator={'num_scenes': np.int64(2)})
    expected = config(
        k=12, num_samples=7, seed=3, fit=FitConfig(epochs=2, lr=0.5), generator={'num_scenes': 2}
    )
    assert json.dumps(given.to_dict()) == json.dumps(expected.to_dict())
    private = config(epsilon=np.float32(4.0), delta=np.float64(1e-5))
    assert json.dumps(private.to_dict()) == json.dumps(config(epsilon=4.0, delta=1e-5).to_dict())


@pytest.mark.parametrize('change', [{}, *CHANGES])
def test_parameters_survive_a_file(change):
    given = config(**change)
    assert BuildConfig.from_dict(given.to_dict()) == given


def test_generator_arguments_reach_the_generator():
    model = config(generator={'hidden_channels': 16, 'num_heads': 2}).make_model(5, 3, 2)
    assert isinstance(model.generator, CGTGenerator)
    assert model.config()['hidden_channels'] == 16 and model.num_scenes == 2


@pytest.mark.filterwarnings('ignore:.* is deprecated')  # old spellings, too
@pytest.mark.parametrize(
    'change, error, message',
    [
        ({'k': 0}, ValueError, 'got 0'),
        ({'k': 121}, ValueError, 'k=121 for 120 nodes'),
        ({'num_clusters': 13}, ValueError, '13 . 10 > 120'),
        ({'num_neighbors': []}, ValueError, 'at least one fan-out'),
        ({'num_neighbors': [5, 0]}, ValueError, 'integer >= 1'),
        ({'num_neighbors': [5, -1]}, ValueError, '-1 for all neighbours is not possible'),
        ({'num_neighbors': [10**5] * 2}, ValueError, '2 layers and 10,000,100,001 nodes'),
        ({'num_neighbors': [1] * 17}, ValueError, 'at most 16 layers'),
        ({'num_samples': 10**12}, NotEnoughMemoryError, "1,000,000,000,000 trees.*'num_samples'"),
        ({'num_samples': 0}, ValueError, "'num_samples'"),
        ({'seed': None}, ValueError, "'seed' must be an integer .got None"),
        ({'seed': '0'}, ValueError, "'seed' must be an integer .got '0'"),
        ({'generator': {'colour': 'red'}}, ValueError, 'colour'),
        ({'generator': {'num_heads': 3}}, ValueError, 'divisible'),
    ],
)
def test_bad_parameter(graph, quick, change, error, message):
    with pytest.raises(error, match=message):
        SyntheticCGTDataset(graph, **{**quick, **change})
    assert not quick['root'].exists()


@pytest.mark.filterwarnings('ignore:.* is deprecated')  # old spellings, too
@pytest.mark.parametrize(
    'arguments, error, message',
    [
        ({'epsilon': 0.0}, BudgetError, 'positive.*got 0.0'),
        ({'epsilon': -1.0}, BudgetError, 'got -1.0'),
        ({'epsilon': 50.0, 'delta': 0.0}, BudgetError, 'between 0 and 1.*got 0.0'),
        ({'epsilon': 50.0, 'delta': 1.0}, BudgetError, 'between 0 and 1.*got 1.0'),
        ({'epsilon': 50.0, 'delta': 0.1}, BudgetError, '1 / n = 0.0083.*accept_large_delta'),
        ({'epsilon': 0.1}, BudgetError, 'too small for any signal in 120 nodes.*use at least'),
        ({'delta': 1e-5}, BudgetError, "give an 'epsilon'"),
        ({'private_args': {'unit': 'node'}}, BudgetError, "give an 'epsilon'"),
        ({'epsilon': 50.0, 'private_args': {'unit': 'person'}}, ValueError, 'person'),
        ({'epsilon': 50.0, 'private_args': {'colour': 1}}, ValueError, 'colour.*max_parents'),
        ({'epsilon': 50.0, 'private_args': {'form': 'gan'}}, ValueError, "'gan'"),
        ({'epsilon': 50.0, 'private_args': {'dp_sgd': {'steps': 3}}}, ValueError, 'steps'),
        ({'epsilon': 50.0, 'private_args': {'clusters': {'epsilon': 3}}}, ValueError, 'sets them'),
        ({'epsilon': 50.0, 'num_clusters': 5}, ValueError, "'num_clusters' is for k-anonymity"),
        ({'epsilon': 50.0, 'k': 30}, ValueError, "'k' is for k-anonymity .got k=30 and epsilon=50"),
        ({'epsilon': 'a'}, BudgetError, "'epsilon' must be a number .got 'a'"),
        ({'epsilon': 1e-6}, BudgetError, 'too small for any signal'),
    ],
)
def test_bad_budget(graph, tmp_path, arguments, error, message):
    with pytest.raises(error, match=message):
        SyntheticCGTDataset(graph, root=tmp_path / 'root', log=False, **arguments)
    assert not (tmp_path / 'root').exists()
