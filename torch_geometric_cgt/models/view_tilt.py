r"""The view tilt: candidates are selected such that views of generated trees are as in the source.

For each tree of a release, the generator draws several candidates with the same label. One of them
is kept. Candidate :math:`j` of a group is kept with probability

.. math::
    p_j = \frac{\exp(\lambda^\top \phi_j)}{\sum_i \exp(\lambda^\top \phi_i)},

where :math:`\phi` are statistics of the tree, see
:class:`~torch_geometric_cgt.models.tree_statistics.TreeStatistics`. The parameters :math:`\lambda`
make the expected means of the statistics of kept trees equal to those of token trees of the source.
They minimise a convex function, with a penalty that keeps them small where few roots are known.
Some of them are shared by all labels, so that rare labels borrow from the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.data.views import (
    NUM_FOLDS,
    LinearProbe,
    ViewProbes,
    probe_table,
    tree_views,
    used_tokens,
    view_names,
    view_scores,
)
from torch_geometric_cgt.models.candidates import CandidatePool, is_train, random_folds
from torch_geometric_cgt.models.tree_statistics import Statistics, TreeStatistics
from torch_geometric_cgt.utils.seeds import seeded

RIDGE, CLASS_RIDGE = 1.0, 4.0  # penalties of shared parameters, and of those of one label
MAX_STEPS = 60  # of L-BFGS
SCORE_DRAWS = 2  # draws of source trees whose probe scores are averaged
MAX_ROUNDS = 3  # of the calibration of scores
NUM_TREES, MAX_DRAWS = 12_000, 6  # that are selected per round, in this number of draws
STEP = 0.7  # share of a gap that one round closes
GAIN = 3.0  # change of a score per change of the mean probability of the label: a first guess
GAIN_WEIGHT = 2e-4  # of the guess, beside squared changes that were observed
DAMPING = 0.1  # relative to the largest eigenvalue
MAX_STEP_SIZE = 1.0  # of a parameter in one round


@dataclass
class ViewMatch:
    r"""How well the views of selected trees match those of the source."""

    aim: dict[str, float] = field(default_factory=dict)  # probe score of each view of the source
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
    gap: Tensor  # of the probe score of each view
    error: float  # mean squared gap


@dataclass
class Response:
    r"""By how much the scores of probes change when the mean probability of the
    label changes. A regression through the origin over all steps so far, with a
    prior: small steps say little, because scores are noisy.
    """

    products: float = GAIN * GAIN_WEIGHT
    squares: float = GAIN_WEIGHT

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


class ViewTilt:
    r"""Selects candidates, see the description of this module.

    Args:
        statistics (TreeStatistics): Computes the statistics of a tree.
        shift (torch.Tensor): The mean of each statistic over the source, ``[P + Q]``.
        scale (torch.Tensor): Its standard deviation, ``[P + Q]``.
        weight (torch.Tensor): The parameters of the first P statistics, ``[P]``.
        class_weight (torch.Tensor): The parameters of the last Q for each label, ``[C, Q]``.
        draw (int, optional): The number of the draw of selections. (default: :obj:`0`)
    """

    def __init__(
        self,
        statistics: TreeStatistics,
        shift: Tensor,
        scale: Tensor,
        weight: Tensor,
        class_weight: Tensor,
        draw: int = 0,
    ) -> None:
        self.statistics = statistics
        self.shift = shift
        self.scale = scale
        self.weight = weight
        self.class_weight = class_weight
        self.draw = draw

    @classmethod
    def fit(cls, source: TokenTrees, fold: Tensor, table: Tensor, pool: CandidatePool) -> ViewTilt:
        r"""Finds the parameters.

        Args:
            source (TokenTrees): Token trees of the source.
            fold (torch.Tensor): The fold of each of them, ``[n]``. Trees of the same root must
                be in the same fold.
            table (torch.Tensor): The features of each token, ``[m, D]``.
            pool (CandidatePool): Generated candidates.
        """
        rng = seeded(pool.seed, 'probes')
        views = tree_views(source.tokens, table, source.shape)
        probes = ViewProbes.fit(views, source.y, fold, source.num_classes, rng)
        statistics = TreeStatistics(table, source.shape, probes)
        real = statistics(source.tokens, source.y, is_train(source), fold)
        shift, scale = _standard(torch.cat([real.shared, real.by_class], dim=1))
        width = real.shared.size(1)
        empty = torch.zeros(width), torch.zeros(source.num_classes, real.by_class.size(1))
        tilt = cls(statistics, shift, scale, *empty)
        tilt._minimise(source, real, pool, pool.statistics(statistics))
        return tilt

    def _minimise(
        self, source: TokenTrees, real: Statistics, pool: CandidatePool, made: Statistics
    ) -> None:
        num_classes, n, size = self.class_weight.size(0), len(source), pool.size
        real_y, made_y = source.y.long(), pool.trees.y.long()
        shared, by_class = self._standardized(made)
        aim, class_aim = self._standardized(real)
        row_weight, group_weight = _equal_shares(_cells(source), _cells(pool.trees)[::size])
        target = row_weight @ aim.double()
        class_target = torch.zeros(self.class_weight.shape, dtype=torch.double)
        class_target.index_add_(0, real_y, row_weight[:, None] * class_aim.double())
        order = made_y.argsort(stable=True)  # each label is one matrix product
        parts = torch.bincount(made_y, minlength=num_classes).tolist()
        sorted_rows = by_class[order].split(parts)
        lam = torch.zeros_like(self.weight, requires_grad=True)
        class_lam = torch.zeros_like(self.class_weight, requires_grad=True)
        optimizer = torch.optim.LBFGS(
            [lam, class_lam], max_iter=MAX_STEPS, history_size=20, line_search_fn='strong_wolfe'
        )

        def loss() -> Tensor:
            optimizer.zero_grad()
            own = torch.cat([rows @ class_lam[c] for c, rows in enumerate(sorted_rows)])
            score = (shared @ lam).index_add(0, order, own)
            total = group_weight @ score.view(-1, size).double().logsumexp(dim=1)
            total = total - target @ lam.double() - (class_target * class_lam).sum()
            total = total + RIDGE / (2 * n) * lam.double().square().sum()
            total = total + CLASS_RIDGE / (2 * n) * class_lam.double().square().sum()
            total.backward()
            return total

        optimizer.step(loss)
        self.weight, self.class_weight = lam.detach(), class_lam.detach()

    def calibrate(
        self,
        aim: dict[str, float],
        table: Tensor,
        pool: CandidatePool,
        is_release: bool = False,
        callback: Callable[[], None] | None = None,
    ) -> ViewMatch:
        r"""Changes the parameters until probes that are trained on selected
        trees score as on the source, for all views at once.

        Means that are equal do not imply this: a probe that is trained on
        generated trees is less accurate than one of the source, and clusters
        lose some of the features.

        Args:
            aim (dict[str, float]): The score of each view on the source.
            table (torch.Tensor): The features of each token, ``[m, D]``.
            pool (CandidatePool): The candidates that the tilt was fitted to.
            is_release (bool, optional): Whether a release consists of these
                candidates. If so, the selection whose scores are closest to the
                aim is kept. With a few thousand trees, scores of selections
                vary by one or two per cent. (default: :obj:`False`)
            callback (callable, optional): Called after each round.
                (default: :obj:`None`)
        """
        names = view_names(pool.trees.shape)
        match = ViewMatch(aim=dict(aim), candidates=pool.size)
        num_draws = max(1, min(MAX_DRAWS, NUM_TREES // pool.num_groups))
        made, best, best_error = pool.statistics(self.statistics), (self.weight, 0), torch.inf
        start: _Round | None = None  # the best round so far, where the next step starts
        response, planned = Response(), None
        for round_ in range(MAX_ROUNDS + 1):
            score, gaps = self._scores(made, pool.trees.y), []
            for draw in range(round_ * num_draws, (round_ + 1) * num_draws):
                found = view_scores(pool.trees.select(pool.choose(score, draw)), table)
                gaps.append(torch.tensor([aim[name] - found[name] for name in names]))
                error = float(gaps[-1].square().mean())
                if is_release and error < best_error:
                    best, best_error = (self.weight, draw), error
            gap = torch.stack(gaps).mean(dim=0)
            match.rounds.append(
                {name: aim[name] - float(g) for name, g in zip(names, gap, strict=True)}
            )
            error = float(gap.square().mean())
            if not is_release and error < best_error:
                best, best_error = (self.weight, 0), error
            if callback is not None:
                callback()
            if round_ == MAX_ROUNDS:
                break
            if start is not None and planned is not None:
                response.observe(planned, start.gap - gap)
            if start is None or error < start.error:
                start = _Round(self.weight, score, gap, error)
            self.weight, planned = self._step(start, response.gain, made, pool.size)
        self.weight, self.draw = best
        chance = self._scores(made, pool.trees.y).view(-1, pool.size).softmax(dim=1)
        match.effective = float((1 / chance.square().sum(dim=1)).mean())
        return match

    def _step(
        self, start: _Round, gain: float, made: Statistics, size: int
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
        change = covariance / self.scale[columns]  # of the mean of view v, per parameter w
        damping = DAMPING * torch.linalg.matrix_norm(change, 2) ** 2
        step = torch.linalg.solve(
            change.t() @ change + damping * torch.eye(gap.numel()), change.t() @ (STEP * gap)
        ).clamp(-MAX_STEP_SIZE, MAX_STEP_SIZE)
        weight = start.weight.clone()
        weight[columns] += step
        return weight, change @ step

    def select(self, pool: CandidatePool) -> TokenTrees:
        r"""Keeps one candidate of each group."""
        score = self._scores(pool.statistics(self.statistics), pool.trees.y.long())
        return pool.trees.select(pool.choose(score, self.draw))

    def _scores(self, found: Statistics, y: Tensor) -> Tensor:
        r"""The logarithm of the weight of each tree, up to a constant, ``[n]``."""
        shared, by_class = self._standardized(found)
        return shared @ self.weight + (by_class * self.class_weight[y]).sum(dim=1)

    def _standardized(self, found: Statistics) -> tuple[Tensor, Tensor]:
        width = self.weight.numel()
        return (
            (found.shared - self.shift[:width]) / self.scale[:width],
            (found.by_class - self.shift[width:]) / self.scale[width:],
        )

    def tensors(self) -> dict[str, Tensor]:
        r"""All tensors of this tilt, for a file."""
        out = {
            'table': self.statistics.table,
            'shift': self.shift,
            'scale': self.scale,
            'weight': self.weight,
            'class_weight': self.class_weight,
            'draw': torch.tensor(self.draw),
        }
        for i, fold in enumerate(self.statistics.probes.folds):
            for j, probe in enumerate(fold.values()):
                for name in ('shift', 'weight', 'bias'):
                    out[f'probe.{i}.{j}.{name}'] = getattr(probe, name)
        return {name: value.contiguous() for name, value in out.items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], shape: TreeShape) -> ViewTilt:
        r"""The inverse of :meth:`tensors`.

        Args:
            tensors (dict[str, torch.Tensor]): What :meth:`tensors` returned.
            shape (TreeShape): The geometry of the trees.
        """
        names = view_names(shape)
        folds = [
            {
                name: LinearProbe(
                    *(tensors[f'probe.{i}.{j}.{part}'] for part in ('shift', 'weight', 'bias'))
                )
                for j, name in enumerate(names)
            }
            for i in range(NUM_FOLDS)
        ]
        statistics = TreeStatistics(tensors['table'], shape, ViewProbes(folds))
        shift, scale, weight, class_weight = (
            tensors[name] for name in ('shift', 'scale', 'weight', 'class_weight')
        )
        return cls(statistics, shift, scale, weight, class_weight, int(tensors['draw']))


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
    scores of probes.

    The scores to reach lie half-way between those on original features and those
    on quantized ones. Probes and GNNs do not lose the same accuracy by
    quantization: with scores of the original features, GNNs are too accurate on
    Cora and not accurate enough on CiteSeer, and the other way round with those
    of quantized features.

    Args:
        real (list[TokenTrees]): Several draws of computation graphs of the same
            roots. Tokens are nodes.
        x (torch.Tensor): The features of all nodes, dense or sparse, ``[N, F]``.
        cluster (torch.Tensor): The cluster of each node, ``[N]``.
        codebook (torch.Tensor): The features of each cluster, ``[m, F]``.
        pool (CandidatePool): Generated candidates.
        is_release (bool, optional): See :meth:`ViewTilt.calibrate`.
            (default: :obj:`False`)
        callback (callable, optional): Called after each of the
            :obj:`MAX_ROUNDS` + 1 rounds of calibration. (default: :obj:`None`)
    """
    table = probe_table(codebook)
    quantized = [trees.map_tokens(cluster, codebook.size(0)) for trees in real]
    scores = [view_scores(trees, table) for trees in quantized[:SCORE_DRAWS]]
    rows_before, rows_table = None, None
    for trees in real[:SCORE_DRAWS]:
        used, rows = used_tokens(trees, x)
        if rows_before is None or not _equal(rows, rows_before):  # draws of all roots use all nodes
            rows_before, rows_table = rows, probe_table(rows)
        assert rows_table is not None
        scores.append(view_scores(used, rows_table))
    aim = {name: sum(score[name] for score in scores) / len(scores) for name in scores[0]}
    source = replace(
        quantized[0],
        tokens=torch.cat([trees.tokens for trees in quantized]),
        y=torch.cat([trees.y for trees in quantized]),
        split=torch.cat([trees.split for trees in quantized]),
    )
    # All trees of a root are in one fold.
    fold = random_folds(len(real[0]), seeded(pool.seed, 'roots')).repeat(len(real))
    tilt = ViewTilt.fit(source, fold, table, pool)
    return tilt, tilt.calibrate(aim, table, pool, is_release, callback)


def _cells(trees: TokenTrees) -> Tensor:
    r"""The label of each tree together with whether its root is a training node."""
    return 2 * trees.y.long() + is_train(trees).long()


def _equal_shares(real: Tensor, made: Tensor) -> tuple[Tensor, Tensor]:
    r"""Weights of rows and of groups, such that each cell weighs as much among
    groups as among rows. Else the tilt would make up for cells that are drawn
    too often: with other trees in the training split than in the test split.
    Cells without groups weigh nothing.

    Args:
        real (torch.Tensor): The cell of each row of the source.
        made (torch.Tensor): The cell of each group.
    """
    num_cells = 1 + int(torch.cat([real, made]).max())
    group = torch.bincount(made, minlength=num_cells).double()
    share = torch.bincount(real, minlength=num_cells).double() * (group > 0)
    row_weight = (group > 0).double()[real] / share.sum()
    return row_weight, (share / share.sum() / group.clamp(min=1))[made]


def _equal(a: Tensor, b: Tensor) -> bool:
    r"""Whether two dense matrices are equal. Sparse ones are not compared."""
    return a.layout == b.layout == torch.strided and torch.equal(a, b)


def _standard(z: Tensor) -> tuple[Tensor, Tensor]:
    r"""Means and standard deviations. A constant is not scaled."""
    scale = z.double().std(dim=0, unbiased=False)
    return z.double().mean(dim=0).float(), torch.where(scale > 1e-6, scale, 1.0).float()
