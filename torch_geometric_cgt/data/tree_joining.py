r"""Joins the trees of a release into one undirected graph, with degrees that are estimated from the
trees alone.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_geometric_cgt.data.edge_ends import ROOT_WEIGHT, EdgeEnds, make_edge_ends
from torch_geometric_cgt.data.end_matching import EndMatching
from torch_geometric_cgt.data.graph_profile import GraphProfile
from torch_geometric_cgt.data.token_trees import TokenTrees, masks_of
from torch_geometric_cgt.utils.checks import check_memory
from torch_geometric_cgt.utils.seeds import seeded

CLOSING_SHARE = 0.4  # of edge ends that close triangles, at most
BYTES_PER_NODE = 5_000  # about 15 edges, and temporary tensors
NUM_DRAWS = 16  # paths per node, to count repeated tokens
EXPONENT = 5.0  # of the tail of degrees, far beyond the fan-out
PRIOR_ROOTS = 5.0  # with the mean degree, added to those of each token
MAX_STEPS = 1_000  # of the fixed point
TOLERANCE = 1e-6
__all__ = ['mean_degree', 'mean_degrees', 'sample_degrees']


def join_trees(
    trees: TokenTrees, codebook: Tensor, seed: int = 0, profile: GraphProfile | None = None
) -> Data:
    r"""Joins trees into one undirected graph. Each root becomes a node.

    Only the release is read. See ``docs/one_graph.md`` for the method.

    Args:
        trees (TokenTrees): The trees.
        codebook (torch.Tensor): The features of each token, ``[num_tokens, F]``.
        seed (int, optional): The same seed gives the same graph.
            (default: :obj:`0`)
        profile (GraphProfile, optional): Degrees and homophily of the source, if the
            release has them. (default: :obj:`None`)
    """
    num_nodes, width = len(trees), codebook.size(1)
    label_probs = 4 * 8 * trees.shape.num_neighbors[0] * trees.num_classes
    check_memory(
        num_nodes * (width * codebook.element_size() + label_probs + BYTES_PER_NODE),
        f'One graph of {num_nodes:,} nodes with {width} features each',
        "build the dataset with a smaller 'num_samples'",
    )
    token = trees.tokens[:, 0].long()
    edge_index, edge_tokens = _edges(trees, codebook, seed, profile)
    data = Data(x=codebook[token], edge_index=edge_index, y=trees.y.long())
    if trees.edge_values is not None and edge_tokens is not None:
        data.update(trees.edge_values.take(edge_tokens))
    for name, mask in masks_of(trees.split).items():
        data[name] = mask
    data.token = token
    return data


def _edges(
    trees: TokenTrees, codebook: Tensor, seed: int, profile: GraphProfile | None
) -> tuple[Tensor, Tensor | None]:
    r"""The edges in both directions, and the edge token of each, if the trees have edge values."""

    def joined(root_weight: float) -> EndMatching:
        generator = seeded(seed, 'join')
        degree = sample_degrees(trees, generator, profile)
        ends = make_edge_ends(trees, codebook, degree, generator, root_weight)
        return _match(trees, ends, seed)

    weight = ROOT_WEIGHT
    if profile is not None and profile.homophily is not None:
        # The homophily is nearly linear in the weight.
        low, high = (_homophily(joined(end).edge_index(), trees.y) for end in (0.0, 1.0))
        if high > low:
            weight = min(max((profile.homophily - low) / (high - low), 0.0), 1.0)
    matching = joined(weight)
    return matching.edge_index(), _edge_tokens(trees, matching)


def _edge_tokens(trees: TokenTrees, matching: EndMatching) -> Tensor | None:
    r"""The edge token of each edge: that of the edge of a tree that asked for it."""
    if trees.edge_tokens is None or matching.ends.slot is None:
        return None
    end = matching.asking_end()
    return trees.edge_tokens[matching.ends.owner[end], matching.ends.slot[end]].long()


def _homophily(edge_index: Tensor, y: Tensor) -> float:
    equal = y[edge_index[0]] == y[edge_index[1]]
    return float(equal.double().mean()) if equal.numel() else 0.0


def _match(trees: TokenTrees, ends: EdgeEnds, seed: int) -> EndMatching:
    r"""Pairs edge ends, with as many triangles as the trees show."""

    def matched(closing_share: float) -> EndMatching:
        matching = EndMatching(ends, len(trees), seeded(seed, 'match'))
        matching.match(closing_share)
        return matching

    most = matched(CLOSING_SHARE)
    if trees.shape.depth == 1:
        return most
    token, wanted = trees.tokens[:, 0].long(), repeated_tokens(trees)
    high = repeated_tokens_of_graph(most.edge_index(), token, seeded(seed, 'repeats'))
    if high <= wanted:
        return most
    least = matched(0.0)
    low = repeated_tokens_of_graph(least.edge_index(), token, seeded(seed, 'repeats'))
    if low >= wanted:
        return least
    return matched(CLOSING_SHARE * (wanted - low) / (high - low))


def repeated_tokens(trees: TokenTrees) -> float:
    r"""How often a grandchild has the token of a child that is not its parent:
    the mean over roots with at least two children. It is high in a graph with
    many triangles.

    Args:
        trees (TokenTrees): The trees, of at least two layers.
    """
    fan_out = trees.shape.num_neighbors[0]
    child = trees.tokens[:, trees.shape.layer_slice(1)]
    below = trees.tokens[:, trees.shape.layer_slice(2)].unflatten(1, (fan_out, -1))
    hits = total = torch.zeros(len(trees), dtype=torch.long)
    for shift in range(1, fan_out):
        other = child.roll(shift, dims=1)[:, :, None]
        real = (below != trees.num_tokens) & (other != trees.num_tokens)
        hits = hits + ((below == other) & real).flatten(1).sum(dim=1)
        total = total + real.flatten(1).sum(dim=1)
    counted = total > 0
    return float((hits[counted] / total[counted]).mean()) if bool(counted.any()) else 0.0


def repeated_tokens_of_graph(
    edge_index: Tensor, token: Tensor, generator: torch.Generator
) -> float:
    r"""The expected value of :meth:`repeated_tokens` for trees that are sampled
    from a graph, estimated by random paths.

    Args:
        edge_index (torch.Tensor): The edges in both directions, sorted by their
            first node, ``[2, E]``.
        token (torch.Tensor): The token of each node, ``[N]``.
        generator (torch.Generator): The source of randomness.
    """
    start = torch.searchsorted(edge_index[0].contiguous(), torch.arange(token.numel() + 1))
    count, neighbor = start[1:] - start[:-1], edge_index[1]
    root = (count > 1).nonzero().view(-1).repeat(NUM_DRAWS)
    if root.numel() == 0:
        return 0.0
    uniform = torch.rand((3, root.numel()), dtype=torch.float64, generator=generator)
    first = (uniform[0] * count[root]).long()
    second = (first + 1 + (uniform[1] * (count[root] - 1)).long()) % count[root]
    child, other = neighbor[start[root] + first], neighbor[start[root] + second]
    below = neighbor[start[child] + (uniform[2] * count[child]).long()]
    return float((token[below] == token[other]).double().mean())


def sample_degrees(
    trees: TokenTrees, generator: torch.Generator, profile: GraphProfile | None = None
) -> Tensor:
    r"""Draws a degree for each root, ``[n]``.

    Without a profile, a root with fewer children than the fan-out :math:`s` has exactly that
    degree. A root with :math:`s` children has a degree of at least :math:`s`,
    which is drawn from :math:`p(d) \propto (d + c)^{-5}`. The offset
    :math:`c` gives it the mean of its token, see :meth:`mean_degrees`.

    With a profile, these degrees decide on the order of the roots only, and the
    groups of the profile on their degrees. A root without children keeps the degree zero.

    Args:
        trees (TokenTrees): The trees. Trees of one layer do not tell degrees
            beyond the fan-out, so that their roots get at most that degree
            without a profile.
        generator (torch.Generator): The source of randomness.
        profile (GraphProfile, optional): The degrees of the source in groups.
            (default: :obj:`None`)
    """
    degree = _shown_degrees(trees, generator)
    if profile is None:
        return degree
    order = degree + torch.rand(degree.shape, dtype=torch.float64, generator=generator)
    drawn = profile.draw(order, generator).clamp(min=1, max=max(1, len(trees) - 1))
    return torch.where(degree == 0, 0, drawn)


def _shown_degrees(trees: TokenTrees, generator: torch.Generator) -> Tensor:
    r"""Degrees that are estimated from the trees alone, ``[n]``."""
    fan_out = trees.shape.num_neighbors[0]
    degree = trees.real[:, trees.shape.layer_slice(1)].sum(dim=1)
    full = degree == fan_out
    if trees.shape.depth == 1 or not bool(full.any()):
        return degree
    mean = mean_degrees(trees)[trees.tokens[full, 0].long()]
    uniform = torch.rand(mean.numel(), dtype=torch.float64, generator=generator)
    degree[full] = _draw_tail(mean, uniform, fan_out, largest=max(fan_out, len(trees) - 1))
    return degree


def mean_degrees(trees: TokenTrees) -> Tensor:
    r"""The estimated mean degree of the roots of each token with a full
    fan-out, ``[num_tokens]``.

    The ratio of means is that of :meth:`_relative_degrees`, the level that of
    :meth:`mean_degree`.
    """
    relative, num_roots = _relative_degrees(trees)
    level = (relative * num_roots).sum() / num_roots.sum().clamp(min=1)
    relative = (relative * num_roots + PRIOR_ROOTS * level) / (num_roots + PRIOR_ROOTS)
    level = (relative * num_roots).sum() / num_roots.sum().clamp(min=1)
    relative = relative / level.clamp(min=1e-12)
    lowest = trees.shape.num_neighbors[0]
    degree = (trees.tokens[:, trees.shape.layer_slice(1)] != trees.num_tokens).sum(dim=1).double()
    token, full = trees.tokens[:, 0].long(), degree == lowest
    for _ in range(2):  # the first estimate gives all roots the same weight
        mean = (mean_degree(trees, degree) * relative).clamp(min=float(lowest))
        degree = torch.where(full, mean[token], degree)
    return mean


def mean_degree(trees: TokenTrees, degree: Tensor) -> float:
    r"""The estimated mean degree of nodes with a full fan-out.

    A child of degree :math:`d` has the root among its own neighbours. Each of
    its sampled neighbours is the root with probability :math:`1/d`, and then
    has the root's token. Otherwise the two are different neighbours of the
    child, with equal tokens as often as two of its sampled neighbours have,
    :math:`q`. The share :math:`r` of grandchildren with the root's token
    therefore is :math:`1/d + (1 - 1/d) q`. Children are weighted by the number
    of edges that they stand for. The mean of :math:`1/d` over edges is the
    inverse of the mean degree over nodes.

    Args:
        trees (TokenTrees): The trees, of at least two layers.
        degree (torch.Tensor): The degree of each root, or an estimate, ``[n]``.
    """
    first, second = trees.shape.num_neighbors[:2]
    lowest, highest = float(first), float(max(first, len(trees) - 1))
    grandchildren, full = _grandchildren(trees), _is_full(trees)
    if not bool(full.any()) or second < 2:
        return lowest
    shown = (trees.tokens[:, trees.shape.layer_slice(1)] != trees.num_tokens).sum(dim=1)
    weight = (degree / shown.clamp(min=1))[:, None].expand_as(full)[full]
    weight = weight / weight.sum()
    back = (grandchildren == trees.tokens[:, :1, None])[full].double().mean(dim=1)
    same = _equal_pairs(grandchildren[full].sort(dim=1).values) / (second * (second - 1) / 2)
    r, q = float(weight @ back), float(weight @ same.double())
    if (r - q) * highest <= 1 - q:
        return highest
    return min(max((1 - q) / (r - q), lowest), highest)


def _equal_pairs(ordered: Tensor) -> Tensor:
    r"""The number of pairs of equal entries of each row, for sorted rows."""
    run = torch.zeros(ordered.size(0), dtype=torch.long)
    pairs = torch.zeros_like(run)
    for i in range(1, ordered.size(1)):
        run = torch.where(ordered[:, i] == ordered[:, i - 1], run + 1, 0)
        pairs += run
    return pairs


def _relative_degrees(trees: TokenTrees) -> tuple[Tensor, Tensor]:
    r"""The number of edge ends per root of each token, up to a factor, and the
    number of roots, both of nodes with at least :math:`t` neighbours.

    In an undirected graph, the edges of token :math:`b` are those that others
    have to it. A root with fewer than :math:`t` children shows all its edges.
    The children of another root are a sample of its edges. The number of edge
    ends therefore solves :math:`E_b = l_b + \sum_a E_a P_{ab}`, with
    :math:`l_b` edges from small roots and the shares :math:`P_{ab}` of the
    children of large roots.
    """
    least = min(trees.shape.num_neighbors[:2])
    num_tokens = trees.num_tokens
    child = trees.tokens[:, trees.shape.layer_slice(1)].long()
    num_children = (child != num_tokens).sum(dim=1)
    is_large = num_children >= least
    large_child = (_grandchildren(trees) != num_tokens).sum(dim=2) >= least
    token = trees.tokens[:, 0].long()
    num_roots = torch.bincount(token[is_large], minlength=num_tokens).double()

    small = large_child & ~is_large[:, None]
    edges = torch.bincount(child[small], minlength=num_tokens).double().numpy()
    seen = large_child & is_large[:, None]
    weight = (1 / num_children.clamp(min=1).double() / num_roots.clamp(min=1)[token])[:, None]
    parent = token[:, None].expand_as(child)[seen]
    share = sp.csr_matrix(
        (weight.expand_as(child)[seen].numpy(), (child[seen].numpy(), parent.numpy())),
        shape=(num_tokens, num_tokens),
    )
    edges = edges + 1e-3 * num_roots.numpy()  # so that a graph without small roots has a solution
    ends = edges
    for _ in range(MAX_STEPS):
        found = edges + share @ ends
        converged = np.abs(found - ends).sum() <= TOLERANCE * found.sum()
        ends = found
        if converged:
            break
    return torch.from_numpy(ends) / num_roots.clamp(min=1), num_roots


def _grandchildren(trees: TokenTrees) -> Tensor:
    r"""The tokens of the grandchildren by child, ``[n, f, f']``."""
    second = trees.tokens[:, trees.shape.layer_slice(2)]
    return second.unflatten(1, trees.shape.num_neighbors[:2]).long()


def _is_full(trees: TokenTrees) -> Tensor:
    r"""Whether each child shows as many neighbours as a tree can, ``[n, f]``."""
    return (_grandchildren(trees) != trees.num_tokens).all(dim=2)


def _draw_tail(mean: Tensor, uniform: Tensor, lowest: int, largest: int) -> Tensor:
    r"""Draws whole numbers from :obj:`lowest` to :obj:`largest` with
    :math:`p(d) \propto (d + c)^{-5}` and the given means.
    """
    if largest <= lowest:
        return torch.full_like(mean, lowest, dtype=torch.long)
    value, index = mean.unique(return_inverse=True)
    offset = torch.tensor([_offset(float(v), lowest) for v in value], dtype=torch.float64)[index]
    # The inverse of the distribution function of the continuous law, from lowest - 1/2 on.
    start = lowest - 0.5 + offset
    drawn = start * (1 - uniform).pow(-1 / (EXPONENT - 1)) - offset
    return drawn.round().long().clamp(lowest, largest)


def _offset(mean: float, lowest: int) -> float:
    r"""The offset that gives a tail its mean, before it is rounded."""
    start = lowest - 0.5
    smallest = start * (EXPONENT - 1) / (EXPONENT - 2)  # without an offset
    if mean <= lowest + 0.1:
        mean = lowest + 0.1
    # mean = (start + c) (a - 1) / (a - 2) - c is linear in c
    return (mean - smallest) * (EXPONENT - 2)
