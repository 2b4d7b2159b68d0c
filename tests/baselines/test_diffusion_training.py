"""The fit of a diffusion: seeds, limits, and the weights that are kept."""

import pytest
import torch

from tests.helpers.toy_trees import toy_source
from torch_geometric_cgt.baselines import TreeDiffusion
from torch_geometric_cgt.baselines.diffusion_training import DiffusionTraining
from torch_geometric_cgt.errors import NotFiniteError, OutOfTime
from torch_geometric_cgt.models import FitContext
from torch_geometric_cgt.utils.run_limits import Limits

SMALL = {'hidden_channels': 16, 'num_layers': 1, 'num_heads': 2}


def test_the_same_seed_gives_the_same_weights_and_samples():
    y = torch.arange(50) % 2
    drawn = []
    for seed in (0, 0, 1):
        model = TreeDiffusion(6, 2, [2, 2], epochs=1, **SMALL)
        history = model.fit(toy_source(100), FitContext(seed=seed))
        drawn.append((history, model.sample(y, torch.Generator().manual_seed(0))))
    assert drawn[0][0] == drawn[1][0] and torch.equal(drawn[0][1], drawn[1][1])
    assert drawn[0][0] != drawn[2][0]


def test_a_limit_of_time_ends_the_fit():
    model = TreeDiffusion(6, 2, [2, 2], **SMALL)
    with pytest.raises(OutOfTime, match=r'within 0\.01 seconds'):
        model.fit(toy_source(), FitContext(limits=Limits(seconds=0.01)))


def test_the_weights_with_the_best_held_out_bound_are_kept(monkeypatch):
    seen = []

    def scored(self):  # the second of three checks is the best one
        seen.append({name: value.clone() for name, value in self.model.state_dict().items()})
        return [2.0, 1.0, 3.0][len(seen) - 1]

    monkeypatch.setattr(DiffusionTraining, 'held_out_nll', scored)
    model = TreeDiffusion(6, 2, [2, 2], epochs=3, **SMALL)
    history = model.fit(toy_source(60))
    assert history['holdout_nll'] == [2.0, 1.0, 3.0] and history['best_epoch'] == 1
    kept = model.tokens.state_dict()
    assert all(torch.equal(value, seen[1][f'tokens.{name}']) for name, value in kept.items())
    assert any(not torch.equal(value, seen[2][f'tokens.{name}']) for name, value in kept.items())


def test_a_loss_that_is_not_finite_is_reported():
    model = TreeDiffusion(6, 2, [2, 2], epochs=5, lr=1e30, **SMALL)
    with pytest.raises(NotFiniteError, match='lower the learning rate'):
        model.fit(toy_source(60))


def test_the_fit_leaves_the_global_randomness_alone():
    torch.manual_seed(7)
    expected = torch.rand(3)
    model = TreeDiffusion(6, 2, [2, 2], epochs=1, **SMALL)
    torch.manual_seed(7)
    model.fit(toy_source(30))
    assert torch.equal(torch.rand(3), expected)
