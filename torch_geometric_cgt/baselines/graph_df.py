r"""GraphDF: a discrete flow that generates computation graphs slot by slot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_geometric_cgt.baselines.slot_model import SlotModel

SHIFTS = ('argmax', 'sampled')
MAX_RATIO = 10.0  # of two likelihoods in a straight-through gradient
START = 2.0  # logit of the latent number zero at the start
SCALE = 10.0  # of the logits of priors, which are learned faster than other weights


class GraphDF(SlotModel):
    r"""The discrete flow of `"GraphDF: A Discrete Flow Model for Molecular Graph
    Generation" <https://arxiv.org/abs/2102.01189>`_ (Luo et al., 2021), on
    computation graphs.

    Slots are generated in breadth-first order. Of each slot, the flow first
    generates whether it is attached to its parent (:math:`K = 2`), and then its
    token (:math:`K` is the number of clusters). Each is a latent number that is
    drawn from a learned categorical prior and shifted:
    :math:`x = (z + \mu) \bmod K`. The shift :math:`\mu` is a function of the label
    and of the part that is already generated. For a given
    shift the map is a bijection of the :math:`K` numbers, so that the likelihood is
    exactly the prior of :math:`z = (x - \mu) \bmod K`.

    The paper stacks several shifts. None of them depends on :math:`z`, so that
    their composition is one shift by their sum, which is learned here. The priors
    depend on the label, which the paper does not have: they are learned per label
    and slot for attachment, and per label and layer for tokens.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels.
        num_neighbors (list[int]): The fan-out of each layer.
        hidden_channels (int, optional): The size of hidden representations.
            (default: :obj:`64`)
        shift (str, optional): How the shift follows from the scores of a network.
            :obj:`"argmax"` takes the largest, as in the paper, with the
            straight-through gradient. :obj:`"sampled"` draws it from their softmax;
            the exact likelihood is a sum over all shifts. It is a stronger model
            than that of the paper, because it contains every autoregressive
            categorical model. (default: :obj:`"argmax"`)
        num_steps (int, optional): The number of training steps.
            (default: :obj:`2000`)
        batch_size (int, optional): The number of trees of a step.
            (default: :obj:`128`)
        lr (float, optional): The largest learning rate. (default: :obj:`0.005`)
    """

    name = 'GraphDF'
    has_log_prob = True

    def __init__(
        self,
        num_tokens: int,
        num_classes: int,
        num_neighbors: Sequence[int],
        hidden_channels: int = 64,
        shift: str = 'argmax',
        num_steps: int = 2000,
        batch_size: int = 128,
        lr: float = 0.005,
    ) -> None:
        super().__init__(
            num_tokens, num_classes, num_neighbors, hidden_channels, num_steps, batch_size, lr
        )
        if shift not in SHIFTS:
            raise ValueError(f"'shift' must be one of {SHIFTS} (got '{shift}')")
        self.shift = shift
        is_sampled = shift == 'sampled'
        rows = (num_classes * self.shape.num_slots, num_classes * (self.shape.depth + 1))
        self.attached = ModuloShift(2, rows[0], hidden_channels, is_sampled)
        self.token = ModuloShift(num_tokens, rows[1], hidden_channels, is_sampled)

    def config(self) -> dict[str, Any]:
        r"""The constructor arguments of this model."""
        return {**super().config(), 'shift': self.shift}

    def log_prob(self, tokens: Tensor, y: Tensor) -> Tensor:
        r"""The log-likelihood of token trees, ``[B]``.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
        """
        return self.score(tokens, y)

    def score_attached(
        self, real: Tensor, y: Tensor, slot: Tensor, context: Tensor, rng: torch.Generator | None
    ) -> Tensor:
        return self.attached.log_prob(real.long(), self.attached_row(y, slot), context)

    def score_token(
        self, token: Tensor, y: Tensor, slot: Tensor, context: Tensor, rng: torch.Generator | None
    ) -> Tensor:
        return self.token.log_prob(token, self.token_row(y, slot), context)

    def draw_attached(
        self, y: Tensor, slot: Tensor, context: Tensor, rng: torch.Generator | None
    ) -> Tensor:
        return self.attached.sample(self.attached_row(y, slot), context, rng) == 1

    def draw_token(
        self, y: Tensor, slot: Tensor, context: Tensor, rng: torch.Generator | None
    ) -> Tensor:
        return self.token.sample(self.token_row(y, slot), context, rng)

    def attached_row(self, y: Tensor, slot: Tensor) -> Tensor:
        r"""The prior of attachment: one per label and slot."""
        return y * self.shape.num_slots + slot

    def token_row(self, y: Tensor, slot: Tensor) -> Tensor:
        r"""The prior of tokens: one per label and layer."""
        return y * (self.shape.depth + 1) + self.shape.layer.to(y.device)[slot]


class ModuloShift(nn.Module):
    r"""A discrete flow :math:`x = (z + \mu) \bmod K` of one number.

    Args:
        num_values (int): The number of values :math:`K`.
        num_priors (int): The number of learned priors of :math:`z`.
        channels (int): The size of contexts.
        is_sampled (bool): Whether the shift is drawn, see :class:`GraphDF`.
    """

    def __init__(self, num_values: int, num_priors: int, channels: int, is_sampled: bool) -> None:
        super().__init__()
        self.num_values, self.is_sampled = num_values, is_sampled
        self.prior = nn.Embedding(num_priors, num_values)
        self.lin = nn.Linear(channels, channels)
        self.out = nn.Linear(channels, num_values)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Starts with latent numbers that are mostly zero. Uniform priors would not
        tell one shift from another.
        """
        nn.init.zeros_(self.prior.weight)
        nn.init.constant_(self.prior.weight[:, 0], START / SCALE)

    def log_prior(self, row: Tensor) -> Tensor:
        r"""The log-probability of each latent number, ``[n, K]``."""
        return (SCALE * self.prior(row)).log_softmax(dim=1)

    def scores(self, context: Tensor) -> Tensor:
        r"""The score of each shift, ``[n, K]``."""
        return self.out(F.relu(self.lin(context)))

    def forward(self, z: Tensor, mu: Tensor) -> Tensor:
        r"""Maps latent numbers to values."""
        return (z + mu) % self.num_values

    def inverse(self, x: Tensor, mu: Tensor) -> Tensor:
        r"""Maps values to latent numbers."""
        return (x - mu) % self.num_values

    def log_prob(self, x: Tensor, row: Tensor, context: Tensor) -> Tensor:
        r"""The log-likelihood of values, ``[n]``.

        Args:
            x (torch.Tensor): The values, ``[n]``.
            row (torch.Tensor): Their priors, ``[n]``.
            context (torch.Tensor): What is known before, ``[n, channels]``.
        """
        log_weight = self.scores(context).log_softmax(dim=1)  # of each shift
        shifts = torch.arange(self.num_values, device=x.device)
        z = self.inverse(x[:, None], shifts)
        log_prob = self.log_prior(row).gather(1, z)  # for each shift
        if self.is_sampled:
            return (log_weight + log_prob).logsumexp(dim=1)
        weight = log_weight.exp()
        chosen = log_weight.argmax(dim=1, keepdim=True)
        exact = log_prob.gather(1, chosen)[:, 0]
        # The value of the second term is zero. Its gradient is that of the likelihood with
        # respect to a chosen shift, passed on to the softmax.
        ratio = (log_prob - exact[:, None]).exp().clamp(max=MAX_RATIO).detach()
        soft = (weight * ratio).sum(dim=1)
        return exact + soft - soft.detach()

    def sample(self, row: Tensor, context: Tensor, generator: torch.Generator | None) -> Tensor:
        r"""Draws values, ``[n]``."""
        scores = self.scores(context)
        if self.is_sampled:
            mu = torch.multinomial(scores.softmax(dim=1), 1, generator=generator)[:, 0]
        else:
            mu = scores.argmax(dim=1)
        z = torch.multinomial(self.log_prior(row).exp(), 1, generator=generator)[:, 0]
        return self(z, mu)
