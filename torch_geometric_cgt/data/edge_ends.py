r"""The edge ends of each root, and the token and the label of the neighbour that each of them asks
for. A release does not contain the labels of children: they are estimated from those of roots.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from sklearn.cluster import KMeans
from torch import Tensor

from torch_geometric_cgt.data.token_trees import TokenTrees
from torch_geometric_cgt.data.views import MAX_ROWS, LinearProbe
from torch_geometric_cgt.utils.linear import reduce_features
from torch_geometric_cgt.utils.rows import rank_among_equals

NUM_COMPONENTS = 32  # of the codebook, to group tokens by
EM_STEPS = 50
ROOT_WEIGHT = 0.5  # of the estimate that knows the label of the root
SMALLEST = 1e-3  # probability of a label, in logarithms


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
        slot (torch.Tensor, optional): The slot of the child in the tree of
            :obj:`owner` that the half asks for, ``[E]``. (default: :obj:`None`)
    """

    owner: Tensor
    own: dict[str, Tensor]
    wish: dict[str, Tensor]
    slot: Tensor | None = None

    def __len__(self) -> int:
        return self.owner.numel()


def make_edge_ends(
    trees: TokenTrees,
    codebook: Tensor,
    degree: Tensor,
    generator: torch.Generator,
    root_weight: float = ROOT_WEIGHT,
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
        root_weight (float, optional): See :meth:`child_label_probs`.
            (default: :obj:`0.5`)
    """
    fan_out, null = trees.shape.num_neighbors[0], trees.num_tokens
    child = trees.tokens[:, trees.shape.layer_slice(1)].long()
    order = torch.rand(child.shape, generator=generator).masked_fill_(child == null, 2)
    order = order.argsort(dim=1)  # the children in a random order, then null slots
    owner = torch.arange(len(trees)).repeat_interleave(degree)
    num_children = (child != null).sum(dim=1)
    slot = order[owner, rank_among_equals(owner) % num_children[owner]]

    probs = child_label_probs(trees, degree, generator, root_weight)[owner, slot]  # [E, C]
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
    first = trees.shape.layer_slice(1).start
    return EdgeEnds(owner, {level: code[owner] for level, code in own.items()}, wish, first + slot)


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


def child_label_probs(
    trees: TokenTrees,
    degree: Tensor,
    generator: torch.Generator,
    root_weight: float = ROOT_WEIGHT,
) -> Tensor:
    r"""The label probabilities of each child slot, ``[n, f, C]``.

    They are a weighted mean of two estimates. :meth:`_given_root` assumes that the
    token of a child depends on the child's label alone, and gives neighbours
    the same label too often. :meth:`_given_subtree` assumes that the label of
    a child depends on its own subtree alone, and gives neighbours the same
    label too rarely.

    Args:
        trees (TokenTrees): The trees.
        degree (torch.Tensor): The degree of each root, ``[n]``.
        generator (torch.Generator): The source of randomness.
        root_weight (float, optional): The weight of the first estimate.
            (default: :obj:`0.5`)
    """
    child = trees.tokens[:, trees.shape.layer_slice(1)].long()
    table = F.pad(_given_root(trees, degree), (0, 0, 0, 1), value=1 / trees.num_classes)
    given_root = table[trees.y.long()[:, None], child]
    return given_root * root_weight + _given_subtree(trees, generator) * (1 - root_weight)


def _given_root(trees: TokenTrees, degree: Tensor) -> Tensor:
    r"""The label probabilities of a child by the label of the root and the token
    of the child, ``[C, num_tokens, C]``: a mixture over the labels of children,
    fitted by expectation maximisation to the tokens of children.
    """
    num_tokens, num_classes = trees.num_tokens, trees.num_classes
    child = trees.tokens[:, trees.shape.layer_slice(1)].long()
    y, real, degree = trees.y.long(), child != num_tokens, degree.double()
    ends = _count(y, trees.tokens[:, 0].long(), degree, num_classes, num_tokens)
    ends = ends + SMALLEST * ends.sum(dim=0) / num_classes + 1e-9
    prior = ends.sum(dim=1) / ends.sum()
    given_label = ends / ends.sum(dim=1, keepdim=True)  # P(token | label), over ends of edges
    weight = (degree / real.sum(dim=1).clamp(min=1))[:, None].expand_as(child)
    root = y[:, None].expand_as(child)
    seen = _count(root[real], child[real], weight[real], num_classes, num_tokens)
    mixing = (torch.eye(num_classes, dtype=torch.float64) + prior) / 2  # P(label | label of root)
    for _ in range(EM_STEPS):
        total = (mixing @ given_label).clamp(min=1e-300)  # [C, num_tokens]
        expected = mixing * ((seen / total) @ given_label.t())
        expected = expected + expected.t()  # an edge has no direction
        mixing = expected / expected.sum(dim=1, keepdim=True).clamp(min=1e-300)
    joint = mixing[:, None, :] * given_label.t()
    return joint / joint.sum(dim=2, keepdim=True).clamp(min=1e-300)


def _given_subtree(trees: TokenTrees, generator: torch.Generator) -> Tensor:
    r"""The label probabilities of each child, ``[n, f, C]``, by a linear probe
    that predicts the labels of roots from their own token and those below.
    """
    num_tokens, num_classes = trees.num_tokens, trees.num_classes
    token, y = trees.tokens[:, 0].long(), trees.y.long()
    child = trees.tokens[:, trees.shape.layer_slice(1)].long()
    count = _count(token, y, torch.ones(len(trees)).double(), num_tokens, num_classes)
    prior = count.sum(dim=0) / count.sum()
    table = F.pad((count + prior) / (count.sum(dim=1, keepdim=True) + 1), (0, 0, 0, 1))
    if trees.shape.depth == 1:
        return table[child]
    below = trees.tokens[:, trees.shape.layer_slice(2)].long()
    below = below.unflatten(1, trees.shape.num_neighbors[:2])
    others = count[token] - F.one_hot(y, num_classes)  # without the root itself
    own = (others + prior) / (others.sum(dim=1, keepdim=True) + 1)
    rows = _probe_rows(own, child, table)
    some = torch.randperm(len(trees), generator=generator)[:MAX_ROWS]
    probe = LinearProbe.fit(rows[some], y[some], num_classes)
    step = max(1, MAX_ROWS // child.size(1))
    parts = [
        probe(_probe_rows(table[c], b, table).flatten(0, 1)).unflatten(0, c.shape)
        for c, b in zip(child.split(step), below.split(step), strict=True)
    ]
    return torch.cat(parts).double()


def _probe_rows(own: Tensor, below: Tensor, table: Tensor) -> Tensor:
    r"""The input of the probe: what the own token says, and the mean of what the
    tokens below say.
    """
    real = (below != table.size(0) - 1).sum(dim=-1, keepdim=True).clamp(min=1)
    mean = table[below].sum(dim=-2) / real
    return torch.cat([own.clamp(min=SMALLEST).log(), mean], dim=-1).float()


def _count(row: Tensor, column: Tensor, weight: Tensor, num_rows: int, num_columns: int) -> Tensor:
    out = torch.zeros(num_rows * num_columns, dtype=torch.float64)
    return out.index_add_(0, row * num_columns + column, weight).view(num_rows, num_columns)
