r"""Calibration of the view tilt: networks score on selected trees as on the source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.data import TokenTrees
from torch_geometric_cgt.data.views import LAYER_NAMES, probe_table, used_tokens, view_names
from torch_geometric_cgt.models.candidates import CandidatePool, is_train, random_folds
from torch_geometric_cgt.models.tree_statistics import Statistics
from torch_geometric_cgt.models.view_tilt import ViewTilt
from torch_geometric_cgt.nn.view_networks import gnn_score, network_scores
from torch_geometric_cgt.utils.seeds import seeded

ROOT = LAYER_NAMES[0]
SCORE_DRAWS = 2  # draws of source trees whose scores are averaged
SCORE_SEEDS = 2  # trainings on each of them, if they are small
MAX_ROUNDS = 3  # of the calibration of scores
MIN_TREES = 300  # scores of fewer trees are noise, and are not calibrated
NUM_TREES, MAX_DRAWS = 5_000, 4  # training trees per round, in at most this number of selections
STEP = 0.7  # share of a gap that one round closes
# Change of a score per change of the mean probability of the label: a first guess. The area under
# the ROC curve, which is the score of two labels, changes faster than the accuracy.
GAIN, GAIN_OF_TWO = 1.0, 3.0
GAIN_WEIGHT = 2e-4  # of the guess, beside squared changes that were observed
DAMPING, TINY = 0.1, 1e-12  # relative to the largest eigenvalue, and at least
MAX_STEP_SIZE = 1.0  # of a parameter in one round


@dataclass
class ViewMatch:
    r"""How well the views of selected trees match those of the source."""

    aim: dict[str, float] = field(default_factory=dict)  # score of each view of the source
    rounds: list[dict[str, float]] = field(default_factory=list)  # those of selected trees
    candidates: int = 1  # per tree
    effective: float = 1.0  # effective number of candidates

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class _Round:
    r"""One round of the calibration of scores."""

    weight: Tensor  # parameters
    score: Tensor  # of candidates
    gap: Tensor  # of the score of each view
    error: float  # mean squared gap


@dataclass
class Response:
    r"""By how much the scores of networks change when the mean probability of the
    label changes. A regression through the origin over all steps so far, with a
    prior: small steps say little, because scores are noisy.
    """

    products: float
    squares: float = GAIN_WEIGHT

    @classmethod
    def guess(cls, num_classes: int) -> Response:
        r"""The response before any step was seen."""
        return cls((GAIN_OF_TWO if num_classes == 2 else GAIN) * GAIN_WEIGHT)

    @property
    def gain(self) -> float:
        r"""The change of a score per change of a mean probability, at least 0.5."""
        return max(0.5, self.products / self.squares)

    def observe(self, planned: Tensor, observed: Tensor) -> None:
        r"""Learns from one step.

        Args:
            planned (torch.Tensor): The change of the mean probability in each view.
            observed (torch.Tensor): The change of the score of each view.
        """
        self.products += float(planned @ observed)
        self.squares += float(planned @ planned)


def match_views(
    real: Sequence[TokenTrees],
    x: Tensor,
    cluster: Tensor,
    codebook: Tensor,
    pool: CandidatePool,
    is_release: bool = False,
    callback: Callable[[], None] | None = None,
) -> tuple[ViewTilt, ViewMatch]:
    r"""Learns which candidates to keep, so that views of generated trees are as
    in the source: first the means of statistics of its token trees, then the
    scores of networks, see :meth:`aim_of`. Where fewer than :obj:`MIN_TREES` trees
    are wanted, scores vary by more than they would be corrected, and are left out.

    Args:
        real (list[TokenTrees]): Several draws of computation graphs of the same
            roots. Tokens are nodes.
        x (torch.Tensor): The features of all nodes, dense or sparse, ``[N, F]``.
        cluster (torch.Tensor): The cluster of each node, ``[N]``.
        codebook (torch.Tensor): The features of each cluster, ``[m, F]``.
        pool (CandidatePool): Generated candidates.
        is_release (bool, optional): Whether a release consists of these
            candidates. If so, the selection whose scores are closest to those of
            the source is kept. (default: :obj:`False`)
        callback (callable, optional): Called after each of the
            :obj:`MAX_ROUNDS` + 1 rounds of calibration. (default: :obj:`None`)
    """
    quantized = [trees.map_tokens(cluster, codebook.size(0)) for trees in real]
    source = replace(
        quantized[0],
        tokens=torch.cat([trees.tokens for trees in quantized]),
        y=torch.cat([trees.y for trees in quantized]),
        split=torch.cat([trees.split for trees in quantized]),
    )
    # All trees of a root are in one fold.
    fold = random_folds(len(real[0]), seeded(pool.seed, 'roots')).repeat(len(real))
    tilt = ViewTilt.fit(source, fold, probe_table(codebook), pool)
    if pool.num_groups < MIN_TREES:
        return tilt, ViewMatch(candidates=pool.size, effective=tilt.effective(pool))
    few = range(min(SCORE_DRAWS, len(real)))
    original = [used_tokens(real[draw], x) for draw in few]
    seeds = range(num_trainings(real[0], NUM_TREES // SCORE_DRAWS, SCORE_SEEDS))
    runs = [(draw, SCORE_DRAWS * seed + draw) for seed in seeds for draw in few]
    change = [
        gnn_score(quantized[draw], codebook, seed) - gnn_score(*original[draw], seed)
        for draw, seed in runs
    ]
    aim = aim_of(
        [network_scores(*original[draw], seed) for draw, seed in runs],
        [network_scores(quantized[draw], codebook, seed) for draw, seed in runs],
        sum(change) / len(change),
    )
    return tilt, calibrate(tilt, aim, codebook, pool, is_release, callback)


def num_trainings(trees: TokenTrees, num_trees: int, most: int) -> int:
    r"""How often networks are trained so that they see a number of training trees in all: scores
    of networks that learned from few trees vary by more.

    Args:
        trees (TokenTrees): The trees.
        num_trees (int): The number of training trees in all.
        most (int): The largest number of trainings.
    """
    return max(1, min(most, num_trees // max(1, int(is_train(trees).sum()))))


def aim_of(
    original: Sequence[dict[str, float]], quantized: Sequence[dict[str, float]], change: float
) -> dict[str, float]:
    r"""The score of each view that selected trees should have.

    For the root alone, it is the score on original features. On the other views,
    selected trees should make up for what GNNs lose by quantization, or take back what
    they gain. Networks with one hidden layer do not lose the same: they overfit rare
    features of the original more. So three GNNs are trained on original and on quantized
    trees. The aims lie above the scores on quantized features by what these GNNs lose, on
    average over the views, and view by view by half of what the networks lose.

    Args:
        original (list[dict[str, float]]): The score of each view on original
            features, for several draws.
        quantized (list[dict[str, float]]): The same on quantized features.
        change (float): By how much the score of GNNs on quantized features is
            higher than on original ones.
    """
    before, after = (
        {view: sum(score[view] for score in scores) / len(scores) for view in scores[0]}
        for scores in (original, quantized)
    )
    half_way = {view: (before[view] + after[view]) / 2 for view in before if view != ROOT}
    lifted = sum(half_way[view] - after[view] for view in half_way) / len(half_way)
    return {ROOT: before[ROOT], **{view: half_way[view] - lifted - change for view in half_way}}


def calibrate(
    tilt: ViewTilt,
    aim: dict[str, float],
    codebook: Tensor,
    pool: CandidatePool,
    is_release: bool = False,
    callback: Callable[[], None] | None = None,
) -> ViewMatch:
    r"""Changes the parameters of a tilt until networks that are trained on
    selected trees score as on the source, for all views at once.

    Means that are equal do not imply this: a network that is trained on
    generated trees is less accurate than one of the source, and clusters lose
    some of the features.

    Args:
        tilt (ViewTilt): The tilt, which is changed in place.
        aim (dict[str, float]): The score of each view on the source.
        codebook (torch.Tensor): The features of each token, ``[m, F]``.
        pool (CandidatePool): The candidates that the tilt was fitted to.
        is_release (bool, optional): See :meth:`match_views`. (default: :obj:`False`)
        callback (callable, optional): Called after each round.
            (default: :obj:`None`)
    """
    names = view_names(pool.trees.shape)
    match = ViewMatch(aim=dict(aim), candidates=pool.size)
    num_draws = num_trainings(tilt.select(pool), NUM_TREES, MAX_DRAWS)
    made, best, best_error = pool.statistics(tilt.statistics), (tilt.weight, 0), torch.inf
    start: _Round | None = None  # the best round so far, where the next step starts
    response, planned = Response.guess(pool.trees.num_classes), None
    for round_ in range(MAX_ROUNDS + 1):
        score, gaps = tilt.scores(made, pool.trees.y.long()), []
        for tilt.draw in range(round_ * num_draws, (round_ + 1) * num_draws):
            found = network_scores(tilt.select(pool), codebook, seed=tilt.draw)
            gaps.append(torch.tensor([aim[name] - found[name] for name in names]))
            error = float(gaps[-1].square().mean())
            if is_release and error < best_error:
                best, best_error = (tilt.weight, tilt.draw), error
        gap = torch.stack(gaps).mean(dim=0)
        match.rounds.append(
            {name: aim[name] - float(g) for name, g in zip(names, gap, strict=True)}
        )
        error = float(gap.square().mean())
        if not is_release and error < best_error:
            best, best_error = (tilt.weight, 0), error
        if callback is not None:
            callback()
        if round_ == MAX_ROUNDS:
            break
        if start is not None and planned is not None:
            response.observe(planned, start.gap - gap)
        if start is None or error < start.error:
            start = _Round(tilt.weight, score, gap, error)
        tilt.weight, planned = _step(start, response.gain, made, tilt.scale, pool.size)
    tilt.weight, tilt.draw = best
    match.effective = tilt.effective(pool)
    return match


def _step(
    start: _Round, gain: float, made: Statistics, scale: Tensor, size: int
) -> tuple[Tensor, Tensor]:
    r"""The parameters of the next round, and by how much they change the mean probability of
    the label in each view, as its covariance within groups says.
    """
    gap = start.gap / gain
    columns = slice(0, gap.numel())  # the probability of the label in each view
    chance = start.score.view(-1, size).softmax(dim=1)
    own = made.shared[:, columns].unflatten(0, (-1, size))  # [G, c, V]
    own = own - (chance[..., None] * own).sum(dim=1, keepdim=True)
    covariance = torch.einsum('gc,gcv,gcw->vw', chance, own, own) / own.size(0)
    change = covariance / scale[columns]  # of the mean of view v, per parameter w
    # It is zero where candidates do not differ, as with one feature vector for all tokens.
    damping = (DAMPING * torch.linalg.matrix_norm(change, 2) ** 2).clamp(min=TINY)
    step = torch.linalg.solve(
        change.t() @ change + damping * torch.eye(gap.numel()), change.t() @ (STEP * gap)
    ).clamp(-MAX_STEP_SIZE, MAX_STEP_SIZE)
    weight = start.weight.clone()
    weight[columns] += step
    return weight, change @ step
