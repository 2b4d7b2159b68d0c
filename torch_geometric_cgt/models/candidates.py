r"""Generated candidates, of which one per tree of a release is kept."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from torch_geometric_cgt.data import TokenTrees, masks_of
from torch_geometric_cgt.data.views import NUM_FOLDS
from torch_geometric_cgt.models.tree_statistics import Statistics, TreeStatistics
from torch_geometric_cgt.utils.seeds import seeded


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

    def choose(self, score: Tensor, draw: int) -> Tensor:
        r"""Draws one candidate of each group with probability proportional to
        :math:`\exp(\text{score})`, and returns their positions.

        Args:
            score (torch.Tensor): The score of each candidate.
            draw (int): The number of the draw. Each of them is another selection.
        """
        groups = score.view(-1, self.size)
        noise = torch.empty_like(groups).exponential_(generator=seeded(self.seed, 'choice', draw))
        best = (groups - noise.log()).argmax(dim=1)  # Gumbel noise
        return best + torch.arange(self.num_groups) * self.size


def random_folds(num_trees: int, rng: torch.Generator) -> Tensor:
    r"""A random fold for each tree, ``[n]``."""
    return torch.randint(NUM_FOLDS, (num_trees,), generator=rng)


def is_train(trees: TokenTrees) -> Tensor:
    r"""Whether the root of each tree is a training node, ``[n]``."""
    return masks_of(trees.split)['train_mask']
