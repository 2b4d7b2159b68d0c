"""The risks of WP216, and guesses of attributes by Bayes' rule."""

from functools import cache

import pytest
import torch

from tests.helpers.attacked import records, trees
from tests.helpers.trees import random_trees
from torch_geometric_cgt.audit import Limit
from torch_geometric_cgt.audit.check import ABOVE, NOTHING
from torch_geometric_cgt.audit.risks import _matches, guess_cluster, guess_label, measure_risks
from torch_geometric_cgt.data import TreeShape

SHAPE = TreeShape((3, 2))
NAMES = ['singling out', 'linkability', 'inference of the label', 'inference of the features']


def random(num, seed):
    return random_trees(num, 12, SHAPE, torch.Generator().manual_seed(seed))


@cache
def measured(source):
    """200 members and 200 others; the release is a copy of the members, or of others still."""
    (inside, y), (outside, z) = random(200, 0), random(200, 1)
    known = records(torch.cat([inside, outside]), torch.cat([y, z]), 12, SHAPE)
    is_member = torch.arange(400) < 200
    shown, labels = (inside, y) if source == 'members' else random(200, 2)
    codebook = torch.randn(12, 6, generator=torch.Generator().manual_seed(3))
    found = measure_risks(trees(shown, labels, 12, SHAPE), codebook, known, is_member)
    return {risk.name: risk for risk in found}


def test_a_copy_of_the_members_has_all_risks():
    found = measured('members')
    assert list(found) == NAMES
    for name, least in zip(NAMES, (0.2, 0.3, 0.2, 0.2), strict=True):
        risk = found[name]
        assert risk.members.value > risk.others.value + least, name
        assert risk.risk.low > 0 and risk.baseline < risk.members.value
        gain = (risk.members.value - risk.others.value) / (1 - risk.others.value)
        assert risk.risk.value == pytest.approx(gain)
        assert risk.check(Limit(0.1, 0.0, 'here')).verdict == ABOVE


def test_another_release_has_none():
    for risk in measured('others').values():
        check = risk.check(Limit(0.0, 0.0, 'here'))
        assert check.verdict == NOTHING and check.low <= 0 <= check.high
        assert check.name == f'Risk of {risk.name}' and 'others' in check.says


def test_statements_are_counted_with_their_repeats():
    shown = trees(
        [[0, 1, 1, 3, 3], [0, 1, 2, 3, 3], [0, 1, 1, 3, 3], [1, 1, 1, 3, 3]], [0, 0, 1, 0]
    )
    needed = torch.zeros(3, 3, dtype=torch.int16)
    needed[1, 1], needed[2, 1], needed[2, 2] = 2, 1, 1
    label, root = torch.zeros(3).long(), torch.zeros(3).long()
    assert _matches(shown, label, root, needed).tolist() == [2, 1, 1]


def test_labels_are_guessed_from_trees():
    released = trees([[0, 1, 1, 1, 1]] * 5 + [[0, 2, 2, 2, 2]] * 5, [0] * 5 + [1] * 5)
    found = guess_label(released, records([[0, 1, 1, 1, 1], [0, 2, 2, 2, 2]], [1, 0]))
    assert found.tolist() == [0, 1]


def test_clusters_are_guessed_from_label_and_neighbours():
    released = trees(
        [[0, 1, 1, 1, 1]] * 5 + [[2, 2, 2, 2, 2]] * 5 + [[1, 1, 1, 1, 1]] * 5,
        [0] * 10 + [1] * 5,
    )
    known = records([[2, 1, 1, 1, 1], [0, 2, 2, 2, 2], [0, 1, 1, 1, 1]], [0, 0, 1])
    # what stands at the root does not matter, the label does
    assert guess_cluster(released, known).tolist() == [0, 2, 1]


def test_a_label_that_was_not_released_is_not_guessed():
    released = trees([[0, 1, 1, 1, 1]], [0])
    assert guess_cluster(released, records([[0, 1, 1, 1, 1]], [1])).tolist() == [-1]
