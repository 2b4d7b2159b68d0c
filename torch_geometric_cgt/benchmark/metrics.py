r"""How well scores on generated graphs reproduce scores on the originals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

MEASURES = ('mse', 'max_abs', 'pearson', 'spearman', 'kendall', 'top1')
DIGITS = 12  # of a score that count: means of the same runs in another order are equal


@dataclass(frozen=True)
class Pair:
    r"""What one model scored on a graph and on its substitute, seed by seed."""

    graph: tuple[str, ...]  # dataset, level, variant: models of one graph compete
    runs: dict[int, tuple[float, float]]  # seed: original, generated


@dataclass(frozen=True)
class Estimate:
    r"""A measure, and the interval it may lie in where seeds tell one."""

    value: float | None
    low: float | None = None
    high: float | None = None


def agreement(original: Sequence[float], generated: Sequence[float]) -> dict[str, float | None]:
    r"""How well scores on generated graphs reproduce those on the original.

    Nothing changes if both are exchanged. Correlations are :obj:`None` where
    they are not defined: fewer than two pairs, or no difference among the
    scores.

    Args:
        original (list[float]): One score per model on the original graph.
        generated (list[float]): The same models on the generated graph.
    """
    x, y = _scores(original), _scores(generated)
    return {
        'mse': float(((x - y) ** 2).mean()),
        'max_abs': float(np.abs(x - y).max()),
        'pearson': _pearson(x, y),
        'spearman': _pearson(_ranks(x), _ranks(y)),
        'kendall': _kendall(x, y),
    }


def top1(
    graphs: Sequence[object], original: Sequence[float], generated: Sequence[float]
) -> float | None:
    r"""The share of graphs on which the model that is best on the generated
    graph is best on the original.

    Where several models are best on the generated graph, one of them is
    drawn, so the graph counts with the share of them that is best on the
    original (one of those, if there are several). A generated graph on
    which all models score the same is thus worth what a guess is worth.
    Graphs with one model do not count; :obj:`None` if there is no other.

    Args:
        graphs (list): The graph of each pair.
        original (list[float]): The score of each pair on the original.
        generated (list[float]): Its score on the generated graph.
    """
    index: dict[object, int] = {}
    group = np.array([index.setdefault(graph, len(index)) for graph in graphs])
    best = [_is_best(group, _scores(scores)) for scores in (original, generated)]
    right = np.bincount(group, best[0] & best[1]) / np.bincount(group, best[1])
    shares = right[np.bincount(group) > 1]
    return float(shares.mean()) if len(shares) else None


def measure(pairs: Sequence[Pair]) -> dict[str, float | None]:
    r"""All measures, from the means over seeds.

    Args:
        pairs (list[Pair]): At least one pair.
    """
    return _measure(pairs, [list(pair.runs) for pair in pairs])


def estimate(
    pairs: Sequence[Pair], seed: int = 0, resamples: int = 1000, level: float = 0.95
) -> dict[str, Estimate]:
    r"""All measures with bootstrap intervals.

    Seeds are drawn anew with replacement; pairs that were run with the same
    seeds share the draw, since they share graphs. An interval is what lies
    between the quantiles of the measure over all draws. Means of a draw are
    noisier than those of all seeds, so intervals lean to the worse side; with
    few seeds they are rather too narrow. There is none if a pair was run with
    one seed only.

    Args:
        pairs (list[Pair]): The pairs; without any, nothing is known.
        seed (int, optional): Of the draws. (default: :obj:`0`)
        resamples (int, optional): The number of draws. (default: :obj:`1000`)
        level (float, optional): How much lies inside. (default: :obj:`0.95`)
    """
    if not pairs:
        return dict.fromkeys(MEASURES, Estimate(None))
    values = measure(pairs)
    if min(len(pair.runs) for pair in pairs) < 2:
        return {name: Estimate(value) for name, value in values.items()}
    rng = np.random.default_rng(seed)
    seeds = [tuple(sorted(pair.runs)) for pair in pairs]
    kinds = sorted(set(seeds))
    drawn = [np.sort(rng.choice(kind, (resamples, len(kind)))) for kind in kinds]
    # A few seeds can be drawn in a few ways only: each is computed once.
    ways, counts = np.unique(np.concatenate(drawn, axis=1), axis=0, return_counts=True)
    ends = np.cumsum([len(kind) for kind in kinds])[:-1]
    found = []
    for way in ways:
        draw = dict(zip(kinds, np.split(way, ends), strict=True))
        found.append(_measure(pairs, [draw[kind] for kind in seeds]))
    out = {}
    for name, value in values.items():
        sample = [f[name] for f in found]
        if value is None or any(v is None for v in sample):
            out[name] = Estimate(value)
            continue
        repeated = np.repeat(np.array(sample, dtype=float), counts)
        low, high = np.quantile(repeated, [(1 - level) / 2, (1 + level) / 2])
        out[name] = Estimate(value, float(low), float(high))
    return out


def _measure(pairs: Sequence[Pair], seeds: Sequence[Iterable[int]]) -> dict[str, float | None]:
    original, generated = [], []
    for pair, chosen in zip(pairs, seeds, strict=True):
        runs = [pair.runs[seed] for seed in chosen]
        original.append(sum(o for o, _ in runs) / len(runs))
        generated.append(sum(g for _, g in runs) / len(runs))
    share = top1([pair.graph for pair in pairs], original, generated)
    return {**agreement(original, generated), 'top1': share}


def _scores(values: Sequence[float]) -> np.ndarray:
    return np.round(np.asarray(values, dtype=float), DIGITS)


def _pearson(x: np.ndarray, y: np.ndarray) -> float | None:
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def _kendall(x: np.ndarray, y: np.ndarray) -> float | None:
    r"""Kendall's tau-b: ties count in neither order."""
    a, b = (np.sign(v[:, None] - v[None]) for v in (x, y))  # [n, n]
    untied = np.abs(a).sum() * np.abs(b).sum()
    return float((a * b).sum() / np.sqrt(untied)) if untied else None


def _ranks(x: np.ndarray) -> np.ndarray:
    r"""Ranks, with ties at their mean."""
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = counts.cumsum()
    return (last - (counts - 1) / 2)[inverse]


def _is_best(group: np.ndarray, scores: np.ndarray) -> np.ndarray:
    best = np.full(group.max() + 1, -np.inf)
    np.maximum.at(best, group, scores)
    return scores == best[group]
