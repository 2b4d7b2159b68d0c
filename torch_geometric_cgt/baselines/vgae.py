r"""VGAE: a variational autoencoder of the whole graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import VGAE as AutoEncoder
from torch_geometric.nn import GCNConv
from torch_geometric.utils import remove_self_loops, to_undirected

from torch_geometric_cgt.baselines.fitting import MAX_VALUES, check_positive, train
from torch_geometric_cgt.baselines.graph_model import GraphModel
from torch_geometric_cgt.models import FitContext, TokenGraph, TreeSource
from torch_geometric_cgt.utils.run_limits import Limits
from torch_geometric_cgt.utils.seeds import seeded

NUM_PAIRS = 1 << 18  # of nodes, from which the number of edges is estimated
HALVINGS = 30  # of the interval of the bias


class VGAE(GraphModel):
    r"""The autoencoder of `"Variational Graph Auto-Encoders"
    <https://arxiv.org/abs/1611.07308>`_ (Kipf and Welling, 2016), with PyG's
    :class:`~torch_geometric.nn.models.VGAE`, as a generator of graphs.

    A graph convolutional network encodes the token, the label and the neighbours of
    each node. Given the latent vectors of its nodes, a graph has independent tokens
    and labels, which perceptrons decode, and independent edges with the probability
    :math:`\sigma(z_i^\top z_j + b)`. Training compares edges with as many random
    pairs, so that :math:`b` is chosen afterwards: the expected number of edges is
    that of the source.

    A new graph has as many nodes as the source. Their latent vectors come from the
    aggregated posterior, and not from the standard normal prior: a Gaussian per label
    has the mean and the covariance of the posteriors of all nodes with this label.
    Edges are drawn in blocks of pairs, and only those that exist are stored. The time
    grows with the square of the number of nodes. Edges have no direction.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels.
        num_neighbors (list[int]): The fan-out of each layer.
        hidden_channels (int, optional): The size of hidden representations.
            (default: :obj:`64`)
        latent_channels (int, optional): The size of latent vectors.
            (default: :obj:`16`)
        num_steps (int, optional): The number of training steps, each of which sees
            the whole graph. (default: :obj:`500`)
        lr (float, optional): The largest learning rate. (default: :obj:`0.01`)
    """

    name = 'VGAE'

    latent_share: Tensor  # [C + 1] share of the nodes by label, those without one last
    latent_mean: Tensor  # [C + 1, D]
    latent_factor: Tensor  # [C + 1, D, D] of the covariance
    bias: Tensor  # [] of the score of an edge
    num_nodes: Tensor  # []

    def __init__(
        self,
        num_tokens: int,
        num_classes: int,
        num_neighbors: Sequence[int],
        hidden_channels: int = 64,
        latent_channels: int = 16,
        num_steps: int = 500,
        lr: float = 0.01,
    ) -> None:
        super().__init__(num_tokens, num_classes, num_neighbors)
        self.options = {
            'hidden_channels': hidden_channels,
            'latent_channels': latent_channels,
            'num_steps': num_steps,
            'lr': lr,
        }
        for name, value in self.options.items():
            check_positive(name, value)
        self.autoencoder = AutoEncoder(
            GraphEncoder(num_tokens, num_classes, hidden_channels, latent_channels)
        )
        self.lin = nn.Linear(latent_channels, hidden_channels)
        self.token = nn.Linear(hidden_channels, num_tokens)
        self.label = nn.Linear(hidden_channels, num_classes)
        groups, size = num_classes + 1, latent_channels
        self.register_buffer('latent_share', torch.zeros(groups))
        self.register_buffer('latent_mean', torch.zeros(groups, size))
        self.register_buffer('latent_factor', torch.zeros(groups, size, size))
        self.register_buffer('bias', torch.zeros(()))
        self.register_buffer('num_nodes', torch.tensor(0))
        self.limits = Limits()

    def config(self) -> dict[str, Any]:
        r"""The constructor arguments of this model."""
        return {**super().config(), **self.options}

    def fit_graph(
        self, graph: TokenGraph, source: TreeSource, context: FitContext
    ) -> dict[str, Any]:
        r"""Trains the autoencoder, summarises the posteriors and calibrates the number
        of edges.
        """
        device, num_nodes = torch.device(context.device), graph.num_nodes
        self.limits = context.limits
        edge_index = remove_self_loops(graph.edge_index.cpu())[0]
        edge_index = to_undirected(edge_index, num_nodes=num_nodes).to(device)
        token, y = graph.token.long().to(device), graph.y.long().to(device)
        group = torch.where(y < 0, self.num_classes, y)

        def loss_fn(step: int, generator: torch.Generator) -> Tensor:
            mean, log_std = self.autoencoder.encoder(token, group, edge_index)
            return self.loss(mean, log_std, token, y, edge_index, generator)

        history = train(self, loss_fn, int(self.options['num_steps']), self.options['lr'], context)
        with torch.no_grad():
            self.to(device)
            mean, log_std = self.autoencoder.encoder(token, group, edge_index)
            self.to('cpu')
            self._summarise(mean.cpu(), log_std.cpu(), group.cpu())
            self.num_nodes.fill_(num_nodes)
            self.bias.fill_(self._calibrate(edge_index.size(1) / 2, context.seed))
        return history

    def loss(
        self,
        mean: Tensor,
        log_std: Tensor,
        token: Tensor,
        y: Tensor,
        edge_index: Tensor,
        generator: torch.Generator,
    ) -> Tensor:
        r"""The negative evidence lower bound in nats per node, with edges and as many
        random pairs instead of all pairs.
        """
        noise = torch.randn(mean.shape, generator=generator, device=mean.device)
        z = mean + log_std.exp() * noise
        loss = self.autoencoder.kl_loss(mean, log_std) + self.decoding_loss(z, token, y, generator)
        if edge_index.numel() == 0:
            return loss
        pairs = torch.randint(
            token.numel(), edge_index.shape, generator=generator, device=mean.device
        )
        edges_per_node = edge_index.size(1) / (2 * token.numel())
        return loss + edges_per_node * self.autoencoder.recon_loss(z, edge_index, pairs)

    def decoding_loss(
        self, z: Tensor, token: Tensor, y: Tensor, generator: torch.Generator
    ) -> Tensor:
        r"""The mean negative log-likelihood of tokens and labels, of random nodes if
        the graph and the vocabulary are large.
        """
        most = max(1, MAX_VALUES // self.num_tokens)
        if token.numel() > most:
            nodes = torch.randint(token.numel(), (most,), generator=generator, device=z.device)
            z, token, y = z[nodes], token[nodes], y[nodes]
        hidden, known = F.relu(self.lin(z)), y >= 0
        label_loss = F.cross_entropy(self.label(hidden[known]), y[known], reduction='sum')
        return F.cross_entropy(self.token(hidden), token) + label_loss / token.numel()

    @torch.no_grad()
    def generate(self, generator: torch.Generator) -> TokenGraph:
        r"""Generates a graph; see :meth:`GraphModel.generate`."""
        z, group = self.draw_latents(int(self.num_nodes), generator)
        hidden = F.relu(self.lin(z))
        token = draw_categories(self.token, hidden, generator)
        label = draw_categories(self.label, hidden, generator)
        y = torch.where(group == self.num_classes, -1, label)
        return TokenGraph(token, y, self.draw_edges(z, generator))

    def draw_latents(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        r"""Draws latent vectors ``[N, D]``, and the group whose Gaussian each comes
        from, ``[N]``: a label, or :obj:`num_classes` for nodes without a label.
        """
        group = torch.multinomial(self.latent_share, size, replacement=True, generator=generator)
        noise = torch.randn(size, self.latent_mean.size(1), generator=generator)
        z = self.latent_mean[group]
        for index in group.unique().tolist():
            members = group == index
            z[members] += noise[members] @ self.latent_factor[index].t()
        return z, group

    def draw_edges(self, z: Tensor, generator: torch.Generator) -> Tensor:
        r"""Draws the edges between nodes, in both directions, ``[2, E]``.

        Args:
            z (torch.Tensor): The latent vectors, ``[N, D]``.
            generator (torch.Generator): The source of randomness.
        """
        num_nodes, start, found = z.size(0), 0, [torch.empty(2, 0, dtype=torch.long)]
        while start < num_nodes:
            self.limits.check()
            rows = max(1, MAX_VALUES // 4 // (num_nodes - start))
            logit = z[start : start + rows] @ z[start:].t() + self.bias
            drawn = torch.rand(logit.shape, generator=generator) < logit.sigmoid()
            found.append(drawn.triu(1).nonzero().t() + start)
            start += rows
        return to_undirected(torch.cat(found, dim=1), num_nodes=num_nodes)

    def _summarise(self, mean: Tensor, log_std: Tensor, group: Tensor) -> None:
        r"""The mean and the covariance of the posteriors of each group of nodes."""
        size = mean.size(1)
        for index in range(self.num_classes + 1):
            members = group == index
            self.latent_share[index] = members.float().mean()
            if not members.any():
                continue
            center = mean[members].mean(dim=0)
            gap = mean[members] - center
            within = (2 * log_std[members]).exp().mean(dim=0)
            covariance = gap.t() @ gap / gap.size(0) + torch.diag(within) + 1e-6 * torch.eye(size)
            self.latent_mean[index] = center
            self.latent_factor[index] = torch.linalg.cholesky(covariance)

    def _calibrate(self, num_edges: float, seed: int) -> float:
        r"""The bias with which a new graph has a number of edges in the mean."""
        rng = seeded(seed, 'pairs of nodes')
        num_nodes = int(self.num_nodes)
        num_pairs = num_nodes * (num_nodes - 1) / 2
        if num_edges == 0 or num_pairs == 0:
            return -float('inf')
        one, other = self.draw_latents(NUM_PAIRS, rng)[0], self.draw_latents(NUM_PAIRS, rng)[0]
        logit = (one * other).sum(dim=1).double()
        low, high = -200.0, 200.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            expected = float((logit + middle).sigmoid().mean()) * num_pairs
            low, high = (middle, high) if expected < num_edges else (low, middle)
        return (low + high) / 2


def draw_categories(lin: nn.Linear, hidden: Tensor, generator: torch.Generator) -> Tensor:
    r"""Draws a category per row from the softmax of a linear layer, ``[N]``.

    Args:
        lin (torch.nn.Linear): The layer that computes logits.
        hidden (torch.Tensor): Its input, ``[N, H]``.
        generator (torch.Generator): The source of randomness.
    """
    blocks = hidden.split(max(1, MAX_VALUES // lin.out_features))
    return torch.cat(
        [torch.multinomial(lin(b).softmax(dim=1), 1, generator=generator)[:, 0] for b in blocks]
    )


class GraphEncoder(nn.Module):
    r"""Two layers of :class:`~torch_geometric.nn.conv.GCNConv`, as in the paper.

    Args:
        num_tokens (int): The number of clusters.
        num_classes (int): The number of labels.
        hidden_channels (int): The size of hidden representations.
        latent_channels (int): The size of latent vectors.
    """

    def __init__(
        self, num_tokens: int, num_classes: int, hidden_channels: int, latent_channels: int
    ) -> None:
        super().__init__()
        self.token = nn.Embedding(num_tokens, hidden_channels)
        self.label = nn.Embedding(num_classes + 1, hidden_channels)
        self.conv = GCNConv(hidden_channels, hidden_channels)
        self.conv_mean = GCNConv(hidden_channels, latent_channels)
        self.conv_log_std = GCNConv(hidden_channels, latent_channels)

    def forward(self, token: Tensor, group: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        r"""The mean and the logarithm of the standard deviation of the latent vector
        of each node, ``[N, D]`` each.
        """
        x = F.relu(self.conv(self.token(token) + self.label(group), edge_index))
        log_std = self.conv_log_std(x, edge_index)
        return self.conv_mean(x, edge_index), log_std.clamp(-6.0, 2.0)
