"""Models of trees are made again from configuration and weights, and noise must be paid for."""

import json
from dataclasses import replace

import pytest
import torch

from tests.helpers.private_models import (
    NUM_CLASSES,
    NUM_TOKENS,
    draw_trees,
    graph_of,
    learn,
    make,
    rng,
)
from torch_geometric_cgt import FitConfig
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.models import (
    PRIVATE_MODELS,
    TREE_MODELS,
    FitContext,
    TransformerModel,
    TreeSource,
)
from torch_geometric_cgt.privacy import DiscreteGaussian, Gaussian, Queries

SHAPE = TreeShape.of([3, 2])
NUM_TREES = 200


def unfitted(name):
    """A model, and the entries that its fit needs."""
    if name in PRIVATE_MODELS:
        return make(name, NUM_TREES, SHAPE, epochs=1.0)
    training = FitConfig(epochs=1, batch_size=100)
    size = {'hidden_channels': 16, 'num_layers': 1, 'num_heads': 2}
    return TransformerModel(NUM_TOKENS, NUM_CLASSES, [3, 2], training, **size), []


@pytest.fixture(scope='module', params=list(TREE_MODELS))
def model(request):
    """Each of the models, fitted."""
    found, entries = unfitted(request.param)
    y = torch.arange(NUM_TREES) % NUM_CLASSES
    return learn(found, draw_trees(NUM_TREES, SHAPE), y, entries, rng())


def draw(model, seed=1):
    y = torch.arange(60) % NUM_CLASSES
    return model.sample(y, rng(seed))


def test_a_model_is_registered_under_its_name(model):
    assert TREE_MODELS[model.name] is type(model)


def test_configuration_and_weights_make_the_same_model(model):
    config = json.loads(json.dumps(model.config()))  # as in a file
    again = type(model)(**config)
    assert again.config() == model.config() and again.shape == SHAPE
    assert (again.num_tokens, again.num_classes) == (NUM_TOKENS, NUM_CLASSES)
    assert repr(again) == repr(model)
    assert again.entries() == unfitted(model.name)[0].entries()  # what it will cost
    again.load_state_dict(model.state_dict())
    again.train(model.training)
    assert torch.equal(draw(again), draw(model))
    assert not torch.equal(draw(again, seed=2), draw(model))


def test_sampled_trees_obey_the_null_rule(model):
    tokens = draw(model)
    assert tokens.shape == (60, SHAPE.num_slots)
    assert tokens.min() >= 0 and tokens.max() <= NUM_TOKENS
    assert (tokens[:, 0] < NUM_TOKENS).all() and SHAPE.check_nulls(tokens < NUM_TOKENS)
    assert (tokens == NUM_TOKENS).any()  # the source has null slots, too


def test_models_with_a_price_have_entries(model):
    entries = model.entries()
    assert bool(entries) == (model.name in PRIVATE_MODELS)
    assert {entry.stage for entry in entries} <= {'sequence model'}
    assert all(entry.noise is not None for entry in entries)
    assert sum(entry.share for entry in entries) == pytest.approx(1.0 if entries else 0.0)


def test_scenes(model):
    y = torch.arange(60) % NUM_CLASSES
    scene = model.draw_scenes(y, rng())
    if model.name in ('cgt', 'mixing'):
        assert scene is None and model.num_scenes == 1
    else:
        assert scene.shape == y.shape and 0 <= scene.min() <= scene.max() < model.num_scenes
        given = model.sample(y, rng(1), scene)
        assert torch.equal(model.sample(y, rng(1), scene), given)


def test_only_models_that_say_so_have_a_likelihood(model):
    assert model.has_log_prob == hasattr(model, 'log_prob')
    if model.has_log_prob:
        y = torch.arange(60) % NUM_CLASSES
        found = model.log_prob(draw(model).long(), y)
        assert found.shape == (60,) and (found < 0).all()


@pytest.mark.parametrize('name', TREE_MODELS)
def test_sizes_must_be_positive(name):
    config = unfitted(name)[0].config()
    for size in ('num_tokens', 'num_classes'):
        with pytest.raises(ValueError, match=rf"'{size}'.*got 0"):
            TREE_MODELS[name](**{**config, size: 0})


def test_a_source_draws_one_tree_of_every_root():
    asked = []

    def draw_tokens(index, generator):
        asked.append((index.tolist(), generator.initial_seed()))
        return torch.stack([index, index + 1, torch.full_like(index, 4)], dim=1)

    y, split = torch.tensor([1, 0, 1]), torch.tensor([1, 4, 2])
    source = TreeSource(draw_tokens, y, split, 4, 2, TreeShape.of([2]))
    trees = source.trees(rng(7))
    assert asked == [([0, 1, 2], 7)] and len(source) == len(trees) == 3
    assert trees.tokens.tolist() == [[0, 1, 4], [1, 2, 4], [2, 3, 4]]
    assert torch.equal(trees.y, y) and torch.equal(trees.split, split)
    assert (trees.num_tokens, trees.num_classes, trees.shape) == (4, 2, TreeShape.of([2]))
    trees.validate()


@pytest.mark.parametrize('form', ['histograms', 'dp_sgd'])
@pytest.mark.parametrize('fan_outs', [(3, 2), (2, 2, 2)])
def test_drawn_trees_obey_the_null_rule_and_look_like_those_counted(form, fan_outs):
    shape = TreeShape.of(fan_outs)
    y = torch.arange(800) % NUM_CLASSES
    tokens = draw_trees(800, shape)
    # Trees of label 0 have low tokens, those of label 1 high ones.
    real = tokens < NUM_TOKENS
    tokens[real] = (tokens % 2 + 2 * y[:, None])[real]
    model, entries = make(form, 800, shape)
    with pytest.raises(ValueError, match='call fit'):
        model.sample(y)
    learn(model, tokens, y, entries, rng())
    drawn = model.sample(y, rng(1))
    assert shape.check_nulls(drawn < NUM_TOKENS) and (drawn[:, 0] < NUM_TOKENS).all()
    of_label = [(drawn[y == c] // 2)[drawn[y == c] < NUM_TOKENS] == c for c in (0, 1)]
    assert min(float(x.double().mean()) for x in of_label) > 0.8
    share = [float((t < NUM_TOKENS).double().mean()) for t in (tokens, drawn)]
    assert abs(share[0] - share[1]) < 0.05


@pytest.mark.parametrize('form', PRIVATE_MODELS)
def test_noise_that_was_not_paid_for_is_refused(form):
    shape = TreeShape.of((3, 2))
    tokens, y = draw_trees(800, shape), torch.arange(800) % NUM_CLASSES
    model, entries = make(form, 800, shape)
    with pytest.raises(ValueError, match="no entry 'root tokens per label'"):
        learn(model, tokens, y, entries[1:], rng())
    other = replace(entries[0], noise=DiscreteGaussian(1.0))
    with pytest.raises(ValueError, match='another mechanism than the one that runs'):
        learn(model, tokens, y, [other, *entries[1:]], rng())
    twice = replace(entries[0], count=2)
    with pytest.raises(ValueError, match='another mechanism than the one that runs'):
        learn(model, tokens, y, [twice, *entries[1:]], rng())
    assert model.entries()[0].noise == Gaussian(1.0)
    learn(model, tokens, y, entries, rng())
    assert model.entries() == entries  # the noise that was added


@pytest.mark.parametrize('form', PRIVATE_MODELS)
def test_every_query_of_a_model_is_in_its_entries(form):
    shape = TreeShape.of((3, 2))
    tokens, y = draw_trees(200, shape), torch.arange(200) % NUM_CLASSES
    model, entries = make(form, 200, shape, epochs=1.0)
    queries = Queries(entries, rng())
    sizes = (model.num_tokens, model.num_classes, model.shape)
    graph = graph_of(tokens[:, 0], y)
    source = TreeSource(lambda index, _: tokens[index], y, 0 * y, *sizes, graph=graph)
    model.fit(source, FitContext(queries=queries))
    asked = [answer.name for answer in queries.answers]
    assert sorted(asked) == sorted(e.name for e in entries if type(e.noise) is Gaussian)
