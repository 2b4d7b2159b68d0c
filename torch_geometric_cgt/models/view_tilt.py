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

Candidates are not kept independently of each other: the selection is balanced, see
:meth:`~torch_geometric_cgt.models.candidates.CandidatePool.choose`. Its own means, in each label
and split, are then close to the expected ones. Scores of GNNs on two independent selections differ
by several per cent.
"""

from __future__ import annotations

import torch
from torch import Tensor

from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.data.views import (
    NUM_FOLDS,
    LinearProbe,
    ViewProbes,
    tree_views,
    view_names,
)
from torch_geometric_cgt.models.candidates import CandidatePool, is_train
from torch_geometric_cgt.models.tree_statistics import Statistics, TreeStatistics
from torch_geometric_cgt.utils.seeds import seeded

RIDGE, CLASS_RIDGE = 1.0, 4.0  # penalties of shared parameters, and of those of one label
MAX_STEPS = 60  # of L-BFGS


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

    def select(self, pool: CandidatePool) -> TokenTrees:
        r"""Keeps one candidate of each group."""
        found = pool.statistics(self.statistics)
        shared, _ = self._standardized(found)
        return pool.trees.select(
            pool.choose(self.scores(found, pool.trees.y.long()), self.draw, shared)
        )

    def effective(self, pool: CandidatePool) -> float:
        r"""The effective number of candidates of a group, on average."""
        score = self.scores(pool.statistics(self.statistics), pool.trees.y.long())
        chance = score.view(-1, pool.size).softmax(dim=1)
        return float((1 / chance.square().sum(dim=1)).mean())

    def scores(self, found: Statistics, y: Tensor) -> Tensor:
        r"""The logarithm of the weight of each tree, up to a constant, ``[n]``.

        Args:
            found (Statistics): The statistics of the trees.
            y (torch.Tensor): Their labels, ``[n]``.
        """
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


def _standard(z: Tensor) -> tuple[Tensor, Tensor]:
    r"""Means and standard deviations. A constant is not scaled."""
    scale = z.double().std(dim=0, unbiased=False)
    return z.double().mean(dim=0).float(), torch.where(scale > 1e-6, scale, 1.0).float()
