r"""Scenes: clusters of roots with similar neighbourhoods, and how labels are coupled to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from tqdm import tqdm

from torch_geometric_cgt.data import NUM_SPLITS, TokenTrees, TreeShape, masks_of
from torch_geometric_cgt.quantizer import FlowKMeans, reduce_features
from torch_geometric_cgt.quantizer.class_probabilities import (
    fit_linear,
    out_of_fold_probabilities,
    task_space,
)
from torch_geometric_cgt.sampler import InNeighbors
from torch_geometric_cgt.sampler.neighbors import smooth

NUM_COMPONENTS = 64
TASK_WEIGHT = 2.0  # of class probabilities beside averaged features of unit variance
SMOOTHING = 2.0  # roots of its split that are added to those of each label
NUM_FITS = 50  # of the two margins of a table, one after the other
LOWEST, HIGHEST, NUM_STEPS = 0.25, 8.0, 7
PROBE_COMPONENTS = 512
BLOCK_ELEMENTS = 1 << 24  # features that are held at a time
NUM_TREES = 6_000  # are drawn for each trial, at least
MAX_ROUNDS = 4  # graphs of the size of the source


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


@dataclass
class Sharpness:
    r"""What was tried, and what was found."""

    value: float = 1.0
    aim: float | None = None  # the accuracy of the probe on the source
    tried: list[tuple[float, float]] = field(default_factory=list)  # sharpness and accuracy
    draws: list[float] = field(default_factory=list)  # the accuracy of whole releases
    draw: int = 0  # the release that is closest to the aim

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class TreeProbe:
    r"""The accuracy of a linear model on averaged trees, from the training
    roots to all others: what a linear GNN would score.

    Args:
        features (torch.Tensor): The features of each token, ``[m, F]``.
        shape (TreeShape): The geometry of the trees.
    """

    def __init__(self, features: Tensor, shape: TreeShape) -> None:
        z = reduce_features(features, PROBE_COMPONENTS).float()
        self.z = torch.cat([z, z.new_zeros(1, z.size(1))])  # null is last
        self.shape = shape

    def features(self, tokens: Tensor) -> Tensor:
        r"""Averages each tree from its leaves to its root, ``[n, D]``: at
        each step, a slot becomes the mean of itself and its real children.
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
        r"""The accuracy on all roots that are not trained on."""
        step = max(1, BLOCK_ELEMENTS // (self.shape.num_slots * self.z.size(1)))
        rows = torch.cat([self.features(part) for part in trees.tokens.split(step)])
        rows = rows - rows.mean(dim=0)
        rows = rows / rows.square().sum(dim=1).mean().sqrt().clamp(min=1e-12)
        train = masks_of(trees.split)['train_mask']
        if train.all() or trees.y[train].unique().numel() < 2:
            train = torch.arange(train.numel()) % 2 == 0
        if trees.y[train].unique().numel() < 2:  # nothing to tell apart
            return 1.0
        model = LogisticRegression(C=10.0, max_iter=300, tol=1e-3)
        fit_linear(model, rows[train].numpy(), trees.y[train].numpy())
        return float(model.score(rows[~train].numpy(), trees.y[~train].numpy()))


def source_accuracy(x: Tensor, trees: list[TokenTrees]) -> float:
    r"""The accuracy of the probe on trees of the source itself.

    Args:
        x (torch.Tensor): The features of all nodes, dense or sparse, ``[N, F]``.
        trees (list[TokenTrees]): Trees whose tokens are nodes, drawn more than
            once.
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
    r"""Finds the sharpness at which the probe scores on generated trees what
    it scores on the source, by bisection. One number is found from thousands
    of trees: it can set how much a tree tells of its label, not which.

    Args:
        aim (float): The accuracy on the source.
        probe (TreeProbe): The probe of generated trees.
        draw (callable): Draws trees at a sharpness, given the number of the
            draw.
        size (int): How many trees it draws.
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
    r"""Chooses among whole releases of a small graph the one on which the
    probe scores closest to its aim. Of a few thousand trees, chance alone
    moves the score by one or two per cent.

    Args:
        found (Sharpness): The sharpness and the aim.
        probe (TreeProbe): The probe of generated trees.
        draw (callable): Draws the trees of a release, given its number.
        num_draws (int): How many there are to choose from.
    """
    if num_draws > 1 and found.aim is not None:
        aim = found.aim
        found.draws = [probe.accuracy(draw(i)) for i in range(num_draws)]
        found.draw = min(range(num_draws), key=lambda i: abs(found.draws[i] - aim))
    return found


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
