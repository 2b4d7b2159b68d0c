"""Private models of trees: what they learn, and noise that was not paid for."""

import pytest
import torch

from tests.helpers.private_models import NUM_CLASSES, NUM_TOKENS, draw_trees, learn, make, rng
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.privacy import DiscreteGaussian, Entry


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


@pytest.mark.parametrize('form', ['histograms', 'dp_sgd'])
def test_noise_that_was_not_paid_for_is_refused(form):
    shape = TreeShape.of((3, 2))
    tokens, y = draw_trees(800, shape), torch.arange(800) % NUM_CLASSES
    model, entries = make(form, 800, shape)
    with pytest.raises(ValueError, match="no entry 'root tokens per label'"):
        learn(model, tokens, y, entries[1:], rng())
    dearer = Entry('sequence model', entries[0].name, 'record', 2.0, DiscreteGaussian(1.0))
    with pytest.raises(ValueError, match='another mechanism than the one that runs'):
        learn(model, tokens, y, [dearer, *entries[1:]], rng())
    assert model.entries()[0].noise == DiscreteGaussian(1.0)
