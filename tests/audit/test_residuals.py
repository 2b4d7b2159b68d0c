"""The noise of answers: right noise passes, and every planted bug is found."""

import pytest
import torch

from torch_geometric_cgt.audit import LedgerAnswer, audit_noise
from torch_geometric_cgt.audit.check import ABOVE, NOTHING, WITHIN
from torch_geometric_cgt.privacy.noise import discrete_gaussian

GRID = 2.0**-20  # in standard deviations
SIZES = {'labels': [28], 'median': [1, 1, 1, 1], 'sums': [10_000], 'roots': [900], 'one': [3]}


def noise(size, rng):
    return discrete_gaussian(size, 1 / GRID, rng).double() * GRID


def answers(rng, change=lambda name, z: z):
    """The answers of a build whose noise is changed by a bug."""
    found = []
    for place, (name, sizes) in enumerate(SIZES.items()):
        sigma = 0.5 + place
        for size in sizes:
            exact = torch.randint(50, (size,), generator=rng).double()
            z = change(name, noise(size, rng))
            found.append(LedgerAnswer(name, sigma, 1.0, exact, exact + sigma * z))
    return found


def check_with(change, seed=0):
    return audit_noise(answers(torch.Generator().manual_seed(seed), change)).check()


def test_right_noise_passes_each_time():
    verdicts = [check_with(lambda name, z: z, seed).verdict for seed in range(12)]
    assert set(verdicts) == {NOTHING}


def only(entry, change):
    return lambda name, z: change(z) if name == entry else z


@pytest.mark.parametrize(
    'entry, change, problem',
    [
        ('sums', lambda z: z / 1.05, 'too little noise'),
        ('sums', lambda z: z / 2, 'too little noise'),
        ('sums', lambda z: 0 * z, 'too little noise'),
        ('roots', lambda z: 0 * z, 'too little noise'),
        ('labels', lambda z: 0 * z, 'too little noise'),
        ('median', lambda z: 0 * z, 'too little noise'),  # four runs of one value
        ('one', lambda z: 0 * z, 'too little noise'),
        ('labels', lambda z: z / 4, 'too little noise'),
        ('sums', lambda z: z * (torch.arange(z.numel()) > 9), 'too little noise'),  # ten are exact
        ('sums', lambda z: z + 0.1, 'mean'),
        ('sums', lambda z: (torch.rand(z.numel()) - 0.5) * 12**0.5, 'not Gaussian'),
        ('sums', lambda z: z[:40].repeat(250), 'not independent'),  # the same in each row
        ('sums', lambda z: (z + z.roll(1)) / 2**0.5, 'not independent'),
    ],
)
def test_each_bug_is_found_and_named(entry, change, problem):
    check = check_with(only(entry, change))
    assert check.verdict == ABOVE and check.value < check.threshold
    assert f"'{entry}'" in check.says and problem in check.says


def test_a_twentieth_of_the_noise_is_beyond_doubt():
    found = audit_noise(
        answers(torch.Generator().manual_seed(0), only('sums', lambda z: z / 1.05))
    ).found
    assert found[0].entry == 'sums' and found[0].p_value < 1e-9
    assert found[0].scale == pytest.approx(1 / 1.05, abs=0.01)


@pytest.mark.parametrize('entry', ['sums', 'roots', 'labels'])
def test_too_much_noise_is_wasted_and_within_the_limit(entry):
    check = check_with(only(entry, lambda z: 2 * z))
    assert check.verdict == WITHIN and 'wastes budget' in check.says


def test_noise_that_is_used_twice_is_found():
    rng = torch.Generator().manual_seed(0)
    for sizes, shift in [((400, 400), 0), ((5, 5), 0), ((400, 700), 0), ((400, 300), 30)]:
        z = noise(1000, rng)
        parts = [z[: sizes[0]], z[shift : shift + sizes[1]]]
        found = [
            LedgerAnswer(name, sigma, 1.0, torch.zeros(part.numel()), sigma * part)
            for name, sigma, part in zip(('a', 'b'), (2.0, 7.0), parts, strict=True)
        ]
        check = audit_noise(found).check()
        assert check.verdict == ABOVE and "'a / b': the noise is not independent" in check.says
    same = [LedgerAnswer('a', 1.0, 1.0, torch.zeros(3), noise(3, rng))] * 2  # two runs
    assert audit_noise(same).check().verdict == ABOVE


def test_shapes_must_fit_and_there_must_be_answers():
    with pytest.raises(ValueError, match=r"'a' has \[2\] exact and \[3\] released"):
        audit_noise([LedgerAnswer('a', 1.0, 1.0, torch.zeros(2), torch.zeros(3))])
    with pytest.raises(ValueError, match='no answers'):
        audit_noise([])
