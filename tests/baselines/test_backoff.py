"""Probabilities with back-off are those computed by hand, and samples approach them."""

from fractions import Fraction

import pytest
import torch

from torch_geometric_cgt.baselines.backoff import Backoff

# Context 0 is followed by 0, 0, 1 and context 1 by 2. There are four outcomes.
CONTEXT, OUTCOME = torch.tensor([0, 0, 0, 1]), torch.tensor([0, 0, 1, 2])
SHORT = [Fraction(2 * 4 + 3, 4 * 7), Fraction(1 * 4 + 3, 4 * 7), Fraction(7, 28), Fraction(3, 28)]


@pytest.fixture
def table():
    table = Backoff(4, 2)
    table.fit([CONTEXT, torch.zeros(4).long()], OUTCOME)
    return table


def probabilities(table, context):
    context = torch.full((4,), context)
    return table.prob([context, torch.zeros(4).long()], torch.arange(4))


def test_probabilities_are_those_of_witten_and_bell(table):
    assert sum(SHORT) == 1
    # After context 0: three observations of two distinct outcomes.
    wanted = [(count + 2 * p) / 5 for count, p in zip((2, 1, 0, 0), SHORT, strict=True)]
    found = probabilities(table, 0).tolist()
    assert found == pytest.approx([float(p) for p in wanted])
    assert sum(found) == pytest.approx(1)


def test_an_unseen_context_has_the_shorter_one(table):
    assert probabilities(table, 7).tolist() == pytest.approx([float(p) for p in SHORT])
    empty = Backoff(4, 2)
    assert probabilities(empty, 0).tolist() == [0.25] * 4


def test_leaving_out_counts_the_others_only(table):
    contexts = [CONTEXT, torch.zeros(4).long()]
    left_out = torch.tensor([True, True, True, False])
    found = table.prob(contexts, OUTCOME, left_out)
    assert float(found[3]) == pytest.approx(float(table.prob(contexts, OUTCOME)[3]))
    for i in range(3):
        others = torch.arange(4) != i
        rest = Backoff(4, 2)
        rest.fit([c[others] for c in contexts], OUTCOME[others])
        wanted = rest.prob([c[i : i + 1] for c in contexts], OUTCOME[i : i + 1])
        assert float(found[i]) == pytest.approx(float(wanted))


@pytest.mark.parametrize('context', [0, 1, 7])
def test_samples_have_these_probabilities(table, context):
    contexts = [torch.full((40_000,), context), torch.zeros(40_000).long()]
    drawn = table.sample(contexts, torch.Generator().manual_seed(0))
    share = torch.bincount(drawn, minlength=4).double() / 40_000
    assert (share - probabilities(table, context)).abs().max() < 0.01
