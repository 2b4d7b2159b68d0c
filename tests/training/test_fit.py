import functools
import sys

import pytest
import torch

from tests.helpers.terminals import terminal
from torch_geometric_cgt import CGTGenerator, FitConfig
from torch_geometric_cgt.errors import CGTError
from torch_geometric_cgt.nn import linear_map
from torch_geometric_cgt.training import World, evaluate, fit, sample
from torch_geometric_cgt.training.fit import StepMonitor, warmup_cosine
from torch_geometric_cgt.utils.seeds import seeded


def model(seed=0, **kwargs) -> CGTGenerator:
    torch.manual_seed(seed)
    size = {'hidden_channels': 16, 'num_layers': 1, 'num_heads': 2, 'dropout': 0.0}
    return CGTGenerator(4, 2, [2, 2], **size, **kwargs)


def draw(index, rng):
    """Trees of label y start at token y; children repeat their parent's token."""
    return (index % 2)[:, None].expand(-1, 7).contiguous()


Y = torch.arange(100) % 2


# The histograms that typed siblings start from know all of this rule: there is little to learn.
@pytest.mark.parametrize('siblings, start', [('independent', 1.0), ('typed', 0.0)])
def test_fit_learns_a_deterministic_rule(siblings, start):
    generator = model(siblings=siblings)
    result = fit(generator, draw, Y, FitConfig(epochs=40, batch_size=16, lr=0.01), log=False)
    assert result.holdout_nll[-1] < 0.05
    assert result.holdout_nll[-1] < 0.5 * result.train_nll[0] > 0.5 * start
    tokens = sample(generator, torch.tensor([0, 1] * 50), log=False)
    assert tokens.dtype == torch.int32
    assert (tokens == torch.tensor([0, 1] * 50)[:, None]).float().mean() > 0.95


def test_trees_are_drawn_anew_each_epoch():
    calls = []

    def counted(index, rng):
        calls.append(index)
        return draw(index, rng)

    fit(model(), counted, Y, FitConfig(epochs=3, batch_size=50), log=False)
    assert [len(call) for call in calls] == [
        10,
        90,
        *[50, 40] * 3,
    ]  # held out, histograms, each step
    first, second = (torch.cat(calls[i : i + 2]).tolist() for i in (2, 4))
    assert sorted(first) == sorted(second) and first != second
    assert not set(calls[0].tolist()) & set(first)


def test_stops_early_and_keeps_the_best_weights():
    rng = torch.Generator().manual_seed(0)
    noise = torch.randint(4, (100, 7), generator=rng)

    def memorise(index, _):
        return noise[index]

    torch.manual_seed(0)
    generator = CGTGenerator(4, 2, [2, 2], hidden_channels=64, num_heads=2, dropout=0.0)
    config = FitConfig(epochs=200, batch_size=16, lr=5e-3, patience=3)
    result = fit(generator, memorise, Y, config, log=False)
    assert len(result.holdout_nll) == result.best_epoch + 1 + config.patience < 200
    assert min(result.holdout_nll) == result.holdout_nll[result.best_epoch]
    held = torch.randperm(100, generator=seeded(0, 'holdout'))[:10]
    assert evaluate(generator, noise[held], Y[held]) == pytest.approx(min(result.holdout_nll))


def test_same_seed_same_weights_whatever_the_global_state():
    weights = []
    for state in [1, 2]:
        generator = model()
        torch.manual_seed(state)
        before = torch.get_rng_state()
        fit(generator, draw, Y, FitConfig(epochs=2, batch_size=16), seed=5, log=False)
        assert torch.equal(torch.get_rng_state(), before)
        weights.append(torch.cat([p.flatten() for p in generator.parameters()]))
    assert torch.equal(*weights)


def test_workers_do_not_change_the_weights():
    alone, shared = trained(num_workers=0), trained(num_workers=2)
    for name, value in alone.state_dict().items():
        assert torch.equal(shared.state_dict()[name], value), name
    with pytest.raises(ValueError, match='num_workers'):
        FitConfig(num_workers=-1)
    assert 'num_workers' not in FitConfig(num_workers=3).to_dict()


def test_not_finite_loss_is_reported():
    generator = model()
    torch.nn.init.constant_(generator.head.hidden.bias, float('nan'))
    with pytest.raises(CGTError, match=r'step 1 of 2 .learning rate 0.003.* no checkpoint'):
        fit(generator, draw, Y, FitConfig(epochs=2), log=False)


def test_no_holdout():
    result = fit(model(), draw, Y, FitConfig(epochs=2, holdout=0.0), log=False)
    assert result.holdout_nll == [] and len(result.train_nll) == 2


def test_learning_rate_rises_then_falls():
    rates = [warmup_cosine(step, 100, 0.1) for step in range(100)]
    assert rates[:10] == pytest.approx([0.1 * i for i in range(1, 11)])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[10] == 1.0 and rates[-1] < 0.01


def trained(**changes) -> CGTGenerator:
    generator = model()
    config = FitConfig(**{'epochs': 3, 'batch_size': 16, 'lr': 0.01, **changes})
    fit(generator, draw, Y, config, log=False)
    return generator


def test_bfloat16_trains_float32_weights():
    generator, dtypes = model(), []
    generator.streams.blocks[0].query.register_forward_hook(lambda *io: dtypes.append(io[2].dtype))
    config = FitConfig(epochs=40, batch_size=16, lr=0.01, precision='bfloat16')
    result = fit(generator, draw, Y, config, log=False)
    assert set(dtypes) == {torch.bfloat16, torch.float32}  # trained, and evaluated
    assert {p.dtype for p in generator.parameters()} == {torch.float32}
    assert min(result.holdout_nll) < 0.1


def test_compiled_model_leaves_plain_names(monkeypatch):
    # Compiled products are not oneDNN's. AdamW turns the rounding of gradients that are zero, such
    # as those of the biases of keys, into steps of full length.
    monkeypatch.setattr(linear_map, 'MIN_ROWS', sys.maxsize)
    monkeypatch.setattr(torch, 'compile', functools.partial(torch.compile, backend='eager'))
    compiled, plain = trained(compile=True).state_dict(), trained().state_dict()
    assert list(compiled) == list(plain)
    assert all(torch.allclose(compiled[name], plain[name], atol=1e-4) for name in plain)


@pytest.mark.slow
def test_compiled_by_the_default_backend(monkeypatch):
    monkeypatch.setattr(linear_map, 'MIN_ROWS', sys.maxsize)
    compiled, plain = trained(compile=True).state_dict(), trained().state_dict()
    assert all(torch.allclose(compiled[name], plain[name], atol=1e-3) for name in plain)


def test_live_line():
    with terminal() as drawn:
        fit(model(), draw, Y, FitConfig(epochs=2, batch_size=16))
        shown = drawn()
    assert all(name in shown for name in ['fit', '12/12', 'nll=', 'holdout=', 'lr='])


def test_gradients_are_those_of_the_mean_over_tokens_of_the_batch():
    """Micro-batches with unequal numbers of tokens, and a last batch that is short."""

    def uneven(index, rng):
        tokens = draw(index, rng)
        tokens[index % 4 == 0, 1:] = 4
        return tokens

    weights = []
    for accumulate in [1, 3]:
        generator = model()
        config = FitConfig(epochs=3, batch_size=25, accumulate=accumulate)
        fit(generator, uneven, Y, config, log=False)
        weights.append(torch.cat([p.detach().flatten() for p in generator.parameters()]))
    assert (weights[0] - weights[1]).norm() / weights[0].norm() < 1e-5


def test_a_late_read_finds_the_first_bad_step():
    monitor = StepMonitor(FitConfig(), World(), torch.device('meta'))
    assert monitor.every > 1
    bad = float('nan')
    monitor.pending += [torch.tensor(pair) for pair in [[1.0, 1.0], [2.0, bad], [bad, 1.0]]]
    assert monitor.read()[1] == 2  # the step before the last
    monitor.pending.append(torch.tensor([3.0, 1.0]))
    assert monitor.read() == (3.0, None) and not monitor.checkpoint_is_due()
