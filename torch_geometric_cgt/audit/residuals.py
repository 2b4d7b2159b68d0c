r"""Residuals: is the noise of every released answer the noise that its ledger entry states?"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import binom, chi2, kstest, norm

from torch_geometric_cgt.audit.check import Check, verdict
from torch_geometric_cgt.audit.replay import LedgerAnswer

LEVEL = 1e-4  # the probability of a false alarm, over all tests of one audit
# Two independent values of noise on a grid of 2^-20 standard deviations are equal with a
# probability of 2^-20 / (2 sqrt(pi)); values that are as close as this count as equal.
CLOSE, COLLISION = 1e-8, 2.0**-20 / (2 * math.sqrt(math.pi))
TOO_LITTLE, TOO_MUCH, NOT_FRESH, NOT_NORMAL, DEPENDS = (
    'too little noise',
    'more noise than the ledger states, which wastes budget',
    'the noise is not independent',
    'the noise is not Gaussian with mean zero',
    'the noise depends on the data: gradients are clipped or weighted in another way than stated',
)


@dataclass(frozen=True)
class NoiseTest:
    r"""One test of the noise of one entry.

    Args:
        entry (str): The ledger entry.
        test (str): What is tested.
        p_value (float): The probability of a deviation of this size, or an
            upper bound of it, if the noise is the stated one.
        problem (str): What the deviation means.
        size (int): The number of values that were tested.
        scale (float): The observed standard deviation, in units of the stated
            one.
        is_spread (bool, optional): Whether the standard deviation is tested.
            These few tests share one half of the level, all others the other
            half. (default: :obj:`False`)
    """

    entry: str
    test: str
    p_value: float
    problem: str
    size: int
    scale: float
    is_spread: bool = False


@dataclass(frozen=True)
class Residuals:
    r"""The tests of all entries.

    Args:
        tests (list[NoiseTest]): The tests.
        num_entries (int): The number of entries that were tested.
        level (float): The probability that a correct build fails any of them.
    """

    tests: Sequence[NoiseTest]
    num_entries: int
    level: float = LEVEL

    @property
    def found(self) -> list[NoiseTest]:
        r"""The tests that fail, by increasing p-value."""
        return sorted((t for t in self.tests if self.adjusted(t) < self.level), key=self.adjusted)

    def adjusted(self, test: NoiseTest) -> float:
        r"""The p-value of a test, multiplied for the number of tests."""
        alike = sum(other.is_spread == test.is_spread for other in self.tests)
        return min(1.0, 2 * alike * test.p_value)

    def check(self) -> Check:
        r"""Above the limit if the noise of an entry is too small, not independent
        or not Gaussian. Noise that is too large protects more than is stated, and
        is within the limit.
        """
        found = self.found
        bad = [t for t in found if t.problem != TOO_MUCH]
        worst = next(iter(bad or found), min(self.tests, key=self.adjusted))
        total = max(t.size for t in self.tests if t.is_spread)
        says = (
            f'For each of {self.num_entries} entries of the ledger, the noise that was added (what '
            f'was released minus what is exact) was compared with the noise that the entry states. '
            f'{len(self.tests)} tests of {total:,} values; the value is the smallest p-value, '
            f'multiplied for their number. '
        )
        named = dict.fromkeys(f"'{t.entry}': {t.problem} ({t.test})" for t in [*bad, *found])
        says += f'{"; ".join(named)}.' if named else 'All noise is as stated.'
        return Check(
            'Noise of every answer',
            verdict(bool(found), bool(bad)),
            self.adjusted(worst),
            says,
            self.level,
            'the probability of a false alarm over all tests: smaller values are findings',
            details={'found': [asdict(t) for t in found]},
        )

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        return {'level': self.level, 'tests': [asdict(t) for t in self.tests]}


def audit_noise(
    answers: Iterable[LedgerAnswer], level: float = LEVEL, more: Sequence[NoiseTest] = ()
) -> Residuals:
    r"""Tests the noise of all answers.

    The residuals of each entry are tested against a standard normal distribution
    by their sum of squares (chi-square, both sides), their mean, their shape
    (Kolmogorov and Smirnov) and their largest value. Residuals of different
    answers must not be equal or correlated, at any shift, and those of one answer
    must not be correlated with themselves. The sum of squares of all entries is
    tested as well, since a mistake that all share shows there first.

    Args:
        answers (list[LedgerAnswer]): The answers of one build, in order.
        level (float, optional): The probability that a correct build fails any
            test. (default: :obj:`1e-4`)
        more (list[NoiseTest], optional): Further tests. (default: none)
    """
    entries: dict[str, list[np.ndarray]] = defaultdict(list)
    for answer in answers:
        if answer.exact.numel():
            entries[answer.name].append(residual_of(answer))
    if not entries:
        raise ValueError('There are no answers to test: the build has none, or all are empty')
    tests = [t for name, z in entries.items() for t in _marginal_tests(name, np.concatenate(z))]
    everything = np.concatenate([z for several in entries.values() for z in several])
    tests.append(_marginal_tests('all entries together', everything)[0])  # the standard deviation
    parts = [(name, z) for name, several in entries.items() for z in several]
    tests += [_auto_test(name, z) for name, z in parts if z.size > 1]
    for (first, a), (second, b) in combinations(parts, 2):
        tests += _cross_tests(first if first == second else f'{first} / {second}', a, b)
    return Residuals([*tests, *more], len(entries), level)


def residual_of(answer: LedgerAnswer) -> np.ndarray:
    r"""The noise of an answer in standard deviations, ``[n]``."""
    if answer.exact.shape != answer.released.shape:
        raise ValueError(
            f"'{answer.name}' has {list(answer.exact.shape)} exact and "
            f'{list(answer.released.shape)} released values'
        )
    noise = (answer.released.double() - answer.exact.double()).view(-1) / answer.sigma
    return np.asarray(noise.numpy(), dtype=np.float64)


def _marginal_tests(name: str, z: np.ndarray) -> list[NoiseTest]:
    n, square = z.size, float(z @ z)
    scale = math.sqrt(square / n)

    def make(test: str, p_value: float, problem: str, is_spread: bool = False) -> NoiseTest:
        return NoiseTest(name, test, min(1.0, p_value), problem, n, scale, is_spread)

    shift = abs(z.mean()) * math.sqrt(n) / max(1.0, scale)  # the scale has a test of its own
    low, high = float(chi2.cdf(square, n)), float(chi2.sf(square, n))
    spread = f'standard deviation {scale:.4g} of the stated one over {n:,} values'
    tests = [
        make(spread, 2 * min(low, high), TOO_LITTLE if low < high else TOO_MUCH, True),
        make(f'mean {z.mean():.3g}', 2 * float(norm.sf(shift)), NOT_NORMAL),
        make(f'largest value {abs(z).max():.3g}', 2 * n * float(norm.sf(abs(z).max())), TOO_MUCH),
    ]
    zeros = int((np.abs(z) < CLOSE).sum())  # for a part of an answer without noise
    tests.append(
        make(f'{zeros} values without noise', _at_least(zeros, n, 1.5 * COLLISION), TOO_LITTLE)
    )
    if n >= 20:
        shape = float(kstest(z / scale, 'norm').pvalue) if scale > 0 else 0.0
        tests.append(make('shape of the distribution', shape, NOT_NORMAL))
    return tests


def _auto_test(name: str, z: np.ndarray) -> NoiseTest:
    r"""Whether noise is repeated inside an answer."""
    p_value, lag = _largest_correlation(z, z, range(1, z.size))
    scale = math.sqrt(float(z @ z) / z.size)
    return NoiseTest(name, f'correlation at lag {lag}', p_value, NOT_FRESH, z.size, scale)


def _cross_tests(name: str, a: np.ndarray, b: np.ndarray) -> list[NoiseTest]:
    r"""Whether two answers have the same noise, or a part of it."""
    n = min(a.size, b.size)
    equal = int((np.abs(a[:n] - b[:n]) < CLOSE).sum())
    scale = math.sqrt(float(a @ a + b @ b) / (a.size + b.size))
    tests = [(f'{equal} equal values', _at_least(equal, n, COLLISION))]
    if n > 8:  # fewer values cannot be correlated beyond doubt
        p_value, lag = _largest_correlation(a, b, range(1 - b.size, a.size))
        tests.append((f'correlation at shift {lag}', p_value))
    return [NoiseTest(name, test, p, NOT_FRESH, n, scale) for test, p in tests]


def _largest_correlation(a: np.ndarray, b: np.ndarray, lags: range) -> tuple[float, int]:
    r"""The smallest p-value of the correlations of two series at all lags, times
    their number, and its lag.

    The sum :math:`S` of :math:`N` products of standard normal values is a
    quadratic form. Its moment generating function at :math:`u / 2` is at most
    :math:`(1 - u^2)^{-N / 8}`, so that :math:`P(S \geq s) \leq e^{-us/2} (1 -
    u^2)^{-N / 8}` for any :math:`0 < u < 1`.
    """
    a, b = (x / max(1e-12, math.sqrt(float(x @ x) / x.size)) for x in (a, b))
    size = 1 << (a.size + b.size - 1).bit_length()
    product = np.fft.irfft(np.fft.rfft(a, size) * np.fft.rfft(b, size).conj(), size)
    lag = np.arange(lags.start, lags.stop)
    total = np.abs(product[lag % size])  # sum of a[t + lag] * b[t]
    count = np.minimum(a.size, b.size + lag) - np.maximum(0, lag)
    ratio = count / (2 * np.maximum(total, 1e-12))
    u = 2 / (ratio + np.sqrt(ratio**2 + 4))
    log_p = -u * total / 2 - count / 8 * np.log1p(-(u**2))
    best = int(log_p.argmin())
    return min(1.0, 2 * lag.size * math.exp(min(0.0, float(log_p[best])))), int(lag[best])


def _at_least(hits: int, total: int, chance: float) -> float:
    return float(binom.sf(hits - 1, total, chance)) if hits else 1.0
