"""Shadow builds: likelihood ratios by hand, and records that a mechanism memorises."""

import math

import pytest
import torch

from tests.helpers.attacked import CONFIG, ignore, memorise, source
from torch_geometric_cgt.audit.estimates import area
from torch_geometric_cgt.audit.member_split import random_members, split_members
from torch_geometric_cgt.audit.shadows import likelihood_ratio, record_scores, shadow_score


def test_likelihood_ratio_by_hand():
    nan = math.nan
    inside = torch.tensor([[1.0, nan], [3.0, nan], [nan, 2.0], [nan, 4.0]], dtype=torch.double)
    outside = torch.tensor([[nan, 0.0], [nan, 2.0], [-1.0, nan], [1.0, nan]], dtype=torch.double)
    # The means are 2 and 3 inside, 0 and 1 outside; all four deviations are sqrt(2).
    found = likelihood_ratio(torch.tensor([2.0, 1.0], dtype=torch.double), inside, outside)
    assert found.tolist() == pytest.approx([1.0, -1.0])


def test_one_shadow_of_each_kind_is_enough():
    nan = math.nan
    found = likelihood_ratio(
        torch.tensor([1.0, 0.0]),
        torch.tensor([[1.0, nan], [nan, 1.0]]),
        torch.tensor([[nan, 0.0], [0.0, nan]]),
    )
    assert found.tolist() == pytest.approx([0.5, -0.5])


def attacked(mechanism, unit):
    people = source(300)
    members = random_members(people, unit, 7)
    split = split_members(people, members, unit)
    built = mechanism(split.members, CONFIG)
    target = record_scores(split, built, people.root, 0)
    score = shadow_score(people, CONFIG, mechanism, unit, people.root, target, 4)
    return area(score[members], score[~members])


@pytest.mark.parametrize('unit', ['node', 'frozen_record'])
def test_memorised_records_are_told_from_others(unit):
    assert attacked(memorise, unit).low > 0.6
    blind = attacked(ignore, unit)
    assert blind.low < 0.5 < blind.high
