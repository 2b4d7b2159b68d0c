r"""The distribution p(scene | label) of k-anonymous builds, and its calibration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from tqdm import tqdm

from torch_geometric_cgt.data import NUM_SPLITS, TokenTrees, TreeShape, masks_of
from torch_geometric_cgt.utils.linear import fit_linear, reduce_features

SMOOTHING = 2.0  # pseudo-counts per label, distributed like the roots of its split
NUM_FITS = 50  # steps of iterative proportional fitting
LOWEST, HIGHEST, NUM_STEPS = 0.25, 8.0, 7  # of the bisection for the sharpness
PROBE_COMPONENTS = 512
BLOCK_ELEMENTS = 1 << 24  # elements of features per block
NUM_TREES = 6_000  # minimum number of trees per step of the bisection
MAX_ROUNDS = 4  # maximum number of draws per step, each of the size of the source


class SceneTable:
    r"""The number of roots of each split, label and scene, and tables with the
    same margins but a stronger or weaker dependence of scene and label.

    A generated tree resembles its scene only approximately. If scenes were drawn
    in proportion to the counts, generated trees would depend less on their
    label than trees of the source. A table of sharpness :math:`\tau` raises the
    ratio :math:`p(\text{scene} \mid y) / p(\text{scene})` to the power
    :math:`\tau` and is then fitted to the margins of the counts, so that the
    number of roots of each label and of each scene does not change.

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
        given_label = (self.count + SMOOTHING * self.base[:, None]) / (labels + SMOOTHING)
        weight = labels * self.base[:, None] * (given_label / self.base[:, None]) ** sharpness
        for _ in range(NUM_FITS):
            weight = weight * scenes / weight.sum(dim=1, keepdim=True).clamp(min=1e-30)
            weight = weight * labels / weight.sum(dim=2, keepdim=True).clamp(min=1e-30)
        return torch.where(labels > 0, weight, self.base[:, None])

    def draw(
        self, y: Tensor, split: Tensor, sharpness: float, generator: torch.Generator
    ) -> Tensor:
        r"""Draws a scene for each root, ``[n]``.

        Systematic sampling is used: among the roots of a split and label, the
        number of roots in a scene differs from its expectation by less than
        one.

        Args:
            y (torch.Tensor): The label of each root, ``[n]``.
            split (torch.Tensor): The split code of each root, ``[n]``.
            sharpness (float): The sharpness :math:`\tau` of the table.
            generator (torch.Generator): The source of randomness.
        """
        cumulated = self.table(sharpness).cumsum(dim=2)
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


@dataclass
class Sharpness:
    r"""The result of the calibration of scenes."""

    value: float = 1.0
    aim: float | None = None  # accuracy of the probe on the source
    tried: list[tuple[float, float]] = field(default_factory=list)  # (sharpness, accuracy)
    draws: list[float] = field(default_factory=list)  # accuracy of each candidate release
    draw: int = 0  # number of the candidate that is closest to the aim

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class TreeProbe:
    r"""The test accuracy of a logistic regression on averaged trees. It is a
    proxy for the accuracy of a linear GNN.

    Args:
        features (torch.Tensor): The features of each token, ``[m, F]``.
        shape (TreeShape): The geometry of the trees.
    """

    def __init__(self, features: Tensor, shape: TreeShape) -> None:
        z = reduce_features(features, PROBE_COMPONENTS).float()
        self.z = torch.cat([z, z.new_zeros(1, z.size(1))])  # the last row is the null token
        self.shape = shape

    def features(self, tokens: Tensor) -> Tensor:
        r"""Averages each tree from its leaves to its root, ``[n, D]``. In each
        step, a slot becomes the mean of itself and its non-null children.
        """
        null, depth = self.z.size(0) - 1, self.shape.depth
        slots = [tokens[:, self.shape.layer_slice(layer)].long() for layer in range(depth + 1)]
        real = [(slot != null).unsqueeze(-1).to(self.z.dtype) for slot in slots]
        layers = [self.z[slot] for slot in slots]
        for rounds in range(depth):
            for layer in range(depth - rounds):
                fan_out = self.shape.num_neighbors[layer]
                below = (layers[layer + 1] * real[layer + 1]).unflatten(1, (-1, fan_out)).sum(dim=2)
                number = real[layer + 1].unflatten(1, (-1, fan_out)).sum(dim=2)
                layers[layer] = (layers[layer] + below) / (1 + number)
        return layers[0][:, 0]

    def accuracy(self, trees: TokenTrees) -> float:
        r"""Trains on the training roots and returns the accuracy on all other
        roots. If the training split cannot be used, every second root is
        trained on.
        """
        step = max(1, BLOCK_ELEMENTS // (self.shape.num_slots * self.z.size(1)))
        rows = torch.cat([self.features(part) for part in trees.tokens.split(step)])
        rows = rows - rows.mean(dim=0)
        rows = rows / rows.square().sum(dim=1).mean().sqrt().clamp(min=1e-12)
        train = masks_of(trees.split)['train_mask']
        if train.all() or trees.y[train].unique().numel() < 2:
            train = torch.arange(train.numel()) % 2 == 0
        if trees.y[train].unique().numel() < 2:  # only one class
            return 1.0
        model = LogisticRegression(C=10.0, max_iter=300, tol=1e-3)
        fit_linear(model, rows[train].numpy(), trees.y[train].numpy())
        return float(model.score(rows[~train].numpy(), trees.y[~train].numpy()))


def source_accuracy(x: Tensor, trees: list[TokenTrees]) -> float:
    r"""The mean accuracy of the probe on trees of the source.

    Args:
        x (torch.Tensor): The features of all nodes, dense or sparse, ``[N, F]``.
        trees (list[TokenTrees]): Several draws of trees whose tokens are nodes.
    """
    node = torch.cat([part.tokens for part in trees]).unique()
    node = node[node < trees[0].num_tokens]
    if x.layout != torch.strided:
        x = x.to_sparse_coo()
    probe = TreeProbe(x.index_select(0, node), trees[0].shape)
    place = torch.full((trees[0].num_tokens,), -1)
    place[node] = torch.arange(len(node))
    return _mean([probe.accuracy(part.map_tokens(place, len(node))) for part in trees])


def find_sharpness(
    aim: float,
    probe: TreeProbe,
    draw: Callable[[float, int], TokenTrees],
    size: int,
    log: bool = True,
) -> Sharpness:
    r"""Finds by bisection the sharpness for which the probe has the same
    accuracy on generated trees as on the source.

    Only this one number is fitted to the source. It sets how strongly trees
    depend on their label, not which trees belong to a label.

    Args:
        aim (float): The accuracy on the source.
        probe (TreeProbe): The probe of generated trees.
        draw (callable): Draws trees, given a sharpness and the number of the
            draw.
        size (int): The number of trees per draw.
        log (bool, optional): Whether to show progress. (default: :obj:`True`)
    """
    found = Sharpness(aim=aim)
    rounds = min(MAX_ROUNDS, -(-NUM_TREES // size))
    low, high = LOWEST, HIGHEST
    for _ in tqdm(range(NUM_STEPS), desc='calibrate', unit='step', disable=not log):
        middle = (low * high) ** 0.5
        score = _mean([probe.accuracy(draw(middle, i)) for i in range(rounds)])
        found.tried.append((middle, score))
        low, high = (middle, high) if score < aim else (low, middle)
    found.value = (low * high) ** 0.5
    return found


def choose_draw(
    found: Sharpness, probe: TreeProbe, draw: Callable[[int], TokenTrees], num_draws: int
) -> Sharpness:
    r"""Chooses, among candidate releases of a small graph, the one for which the
    accuracy of the probe is closest to its aim. With a few thousand trees, the
    accuracy varies by one or two per cent at random.

    Args:
        found (Sharpness): The sharpness and the aim.
        probe (TreeProbe): The probe of generated trees.
        draw (callable): Draws the trees of a candidate, given its number.
        num_draws (int): The number of candidates.
    """
    if num_draws > 1 and found.aim is not None:
        aim = found.aim
        found.draws = [probe.accuracy(draw(i)) for i in range(num_draws)]
        found.draw = min(range(num_draws), key=lambda i: abs(found.draws[i] - aim))
    return found


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
