r"""How labels and scenes go together, in the source and in what is sampled."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_geometric_cgt.data import NUM_SPLITS

SMOOTHING = 2.0  # roots of its split that are added to those of each label
NUM_FITS = 50  # of the two margins of a table, one after the other


class SceneTable:
    r"""The number of roots of each split, label and scene, and the tables of
    the same margins in which labels and scenes hold together more tightly.

    Scenes are found from noisy neighbourhoods, and a tree that is drawn in a
    scene is as noisy again: drawn from the counts as they are, scenes would
    tell less of the label than they do in the source. A table of sharpness
    :math:`\tau` raises what a scene tells of the label,
    :math:`p(\text{scene} \mid y) / p(\text{scene})`, to the power :math:`\tau`
    and is fitted to the margins of the counts: there are as many roots of each
    label and of each scene as before.

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

    def table(self, sharpness: float) -> Tensor:
        r"""The weight of each scene, given split and label, ``[S, C, G]``."""
        labels = self.count.sum(dim=2, keepdim=True)  # [S, C, 1]
        scenes = self.base[:, None] * labels.sum(dim=1, keepdim=True)  # [S, 1, G]
        told = (self.count + SMOOTHING * self.base[:, None]) / (labels + SMOOTHING)
        weight = labels * self.base[:, None] * (told / self.base[:, None]) ** sharpness
        for _ in range(NUM_FITS):
            weight = weight * scenes / weight.sum(dim=1, keepdim=True).clamp(min=1e-30)
            weight = weight * labels / weight.sum(dim=2, keepdim=True).clamp(min=1e-30)
        return torch.where(labels > 0, weight, self.base[:, None])

    def draw(
        self, y: Tensor, split: Tensor, sharpness: float, generator: torch.Generator
    ) -> Tensor:
        r"""Draws a scene for each root, ``[n]``.

        Of the roots of a split and label, each scene gets its share, up to
        one root: how far labels and scenes agree is not left to chance.

        Args:
            y (torch.Tensor): The label of each root, ``[n]``.
            split (torch.Tensor): The split code of each root, ``[n]``.
            sharpness (float): How tightly labels and scenes hold together.
            generator (torch.Generator): The source of randomness.
        """
        cumulated = self.table(sharpness).cumsum(dim=2)
        cumulated = cumulated / cumulated[..., -1:]
        scene = torch.empty_like(y, dtype=torch.long)
        key = split.long() * self.count.size(1) + y.long()
        for group in key.unique().tolist():
            rows = (key == group).nonzero().view(-1)
            place = torch.randperm(rows.numel(), generator=generator).double()
            place = (place + torch.rand(1, generator=generator)) / rows.numel()
            scene[rows] = torch.searchsorted(cumulated.flatten(0, 1)[group], place, right=True)
        return scene.clamp(max=self.count.size(2) - 1)

    def nll(self) -> float:
        r"""What naming the scene of a root costs in nats, given label and
        split, where the root itself does not count.
        """
        labels = self.count.sum(dim=2, keepdim=True)
        others = (self.count - 1 + SMOOTHING * self.base[:, None]) / (labels - 1 + SMOOTHING)
        seen = self.count > 0
        return -float((self.count[seen] * others[seen].clamp(min=1e-9).log()).sum()) / float(
            self.count.sum()
        )
