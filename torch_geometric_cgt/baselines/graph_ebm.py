r"""GraphEBM: an energy-based model of computation graphs, sampled by Langevin dynamics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_geometric_cgt.baselines.fitting import NeuralTreeModel, check_positive
from torch_geometric_cgt.baselines.token_codes import TokenCodes
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.models import FitContext, TreeSource

NOISE = 0.5  # largest distance of a dequantized value from its integer
BOX = 2.5  # largest absolute value of a coordinate
BUFFER = 4096  # trees in the replay buffer
RESTART = 0.05  # share of the trees of a step that start from noise
WEIGHT = 0.01  # of the squared energies in the loss
SHARPNESS = 4.0  # of the weight of an edge


class GraphEBM(NeuralTreeModel):
    r"""The energy-based model of `"GraphEBM: Molecular Graph Generation with
    Energy-Based Models" <https://arxiv.org/abs/2102.00546>`_ (Liu et al., 2021), on
    computation graphs and given the label.

    Every slot is a continuous vector: one coordinate says whether the slot is
    attached to its parent, and the others are the binary code of its token
    (:class:`TokenCodes`; the paper has one coordinate per atom type). Uniform noise
    dequantizes trees. A relational graph convolutional network on the weighted tree
    computes the energy. It knows the layer of a slot, but not its place among its
    siblings, so that the energy does not depend on their order.

    Training lowers the energy of trees of the source and raises that of samples
    (contrastive divergence). Samples follow Langevin dynamics,
    :math:`x \leftarrow x - \frac{\eta}{2} \nabla E(x, y) + \sqrt{\eta}\,\epsilon`.
    In training, they continue those of earlier steps from a replay buffer. The loss
    contains the squares of energies, as in the paper. :meth:`sample` starts from
    noise.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels.
        num_neighbors (list[int]): The fan-out of each layer.
        hidden_channels (int, optional): The size of hidden representations.
            (default: :obj:`64`)
        langevin_steps (int, optional): The number of Langevin steps in each training
            step. (default: :obj:`15`)
        sample_steps (int, optional): The number of Langevin steps of a sample.
            (default: :obj:`100`)
        step_size (float, optional): The step size :math:`\eta`.
            (default: :obj:`0.1`)
        num_steps (int, optional): The number of training steps.
            (default: :obj:`400`)
        batch_size (int, optional): The number of trees of a step.
            (default: :obj:`64`)
        lr (float, optional): The largest learning rate. (default: :obj:`0.003`)
    """

    name = 'GraphEBM'

    def __init__(
        self,
        num_tokens: int,
        num_classes: int,
        num_neighbors: Sequence[int],
        hidden_channels: int = 64,
        langevin_steps: int = 15,
        sample_steps: int = 100,
        step_size: float = 0.1,
        num_steps: int = 400,
        batch_size: int = 64,
        lr: float = 0.003,
    ) -> None:
        super().__init__(
            num_tokens, num_classes, num_neighbors, hidden_channels, num_steps, batch_size, lr
        )
        self.langevin_steps = langevin_steps
        self.sample_steps = sample_steps
        self.step_size = step_size
        for name in ('langevin_steps', 'sample_steps', 'step_size'):
            check_positive(name, getattr(self, name))
        self.codes = TokenCodes(num_tokens)
        self.energy = TreeEnergy(1 + self.codes.num_bits, num_classes, self.shape, hidden_channels)
        self.buffer: tuple[Tensor, Tensor] | None = None  # samples of earlier steps

    def config(self) -> dict[str, Any]:
        r"""The constructor arguments of this model."""
        names = ('langevin_steps', 'sample_steps', 'step_size')
        return {**super().config(), **{name: getattr(self, name) for name in names}}

    @property
    def values_per_slot(self) -> int:
        r"""The number of values that a batch holds of each slot."""
        return 16 * self.hidden_channels

    def fit(self, source: TreeSource, context: FitContext | None = None) -> dict[str, Any]:
        r"""Trains the model. The history has the losses of contrastive divergence,
        which are not likelihoods.
        """
        self.buffer = None
        try:
            return super().fit(source, context)
        finally:
            self.buffer = None

    def loss(self, tokens: Tensor, y: Tensor, generator: torch.Generator) -> Tensor:
        r"""The energy of trees minus that of samples, and the squares of both."""
        real = self.energy(self.dequantize(tokens, generator), y)
        fake = self.energy(*self.negatives(y, generator))
        return (real - fake + WEIGHT * (real.square() + fake.square())).mean()

    def dequantize(self, tokens: Tensor, generator: torch.Generator | None = None) -> Tensor:
        r"""Turns token trees into continuous vectors, ``[B, T, 1 + b]``. The code of a
        null slot is zero before noise is added.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            generator (torch.Generator, optional): The source of randomness.
                (default: :obj:`None`)
        """
        real = (tokens != self.num_tokens)[..., None]
        code = self.codes.encode(tokens.clamp(max=self.num_tokens - 1), generator) * real
        x = torch.cat([2.0 * real - 1.0, code], dim=2)
        return x + NOISE * self._uniform(x.shape, generator)

    def decode(self, x: Tensor) -> Tensor:
        r"""The tokens of continuous vectors, ``[B, T]``. A root is never null."""
        attached = x[..., 0] >= 0
        attached[:, 0] = True
        return self.codes.decode(x[..., 1:]).masked_fill(~attached, self.num_tokens)

    def negatives(self, y: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        r"""Samples of the model ``[B, T, 1 + b]`` with their labels ``[B]``: those of
        the replay buffer after more Langevin steps. Some of them are new.

        Args:
            y (torch.Tensor): The labels of new samples, ``[B]``.
            generator (torch.Generator): The source of randomness.
        """
        if self.buffer is None:
            repeats = math.ceil(BUFFER / y.numel())
            labels = y.repeat(repeats)[:BUFFER]
            self.buffer = (self.start(labels, generator), labels)
        x, labels = self.buffer
        size, device = y.numel(), y.device
        place = torch.randperm(labels.numel(), generator=generator, device=device)[:size]
        new = torch.rand(place.shape, generator=generator, device=device) < RESTART
        label = torch.where(new, y[: place.numel()], labels[place])
        begin = torch.where(new[:, None, None], self.start(label, generator), x[place])
        end = self.langevin(begin, label, self.langevin_steps, generator)
        x[place], labels[place] = end, label
        return end, label

    def start(self, y: Tensor, generator: torch.Generator | None) -> Tensor:
        r"""Uniform noise, ``[B, T, 1 + b]``."""
        size = (y.numel(), self.shape.num_slots, 1 + self.codes.num_bits)
        return (1 + NOISE) * self._uniform(size, generator)

    def langevin(
        self, x: Tensor, y: Tensor, num_steps: int, generator: torch.Generator | None
    ) -> Tensor:
        r"""Makes Langevin steps, within a box.

        Args:
            x (torch.Tensor): Where to start, ``[B, T, 1 + b]``.
            y (torch.Tensor): The label of each tree, ``[B]``.
            num_steps (int): The number of steps.
            generator (torch.Generator, optional): The source of randomness.
        """
        for _ in range(num_steps):
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                (gradient,) = torch.autograd.grad(self.energy(x, y).sum(), x)
            noise = torch.randn(x.shape, generator=generator, device=x.device)
            x = x.detach() - 0.5 * self.step_size * gradient + math.sqrt(self.step_size) * noise
            x = x.clamp(-BOX, BOX)
        return x

    def draw(self, y: Tensor, generator: torch.Generator | None) -> Tensor:
        r"""Follows Langevin dynamics from noise."""
        x = self.start(y, generator)
        return self.decode(self.langevin(x, y, self.sample_steps, generator))

    def _uniform(self, size: Sequence[int], generator: torch.Generator | None) -> Tensor:
        device = self.is_fitted.device
        return 2 * torch.rand(list(size), generator=generator, device=device) - 1


class TreeEnergy(nn.Module):
    r"""The energy of continuous trees: a relational graph convolutional network with
    two relations, from parents and from children, and a sum over slots.

    Args:
        in_channels (int): The number of coordinates of a slot. The first one says
            whether it is attached to its parent.
        num_classes (int): The number of labels.
        shape (TreeShape): The geometry of the trees.
        hidden_channels (int): The size of hidden representations.
        num_layers (int, optional): The number of convolutions. (default: :obj:`2`)
    """

    parent: Tensor  # [T] the root is its own parent, with an edge of weight zero
    layer: Tensor  # [T]

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        shape: TreeShape,
        hidden_channels: int,
        num_layers: int = 2,
    ) -> None:
        super().__init__()
        self.register_buffer('parent', shape.parent.clamp(min=0), persistent=False)
        self.register_buffer('layer', shape.layer.clone(), persistent=False)
        self.lin = nn.Linear(in_channels, hidden_channels)
        self.layers = nn.Embedding(shape.depth + 1, hidden_channels)
        self.label = nn.Embedding(num_classes, hidden_channels)
        self.convs = nn.ModuleList(
            nn.Linear(3 * hidden_channels, hidden_channels) for _ in range(num_layers)
        )
        self.out = nn.Sequential(
            nn.Linear(2 * hidden_channels, hidden_channels),
            nn.SiLU(),
            nn.Linear(hidden_channels, 1),
        )

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        r"""The energy of each tree, ``[B]``.

        Args:
            x (torch.Tensor): One vector per slot, ``[B, T, in_channels]``.
            y (torch.Tensor): The label of each tree, ``[B]``.
        """
        weight = (SHARPNESS * x[..., :1]).sigmoid() * (self.layer > 0)[:, None]  # of the edge up
        label = self.label(y)[:, None]
        h = F.silu(self.lin(x) + self.layers(self.layer) + label)
        for conv in self.convs:
            from_parent = weight * h[:, self.parent]
            from_children = torch.zeros_like(h).index_add(1, self.parent, weight * h)
            h = h + F.silu(conv(torch.cat([h, from_parent, from_children], dim=2)))
        h = torch.cat([h, label.expand_as(h)], dim=2)
        return self.out(h)[..., 0].sum(dim=1)
