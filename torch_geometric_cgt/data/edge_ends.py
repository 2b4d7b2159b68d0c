r"""The edge ends of each root, and which neighbour each of them asks for."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from sklearn.cluster import KMeans
from torch import Tensor

from torch_geometric_cgt.data.neighbor_labels import child_label_probs
from torch_geometric_cgt.data.token_trees import TokenTrees
from torch_geometric_cgt.utils.linear import reduce_features
from torch_geometric_cgt.utils.rows import rank_among_equals

NUM_COMPONENTS = 32  # of the codebook, to group tokens by


@dataclass(frozen=True)
class EdgeEnds:
    r"""Halves of edges.

    Each half knows its own node and asks for a node at the other end. Both are
    described at several levels: a code for everything that is known (token,
    label and number of neighbours up to the fan-out), one for the token and the
    label, and so on. Two nodes are alike at a level if their codes are equal.

    Args:
        owner (torch.Tensor): The node of each half, ``[E]``.
        own (dict[str, torch.Tensor]): The codes of that node by level, ``[E]``.
        wish (dict[str, torch.Tensor]): The codes of the other node, ``[E]``.
    """

    owner: Tensor
    own: dict[str, Tensor]
    wish: dict[str, Tensor]

    def __len__(self) -> int:
        return self.owner.numel()


def make_edge_ends(
    trees: TokenTrees, codebook: Tensor, degree: Tensor, generator: torch.Generator
) -> EdgeEnds:
    r"""Makes as many edge ends for each root as its degree.

    An end asks for a node like one of the root's children: of the same token,
    with as many neighbours, and with a label that is drawn by
    :meth:`child_label_probs`. A degree beyond the fan-out uses children
    repeatedly.

    Args:
        trees (TokenTrees): The trees.
        codebook (torch.Tensor): The features of each token.
        degree (torch.Tensor): The degree of each root, ``[n]``, zero where it
            has no children.
        generator (torch.Generator): The source of randomness.
    """
    fan_out, null = trees.shape.num_neighbors[0], trees.num_tokens
    child = trees.tokens[:, trees.shape.layer_slice(1)].long()
    order = torch.rand(child.shape, generator=generator).masked_fill_(child == null, 2)
    order = order.argsort(dim=1)  # the children in a random order, then null slots
    owner = torch.arange(len(trees)).repeat_interleave(degree)
    num_children = (child != null).sum(dim=1)
    slot = order[owner, rank_among_equals(owner) % num_children[owner]]

    probs = child_label_probs(trees, degree, generator)[owner, slot]  # [E, C]
    uniform = torch.rand((owner.numel(), 1), dtype=probs.dtype, generator=generator)
    label = (probs.cumsum(dim=1) < uniform).sum(dim=1).clamp_(max=trees.num_classes - 1)
    size = torch.full_like(child, fan_out)
    if trees.shape.depth > 1:
        below = trees.tokens[:, trees.shape.layer_slice(2)]
        below = below.unflatten(1, trees.shape.num_neighbors[:2])
        size = (below != null).sum(dim=2)
    # Both see at most this number of neighbours of a node.
    seen = min(trees.shape.num_neighbors[:2])
    group, num_classes = token_groups(codebook, generator), trees.num_classes
    own = _codes(
        trees.tokens[:, 0].long(), group, trees.y.long(), degree.clamp(max=seen), num_classes, seen
    )
    wish = _codes(
        child[owner, slot], group, label, size[owner, slot].clamp(max=seen), num_classes, seen
    )
    return EdgeEnds(owner, {level: code[owner] for level, code in own.items()}, wish)


def token_groups(codebook: Tensor, generator: torch.Generator) -> Tensor:
    r"""Groups alike tokens: about as many groups as tokens in each, ``[m]``.

    Args:
        codebook (torch.Tensor): The features of each token, ``[m, F]``.
        generator (torch.Generator): The source of randomness.
    """
    seed = int(torch.randint(2**31, (1,), generator=generator))
    rows = reduce_features(codebook, min(NUM_COMPONENTS, *codebook.shape), seed)
    num_groups = min(round(codebook.size(0) ** 0.5), rows.unique(dim=0).size(0))
    groups = KMeans(num_groups, n_init=1, random_state=seed).fit_predict(rows.double().numpy())
    return torch.from_numpy(groups).long()


def _codes(
    token: Tensor, group: Tensor, label: Tensor, size: Tensor, num_classes: int, seen: int
) -> dict[str, Tensor]:
    r"""The codes of some nodes, from the level that says most to the one that
    says nothing.
    """
    by_token, by_group = token * num_classes + label, group[token] * num_classes + label
    return {
        'token, size': by_token * (seen + 1) + size,
        'token': by_token,
        'group, size': by_group * (seen + 1) + size,
        'group': by_group,
        'label': label,
        'any': torch.zeros_like(label),
    }
