"""Steps of DP-SGD, computed again: right builds pass, and planted bugs are found."""

import copy

import pytest
import torch

from tests.helpers.graphs import random_graph
from tests.helpers.private import FROZEN, QUICK_DP_SGD, private_dataset
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.audit import run_audit
from torch_geometric_cgt.audit.check import ABOVE, NOTHING, UNCHECKED
from torch_geometric_cgt.audit.gradient_steps import adam_step, batch_tests, exact_step
from torch_geometric_cgt.pipeline import DifferentialPrivacy, plan
from torch_geometric_cgt.privacy import SampledGaussian
from torch_geometric_cgt.training import dp_sgd
from torch_geometric_cgt.training.dp_sgd import DPSGDConfig, PerTreeLogProb, clipped_sum
from torch_geometric_cgt.training.kept_steps import StepRecorder

pytestmark = pytest.mark.filterwarnings('ignore:Full backward hook')
NOISE, BATCHES = 'Noise of every answer', 'Batches of DP-SGD'
SENSITIVITY = 'Sensitivity of every answer'
CLIPPING, UPDATES = 'Clipping of every tree', 'Steps follow from noisy gradients'


def audited(folder, from_files=False):
    graph = random_graph(250, 700)
    how = {'form': 'dp_sgd', 'dp_sgd': QUICK_DP_SGD, **FROZEN}
    dataset = private_dataset(graph, folder, **how)
    if from_files:
        dataset = private_dataset(graph, folder, **how)
    return run_audit(dataset, graph, ('noise', 'sensitivity'), log=False)


def audited_for_edges(folder):
    graph = random_graph(250, 700)
    private = DifferentialPrivacy(
        30.0, unit='edge', form='dp_sgd', max_parents=1, dp_sgd=QUICK_DP_SGD
    )
    how = {'num_neighbors': [3], 'root': folder, 'log': False, 'device': 'cpu'}
    dataset = SyntheticCGTDataset(graph, privacy=private, **how)
    return run_audit(dataset, graph, ('noise', 'sensitivity'), num_neighbours=4, log=False)


def verdicts(audit):
    return {check.name: check.verdict for check in audit.checks}


def above(audit):
    return {check.name for check in audit.of(ABOVE)}


def test_a_right_build_of_frozen_records_passes(tmp_path):
    audit = audited(tmp_path, from_files=True)
    assert verdicts(audit) == {
        NOISE: NOTHING,
        BATCHES: NOTHING,
        SENSITIVITY: UNCHECKED,  # no real graph differs in one record
        CLIPPING: NOTHING,
        UPDATES: NOTHING,
    }
    (clipping,) = (check for check in audit.checks if check.name == CLIPPING)
    assert 0.99 < clipping.value < 1.001  # clipping has something to do, and it could fail
    assert any('exact sums' in test['test'] for test in audit.details['steps']['tests'])


@pytest.mark.slow
def test_every_entry_of_a_right_build_for_edges_is_checked(tmp_path):
    audit = audited_for_edges(tmp_path)
    assert set(verdicts(audit).values()) == {NOTHING}
    assert audit.exit_code() == 0
    changes = {c['entry']: c for c in audit.details['sensitivity']['changes']}
    trees = changes['gradients of whole trees']
    assert 0 < trees['change'] <= trees['bound'] == 4


@pytest.mark.slow
def test_changed_trees_that_are_not_paid_for_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(plan.PrivatePlan, 'changed_trees', 1)
    (check,) = audited_for_edges(tmp_path).of(ABOVE)
    assert check.name == SENSITIVITY and "'gradients of whole trees'" in check.says


@pytest.mark.parametrize('factor', [0.0, 0.9])
def test_too_little_noise_is_found(factor, tmp_path, monkeypatch):
    real = dp_sgd.make_optimizer
    monkeypatch.setattr(
        dp_sgd, 'make_optimizer', lambda adam, noise, *rest: real(adam, factor * noise, *rest)
    )
    audit = audited(tmp_path)
    assert above(audit) == {NOISE}
    assert "'gradients of whole trees': too little noise" in audit.of(ABOVE)[0].says


def test_gradients_that_are_not_clipped_are_found(tmp_path, monkeypatch):
    real = dp_sgd.clip_per_tree
    monkeypatch.setattr(dp_sgd, 'clip_per_tree', lambda log_prob, clip: real(log_prob, 1e9))
    audit = audited(tmp_path)
    assert above(audit) == {NOISE, CLIPPING}
    assert any('depends on the data' in check.says for check in audit.of(ABOVE))


def test_trees_that_count_twice_are_found(tmp_path, monkeypatch):
    real = dp_sgd.noisy_step

    def twice(model, optimizer, data, batch, size):
        return real(model, optimizer, data, torch.cat([batch, batch]), size)

    monkeypatch.setattr(dp_sgd, 'noisy_step', twice)
    assert CLIPPING in above(audited(tmp_path))


@pytest.mark.parametrize(
    'batches',
    [
        lambda size, chance, rng: torch.arange(round(size * chance)),
        lambda size, chance, rng: torch.randperm(size)[: round(size * chance)].sort().values,
        lambda size, chance, rng: (torch.rand(size) < 1.3 * chance).nonzero().view(-1),
    ],
    ids=['always the same', 'of a fixed size', 'too large'],
)
def test_batches_that_are_not_independent_draws_are_found(batches, tmp_path, monkeypatch):
    monkeypatch.setattr(dp_sgd, 'sample_batch', batches)
    assert above(audited(tmp_path)) == {BATCHES}


def test_weights_that_do_not_follow_from_what_is_kept_are_found(tmp_path, monkeypatch):
    """Noise is added to the record, and another gradient moves the weights."""
    real = StepRecorder.finish

    def finish(self, step):
        real(self, step)
        if (self.steps == step).any():
            self.parts['released'][-1] = torch.randn_like(self.parts['released'][-1])

    monkeypatch.setattr(StepRecorder, 'finish', finish)
    assert UPDATES in above(audited(tmp_path))


def test_a_build_without_kept_steps_is_not_checked(tmp_path):
    graph = random_graph(250, 700)
    dataset = private_dataset(graph, tmp_path, form='dp_sgd', dp_sgd=QUICK_DP_SGD, **FROZEN)
    dataset.steps = None  # as in a build of an older version
    audit = run_audit(dataset, graph, ('noise',), log=False)
    assert verdicts(audit) == {NOISE: NOTHING, 'Noise of gradients of whole trees': UNCHECKED}
    assert 'older version' in audit.of(UNCHECKED)[0].says


def generator_and_rows(size=70):
    torch.manual_seed(0)
    generator = DPSGDConfig(hidden_channels=16).make_generator(7, 3, [3, 2], 3)
    y, scene = torch.randint(3, (2, size))
    return generator, [generator.sample(y, None, scene), y, scene]


@pytest.mark.parametrize('clip', [0.5, 1e6])
def test_exact_steps_are_those_of_a_loop(clip):
    generator, rows = generator_and_rows()
    model, batch = PerTreeLogProb(copy.deepcopy(generator)), torch.arange(0, 70, 2)
    each = []
    for i in batch.tolist():
        model.zero_grad()
        (-model(*(value[i : i + 1] for value in rows))).sum().backward()
        each.append(torch.cat([weight.grad.flatten() for weight in model.parameters()]))
    each = torch.stack(each).double()
    norms = each.norm(dim=1)
    found = exact_step(generator, rows, batch, clip)
    assert torch.allclose(found.norms, norms, rtol=1e-4)
    # The parameters of the likelihood have another order than those of the generator.
    expected = (each * (clip / norms).clamp(max=1)[:, None]).sum(dim=0)
    assert float(found.clipped.norm()) == pytest.approx(float(expected.norm()), rel=1e-4)
    cut = each.sum(dim=0) - expected
    assert float(found.cut.norm()) == pytest.approx(float(cut.norm()), rel=1e-4, abs=1e-4)
    own = clipped_sum(generator, rows, batch, DPSGDConfig(hidden_channels=16, clip=clip))
    assert torch.allclose(found.clipped, own.double(), atol=1e-3)


def test_an_empty_batch_has_no_gradient():
    generator, rows = generator_and_rows(4)
    found = exact_step(generator, rows, torch.empty(0, dtype=torch.long), 1.0)
    assert not found.clipped.any() and not found.cut.any() and found.norms.numel() == 0


def test_adam_is_that_of_pytorch():
    weight = torch.nn.Parameter(torch.randn(50))
    adam = torch.optim.Adam([weight], lr=0.01)
    for step in range(4):
        before, state = weight.detach().clone(), adam.state.get(weight, {})
        zero = torch.zeros(50)
        moments = [state.get(name, zero).clone() for name in ('exp_avg', 'exp_avg_sq')]
        weight.grad = torch.randn(50)
        adam.step()
        expected = adam_step(before, torch.stack(moments), weight.grad, 0.01, step)
        assert torch.allclose(weight.detach().double(), expected, atol=1e-7)


@pytest.mark.parametrize('chance', [0.05, 0.5, 1.0])
def test_p_values_of_right_batches_are_spread(chance):
    rng = torch.Generator().manual_seed(0)
    noise = SampledGaussian(1.0, chance, 60)
    found = []
    for _ in range(200):
        drawn = torch.rand(60, 300, generator=rng) < chance
        found.append(list(batch_tests(drawn.sum(dim=1), drawn.sum(dim=0), noise).values()))
    values = torch.tensor(found)
    assert values.min() > 1e-5  # 600 tests
    assert chance == 1 or ((0.4 < values.mean(dim=0)).all() and (values.mean(dim=0) < 0.65).all())


def test_more_steps_than_the_ledger_pays_for_are_found():
    drawn = torch.rand(61, 300, generator=torch.Generator().manual_seed(0)) < 0.2
    found = batch_tests(drawn.sum(dim=1), drawn.sum(dim=0), SampledGaussian(1.0, 0.2, 60))
    assert found == {'61 steps instead of 60': 0.0}
