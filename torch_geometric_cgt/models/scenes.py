r"""Scenes: classes of roots with alike surroundings."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_geometric_cgt.data import NUM_SPLITS
from torch_geometric_cgt.quantizer import FlowKMeans, reduce_features
from torch_geometric_cgt.quantizer.class_probabilities import out_of_fold_probabilities, task_space
from torch_geometric_cgt.sampler import InNeighbors
from torch_geometric_cgt.sampler.neighbors import smooth

NUM_COMPONENTS = 64
TASK_WEIGHT = 2.0  # of class probabilities beside averaged features of unit variance
SMOOTHING = 2.0  # roots of its split that are added to those of each label
NUM_FITS = 50  # of the two margins of a table, one after the other


def find_scenes(
    cluster: Tensor,
    codebook: Tensor,
    graph: InNeighbors,
    root: Tensor,
    y: Tensor,
    num_scenes: int,
    k: int,
    seed: int = 0,
) -> Tensor:
    r"""Groups roots by what a GNN sees around them: cluster means, averaged
    over two hops, and the class probabilities of a linear model that sees a
    root, its neighbours and that average apart.

    A scene tells how far a neighbourhood agrees with the label of its root.
    Labels are looked at out of fold, so that a root whose surroundings speak
    for another label is in a scene of that other label.

    Args:
        cluster (torch.Tensor): The cluster of each node, ``[N]``.
        codebook (torch.Tensor): The mean feature vectors, ``[m, F]``.
        graph (InNeighbors): The neighbours of each node.
        root (torch.Tensor): The nodes that are grouped, ``[n]``.
        y (torch.Tensor): The labels of these that may be learned from, ``[n]``,
            negative elsewhere.
        num_scenes (int): The number of scenes.
        k (int): The minimum number of roots per scene.
        seed (int, optional): The seed of all draws. (default: :obj:`0`)

    Returns:
        The scene of each root, ``[n]``.
    """
    z = reduce_features(codebook, NUM_COMPONENTS, seed)
    own = z[cluster.long()]
    near = smooth(own, graph, 1)
    around = smooth(near, graph, 1)[root]
    if bool((y >= 0).any()):
        known = torch.cat([own[root], near[root], around], dim=1)
        around = task_space(around, out_of_fold_probabilities(known, y, seed=seed), TASK_WEIGHT)
    found = FlowKMeans(num_scenes, k, random_state=seed).fit(around)
    return torch.from_numpy(found.labels_).long()


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


def draw_roots(
    y: Tensor, split: Tensor, num_samples: int, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    r"""Draws labels and splits of synthetic roots.

    The number of roots of each split is the source's proportion, rounded by
    largest remainder; labels are drawn from the label histogram of the split.

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
