r"""GraphVAE: a variational autoencoder of computation graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, global_add_pool

from torch_geometric_cgt.baselines.fitting import NeuralTreeModel, check_positive, parent_is_real
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.data.tree import build_forest

SLOT_CHANNELS = 32  # of the representation of a slot, from which its token is decoded


class GraphVAE(NeuralTreeModel):
    r"""The variational autoencoder of small graphs of `"GraphVAE: Towards Generation
    of Small Graphs Using Variational Autoencoders"
    <https://arxiv.org/abs/1802.03480>`_ (Simonovsky and Komodakis, 2018), in its
    conditional form, on computation graphs.

    The encoder is a graph convolutional network with gated sum pooling. The
    decoder is a perceptron that outputs all slots at once: the probability that a
    slot is attached to its parent, and the probabilities of its token. Given the
    latent vector and the label, all of them are independent.

    The paper matches the nodes of input and output, because its graphs have no
    order. The slots of a computation graph are ordered, so that the matching is the
    identity. A slot counts in the bound only if its parent is real: the others are
    null by definition.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels.
        num_neighbors (list[int]): The fan-out of each layer.
        hidden_channels (int, optional): The size of hidden representations.
            (default: :obj:`128`)
        latent_channels (int, optional): The size of the latent vector.
            (default: :obj:`32`)
        num_steps (int, optional): The number of training steps.
            (default: :obj:`2000`)
        batch_size (int, optional): The number of trees of a step.
            (default: :obj:`128`)
        lr (float, optional): The largest learning rate. (default: :obj:`0.003`)
    """

    name = 'GraphVAE'

    def __init__(
        self,
        num_tokens: int,
        num_classes: int,
        num_neighbors: Sequence[int],
        hidden_channels: int = 128,
        latent_channels: int = 32,
        num_steps: int = 2000,
        batch_size: int = 128,
        lr: float = 0.003,
    ) -> None:
        super().__init__(
            num_tokens, num_classes, num_neighbors, hidden_channels, num_steps, batch_size, lr
        )
        check_positive('latent_channels', latent_channels)
        self.latent_channels = latent_channels
        self.encoder = TreeEncoder(
            num_tokens, num_classes, self.shape, hidden_channels, latent_channels
        )
        self.label = nn.Embedding(num_classes, hidden_channels)
        self.decoder = nn.Sequential(
            nn.Linear(latent_channels + hidden_channels, hidden_channels),
            nn.ReLU(),
            nn.Linear(hidden_channels, hidden_channels),
            nn.ReLU(),
        )
        self.attached = nn.Linear(hidden_channels, self.shape.num_slots)
        self.slots = nn.Linear(hidden_channels, self.shape.num_slots * SLOT_CHANNELS)
        self.token = nn.Linear(SLOT_CHANNELS, num_tokens)

    def config(self) -> dict[str, Any]:
        r"""The constructor arguments of this model."""
        return {**super().config(), 'latent_channels': self.latent_channels}

    def loss(self, tokens: Tensor, y: Tensor, generator: torch.Generator) -> Tensor:
        r"""The mean of the negative evidence lower bound, in nats per tree."""
        return self.bound(tokens, y, generator).neg().mean()

    def bound(self, tokens: Tensor, y: Tensor, generator: torch.Generator) -> Tensor:
        r"""An estimate of the evidence lower bound of the log-likelihood, ``[B]``,
        with one sample of the latent vector per tree.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
            generator (torch.Generator): The source of randomness.
        """
        mean, log_std = self.encoder(tokens, y)
        noise = torch.randn(mean.shape, generator=generator, device=mean.device)
        z = mean + log_std.exp() * noise
        return self.log_prob_given(z, tokens, y) - divergence(mean, log_std)

    def log_prob_given(self, z: Tensor, tokens: Tensor, y: Tensor) -> Tensor:
        r"""The log-likelihood of trees given latent vectors, ``[B]``.

        Args:
            z (torch.Tensor): Latent vectors, ``[B, latent_channels]``.
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
        """
        hidden = self.hidden(z, y)
        real = tokens != self.num_tokens
        possible = parent_is_real(tokens, self.num_tokens, self.shape)
        possible[:, 0] = False  # a root is always real
        sign = torch.where(real, 1.0, -1.0)
        out = (F.logsigmoid(sign * self.attached(hidden)) * possible).sum(dim=1)
        tree = real.nonzero()[:, 0]
        log_prob = self.token_logits(hidden, real).log_softmax(dim=1)
        chosen = log_prob.gather(1, tokens[real][:, None])[:, 0]
        return out.index_add(0, tree, chosen)

    def hidden(self, z: Tensor, y: Tensor) -> Tensor:
        r"""The last hidden layer of the decoder, ``[B, hidden_channels]``."""
        return self.decoder(torch.cat([z, self.label(y)], dim=1))

    def token_logits(self, hidden: Tensor, real: Tensor) -> Tensor:
        r"""The logits of the tokens of all real slots, ``[num_real, num_tokens]``."""
        slots = self.slots(hidden).unflatten(1, (-1, SLOT_CHANNELS))
        return self.token(F.relu(slots[real]))

    def draw(self, y: Tensor, generator: torch.Generator | None) -> Tensor:
        r"""Decodes latent vectors of the standard normal distribution."""
        size = (y.numel(), self.latent_channels)
        hidden = self.hidden(torch.randn(size, generator=generator, device=y.device), y)
        probability = self.attached(hidden).sigmoid()
        real = torch.rand(probability.shape, generator=generator, device=y.device) < probability
        real[:, 0] = True
        tokens = torch.full(real.shape, self.num_tokens, device=y.device)
        chosen = self.token_logits(hidden, real).softmax(dim=1)
        tokens[real] = torch.multinomial(chosen, 1, generator=generator)[:, 0]
        return tokens


class TreeEncoder(nn.Module):
    r"""The approximate posterior: a Gaussian with a diagonal covariance matrix, of
    which a graph convolutional network computes the parameters.

    Args:
        num_tokens (int): The number of clusters.
        num_classes (int): The number of labels.
        shape (TreeShape): The geometry of the trees.
        hidden_channels (int): The size of hidden representations.
        latent_channels (int): The size of the latent vector.
    """

    def __init__(
        self,
        num_tokens: int,
        num_classes: int,
        shape: TreeShape,
        hidden_channels: int,
        latent_channels: int,
    ) -> None:
        super().__init__()
        self.num_tokens, self.shape = num_tokens, shape
        self.token = nn.Embedding(num_tokens, hidden_channels)
        self.slot = nn.Embedding(shape.num_slots, hidden_channels)
        self.label = nn.Embedding(num_classes, hidden_channels)
        self.convs = nn.ModuleList(GCNConv(hidden_channels, hidden_channels) for _ in range(2))
        self.gate = nn.Linear(hidden_channels, hidden_channels)
        self.value = nn.Linear(hidden_channels, hidden_channels)
        self.out = nn.Linear(2 * hidden_channels, 2 * latent_channels)

    def forward(self, tokens: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        r"""The mean and the logarithm of the standard deviation of the latent
        vector, ``[B, latent_channels]`` each.
        """
        forest = build_forest(tokens != self.num_tokens, self.shape)
        tree = forest.slot // self.shape.num_slots
        edge_index = torch.cat([forest.edge_index, forest.edge_index.flip(0)], dim=1)
        token = tokens.reshape(-1)[forest.slot]
        x = self.token(token) + self.slot(forest.slot % self.shape.num_slots)
        x = x + self.label(y)[tree]
        for conv in self.convs:
            x = x + F.relu(conv(x, edge_index))
        pooled = global_add_pool(self.gate(x).sigmoid() * self.value(x).tanh(), tree, y.numel())
        out = self.out(torch.cat([pooled, self.label(y)], dim=1))
        mean, log_std = out.chunk(2, dim=1)
        return mean, log_std.clamp(-6.0, 2.0)


def divergence(mean: Tensor, log_std: Tensor) -> Tensor:
    r"""The Kullback-Leibler divergence of Gaussians from the standard normal
    distribution, ``[B]``.

    Args:
        mean (torch.Tensor): The means, ``[B, D]``.
        log_std (torch.Tensor): The logarithms of the standard deviations.
    """
    return 0.5 * (mean.square() + (2 * log_std).exp() - 1 - 2 * log_std).sum(dim=1)
