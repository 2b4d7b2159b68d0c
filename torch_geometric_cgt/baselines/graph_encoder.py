r"""The encoder of the nodes of a graph in a variational autoencoder."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GCNConv


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
