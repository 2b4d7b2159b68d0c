r"""How tightly labels and scenes must hold together for generated trees to tell as much of
the label as those of the source.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from tqdm import tqdm

from torch_geometric_cgt.data import TokenTrees, TreeShape, masks_of
from torch_geometric_cgt.quantizer import reduce_features
from torch_geometric_cgt.quantizer.class_probabilities import fit_linear

LOWEST, HIGHEST, NUM_STEPS = 0.25, 8.0, 7
NUM_COMPONENTS = 512
BLOCK_ELEMENTS = 1 << 24  # features that are held at a time
NUM_TREES = 6_000  # are drawn for each trial, at least
MAX_ROUNDS = 4  # graphs of the size of the source


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
        z = reduce_features(features, NUM_COMPONENTS).float()
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
