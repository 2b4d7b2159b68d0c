r"""Joins the trees of a release into one undirected graph."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_geometric_cgt.data.edge_ends import make_edge_ends
from torch_geometric_cgt.data.end_matching import EndMatching
from torch_geometric_cgt.data.joined_degrees import sample_degrees
from torch_geometric_cgt.data.token_trees import TokenTrees, masks_of
from torch_geometric_cgt.utils.checks import check_memory
from torch_geometric_cgt.utils.seeds import seeded

CLOSING_SHARE = 0.4  # of edge ends that close triangles, at most
BYTES_PER_NODE = 5_000  # about 15 edges, and temporary tensors
NUM_DRAWS = 16  # paths per node, to count repeated tokens


def join_trees(trees: TokenTrees, codebook: Tensor, seed: int = 0) -> Data:
    r"""Joins trees into one undirected graph. Each root becomes a node.

    Only the trees are read. See ``docs/one_graph.md`` for the method.

    Args:
        trees (TokenTrees): The trees.
        codebook (torch.Tensor): The features of each token, ``[num_tokens, F]``.
        seed (int, optional): The same seed gives the same graph.
            (default: :obj:`0`)
    """
    num_nodes, width = len(trees), codebook.size(1)
    label_probs = 4 * 8 * trees.shape.num_neighbors[0] * trees.num_classes
    check_memory(
        num_nodes * (width * codebook.element_size() + label_probs + BYTES_PER_NODE),
        f'One graph of {num_nodes:,} nodes with {width} features each',
        "build the dataset with a smaller 'num_samples'",
    )
    token = trees.tokens[:, 0].long()
    data = Data(x=codebook[token], edge_index=_edges(trees, codebook, seed), y=trees.y.long())
    for name, mask in masks_of(trees.split).items():
        data[name] = mask
    data.token = token
    return data


def _edges(trees: TokenTrees, codebook: Tensor, seed: int) -> Tensor:
    generator = seeded(seed, 'join')
    degree = sample_degrees(trees, generator)
    ends = make_edge_ends(trees, codebook, degree, generator)

    def matched(closing_share: float) -> Tensor:
        matching = EndMatching(ends, len(trees), seeded(seed, 'match'))
        matching.match(closing_share)
        return matching.edge_index()

    most = matched(CLOSING_SHARE)
    if trees.shape.depth == 1:
        return most
    token, wanted = trees.tokens[:, 0].long(), repeated_tokens(trees)
    high = repeated_tokens_of_graph(most, token, seeded(seed, 'repeats'))
    if high <= wanted:
        return most
    least = matched(0.0)
    low = repeated_tokens_of_graph(least, token, seeded(seed, 'repeats'))
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
