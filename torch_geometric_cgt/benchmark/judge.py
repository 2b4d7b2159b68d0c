r"""How well a substitute of one graph ranks GNNs, beside the graph itself with another split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from torch_geometric_cgt.benchmark.metrics import DIGITS, Estimate, top1

CORRELATIONS = ('pearson', 'spearman', 'kendall')
CEILING = 'ceiling'  # the column of the original with another split and seed
CONTROL = 'control'  # the column of generated trees with shuffled neighbours
MIN_MODELS = 3  # of a correlation

Scores = Mapping[str, Mapping[str, Sequence[float]]]  # column, model, seed


@dataclass(frozen=True)
class Resolution:
    r"""Whether the scores of a graph differ enough to rank its models.

    Args:
        spread (float): The standard deviation of the mean scores of all models
            on the original, without the part that noise explains.
        noise (float): The standard deviation of the mean score of one model
            between repetitions with another split and seed.
    """

    spread: float
    noise: float

    @property
    def is_resolved(self) -> bool:
        r"""Whether models differ by more than the noise."""
        return self.spread > self.noise

    def text(self) -> str:
        r"""Why there is no correlation."""
        return f'models differ by {self.spread:.4f}, below the noise of seeds {self.noise:.4f}'


@dataclass(frozen=True)
class Verdict:
    r"""The measures of one column against the original.

    Args:
        mse (float): The mean squared error of mean scores.
        multiple (float, optional): It, divided by that of the ceiling.
        bias (float): The mean difference, positive where scores are too high.
        correlations (dict[str, Estimate]): The correlations, with bootstrap
            intervals. There are none if the scores are not resolved.
        top1 (float): Whether the best model of the column is best on the
            original; the share of right ones if several are best.
        regret (float): The score on the original that is lost by choosing the
            best model of the column.
    """

    mse: float
    multiple: float | None
    bias: float
    correlations: dict[str, Estimate]
    top1: float | None
    regret: float


def judge(
    scores: Scores, columns: Sequence[str], floor: Sequence[str] = (), seed: int = 0
) -> tuple[Resolution | None, dict[str, Verdict]]:
    r"""Judges columns by the scores of models on the original.

    Args:
        scores (dict): The scores by column, model and seed. The columns
            :obj:`"original"` and, for multiples, :obj:`"ceiling"` are used.
        columns (list[str]): What to judge.
        floor (list[str], optional): Models that nobody would choose, which do
            not count. (default: :obj:`()`)
        seed (int, optional): The seed of the bootstrap. (default: :obj:`0`)
    """
    models = [m for m in scores['original'] if m not in floor]
    models = [m for m in models if all(m in scores[column] for column in columns)]
    if not models:
        return None, {}
    resolution = resolution_of(scores, models)
    original = _table(scores['original'], models)
    base = None
    if CEILING in columns:
        base = _mse(original, _table(scores[CEILING], models))
    out = {}
    for column in columns:
        other = _table(scores[column], models)
        mse = _mse(original, other)
        means = original.mean(axis=1), other.mean(axis=1)
        resolved = len(models) >= MIN_MODELS and (resolution is None or resolution.is_resolved)
        out[column] = Verdict(
            mse,
            mse / base if base else None,
            float((means[1] - means[0]).mean()),
            correlations(original, other, seed) if resolved else {},
            top1([0] * len(models), *(list(m) for m in means)),
            regret(*(list(m) for m in means)),
        )
    return resolution, out


def regret(original: Sequence[float], other: Sequence[float]) -> float:
    r"""The score on the original that is lost by choosing the model that is best
    on the other graph. If several are best, it is their mean loss.

    Args:
        original (list[float]): The score of each model on the original.
        other (list[float]): The score of each model on the other graph.
    """
    x, y = np.round(original, DIGITS), np.round(other, DIGITS)
    return float(x.max() - x[y == y.max()].mean())


def resolution_of(scores: Scores, models: Sequence[str]) -> Resolution | None:
    r"""Compares the differences between models with the noise of seeds.

    Runs of one seed share their split, which moves all models alike and does
    not change their order. The noise is therefore what is left of the
    differences between two runs of a model, after the mean over models is
    removed for each pair of runs. Runs are compared with those of the ceiling
    or, without it, with each other. The result is :obj:`None` if every model
    has one run only.

    Args:
        scores (dict): The scores by column, model and seed.
        models (list[str]): The models.
    """
    original = _table(scores['original'], models)  # [models, seeds]
    if all(m in scores.get(CEILING, {}) for m in models):
        ceiling = _table(scores[CEILING], models)
        num_runs = min(original.shape[1], ceiling.shape[1])
        difference = original[:, :num_runs] - ceiling[:, :num_runs]
        # The difference of two runs has twice the variance of one.
        variance = _residual_variance(difference) / 2
    elif original.shape[1] > 1:
        centred = original - original.mean(axis=1, keepdims=True)
        num_runs = original.shape[1]
        variance = _residual_variance(centred) * num_runs / (num_runs - 1)
    else:
        return None
    noise = variance / original.shape[1]
    spread = max(0.0, float(original.mean(axis=1).var(ddof=1)) - noise) if len(models) > 1 else 0.0
    return Resolution(spread**0.5, noise**0.5)


def correlations(
    original: np.ndarray,
    other: np.ndarray,
    seed: int = 0,
    resamples: int = 500,
    level: float = 0.95,
) -> dict[str, Estimate]:
    r"""Correlations of mean scores with bootstrap intervals. Models and seeds are
    resampled with replacement, models in the same way in both columns.

    Args:
        original (numpy.ndarray): The scores on the original,
            ``[models, seeds]``.
        other (numpy.ndarray): Those on the other graph, ``[models, seeds]``.
        seed (int, optional): The seed of the bootstrap. (default: :obj:`0`)
        resamples (int, optional): The number of resamples.
            (default: :obj:`500`)
        level (float, optional): The confidence level. (default: :obj:`0.95`)
    """
    rng = np.random.default_rng(seed)
    value = _correlate(original.mean(axis=1), other.mean(axis=1))
    found: dict[str, list[float]] = {name: [] for name in CORRELATIONS}
    for _ in range(resamples):
        rows = rng.integers(len(original), size=len(original))
        means = [
            table[rows][:, rng.integers(table.shape[1], size=table.shape[1])].mean(axis=1)
            for table in (original, other)
        ]
        sample = _correlate(*means)
        for name in CORRELATIONS:
            if (drawn := sample[name]) is not None:
                found[name].append(drawn)
    out = {}
    for name in CORRELATIONS:
        if value[name] is None or not found[name]:
            out[name] = Estimate(value[name])
            continue
        low, high = np.quantile(found[name], [(1 - level) / 2, (1 + level) / 2])
        out[name] = Estimate(value[name], float(low), float(high))
    return out


def _correlate(x: np.ndarray, y: np.ndarray) -> dict[str, float | None]:
    r"""The correlations of :func:`~torch_geometric_cgt.benchmark.metrics.agreement`,
    fast enough for a bootstrap. Each is a cosine.
    """
    x, y = np.round(x, DIGITS), np.round(y, DIGITS)
    pairs = {
        'pearson': [v - v.mean() for v in (x, y)],
        'spearman': [rank - rank.mean() for rank in (rankdata(x), rankdata(y))],
        'kendall': [np.sign(v[:, None] - v) for v in (x, y)],
    }
    out: dict[str, float | None] = {}
    for name, (a, b) in pairs.items():
        norm = float(np.square(a).sum() * np.square(b).sum()) ** 0.5
        defined = np.ptp(x) > 0 and np.ptp(y) > 0
        out[name] = float((a * b).sum()) / norm if defined else None
    return out


def _residual_variance(table: np.ndarray) -> float:
    r"""The variance of entries without their column means, ``[models, runs]``."""
    if table.shape[0] < 2:
        return float(np.square(table).mean())
    residual = table - table.mean(axis=0, keepdims=True)
    return float(np.square(residual).sum() / ((table.shape[0] - 1) * table.shape[1]))


def _table(scores: Mapping[str, Sequence[float]], models: Sequence[str]) -> np.ndarray:
    num_runs = min(len(scores[m]) for m in models)
    return np.array([list(scores[m])[:num_runs] for m in models], dtype=float)


def _mse(original: np.ndarray, other: np.ndarray) -> float:
    return float(np.square(original.mean(axis=1) - other.mean(axis=1)).mean())
