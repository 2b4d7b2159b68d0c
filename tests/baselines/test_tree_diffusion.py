"""Diffusion over token trees: an exact toy, training, conditioning, and the null rule."""

import pytest
import torch

from tests.helpers.enumerated import all_trees, exact_log_prob
from tests.helpers.graphs import random_graph
from tests.helpers.toy_trees import toy_source
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.baselines import BASELINES, TreeDiffusion
from torch_geometric_cgt.models import FitContext
from torch_geometric_cgt.pipeline import BuildConfig, KAnonymity

SMALL = {'hidden_channels': 16, 'num_layers': 1, 'num_heads': 2}


def strong_model(num_neighbors=(2, 1), num_tokens=2, steps=None, **options) -> TreeDiffusion:
    """A model with large random weights, so that slots depend on each other."""
    torch.manual_seed(0)
    model = TreeDiffusion(num_tokens, 2, num_neighbors, steps=steps, **{**SMALL, **options}).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    model.is_fitted.fill_(True)
    return model


@pytest.fixture(scope='module')
def fitted():
    model = TreeDiffusion(6, 2, [2, 2], epochs=12, batch_size=32, lr=1e-2, **SMALL)
    return model, model.fit(toy_source(), FitContext(seed=1))


@pytest.fixture(scope='module')
def enumerated():
    """All trees with label 1, their log-likelihood and the mean over orders."""
    model, trees = strong_model(), all_trees(2, [2, 1])
    y = torch.ones(trees.size(0), dtype=torch.long)
    return model, trees, y, *exact_log_prob(model, trees, y)


def test_all_trees_of_the_toy_have_a_total_probability_of_one(enumerated):
    _, trees, _, exact, _ = enumerated
    assert trees.size(0) == 86
    assert float(exact.double().exp().sum()) == pytest.approx(1.0, abs=1e-5)


def test_the_bound_is_a_bound(enumerated):
    model, trees, y, exact, mean = enumerated
    bound = model.log_prob_bound(trees, y).detach()
    assert bool((bound <= exact + 1e-5).all())
    torch.testing.assert_close(bound, mean, atol=1e-4, rtol=1e-4)
    assert float(bound.exp().sum()) < 1.0
    assert float((exact - bound).mean()) > 0.02  # the bound is no equality


def test_samples_are_as_frequent_as_the_exact_probabilities_say(enumerated):
    model, trees, _, exact, _ = enumerated
    y = torch.ones(20_000, dtype=torch.long)
    drawn = model.sample(y, torch.Generator().manual_seed(0))
    place = (drawn[:, None] == trees).all(dim=2)
    assert bool(place.any(dim=1).all())
    share, chance = place.double().mean(dim=0), exact.double().exp()
    error = (share - chance) / (chance * (1 - chance) / y.numel()).sqrt()
    assert float(error.square().mean()) < 1.5  # 1 in the mean
    # Other labels have other trees.
    other = model.sample(torch.zeros_like(y), torch.Generator().manual_seed(0))
    other = (other[:, None] == trees).all(dim=2).double().mean(dim=0)
    assert float((other - chance).abs().sum()) > 0.2


def test_training_raises_the_bound_and_samples_resemble_the_source(fitted):
    model, history = fitted
    assert history['train_nll'][-1] < 0.75 * history['train_nll'][0]
    assert min(history['holdout_nll']) < 0.8 * history['holdout_nll'][0]
    y = torch.arange(1000) % 2
    tokens = model.sample(y, torch.Generator().manual_seed(0))
    own = (tokens[:, 1:3] == y[:, None]).sum(dim=1)
    assert float((own == 1).float().mean()) > 0.9  # one child has the token of the label
    grand = tokens[:, 3:]
    assert float((grand < 6).sum(dim=1).float().mean()) == pytest.approx(2.0, abs=0.2)
    repeats = (grand == tokens[:, :1])[grand < 6]
    assert float(repeats.float().mean()) > 0.9
    roots = torch.bincount(tokens[:, 0], minlength=6) / 1000
    torch.testing.assert_close(roots[:3], torch.full((3,), 1 / 3), atol=0.15, rtol=0)


def test_labels_change_the_bound_of_a_tree(fitted):
    model, _ = fitted
    source = toy_source()
    tokens = source.draw(torch.arange(100), torch.Generator().manual_seed(3))
    y = source.y[:100]
    own, other = (model.log_prob_bound(tokens, label).detach().mean() for label in (y, 1 - y))
    assert float(own) > float(other) + 1.0


def test_the_bound_does_not_depend_on_the_order_of_siblings():
    model = strong_model((2, 2), 3)
    tokens = torch.tensor([[0, 1, 2, 3, 1, 0, 2], [2, 0, 0, 3, 3, 1, 3]])
    turned = tokens[:, [0, 2, 1, 6, 5, 3, 4]]
    y = torch.tensor([0, 1])
    own = exact_log_prob(model, tokens, y)
    other = exact_log_prob(model, turned, y)
    torch.testing.assert_close(own, other, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(model.log_prob_bound(tokens[1:], y[1:]).detach(), own[1][1:])


@pytest.mark.parametrize('steps', [None, 1, 3])
@pytest.mark.parametrize('num_neighbors', [[3], [2, 3], [1, 2, 2]])
def test_roots_are_real_and_nothing_is_below_null(num_neighbors, steps):
    model = strong_model(num_neighbors, 4, steps)
    tokens = model.sample(torch.arange(200) % 2, torch.Generator().manual_seed(0))
    assert tokens.shape == (200, model.shape.num_slots)
    assert 0 <= int(tokens.min()) and int(tokens.max()) == 4
    assert model.shape.check_nulls(tokens != 4)


def test_sampling_in_blocks_covers_all_trees(monkeypatch):
    model = strong_model((2, 2), 3)
    monkeypatch.setattr('torch_geometric_cgt.baselines.tree_diffusion.MAX_PAIRS', 7 * 49)
    assert model.block == 7
    assert model.sample(torch.zeros(20, dtype=torch.long)).shape == (20, 7)
    assert model.sample(torch.zeros(0, dtype=torch.long)).shape == (0, 7)
    assert model.log_prob_bound(torch.zeros(20, 7), torch.zeros(20)).shape == (20,)


def test_large_vocabularies_and_trees_are_computed_in_small_blocks():
    with torch.device('meta'):
        assert TreeDiffusion(100_000, 2, [5, 5]).block == 10
        assert TreeDiffusion(100, 2, [20, 20]).block == 11


def test_scenes_of_the_source_are_learned_and_drawn():
    source = toy_source(240, with_scene=True)
    model = BASELINES['Diffusion'](6, 2, [2, 2], epochs=8, batch_size=32, lr=1e-2, **SMALL)
    model.fit(source)
    assert model.num_scenes == 3
    y = torch.arange(300) % 2
    scene = y * (1 + torch.arange(300) // 2 % 2)
    tokens = model.sample(y, torch.Generator().manual_seed(0), scene)
    assert float((tokens[:, 0] == scene).float().mean()) > 0.9
    drawn = model.sample(y, torch.Generator().manual_seed(0))[:, 0]  # the root is the scene
    assert float((drawn[y == 0] == 0).float().mean()) > 0.9
    assert int(torch.bincount(drawn[y == 1], minlength=6)[1:3].min()) > 50
    with pytest.raises(ValueError, match="'scene' must hold one scene per tree"):
        model.log_prob_bound(tokens, y)
    with pytest.raises(ValueError, match=r"'scene' must lie in \[0, 2\]"):
        model.sample(y, scene=scene + 1)


def test_state_and_config_restore_the_model(fitted):
    model, _ = fitted
    again = type(model)(**model.config())
    again.load_state_dict(model.state_dict())
    y = torch.arange(40) % 2
    drawn = [m.sample(y, torch.Generator().manual_seed(5)) for m in (model, again)]
    assert torch.equal(*drawn)
    assert again.config() == model.config()
    source = toy_source(60, with_scene=True)
    scenes = TreeDiffusion(6, 2, [2, 2], epochs=1, **SMALL)
    scenes.fit(source)
    for config in (scenes.config(), model.config()):  # also without the number of scenes
        again = TreeDiffusion(**config)
        again.load_state_dict(scenes.state_dict())
        drawn = [m.sample(y, torch.Generator().manual_seed(5)) for m in (scenes, again)]
        assert torch.equal(*drawn) and again.num_scenes == 3


@pytest.mark.filterwarnings('ignore')
def test_a_build_is_conditioned_on_scenes_and_found_again(tmp_path):
    options = {'privacy': KAnonymity(10, task_weight=0), 'num_neighbors': [2, 2], 'log': False}
    generator = {'model': 'Diffusion', 'epochs': 1, **SMALL}
    y, drawn = torch.arange(20) % 3, []
    for _ in range(2):
        dataset = SyntheticCGTDataset(
            random_graph(), root=tmp_path, num_scenes=4, generator=generator, **options
        )
        assert dataset.model.num_scenes == 4
        drawn.append(dataset.model.sample(y, torch.Generator().manual_seed(0)))
    assert torch.equal(*drawn)
    with pytest.raises(ValueError, match='is for CGT and Diffusion'):
        BuildConfig(num_scenes=4, generator={'model': 'NGram'})


def test_arguments_can_be_checked_without_memory():
    with torch.device('meta'):
        assert TreeDiffusion(10**6, 10**6, [5, 5]).tokens.bias.is_meta


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'steps': 0}, "'steps' must be at least 1"),
        ({'hidden_channels': 10, 'num_heads': 4}, 'divisible'),
        ({'dropout': 1.0}, "'dropout' must lie in"),
        ({'num_scenes': -1}, "'num_scenes' must not be negative"),
        ({'lr': 0.0}, "'lr' must be positive"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        TreeDiffusion(6, 2, [2, 2], **options)


def test_a_model_must_be_fitted_first():
    model = TreeDiffusion(6, 2, [2, 2], **SMALL)
    with pytest.raises(ValueError, match='not fitted'):
        model.sample(torch.tensor([0]))
    with pytest.raises(ValueError, match='not fitted'):
        model.log_prob_bound(torch.zeros(1, 7), torch.tensor([0]))


def test_trees_that_break_the_null_rule_and_sources_without_scenes_are_refused():
    model = strong_model((1, 1), 3)
    with pytest.raises(ValueError, match='below a null slot'):
        model.log_prob_bound(torch.tensor([[0, 3, 1]]), torch.tensor([0]))
    with pytest.raises(ValueError, match='expects 2 scenes'):
        TreeDiffusion(6, 2, [2, 2], num_scenes=2, **SMALL).fit(toy_source())
