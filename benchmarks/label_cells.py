r"""Private tokens for small graphs: cells around the noisy mean rows of the labels.

Rows have length one. Their noisy sums per label give a mean row of each label; the span of these is
where labels differ. In it, the two nearest label means are the cell of a row, and the noisy mean of
the rows of a cell, seen in the span, is its centre in the space of the features.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_geometric_cgt.privacy import Entry, Gaussian
from torch_geometric_cgt.privacy.mechanisms import clip_rows, noisy_sums

BOUND = 0.5  # of rows in the span, beside the mean of all rows; longer ones are shortened
MEANS, CELLS = 'sums of rows per label', 'sums of rows per cell, in the span of label means'


def cell_entries(means: float, cells: float) -> list[Entry]:
    r"""What the tokens cost, with shares of the budget."""
    return [
        Entry('label means', MEANS, 'node', 1.0, Gaussian(1.0), share=means),
        Entry('centres', CELLS, 'node', BOUND, Gaussian(1.0), share=cells),
    ]


@dataclass(frozen=True)
class LabelCells:
    r"""The private part: what assigns rows to cells."""

    origin: Tensor  # [F] the mean of all rows
    basis: Tensor  # [F, d]
    means: Tensor  # [C, d] label means in the span
    pairs: bool  # whether the second nearest label mean tells cells apart, too

    @classmethod
    def fit(
        cls,
        x: Tensor,
        y: Tensor,
        counts: Tensor,
        sigma: float,
        pairs: bool = True,
        generator: torch.Generator | None = None,
    ) -> 'LabelCells':
        r"""Noisy means per label, less their noise.

        Args:
            x (torch.Tensor): Rows of length one, ``[n, F]``.
            y (torch.Tensor): Their labels, ``[n]``.
            counts (torch.Tensor): Noisy counts of labels, ``[C]``.
            sigma (float): The noise of the sums.
            pairs (bool, optional): Whether a cell is given by the two nearest
                label means, and not by one. (default: :obj:`True`)
            generator (torch.Generator, optional): The source of the noise.
        """
        sums = noisy_sums(x, y, counts.numel(), 1.0, sigma, generator)
        counts = counts.clamp(min=10).double()[:, None]
        origin = sums.sum(dim=0) / counts.sum()
        noise = (sigma / counts) ** 2
        difference = sums / counts - origin
        # A coordinate that is large on average varies more: as with counts of words.
        scale = origin.clamp(min=0).expand_as(difference)
        spread = (difference.square() - noise).sum().clamp(min=1e-12) / scale.sum()
        difference = difference * spread * scale / (spread * scale + noise)
        rank = min(counts.numel() - 1, x.size(1))
        basis = torch.linalg.svd(difference, full_matrices=False).Vh[:rank].t()
        return cls(origin, basis, difference @ basis, pairs)

    @property
    def num_tokens(self) -> int:
        num_labels = self.means.size(0)
        return num_labels * (num_labels - 1) if self.pairs else num_labels

    def coordinates(self, x: Tensor) -> Tensor:
        r"""Rows in the span, ``[n, d]``."""
        return clip_rows(x.double() @ self.basis - self.origin @ self.basis, BOUND)

    def assign(self, x: Tensor) -> Tensor:
        r"""The cell of each row, ``[n]``: a function of the row and private means."""
        near = torch.cdist(self.coordinates(x), self.means).argsort(dim=1)
        first, second = near[:, 0], near[:, 1]
        if not self.pairs:
            return first
        return first * (self.means.size(0) - 1) + second - (second > first).long()

    def centres(
        self,
        x: Tensor,
        cell: Tensor,
        counts: Tensor,
        sigma: float,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        r"""The codebook, ``[m, F]``: noisy means of cells, which back off to the
        mean of their first label.

        Args:
            x (torch.Tensor): Rows of length one, ``[n, F]``.
            cell (torch.Tensor): Their cells, ``[n]``.
            counts (torch.Tensor): Private counts of cells, ``[m]``.
            sigma (float): The noise of the sums.
            generator (torch.Generator, optional): The source of the noise.
        """
        sums = noisy_sums(self.coordinates(x), cell, self.num_tokens, BOUND, sigma, generator)
        counts = counts.clamp(min=1).double()[:, None]
        prior = self.means.repeat_interleave(self.num_tokens // self.means.size(0), dim=0)
        noise = (sigma / counts) ** 2
        difference = sums / counts - prior
        weight = counts / counts.sum()
        spread = ((difference.square() - noise) * weight).sum().clamp(min=0) / prior.size(1)
        mean = prior + difference * spread / (spread + noise)
        return self.origin + clip_rows(mean, BOUND) @ self.basis.t()
