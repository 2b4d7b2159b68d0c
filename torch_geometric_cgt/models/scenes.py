r"""The labels, splits and scenes of synthetic roots in k-anonymous builds."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_geometric_cgt.data import NUM_SPLITS

SMOOTHING = 2.0  # pseudo-counts per label, distributed like the roots of its split


class SceneTable:
    r"""The number of roots of each split, label and scene, from which scenes
    are drawn given split and label.

    Args:
        y (torch.Tensor): The label of each root, ``[n]``.
        split (torch.Tensor): The split code of each root, ``[n]``.
        scene (torch.Tensor): The scene of each root, ``[n]``.
        num_classes (int): The number of labels.
        num_scenes (int): The number of scenes.
    """

    def __init__(
        self, y: Tensor, split: Tensor, scene: Tensor, num_classes: int, num_scenes: int
    ) -> None:
        self.num_scenes = num_scenes
        shape = (NUM_SPLITS, num_classes, num_scenes)
        key = (split.long() * num_classes + y.long()) * num_scenes + scene.long()
        self.count = torch.bincount(key, minlength=torch.Size(shape).numel()).view(shape).double()
        overall = self.count.sum(dim=(0, 1))
        margin = self.count.sum(dim=1) + overall / overall.sum()
        self.base = margin / margin.sum(dim=1, keepdim=True)  # [S, G]

    def table(self) -> Tensor:
        r"""The share of each scene, given split and label, ``[S, C, G]``."""
        labels = self.count.sum(dim=2, keepdim=True)  # [S, C, 1]
        return (self.count + SMOOTHING * self.base[:, None]) / (labels + SMOOTHING)

    def draw(self, y: Tensor, split: Tensor, generator: torch.Generator) -> Tensor:
        r"""Draws a scene for each root, ``[n]``.

        Systematic sampling is used: among the roots of a split and label, the
        number of roots in a scene differs from its expectation by less than
        one.

        Args:
            y (torch.Tensor): The label of each root, ``[n]``.
            split (torch.Tensor): The split code of each root, ``[n]``.
            generator (torch.Generator): The source of randomness.
        """
        cumulated = self.table().cumsum(dim=2)
        cumulated = cumulated / cumulated[..., -1:]
        scene = torch.empty_like(y, dtype=torch.long)
        key = split.long() * self.count.size(1) + y.long()
        for pair in key.unique().tolist():
            rows = (key == pair).nonzero().view(-1)
            place = torch.randperm(rows.numel(), generator=generator).double()
            place = (place + torch.rand(1, generator=generator)) / rows.numel()
            scene[rows] = torch.searchsorted(cumulated.flatten(0, 1)[pair], place, right=True)
        return scene.clamp(max=self.count.size(2) - 1)

    def nll(self) -> float:
        r"""The mean negative log-likelihood of the scene of a root given its
        label and split, in nats, with the root itself left out of the counts.
        """
        labels = self.count.sum(dim=2, keepdim=True)
        others = (self.count - 1 + SMOOTHING * self.base[:, None]) / (labels - 1 + SMOOTHING)
        seen = self.count > 0
        return -float((self.count[seen] * others[seen].clamp(min=1e-9).log()).sum()) / float(
            self.count.sum()
        )


def draw_roots(
    y: Tensor, split: Tensor, num_samples: int, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    r"""Draws labels and splits of synthetic roots.

    The number of roots of each split is proportional to the source, rounded by
    the method of the largest remainder. Labels are drawn from the label
    histogram of the split.

    Args:
        y (torch.Tensor): The label of each source root.
        split (torch.Tensor): The split code of each source root.
        num_samples (int): The number of synthetic roots.
        rng (torch.Generator): The source of randomness.
    """
    codes, sizes = split.unique(return_counts=True)
    exact = sizes.double() * num_samples / sizes.sum()
    share = exact.floor().long()
    rest = num_samples - int(share.sum())
    share[(exact - share).argsort(descending=True, stable=True)[:rest]] += 1
    labels = []
    for code, size in zip(codes, share, strict=True):
        histogram = torch.bincount(y[split == code]).double()
        labels.append(
            torch.multinomial(histogram, int(size), replacement=True, generator=rng)
            if size
            else y.new_empty(0)
        )
    perm = torch.randperm(num_samples, generator=rng)
    return torch.cat(labels)[perm], codes.repeat_interleave(share)[perm]
