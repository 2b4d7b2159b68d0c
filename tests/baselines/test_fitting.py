"""What all neural generators of trees have in common."""

import json
import time

import pytest
import torch

from tests.helpers.labelled_trees import NUM_CLASSES, NUM_NEIGHBORS, NUM_TOKENS, SHAPE, toy_source
from torch_geometric_cgt.baselines import BASELINES
from torch_geometric_cgt.baselines.fitting import (
    NeuralTreeModel,
    TreeBatches,
    mask_below_null,
    parent_is_real,
    train,
)
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.errors import NotFiniteError, OutOfTime
from torch_geometric_cgt.models import FitContext
from torch_geometric_cgt.utils.run_limits import Limits

SIZES = (NUM_TOKENS, NUM_CLASSES, NUM_NEIGHBORS)
NAMES = [name for name, model in BASELINES.items() if issubclass(model, NeuralTreeModel)]
OPTIONS = {'num_steps': 5, 'hidden_channels': 16, 'batch_size': 50}
MORE = {'GraphEBM': {'langevin_steps': 2, 'sample_steps': 5}}


def make(name, **options):
    """A small model that is fitted quickly."""
    return BASELINES[name](*SIZES, **{**OPTIONS, **MORE.get(name, {}), **options})


def fitted(name, seed=0, **options):
    model = make(name, **options)
    model.fit(toy_source(100), FitContext(seed=seed))
    return model


def draw(model, seed=1, size=60):
    return model.sample(torch.arange(size) % NUM_CLASSES, torch.Generator().manual_seed(seed))


@pytest.fixture(scope='module', params=NAMES)
def model(request):
    """Each of the models, after a few steps: it still draws all kinds of trees."""
    return fitted(request.param)


def test_sampled_trees_obey_the_null_rule(model):
    tokens = draw(model, size=200)
    assert tokens.shape == (200, SHAPE.num_slots) and tokens.dtype == torch.long
    assert 0 <= tokens.min() and tokens.max() <= NUM_TOKENS
    assert SHAPE.check_nulls(tokens < NUM_TOKENS)
    assert (tokens == NUM_TOKENS).any()


def test_no_labels_give_no_trees(model):
    assert model.sample(torch.empty(0, dtype=torch.long)).shape == (0, SHAPE.num_slots)


def test_configuration_and_weights_make_the_same_model(model):
    again = type(model)(**json.loads(json.dumps(model.config())))
    assert again.config() == model.config()
    with pytest.raises(ValueError, match='not fitted'):
        draw(again)
    again.load_state_dict(model.state_dict())
    assert torch.equal(draw(again), draw(model))
    assert not torch.equal(draw(model, seed=2), draw(model))


def test_the_seed_of_the_fit_decides(model):
    torch.manual_seed(99)
    again = make(model.name)
    before = torch.get_rng_state()
    again.fit(toy_source(100), FitContext(seed=0))
    assert torch.equal(torch.get_rng_state(), before)  # the global state is left alone
    assert torch.equal(draw(again), draw(model))  # and does not matter
    assert not torch.equal(draw(fitted(model.name, seed=1)), draw(model))


def test_a_model_is_registered_under_its_name(model):
    assert BASELINES[model.name] is type(model)


@pytest.mark.parametrize('name', NAMES)
def test_a_limit_of_time_ends_a_fit(name):
    model = make(name, num_steps=10**9)
    start = time.monotonic()
    with pytest.raises(OutOfTime):
        model.fit(toy_source(100), FitContext(limits=Limits(seconds=0.05)))
    assert time.monotonic() - start < 10


@pytest.mark.parametrize('name', NAMES)
@pytest.mark.parametrize('option', ['hidden_channels', 'num_steps', 'batch_size', 'lr'])
def test_options_are_positive(name, option):
    with pytest.raises(ValueError, match=f"'{option}' must be positive"):
        BASELINES[name](*SIZES, **{option: 0})


@pytest.mark.parametrize('name', NAMES)
def test_large_vocabularies_have_small_batches(name):
    model = BASELINES[name](5000, 3, [20, 20])
    assert 1 <= model.block_size * model.shape.num_slots * model.values_per_slot <= 1 << 24


def test_slots_below_null_slots_are_masked():
    shape = TreeShape.of([2, 1, 1])  # slots 3 and 5 lie below 1, slots 4 and 6 below 2
    tokens = torch.tensor([[0, 9, 1, 2, 3, 4, 5], [0, 1, 2, 9, 3, 4, 9]])
    expected = torch.tensor([[0, 9, 1, 9, 3, 9, 5], [0, 1, 2, 9, 3, 9, 9]])
    assert torch.equal(mask_below_null(tokens, 9, shape), expected)
    assert tokens[0, 3] == 2  # the argument is left alone
    possible = [[1, 1, 1, 0, 1, 0, 1], [1, 1, 1, 1, 1, 0, 1]]
    assert parent_is_real(expected, 9, shape).int().tolist() == possible


def test_every_root_is_seen_once_in_an_epoch():
    source = toy_source(100)
    tokens = torch.arange(100)[:, None].expand(-1, SHAPE.num_slots)
    object.__setattr__(source, 'draw', lambda index, _: tokens[index])
    batches = TreeBatches(source, 25, FitContext())
    epochs = [torch.cat([batches(4 * e + i)[0][:, 0] for i in range(4)]) for e in range(2)]
    assert all(torch.equal(seen.sort().values, torch.arange(100)) for seen in epochs)
    assert not torch.equal(*epochs)
    root, y = batches(5)
    assert torch.equal(y, source.y[root[:, 0]])


def test_a_loss_that_is_not_finite_is_an_error():
    module = torch.nn.Linear(1, 1)
    with pytest.raises(NotFiniteError, match='step 3 of 10'):
        train(
            module,
            lambda step, _: module.weight.sum() * (float('nan') if step == 2 else 1.0),
            10,
            0.1,
            FitContext(),
        )


def test_the_history_follows_the_loss():
    module = torch.nn.Linear(1, 1)
    history = train(module, lambda *_: module.weight.square().sum(), 200, 0.05, FitContext())
    assert len(history['loss']) == 20 and history['num_steps'] == 200
    assert history['loss'][0] > 10 * history['loss'][-1]
