r"""Generated candidates, of which one per tree of a release is kept."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from torch_geometric_cgt.data import TokenTrees, masks_of
from torch_geometric_cgt.data.views import NUM_FOLDS
from torch_geometric_cgt.models.tree_statistics import Statistics, TreeStatistics
from torch_geometric_cgt.utils.seeds import seeded

SWEEPS = 4  # other draws that may replace candidates of a selection


@dataclass(frozen=True)
class CandidatePool:
    r"""Groups of generated candidates.

    Args:
        trees (TokenTrees): The candidates, groups one after the other. The
            candidates of a group have the same label.
        size (int): The number of candidates per group.
        seed (int): The seed of folds and selections.
    """

    trees: TokenTrees
    size: int
    seed: int
    # The last result of `statistics`, which takes as long as drawing the candidates.
    _known: list[tuple[TreeStatistics, Statistics]] = field(default_factory=list, repr=False)

    @property
    def num_groups(self) -> int:
        r"""The number of groups."""
        return len(self.trees) // self.size

    def statistics(self, statistics: TreeStatistics) -> Statistics:
        r"""The statistics of all candidates. Probes of a random fold predict each of them.
        The last result is kept.
        """
        if not self._known or self._known[0][0] is not statistics:
            fold = random_folds(len(self.trees), seeded(self.seed, 'folds'))
            y, train = self.trees.y.long(), is_train(self.trees)
            found = statistics(self.trees.tokens, y, train, fold)
            self._known[:] = [(statistics, found)]
        return self._known[0][1]

    def choose(self, score: Tensor, draw: int, balanced: Tensor | None = None) -> Tensor:
        r"""Draws one candidate of each group with probability proportional to
        :math:`\exp(\text{score})`, and returns their positions.

        Args:
            score (torch.Tensor): The score of each candidate.
            draw (int): The number of the draw. Each of them is another selection.
            balanced (torch.Tensor, optional): Statistics of each candidate,
                ``[n, P]``. If given, other draws replace candidates where this
                brings the sums of the statistics closer to their expectation:
                over all groups, those of each split, and those of each label and
                split. (default: :obj:`None`)
        """
        groups = score.view(-1, self.size)
        first = torch.arange(self.num_groups) * self.size

        def independent(sweep: int) -> Tensor:
            rng = seeded(self.seed, 'choice', draw, *([sweep] if sweep else []))
            noise = torch.empty_like(groups).exponential_(generator=rng)
            return (groups - noise.log()).argmax(dim=1) + first  # Gumbel noise

        if balanced is None:
            return independent(0)
        balance = Balance(balanced, self.trees, groups.softmax(dim=1))
        chosen = independent(0)
        balance.begin(chosen)
        for sweep in range(1, SWEEPS + 1):
            chosen = balance.improve(chosen, independent(sweep))
        return chosen


class Balance:
    r"""Brings the statistics of a selection closer to their expectation.

    A candidate is only replaced by another draw of the same group, so that each
    tree is still drawn with its probability, up to the choice between two draws.

    Args:
        statistics (torch.Tensor): The statistics of all candidates, ``[n, P]``.
        trees (TokenTrees): The candidates.
        chance (torch.Tensor): The probability of each of them, ``[G, c]``.
    """

    def __init__(self, statistics: Tensor, trees: TokenTrees, chance: Tensor) -> None:
        self.values = statistics.numpy()
        size = chance.size(1)
        split = trees.split[::size].long().unique(return_inverse=True)[1]
        cell = trees.y[::size].long() * (int(split.max()) + 1) + split
        # What a group belongs to: everything, its split, its label and split.
        self.levels = torch.stack([torch.zeros_like(split), split, cell], dim=1).tolist()
        weighted = chance.reshape(-1, 1) * statistics
        expected = weighted.view(-1, size, weighted.size(1)).sum(dim=1).numpy()  # [G, P]
        sizes = [1 + max(level) for level in zip(*self.levels, strict=True)]
        self.excess = [np.zeros((number, expected.shape[1]), np.float32) for number in sizes]
        self._add(-expected)

    def begin(self, chosen: Tensor) -> None:
        r"""Starts from a selection."""
        self._add(self.values[chosen.numpy()])

    def improve(self, chosen: Tensor, other: Tensor) -> Tensor:
        r"""Replaces candidates of a selection by those of another one, group by
        group, if the sums come closer to their expectation. Returns the new
        selection.
        """
        out = chosen.clone()
        change = self.values[other.numpy()] - self.values[chosen.numpy()]  # [G, P]
        square = len(self.excess) * np.square(change).sum(axis=1)
        everything, by_split, by_cell = self.excess
        for group, (_, split, cell) in enumerate(self.levels):
            step = change[group]
            excess = everything[0] + by_split[split] + by_cell[cell]
            if 2 * (step @ excess) + square[group] < 0:
                everything[0] += step
                by_split[split] += step
                by_cell[cell] += step
                out[group] = other[group]
        return out

    def _add(self, rows: np.ndarray) -> None:
        index = np.array(self.levels)
        for level, excess in enumerate(self.excess):
            np.add.at(excess, index[:, level], rows)


def random_folds(num_trees: int, rng: torch.Generator) -> Tensor:
    r"""A random fold for each tree, ``[n]``."""
    return torch.randint(NUM_FOLDS, (num_trees,), generator=rng)


def is_train(trees: TokenTrees) -> Tensor:
    r"""Whether the root of each tree is a training node, ``[n]``."""
    return masks_of(trees.split)['train_mask']
