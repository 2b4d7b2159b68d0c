r"""The generator by path duplication, as it would be written without the factorisation."""

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric_cgt import CGTGenerator
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.nn.two_stream import factorised_layout


class NaivePaths:
    r"""Path duplication: every root-to-leaf path of a tree is a sequence of its own, with one
    context and one query per layer, and each of its tokens is predicted.

    Weights and blocks are those of a generator with independent siblings. The context of the leaf,
    which nothing reads, is left out.
    """

    def __init__(self, model: CGTGenerator) -> None:
        self.model, self.null, self.depth = model, model.num_tokens, model.shape.depth
        is_ancestor = model.shape.is_ancestor
        leaves = is_ancestor[model.shape.layer_slice(self.depth)]
        self.slots = leaves.nonzero()[:, 1].view(-1, self.depth + 1)  # [P, L + 1], root first
        self.share = 1 / leaves.sum(dim=0).double()[self.slots]  # of a path in each of its slots
        self.chains = [factorised_layout(TreeShape((1,) * d)) for d in range(1, self.depth + 1)]

    def _logits(self, paths: Tensor, y: Tensor) -> Tensor:
        r"""What predicts each token of some paths ``[S, d + 1]``: ``[S, d + 1, m + 1]``."""
        queries = self.model.streams.rows(paths, y, None, self.chains[paths.size(1) - 2])
        logits = self.model.head.vocabulary.out(queries)
        never = logits.new_zeros(paths.size(1), self.null + 1)
        never[0, self.null] = -torch.inf  # a root is not null
        return logits + never

    def token_log_prob(self, tokens: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        r"""The log-likelihood of each token of each path, and which count, ``[B, P, L + 1]``."""
        paths = tokens[:, self.slots]
        logits = self._logits(paths.flatten(0, 1), y.repeat_interleave(paths.size(1)))
        loss = F.cross_entropy(logits.flatten(0, 1), paths.flatten(), reduction='none')
        counts = F.pad(paths[..., :-1] != self.null, (1, 0), value=True)
        return -loss.view(paths.shape) * counts, counts

    def loss(self, tokens: Tensor, y: Tensor) -> Tensor:
        r"""The mean over all tokens, each as often as paths go through it."""
        log_prob, counts = self.token_log_prob(tokens, y)
        return -log_prob.sum() / counts.sum()

    def log_prob(self, tokens: Tensor, y: Tensor) -> Tensor:
        r"""The log-likelihood of each tree, ``[B]``."""
        return (self.token_log_prob(tokens, y)[0] * self.share).sum(dim=(1, 2))

    @torch.no_grad()
    def sample(self, y: Tensor) -> Tensor:
        r"""Draws trees layer by layer; each slot evaluates its own path."""
        self.model.eval()
        shape = self.model.shape
        tokens = torch.full((y.numel(), shape.num_slots), self.null)
        for layer in range(self.depth + 1):
            own = torch.arange(shape.num_slots)[shape.layer_slice(layer)]
            above = shape.is_ancestor[own].nonzero()[:, 1].view(own.numel(), -1)  # itself last
            paths = tokens[:, above].flatten(0, 1)
            if layer == 0:  # a chain has two slots at least: the second is not looked at
                paths = paths.expand(-1, 2)
            logits = self._logits(paths, y.repeat_interleave(own.numel()))[:, layer]
            drawn = torch.multinomial(logits.softmax(dim=-1), 1).view(-1, own.numel())
            if layer > 0:
                drawn[tokens[:, shape.parent[own]] == self.null] = self.null
            tokens[:, own] = drawn
        return tokens
