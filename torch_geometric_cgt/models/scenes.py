r"""Scenes of synthetic trees: clusters of roots in k-anonymous builds, and in private tree models
the label that the tokens of a tree indicate.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp

import torch
from torch import Tensor, nn

from torch_geometric_cgt.data import NUM_SPLITS, TreeShape
from torch_geometric_cgt.models.noisy_tables import back_off, project_to_simplex, unfold
from torch_geometric_cgt.privacy import Queries

SMOOTHING = 2.0  # pseudo-counts per label, distributed like the roots of its split
NOISE_SCALE = 1.0  # of the number of roots of a label in a split of k-anonymous builds
ROOTS, SCENES = 'root tokens per label', 'scenes per label'  # names of ledger entries
FLOOR = 1e-3  # smallest probability of a label given a token, so that no token excludes a label
UNFOLDED_TREES = 10_000  # trees that are sampled to compare their scenes with the requested ones


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
    the method of the largest remainder. So are the numbers of roots of each label
    in a split, after two-sided geometric noise has been added to those of the
    source. Its standard deviation is 1.4 roots. Independent draws would make more
    noise, and scores of GNNs would follow it where the most frequent label decides
    them.

    Args:
        y (torch.Tensor): The label of each source root.
        split (torch.Tensor): The split code of each source root.
        num_samples (int): The number of synthetic roots.
        rng (torch.Generator): The source of randomness.
    """
    codes, sizes = split.unique(return_counts=True)
    share = _apportioned(sizes.double(), num_samples)
    labels = []
    for code, size in zip(codes, share.tolist(), strict=True):
        number = torch.bincount(y[split == code]).double()
        noise = torch.empty(2, number.numel(), dtype=torch.double).geometric_(
            1 - exp(-1 / NOISE_SCALE), generator=rng
        )
        noisy = (number + noise[0] - noise[1]).clamp(min=0) * (number > 0)
        number = _apportioned(noisy if noisy.any() else number, size)
        labels.append(torch.arange(number.numel()).repeat_interleave(number))
    perm = torch.randperm(num_samples, generator=rng)
    return torch.cat(labels)[perm], codes.repeat_interleave(share)[perm]


def in_proportion(weight: Tensor, total: int, rng: torch.Generator) -> Tensor:
    r"""Positions in random order, each of them as often as its weight says, without the noise of
    independent draws.

    Args:
        weight (torch.Tensor): The weight of each position, ``[n]``, not all of which are zero.
        total (int): The number of positions to return.
        rng (torch.Generator): The source of the order.
    """
    number = _apportioned(weight, total)
    every = torch.arange(number.numel()).repeat_interleave(number)
    return every[torch.randperm(total, generator=rng)]


def _apportioned(weight: Tensor, total: int) -> Tensor:
    r"""Whole numbers in proportion to weights, with a given sum."""
    exact = weight * total / weight.sum()
    number = exact.floor().long()
    rest = total - int(number.sum())
    number[(exact - number).argsort(descending=True, stable=True)[:rest]] += 1
    return number


class LabelScenes(nn.Module):
    r"""Scenes and their distribution given the label. The scene of a tree is the
    label that its tokens indicate together. It can differ from the label of the
    tree.

    Two noisy histograms are counted. The first one holds the root tokens of each
    label; it gives the label that a token indicates. The second one holds the
    scenes of each label.

    Args:
        num_tokens (int): The number of clusters.
        num_classes (int): The number of labels, which equals the number of
            scenes.
        shape (TreeShape): The geometry of the trees.
    """

    label: Tensor  # [C] p(label)
    root: Tensor  # [C, m] p(root token | label)
    evidence: Tensor  # [m + 1, C] the evidence of each token for each label
    seen: Tensor  # [C, C] p(scene | label) in the source
    scene: Tensor  # [C, C] p(scene | label) that trees are sampled with

    def __init__(self, num_tokens: int, num_classes: int, shape: TreeShape) -> None:
        super().__init__()
        self.shape = shape
        sizes = {
            'label': (num_classes,),
            'root': (num_classes, num_tokens),
            'evidence': (num_tokens + 1, num_classes),
            'seen': (num_classes, num_classes),
            'scene': (num_classes, num_classes),
        }
        for name, size in sizes.items():
            self.register_buffer(name, torch.zeros(size, dtype=torch.double))

    def fit(
        self,
        tokens: Tensor,
        y: Tensor,
        queries: Queries,
    ) -> Tensor:
        r"""Counts root tokens and scenes per label, with noise.

        Args:
            tokens (torch.Tensor): Token trees, ``[n, T]``.
            y (torch.Tensor): The label of each tree, ``[n]``.
            queries (Queries): Answers with the noise of the ledger.

        Returns:
            The scene of each tree, ``[n]``, which is **not** private.
        """
        roots = count_pairs(ROOTS, y, tokens[:, 0], self.root.shape, queries)
        self.root.copy_(back_off(roots, queries.sigma(ROOTS)))
        self.evidence.copy_(label_evidence(self.root, as_distribution(roots.sum(dim=1))))
        scene = scenes_of(tokens, self.evidence, self.shape)
        scenes = count_pairs(SCENES, y, scene, self.seen.shape, queries)
        joint = as_distribution(scenes.view(-1)).view_as(scenes)
        self.label.copy_(joint.sum(dim=1))
        self.seen.copy_(back_off(scenes, queries.sigma(SCENES), agreement_prior(joint)))
        self.scene.copy_(self.seen)
        return scene

    def unfold(self, draw_trees: Callable[[Tensor, Tensor], Tensor]) -> None:
        r"""Corrects the distribution of scenes so that the tokens of sampled
        trees indicate each label as often as in the source. It reads sampled
        trees only and costs nothing.

        Args:
            draw_trees (callable): Samples trees with given labels and scenes.
        """

        def indicated_scenes(label: Tensor, scene: Tensor) -> Tensor:
            return scenes_of(draw_trees(label, scene), self.evidence, self.shape)

        repeats = max(16, UNFOLDED_TREES // self.scene.numel())
        self.scene.copy_(unfold(self.seen, indicated_scenes, repeats))

    def draw(self, y: Tensor, generator: torch.Generator | None = None) -> Tensor:
        r"""Draws a scene per label, ``[B]``.

        Args:
            y (torch.Tensor): The label of each root, ``[B]``.
            generator (torch.Generator, optional): The source of randomness,
                on the device of the tables. (default: :obj:`None`)
        """
        return draw_columns(self.scene, y.long(), generator)


def count_pairs(
    name: str, row: Tensor, column: Tensor, size: tuple[int, ...] | torch.Size, queries: Queries
) -> Tensor:
    r"""A noisy histogram of (row, column) pairs with the shape :obj:`size`. Each
    tree adds one count.
    """
    index = row * size[1] + column
    return queries.histogram(name, index, size[0] * size[1]).view(*size)


def as_distribution(counts: Tensor) -> Tensor:
    r"""Converts noisy counts, ``[V]``, to a distribution."""
    total = counts.sum().clamp(min=1).view(1)
    return project_to_simplex(counts[None], total)[0] / total


def draw_columns(table: Tensor, row: Tensor, generator: torch.Generator | None) -> Tensor:
    r"""Draws one column for each given row of a table of probabilities."""
    cumulated = table.cumsum(dim=1)
    cumulated = cumulated / cumulated[:, -1:]
    chance = torch.rand(row.shape, dtype=torch.double, generator=generator, device=row.device)
    offset = torch.arange(table.size(0), device=table.device)[:, None]
    ends = (cumulated + offset).flatten()  # row i covers the interval (i, i + 1]
    found = torch.searchsorted(ends, chance.clamp(max=1 - 1e-9) + row, right=True)
    return found - row * table.size(1)


def label_evidence(token_given_label: Tensor, label: Tensor) -> Tensor:
    r"""The evidence of each token for each label: the centred logarithm of
    p(label | token), ``[m + 1, C]``. The last row, of the null token, is zero.

    Args:
        token_given_label (torch.Tensor): The distribution of root tokens of
            each label, ``[C, m]``.
        label (torch.Tensor): The distribution of labels, ``[C]``.
    """
    joint = (token_given_label * label[:, None]).t()  # [m, C]
    total = joint.sum(dim=1, keepdim=True)
    posterior = torch.where(total > 0, joint / total, label)
    evidence = posterior.clamp(min=FLOOR).log()
    evidence = evidence - evidence.mean(dim=1, keepdim=True)
    return torch.cat([evidence, evidence.new_zeros(1, label.numel())])


def scenes_of(tokens: Tensor, evidence: Tensor, shape: TreeShape) -> Tensor:
    r"""The label that the tokens of each tree indicate, ``[B]``: the one with
    the largest sum of evidence.

    The weight of a token halves with each layer. A scene depends on the tokens
    of its tree and on :obj:`evidence` only, not on the label of the root.

    Args:
        tokens (torch.Tensor): Token trees, ``[B, T]``.
        evidence (torch.Tensor): The evidence of each token, see
            :meth:`label_evidence`.
        shape (TreeShape): The geometry of the trees.
    """
    total = evidence.new_zeros(tokens.size(0), evidence.size(1))
    for slot, layer in enumerate(shape.layer.tolist()):
        total += 0.5**layer * evidence[tokens[:, slot].long()]
    return total.argmax(dim=1)


def agreement_prior(joint: Tensor) -> Tensor:
    r"""A prior of the scenes of each label, ``[C, C]``. It is computed from
    quantities with little noise: the frequency with which scene and label are
    equal, and the frequency of each scene.

    Args:
        joint (torch.Tensor): The distribution of label and scene, ``[C, C]``.
    """
    agree = joint.diagonal().sum()
    others = joint.sum(dim=0).expand_as(joint).clone()
    others.fill_diagonal_(0)
    total = others.sum(dim=1, keepdim=True)
    others = torch.where(total > 0, others / total, 1 / others.size(1))
    return agree * torch.eye(len(joint), dtype=joint.dtype) + (1 - agree) * others
