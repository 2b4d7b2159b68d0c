r"""Edge inference: does a release reveal which of its nodes are connected?"""

from __future__ import annotations

import torch
from torch import Tensor

from torch_geometric_cgt.audit.attack_scores import Counts
from torch_geometric_cgt.audit.membership import MIN_GROUP, Membership, tell_apart
from torch_geometric_cgt.data import TokenTrees

SMOOTHING = 0.5  # observations of independence
TITLE = 'Edge inference'


def pair_scores(trees: TokenTrees, token: Tensor, y: Tensor, pairs: Tensor) -> dict[str, Tensor]:
    r"""How much more often two nodes are parent and child in released trees than
    independence predicts, ``[p]`` each.

    - ``pairs of tokens``: the tokens of a parent and a child in any layer;
    - ``pairs with label``: the label and the token of a root, and the token of
      one of its children.

    Both directions of a pair are added.

    Args:
        trees (TokenTrees): The released trees.
        token (torch.Tensor): The token of each node, ``[N]``.
        y (torch.Tensor): The label of each node, ``[N]``, negative if it has
            none.
        pairs (torch.Tensor): Pairs of nodes, ``[p, 2]``.
    """
    size = trees.num_tokens + 1
    parent, child = _released_pairs(trees)
    any_layer = _lift(parent, child, size, token[pairs], token[pairs].flip(1))
    slots = trees.shape.layer_slice(1)
    below = trees.tokens[:, slots].long()
    root = (trees.y.long() * size + trees.tokens[:, 0].long())[:, None].expand_as(below)
    real = below != trees.num_tokens
    labelled = torch.where(y >= 0, y * size + token, -1)
    with_label = _lift(root[real], below[real], size, labelled[pairs], token[pairs].flip(1))
    return {'pairs of tokens': any_layer, 'pairs with label': with_label}


def _released_pairs(trees: TokenTrees) -> tuple[Tensor, Tensor]:
    r"""The tokens of all real parents and children, ``[e]`` each."""
    slots = torch.arange(1, trees.shape.num_slots)
    child = trees.tokens[:, slots].long()
    parent = trees.tokens[:, trees.shape.parent[slots]].long()
    real = child != trees.num_tokens
    return parent[real], child[real]


def _lift(parent: Tensor, child: Tensor, size: int, first: Tensor, second: Tensor) -> Tensor:
    r"""The log-ratio of observed and expected pairs, summed over both directions.
    ``first`` and ``second`` are ``[p, 2]``: parent and child, one direction per
    column.
    """
    together, parents, children = Counts(parent * size + child), Counts(parent), Counts(child)
    key = torch.where(first >= 0, first * size + second, -1)
    total = max(1, parent.numel())
    seen = together.get(key).sum(dim=1)
    expected = (parents.get(first) * children.get(second) / total).sum(dim=1)
    return ((seen + SMOOTHING) / (expected + SMOOTHING)).log()


def edge_inference(
    trees: TokenTrees,
    token: Tensor,
    y: Tensor,
    inside: Tensor,
    held_out: Tensor,
    confidence: float = 0.95,
    max_pairs: int = 2000,
    seed: int = 0,
) -> Membership:
    r"""Measures how well connected pairs of a build are told from pairs whose
    connection was removed before. Both are connected in the source: what is true
    of all connected pairs of the population does not tell them apart.

    Args:
        trees (TokenTrees): The released trees.
        token (torch.Tensor): The token of each node of the build, ``[N]``.
        y (torch.Tensor): The label of each node, ``[N]``.
        inside (torch.Tensor): The connected pairs, ``[e, 2]``.
        held_out (torch.Tensor): The removed pairs, ``[h, 2]``.
        confidence (float, optional): The probability that all intervals hold
            together. (default: :obj:`0.95`)
        max_pairs (int, optional): The largest number of pairs of each kind.
            (default: :obj:`2000`)
        seed (int, optional): The seed of their choice. (default: :obj:`0`)
    """
    if min(len(inside), len(held_out)) < MIN_GROUP:
        raise ValueError(
            f'Expected at least {MIN_GROUP} connected and {MIN_GROUP} removed pairs '
            f'(got {len(inside)} and {len(held_out)})'
        )
    rng = torch.Generator().manual_seed(seed)
    inside, held_out = (
        pairs[torch.randperm(len(pairs), generator=rng)[:max_pairs]] for pairs in (inside, held_out)
    )
    pairs = torch.cat([inside, held_out])
    is_member = torch.arange(len(pairs)) < len(inside)
    scores = pair_scores(trees, token, y, pairs)
    every = {'all': torch.ones_like(is_member)}
    return tell_apart(scores, is_member, every, confidence, TITLE, 'edges')
