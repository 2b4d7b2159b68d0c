r"""GraphAF: an autoregressive normalizing flow that generates computation graphs slot by slot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_geometric_cgt.baselines.fitting import check_positive
from torch_geometric_cgt.baselines.slot_model import SlotModel
from torch_geometric_cgt.baselines.token_codes import TokenCodes

MAX_LOG_SCALE = 3.0
LOG_2PI = math.log(2 * math.pi)


class GraphAF(SlotModel):
    r"""The autoregressive flow of `"GraphAF: a Flow-based Autoregressive Model for
    Molecular Graph Generation" <https://arxiv.org/abs/2001.09382>`_ (Shi et al.,
    2020), on computation graphs.

    Slots are generated in breadth-first order. Of each slot, the flow first
    generates whether it is attached to its parent, and then its token. Discrete
    values are dequantized: uniform noise turns them into continuous vectors. A
    vector is an affine function of Gaussian noise,
    :math:`x = \mu + \sigma \odot \epsilon`, whose parameters depend on the label and
    on the discrete part that is already generated. Its log-density is exact.

    Two things differ from the paper. It dequantizes one-hot vectors of a few atom
    types, and decodes the largest coordinate. A vocabulary of hundreds of tokens
    makes this infeasible: the largest of hundreds of noisy coordinates is rarely the
    right one. Tokens are therefore binary codes (:class:`TokenCodes`), and the
    parameters of a coordinate also depend on the signs of the coordinates before it.
    And noise fills only a part of the cell that is decoded to a value, because a
    Gaussian density does not end at the border of a cell.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels.
        num_neighbors (list[int]): The fan-out of each layer.
        hidden_channels (int, optional): The size of hidden representations.
            (default: :obj:`64`)
        noise (float, optional): The largest distance of a dequantized value from
            -1 or 1, between 0 and 1. (default: :obj:`0.5`)
        num_steps (int, optional): The number of training steps.
            (default: :obj:`2000`)
        batch_size (int, optional): The number of trees of a step.
            (default: :obj:`128`)
        lr (float, optional): The largest learning rate. (default: :obj:`0.005`)
    """

    name = 'GraphAF'

    def __init__(
        self,
        num_tokens: int,
        num_classes: int,
        num_neighbors: Sequence[int],
        hidden_channels: int = 64,
        noise: float = 0.5,
        num_steps: int = 2000,
        batch_size: int = 128,
        lr: float = 0.005,
    ) -> None:
        super().__init__(
            num_tokens, num_classes, num_neighbors, hidden_channels, num_steps, batch_size, lr
        )
        check_positive('noise', noise)
        if noise > 1:
            raise ValueError(f"'noise' must be at most 1 (got {noise})")
        self.noise = noise
        self.codes = TokenCodes(num_tokens)
        self.attached = AffineFlow(1, hidden_channels)
        self.token = AffineFlow(self.codes.num_bits, hidden_channels)

    def config(self) -> dict[str, Any]:
        r"""The constructor arguments of this model."""
        return {**super().config(), 'noise': self.noise}

    @property
    def values_per_slot(self) -> int:
        r"""The number of values that a batch holds of each slot."""
        return (self.codes.num_bits + self.shape.depth + 5) * self.hidden_channels

    def score_attached(
        self, real: Tensor, y: Tensor, slot: Tensor, context: Tensor, rng: torch.Generator | None
    ) -> Tensor:
        r"""A bound of the log-likelihood that slots are attached or not, ``[n]``."""
        return self._bound(self.attached, 2.0 * real[:, None] - 1.0, context, rng)

    def score_token(
        self, token: Tensor, y: Tensor, slot: Tensor, context: Tensor, rng: torch.Generator | None
    ) -> Tensor:
        r"""A bound of the log-likelihood of the tokens of real slots, ``[n]``."""
        bound = self._bound(self.token, self.codes.encode(token, rng), context, rng)
        return bound + self.codes.num_codes(token).log()

    def _bound(
        self, flow: AffineFlow, signs: Tensor, context: Tensor, rng: torch.Generator | None
    ) -> Tensor:
        r"""The log-density of a dequantized vector plus the entropy of the noise."""
        uniform = torch.rand(signs.shape, generator=rng, device=signs.device)
        x = signs + self.noise * (2 * uniform - 1)
        return flow.log_density(x, context) + signs.size(1) * math.log(2 * self.noise)

    def draw_attached(
        self, y: Tensor, slot: Tensor, context: Tensor, rng: torch.Generator | None
    ) -> Tensor:
        return self.attached.sample(context, rng)[:, 0] >= 0

    def draw_token(
        self, y: Tensor, slot: Tensor, context: Tensor, rng: torch.Generator | None
    ) -> Tensor:
        return self.codes.decode(self.token.sample(context, rng))


class AffineFlow(nn.Module):
    r"""An autoregressive affine map of Gaussian noise to vectors. Mean and scale of a
    coordinate depend on the context and on the signs of the coordinates before it.

    Args:
        num_dims (int): The number of coordinates, :math:`D`.
        channels (int): The size of contexts.
    """

    mask: Tensor  # [D * channels, D] which weights belong to earlier coordinates

    def __init__(self, num_dims: int, channels: int) -> None:
        super().__init__()
        self.num_dims = num_dims
        self.lin_context = nn.Linear(channels, channels)
        self.coordinate = nn.Embedding(num_dims, channels)
        self.before = nn.Linear(num_dims, num_dims * channels, bias=False)
        self.out = nn.Linear(channels, 2)
        before = torch.ones(num_dims, num_dims, device='cpu').tril(-1)  # [coordinate, earlier one]
        self.register_buffer('mask', before.repeat_interleave(channels, dim=0), persistent=False)

    def forward(self, z: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        r"""Maps noise to vectors, ``[n, D]``, and returns the logarithm of the
        determinant of the Jacobian, ``[n]``.

        Args:
            z (torch.Tensor): Noise, ``[n, D]``.
            context (torch.Tensor): Contexts, ``[n, channels]``.
        """
        x = torch.zeros_like(z)
        log_scale = x
        for i in range(self.num_dims):
            mean, log_scale = self.parameters_of(x, context)
            x = torch.cat([x[:, :i], (mean + log_scale.exp() * z)[:, i:]], dim=1)
        return x, log_scale.sum(dim=1)

    def inverse(self, x: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        r"""Maps vectors to noise, ``[n, D]``, and returns the logarithm of the
        determinant of the Jacobian, ``[n]``.

        Args:
            x (torch.Tensor): Vectors, ``[n, D]``.
            context (torch.Tensor): Contexts, ``[n, channels]``.
        """
        mean, log_scale = self.parameters_of(x, context)
        return (x - mean) * log_scale.neg().exp(), log_scale.sum(dim=1).neg()

    def log_density(self, x: Tensor, context: Tensor) -> Tensor:
        r"""The log-density of vectors, ``[n]``."""
        z, log_det = self.inverse(x, context)
        return log_det - 0.5 * (z.square() + LOG_2PI).sum(dim=1)

    def sample(self, context: Tensor, generator: torch.Generator | None) -> Tensor:
        r"""Draws vectors, ``[n, D]``."""
        size = (context.size(0), self.num_dims)
        z = torch.randn(size, generator=generator, device=context.device)
        return self(z, context)[0]

    def parameters_of(self, x: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        r"""The mean and the logarithm of the scale of each coordinate, ``[n, D]``."""
        sign = torch.where(x >= 0, 1.0, -1.0).to(x.dtype)
        before = F.linear(sign, self.before.weight * self.mask).unflatten(1, (self.num_dims, -1))
        hidden = F.relu(self.lin_context(context)[:, None] + before + self.coordinate.weight)
        mean, raw = self.out(hidden).unbind(dim=2)
        return mean, MAX_LOG_SCALE * (raw / MAX_LOG_SCALE).tanh()
