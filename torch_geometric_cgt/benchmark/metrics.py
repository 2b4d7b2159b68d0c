r"""Measures of agreement between scores, statistics of trees, and the trees to compare."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.data.token_trees import Rows, SparseRows
from torch_geometric_cgt.datasets.synthetic import SyntheticCGTDataset
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.quantizer.feature_space import is_bag_of_words
from torch_geometric_cgt.sampler import InNeighbors, sample_trees
from torch_geometric_cgt.utils.seeds import derive_seed

MEASURES = ('mse', 'max_abs', 'pearson', 'spearman', 'kendall', 'top1')
DIGITS = 12  # Scores are rounded: means of the same runs in another order are equal.


@dataclass(frozen=True)
class Pair:
    r"""The scores of one model on a graph and on its substitute, by seed."""

    graph: tuple[str, ...]  # dataset, level, variant: 'top1' compares the models of one graph
    runs: dict[int, tuple[float, float]]  # seed: original, generated


@dataclass(frozen=True)
class Estimate:
    r"""A measure with its bootstrap interval, if there are several seeds."""

    value: float | None
    low: float | None = None
    high: float | None = None


def agreement(original: Sequence[float], generated: Sequence[float]) -> dict[str, float | None]:
    r"""How well scores on generated graphs reproduce those on the original.

    All measures are symmetric. Correlations are :obj:`None` where they are
    not defined: for fewer than two pairs, and for constant scores.

    Args:
        original (list[float]): One score per model on the original graph.
        generated (list[float]): The same models on the generated graph.
    """
    x, y = _scores(original), _scores(generated)
    defined = len(x) > 1 and np.ptp(x) > 0 and np.ptp(y) > 0
    return {
        'mse': float(((x - y) ** 2).mean()),
        'max_abs': float(np.abs(x - y).max()),
        'pearson': float(stats.pearsonr(x, y).statistic) if defined else None,
        'spearman': float(stats.spearmanr(x, y).statistic) if defined else None,
        'kendall': float(stats.kendalltau(x, y).statistic) if defined else None,  # tau-b
    }


def top1(
    graphs: Sequence[object], original: Sequence[float], generated: Sequence[float]
) -> float | None:
    r"""The share of graphs on which the model that is best on the generated
    graph is also best on the original.

    If several models are best on the generated graph, the graph counts with
    the share of them that is best on the original: the expected value of
    choosing one of them at random. Graphs with one model do not count. The
    result is :obj:`None` if there are no others.

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

    Seeds are resampled with replacement. Pairs with the same seeds share the
    resampled ones, since they share graphs. The ends of an interval are
    quantiles of the measure over all resamples. A mean over resampled seeds
    is noisier than one over all seeds, so intervals are shifted to the worse
    side. With few seeds, they are too narrow. There are no intervals if a
    pair has one seed only.

    Args:
        pairs (list[Pair]): The pairs. Without any, all values are
            :obj:`None`.
        seed (int, optional): The seed of the bootstrap. (default: :obj:`0`)
        resamples (int, optional): The number of resamples.
            (default: :obj:`1000`)
        level (float, optional): The confidence level. (default: :obj:`0.95`)
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
    # Few seeds have few distinct resamples: each is computed once.
    distinct, counts = np.unique(np.concatenate(drawn, axis=1), axis=0, return_counts=True)
    ends = np.cumsum([len(kind) for kind in kinds])[:-1]
    found = []
    for resample in distinct:
        chosen = dict(zip(kinds, np.split(resample, ends), strict=True))
        found.append(_measure(pairs, [chosen[kind] for kind in seeds]))
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


def _is_best(group: np.ndarray, scores: np.ndarray) -> np.ndarray:
    best = np.full(group.max() + 1, -np.inf)
    np.maximum.at(best, group, scores)
    return scores == best[group]


def zero_vectors(trees: TokenTrees) -> Tensor:
    r"""The number of null slots of each tree, ``[n]``. It is low where degrees
    are high.
    """
    return (~trees.real).sum(dim=1)


def duplicates(trees: TokenTrees) -> Tensor:
    r"""The number of real slots of each tree that repeat a token of the same
    tree, ``[n]``. It is high where neighbourhoods are dense.
    """
    ordered = trees.tokens.sort(dim=1).values
    repeats = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != trees.num_tokens)
    return repeats.sum(dim=1)


def histograms(
    statistic: Callable[[TokenTrees], Tensor], trees: Mapping[str, TokenTrees]
) -> dict[str, list[int]]:
    r"""How many trees of each column have which value of a statistic.

    Args:
        statistic (callable): :meth:`zero_vectors` or :meth:`duplicates`.
        trees (dict[str, TokenTrees]): The trees by column.
    """
    return {
        column: torch.bincount(statistic(t), minlength=t.shape.num_slots).tolist()
        for column, t in trees.items()
    }


def wasserstein(a: Sequence[int], b: Sequence[int]) -> float:
    r"""The Wasserstein distance of two histograms of whole numbers.

    Args:
        a (list[int]): How often each of 0, 1, ... occurs in the one sample.
        b (list[int]): The same of the other sample.
    """
    return float(stats.wasserstein_distance(range(len(a)), range(len(b)), a, b))


def compared_trees(source: Source, dataset: SyntheticCGTDataset, run: int) -> dict[str, TokenTrees]:
    r"""The computation graphs to compare, with features: original, quantized
    (where the clusters of the dataset are known) and generated.

    Args:
        source (Source): The source of the synthetic dataset.
        dataset (SyntheticCGTDataset): The synthetic dataset.
        run (int): Each run samples other neighbours of the source.
    """
    seed = dataset.card['parameters']['seed']
    made_from = dataset.card['source']['num_features']
    if source.data.num_features != made_from:
        raise ValueError(
            f'The source has {source.data.num_features} features and that of the synthetic '
            f'dataset had {made_from}: it was not made from this source'
        )
    encoded = encode_source(source, dataset.trees.shape, seed, run)
    # Where codewords are projected, all graphs are compared under that projection.
    codebook, x = as_rows(dataset.codebook), as_rows(dataset.project(source.data.x))
    trees = {'original': encoded.map_tokens(None, encoded.num_tokens, x)}
    if dataset.cluster is not None:
        trees['quantized'] = encoded.map_tokens(dataset.cluster, codebook.size(0), codebook)
    trees['generated'] = generated_trees(dataset)
    return trees


def generated_trees(dataset: SyntheticCGTDataset) -> TokenTrees:
    r"""The generated computation graphs, with features.

    Args:
        dataset (SyntheticCGTDataset): The synthetic dataset.
    """
    made, codebook = dataset.trees, as_rows(dataset.codebook)
    return replace(made, tokens=made.tokens.long(), y=made.y.long(), x=codebook)


def as_rows(x: Tensor) -> Rows:
    r"""A table of features in the form that is faster to multiply: :class:`SparseRows`
    for a sparse matrix or a bag of words, a dense tensor otherwise.

    Args:
        x (torch.Tensor): The table, ``[m, F]``.
    """
    if x.layout != torch.strided or is_bag_of_words(x):
        return SparseRows.from_matrix(x.float())
    return x.float()


def encode_source(source: Source, shape: TreeShape, seed: int, run: int) -> TokenTrees:
    r"""Computation graphs of all labelled nodes. A token is a node id, and the
    null token is the number of nodes.

    Args:
        source (Source): The source.
        shape (TreeShape): The geometry of the trees.
        seed (int): The seed of the split, where the source has none.
        run (int): Each run samples other neighbours.
    """
    num_nodes = int(source.data.num_nodes or 0)
    graph = InNeighbors.from_edge_index(source.data.edge_index, num_nodes)
    rng = torch.Generator().manual_seed(derive_seed(seed, f'evaluate/{run}'))
    tree = sample_trees(graph, source.root, shape, rng)
    split = source.split_codes(derive_seed(seed, 'split'))  # [N]
    child = tree[:, shape.layer_slice(1)]
    return TokenTrees(
        tree.masked_fill(tree < 0, num_nodes),
        source.data.y[source.root],
        split[source.root],
        num_nodes,
        source.num_classes,
        shape,
        child_split=torch.where(child < 0, 0, split[child]),
    )
