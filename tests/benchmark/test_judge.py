import numpy as np
import pytest

from torch_geometric_cgt.benchmark.judge import (
    Resolution,
    correlations,
    judge,
    regret,
    resolution_of,
)
from torch_geometric_cgt.benchmark.metrics import agreement

# Three models and a floor, two seeds each.
SCORES = {
    'original': {'A': [0.80, 0.90], 'B': [0.70, 0.80], 'C': [0.50, 0.60], 'F': [0.1, 0.1]},
    'ceiling': {'A': [0.81, 0.91], 'B': [0.70, 0.80], 'C': [0.49, 0.59], 'F': [0.9, 0.9]},
    'generated': {'A': [0.70, 0.80], 'B': [0.80, 0.84], 'C': [0.50, 0.60], 'F': [0.9, 0.9]},
}


def test_regret_by_hand():
    assert regret([0.9, 0.8, 0.7], [0.1, 0.3, 0.2]) == pytest.approx(0.1)
    assert regret([0.9, 0.8, 0.7], [0.3, 0.2, 0.1]) == 0
    assert regret([0.9, 0.8, 0.7], [0.3, 0.3, 0.1]) == pytest.approx(0.05)  # the mean of two
    assert regret([0.9, 0.9, 0.7], [0.1, 0.2, 0.1]) == 0  # both are best


def test_measures_by_hand():
    resolution, found = judge(SCORES, ['ceiling', 'generated'], ['F'])
    assert resolution.is_resolved
    ceiling, generated = found['ceiling'], found['generated']
    # Means: original 0.85, 0.75, 0.55; ceiling 0.86, 0.75, 0.54; generated 0.75, 0.82, 0.55.
    assert ceiling.mse == pytest.approx((0.01**2 + 0.01**2) / 3)
    assert generated.mse == pytest.approx((0.1**2 + 0.07**2) / 3)
    assert ceiling.multiple == 1
    assert generated.multiple == pytest.approx((0.1**2 + 0.07**2) / (2 * 0.01**2))
    assert generated.bias == pytest.approx((-0.1 + 0.07) / 3)
    assert (ceiling.top1, ceiling.regret) == (1, 0)
    assert (generated.top1, generated.regret) == (0, pytest.approx(0.1))
    assert generated.correlations['spearman'].value == pytest.approx(0.5)
    assert generated.correlations['kendall'].value == pytest.approx(1 / 3)
    # The floor is best on the ceiling, but does not count.
    assert judge(SCORES, ['ceiling'])[1]['ceiling'].top1 == 0


def test_without_a_ceiling_there_are_no_multiples():
    scores = {name: column for name, column in SCORES.items() if name != 'ceiling'}
    _, found = judge(scores, ['generated'])
    assert found['generated'].multiple is None
    assert judge({'original': {}, 'generated': {}}, ['generated']) == (None, {})


def test_noise_by_hand():
    models = ['A', 'B', 'C']
    found = resolution_of(SCORES, models)
    # Differences to the ceiling are -0.01, 0, 0.01 for each seed: variance 0.0001 between models,
    # half of it in one run, and half of that in the mean of two.
    assert found.noise == pytest.approx((0.0001 / 4) ** 0.5)
    observed = np.var([0.85, 0.75, 0.55], ddof=1)
    assert found.spread == pytest.approx((observed - 0.0001 / 4) ** 0.5)
    shifted = {model: [v + 0.2 for v in runs] for model, runs in SCORES['ceiling'].items()}
    same = resolution_of({**SCORES, 'ceiling': shifted}, models)  # another split moves all alike
    assert same.noise == pytest.approx(found.noise)
    # Without a ceiling, seeds are compared: here they move all models alike.
    assert resolution_of({'original': SCORES['original']}, models).noise == pytest.approx(0)
    one = {model: runs[:1] for model, runs in SCORES['original'].items()}
    assert resolution_of({'original': one}, models) is None


@pytest.mark.parametrize('with_ceiling', [False, True])
def test_noise_is_estimated_without_bias(with_ceiling):
    rng = np.random.default_rng(0)
    scores = {'original': {}, 'ceiling': {}}
    for model in range(400):
        for column in scores.values():
            column[str(model)] = 0.5 + 0.03 * rng.standard_normal(3)
    if not with_ceiling:
        del scores['ceiling']
    found = resolution_of(scores, list(scores['original']))
    assert found.noise == pytest.approx(0.03 / 3**0.5, rel=0.1)
    assert not found.is_resolved  # all models are equally good


def test_no_correlation_below_the_noise():
    rng = np.random.default_rng(0)
    equal = {
        column: {str(m): list(0.5 + 0.01 * rng.standard_normal(3)) for m in range(18)}
        for column in ('original', 'ceiling', 'generated')
    }
    resolution, found = judge(equal, ['ceiling', 'generated'])
    assert not resolution.is_resolved and found['generated'].correlations == {}
    assert found['generated'].regret > 0  # other measures stay
    apart = {
        column: {m: [v + 0.02 * int(m) for v in runs] for m, runs in rows.items()}
        for column, rows in equal.items()
    }
    resolution, found = judge(apart, ['ceiling', 'generated'])
    assert resolution.is_resolved and found['generated'].correlations['spearman'].value > 0.9
    assert Resolution(0.001, 0.002).text().startswith('models differ by 0.0010, below')


def test_two_models_have_no_correlation():
    two = {c: {m: rows[m] for m in 'AB'} for c, rows in SCORES.items()}
    assert judge(two, ['ceiling'])[1]['ceiling'].correlations == {}


def test_correlations_are_those_of_scipy():
    rng = np.random.default_rng(0)
    x, y = rng.integers(6, size=(2, 15)) / 10  # many ties
    found = correlations(x[:, None], y[:, None], resamples=1)
    for name, value in agreement(list(x), list(y)).items():
        if name in found:
            assert found[name].value == pytest.approx(value)


def test_intervals():
    rng = np.random.default_rng(0)
    truth = rng.random((12, 1))
    original, other = (truth + 0.05 * rng.standard_normal((12, 3)) for _ in range(2))
    found = correlations(original, other)
    for estimate in found.values():
        assert -1 <= estimate.low < estimate.value < estimate.high <= 1
    assert correlations(original, other) == found  # reproducible
    unrelated = correlations(original, rng.random((12, 3)))['spearman']
    assert unrelated.high - unrelated.low > found['spearman'].high - found['spearman'].low
    # Equal columns of one seed: all resamples agree.
    exact = correlations(truth, truth)['pearson']
    assert exact.low == pytest.approx(1) and exact.high == pytest.approx(1)
    constant = correlations(truth, np.ones((12, 1)))['pearson']
    assert (constant.value, constant.low) == (None, None)
