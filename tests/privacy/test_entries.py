import pytest

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.pipeline import DifferentialPrivacy
from torch_geometric_cgt.pipeline.plan import PrivatePlan, PublicNumbers
from torch_geometric_cgt.privacy import Entry, Gaussian, SampledGaussian
from torch_geometric_cgt.privacy.accounting import epsilon_of
from torch_geometric_cgt.privacy.entries import (
    INTERVAL,
    MIXTURE_INTERVAL,
    MOST_LOSSES,
    Loss,
    loss_interval,
    mixture_losses,
)
from torch_geometric_cgt.privacy.ledger import RELATIONS
from torch_geometric_cgt.privacy.stated_ledger import read_ledger
from torch_geometric_cgt.training.dp_sgd import DPSGDConfig


def test_the_grid_is_fine_for_small_losses():
    assert loss_interval([Loss(Gaussian(10.0), 1.0)], 1e-5) == INTERVAL
    group = Loss(SampledGaussian(100.0, 0.01, 5), 1.0, group=3)
    assert loss_interval([group], 1e-5) == MIXTURE_INTERVAL


@pytest.mark.parametrize('width, group', [(3.1, 10), (2.0, 91), (40.0, 1000)])
def test_a_step_of_a_group_has_a_bounded_number_of_losses(width, group):
    noise = SampledGaussian(width, 0.24, 21)
    interval = loss_interval([Loss(noise, 1.0, group)], 1e-5)
    assert mixture_losses(noise, group, interval) <= MOST_LOSSES * (1 + 1e-9)
    assert mixture_losses(noise, 1, interval) == 0


def test_a_coarser_grid_does_not_underestimate(monkeypatch):
    loss = [Loss(SampledGaussian(3.0, 0.2, 3), 1.0, group=5)]
    fine = epsilon_of(loss, 1e-3)[0]
    monkeypatch.setattr('torch_geometric_cgt.privacy.entries.MOST_LOSSES', 50.0)
    assert fine <= epsilon_of(loss, 1e-3)[0] < 1.5 * fine


def test_a_ledger_with_little_noise_for_a_group_is_within_the_limits():
    noise = SampledGaussian(3.1255, 0.24, 21)  # of epsilon = 60 per edge, 250 nodes
    entry = Entry('sequence model', 'gradients', {'edge': 10.0}, noise)
    total = {'unit': 'edge', 'epsilon': 60.0, 'delta': 0.0023, 'accountant': 'pld'}
    content = {
        'stages': ['sequence model'],
        'sample': None,
        'entries': [entry.to_dict()],
        'totals': [{**total, 'relation': relation} for relation in RELATIONS],
    }
    assert read_ledger(content, verify=False).entries == [entry]


@pytest.mark.slow
def test_a_ledger_with_a_large_budget_for_few_nodes_can_be_read():
    numbers = PublicNumbers(250, 250, 3, TreeShape.of([5, 5]))
    promise = DifferentialPrivacy(
        60.0, unit='edge', form='dp_sgd', dp_sgd=DPSGDConfig(epochs=5.0, batch_size=60)
    )
    plan = PrivatePlan(numbers, promise)
    ledger = plan.ledger()
    stated = ledger.to_dict(plan.budget.delta, ['edge'])
    assert read_ledger(stated, plan.budget).entries == ledger.entries
