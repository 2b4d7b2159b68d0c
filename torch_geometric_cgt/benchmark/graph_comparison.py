r"""Compares graphs: statistics of degrees, homophily and clustering, and the accuracy of GNNs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.optimize import minimize_scalar
from scipy.special import zeta
from scipy.stats import wasserstein_distance
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import degree, remove_self_loops, to_undirected

from torch_geometric_cgt.benchmark.gnn_training import GNNConfig, score_gnns
from torch_geometric_cgt.benchmark.metrics import as_rows, encode_source
from torch_geometric_cgt.data import MASKS, TreeShape
from torch_geometric_cgt.data.token_trees import masks_of
from torch_geometric_cgt.datasets.synthetic import SyntheticCGTDataset
from torch_geometric_cgt.pipeline.source import Source, check_source
from torch_geometric_cgt.utils.seeds import derive_seed

ORIGINAL = 'original'  # name of the graph that others are compared with
MIN_TAIL = 50  # nodes that the exponent of degrees is estimated from, at least
MAX_CANDIDATES = 50  # of the degree from which the tail starts
BLOCK_PATHS = 1 << 25  # two-step paths per block of nodes


@dataclass(frozen=True)
class GraphStatistics:
    r"""Statistics of a graph without self-loops, in which edges have no direction.

    Args:
        num_nodes (int): The number of nodes.
        num_edges (int): The number of edges, each counted once.
        mean_degree (float): The mean degree.
        max_degree (int): The largest degree.
        degree_exponent (float): The exponent of a discrete power law, fitted by
            maximum likelihood to the degrees from :obj:`tail_start` on;
            :obj:`None` if there are none.
        tail_start (int): The smallest degree of the fit.
        homophily (float): The share of edges whose nodes have the same label;
            :obj:`None` without edges.
        assortativity (float): The correlation of the degrees of the two nodes of
            an edge.
        clustering (float): The mean over all nodes of the share of pairs of
            neighbours that are neighbours of each other. It is zero for nodes
            with fewer than two neighbours.
        transitivity (float): The share of paths of two edges that are closed.
    """

    num_nodes: int
    num_edges: int
    mean_degree: float
    max_degree: int
    degree_exponent: float | None
    tail_start: int
    homophily: float | None
    assortativity: float
    clustering: float
    transitivity: float

    def to_dict(self) -> dict[str, Any]:
        r"""The content of a JSON file."""
        return asdict(self)


def graph_statistics(data: Data, tail_start: int | None = None) -> GraphStatistics:
    r"""Computes all statistics of a graph exactly.

    Args:
        data (Data): The graph. Nodes with a negative label do not count in the
            homophily.
        tail_start (int, optional): The smallest degree of the power law, see
            :meth:`choose_tail`. Compare graphs by the same value. By default,
            it is chosen for this graph. (default: :obj:`None`)
    """
    num_nodes = int(data.num_nodes or 0)
    edge_index = to_undirected(remove_self_loops(data.edge_index.cpu())[0], num_nodes=num_nodes)
    degrees = degree(edge_index[1], num_nodes, dtype=torch.long).numpy()
    tail_start = choose_tail(degrees) if tail_start is None else tail_start
    local, transitivity = clustering(edge_index, num_nodes)
    return GraphStatistics(
        num_nodes=num_nodes,
        num_edges=edge_index.size(1) // 2,
        mean_degree=float(degrees.mean()) if num_nodes else 0.0,
        max_degree=int(degrees.max(initial=0)),
        degree_exponent=degree_exponent(degrees, tail_start),
        tail_start=tail_start,
        homophily=homophily(edge_index, data.y.cpu()),
        assortativity=assortativity(edge_index, degrees),
        clustering=local,
        transitivity=transitivity,
    )


def degrees_of(data: Data) -> np.ndarray:
    r"""The degree of each node, without self-loops and directions, ``[N]``."""
    num_nodes = int(data.num_nodes or 0)
    edge_index = to_undirected(remove_self_loops(data.edge_index.cpu())[0], num_nodes=num_nodes)
    return degree(edge_index[1], num_nodes, dtype=torch.long).numpy()


def degree_distance(a: Data, b: Data) -> float:
    r"""The Wasserstein distance of the degrees of two graphs."""
    return float(wasserstein_distance(degrees_of(a), degrees_of(b)))


def homophily(edge_index: Tensor, y: Tensor) -> float | None:
    r"""The share of edges whose nodes have the same label; :obj:`None` without edges.

    Args:
        edge_index (torch.Tensor): The edges, ``[2, E]``.
        y (torch.Tensor): The labels, ``[N]``. Edges of nodes with a negative
            label do not count.
    """
    ends = y.view(-1)[edge_index]
    known = (ends >= 0).all(dim=0)
    return float((ends[0] == ends[1])[known].double().mean()) if bool(known.any()) else None


def assortativity(edge_index: Tensor, degrees: np.ndarray) -> float:
    r"""The correlation of the degrees at both ends of edges; zero if all are equal.

    Args:
        edge_index (torch.Tensor): The edges in both directions, ``[2, E]``.
        degrees (numpy.ndarray): The degrees, ``[N]``.
    """
    a, b = degrees[edge_index.numpy()].astype(float)
    if a.size == 0 or np.ptp(a) == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def clustering(edge_index: Tensor, num_nodes: int) -> tuple[float, float]:
    r"""The mean local clustering coefficient and the transitivity, exactly.

    Args:
        edge_index (torch.Tensor): The edges in both directions, without
            self-loops and duplicates, ``[2, E]``.
        num_nodes (int): The number of nodes.
    """
    row, col = edge_index.numpy()
    matrix = sp.csr_matrix((np.ones(row.size), (row, col)), shape=(num_nodes, num_nodes))
    degrees = np.diff(matrix.indptr).astype(float)
    # Each edge points to the node of higher degree. Few edges then start at hubs.
    rank = np.empty(num_nodes, dtype=np.int64)
    rank[np.argsort(degrees, kind='stable')] = np.arange(num_nodes)
    up = rank[row] < rank[col]
    upper = sp.csr_matrix((np.ones(up.sum()), (row[up], col[up])), shape=matrix.shape)
    triangles = np.zeros(num_nodes)
    paths = np.add.reduceat(np.append(np.diff(upper.indptr)[upper.indices], 0), upper.indptr[:-1])
    paths[np.diff(upper.indptr) == 0] = 0
    block = np.cumsum(paths) // BLOCK_PATHS
    for start, stop in _blocks(block):
        closed = (upper[start:stop] @ upper).multiply(upper[start:stop]).tocoo()
        # A path u -> v -> w that is closed by u -> w is one triangle of u, of v and of w.
        np.add.at(triangles, closed.row + start, closed.data)
        np.add.at(triangles, closed.col, closed.data)
        back = (upper[start:stop] @ upper.T).multiply(upper[start:stop]).tocoo()
        np.add.at(triangles, back.col, back.data)
    pairs = degrees * (degrees - 1) / 2
    local = np.divide(triangles, pairs, out=np.zeros(num_nodes), where=pairs > 0)
    closed_paths = float(triangles.sum() / pairs.sum()) if pairs.sum() else 0.0
    return float(local.mean()) if num_nodes else 0.0, closed_paths


def _blocks(block: np.ndarray) -> list[tuple[int, int]]:
    starts = np.flatnonzero(np.diff(block, prepend=-1))
    return list(zip(starts.tolist(), [*starts[1:].tolist(), block.size], strict=True))


def degree_exponent(degrees: np.ndarray, tail_start: int) -> float | None:
    r"""The maximum-likelihood exponent of the discrete power law
    :math:`p(d) \propto d^{-\gamma}` for :math:`d \geq` :obj:`tail_start`;
    :obj:`None` without such degrees.

    Args:
        degrees (numpy.ndarray): The degrees, ``[N]``.
        tail_start (int): The smallest degree that counts.
    """
    tail = degrees[degrees >= max(1, tail_start)]
    if tail.size == 0:
        return None
    logs = float(np.log(tail).mean())
    found = minimize_scalar(
        lambda gamma: gamma * logs + np.log(zeta(gamma, max(1, tail_start))),
        bounds=(1.01, 20.0),
        method='bounded',
    )
    return float(found.x)


def choose_tail(degrees: np.ndarray) -> int:
    r"""The degree from which degrees are closest to a power law, in the
    Kolmogorov-Smirnov distance (Clauset et al., 2009), among those that leave
    at least :obj:`MIN_TAIL` nodes.

    Args:
        degrees (numpy.ndarray): The degrees, ``[N]``.
    """
    values = np.unique(degrees[degrees > 0])
    candidates = [v for v in values if (degrees >= v).sum() >= MIN_TAIL][:MAX_CANDIDATES]
    if not candidates:
        return 1
    return int(min(candidates, key=lambda start: _distance(degrees, int(start))))


def _distance(degrees: np.ndarray, start: int) -> float:
    tail = np.sort(degrees[degrees >= start])
    gamma = degree_exponent(tail, start)
    if gamma is None:
        return np.inf
    values = np.unique(tail)
    below = np.searchsorted(tail, values, side='right') / tail.size
    model = 1 - zeta(gamma, values + 1) / zeta(gamma, start)
    return float(np.abs(below - model).max())


def compare_joined(
    source: Source | None,
    dataset: SyntheticCGTDataset,
    models: Sequence[str],
    config: GNNConfig | None = None,
) -> dict[str, Any]:
    r"""Compares :meth:`SyntheticCGTDataset.to_graph` with the source.

    Args:
        source (Source, optional): The source, or :obj:`None` to describe the
            joined graph alone.
        dataset (SyntheticCGTDataset): The synthetic dataset.
        models (list[str]): The names of GNNs.
        config (GNNConfig, optional): How to train. (default: :obj:`None`)
    """
    graphs = {'generated': dataset.to_graph()}
    seed, shape = dataset.card['parameters']['seed'], dataset.trees.shape
    if source is not None:
        original = Data(
            x=dataset.project(source.data.x), edge_index=source.data.edge_index, y=source.data.y
        )
        original.update(masks_of(source.split_codes(derive_seed(seed, 'split'))))
        graphs = {ORIGINAL: original, **graphs}
    return compare_graphs(graphs, shape, models, seed, config)


def compare_graphs(
    graphs: Mapping[str, Data],
    shape: TreeShape,
    models: Sequence[str],
    seed: int,
    config: GNNConfig | None = None,
) -> dict[str, Any]:
    r"""Statistics and test accuracies of several graphs.

    If one of them is the :obj:`"original"`, the tail of all degrees starts where
    that of the original does, and there are Wasserstein distances to its degrees.

    Args:
        graphs (dict[str, Data]): The graphs by name, with masks.
        shape (TreeShape): The geometry of the computation graphs that GNNs see.
        models (list[str]): The names of GNNs.
        seed (int): The seed of sampled neighbours and of training.
        config (GNNConfig, optional): How to train. (default: :obj:`None`)
    """
    original = graphs.get(ORIGINAL)
    first = next(iter(graphs.values()))
    tail_start = choose_tail(degrees_of(first if original is None else original))
    out: dict[str, Any] = {'statistics': {}, 'degree_distance': {}, 'scores': {}}
    for name, graph in graphs.items():
        out['statistics'][name] = graph_statistics(graph, tail_start).to_dict()
        if original is not None:
            out['degree_distance'][name] = degree_distance(graph, original)
        out['scores'][name] = graph_scores(graph, shape, models, seed, config)
    return out


def graph_scores(
    graph: Data,
    shape: TreeShape,
    models: Sequence[str],
    seed: int,
    config: GNNConfig | None = None,
) -> dict[str, float]:
    r"""The test accuracy of GNNs that are trained on computation graphs of a
    graph. It is empty without test nodes.

    Args:
        graph (Data): The graph, with masks.
        shape (TreeShape): The geometry of the computation graphs.
        models (list[str]): The names of GNNs.
        seed (int): The seed of sampled neighbours and of training.
        config (GNNConfig, optional): How to train. (default: :obj:`None`)
    """
    source = check_source(graph)
    trees = encode_source(source, shape, seed, run=0)
    trees = trees.map_tokens(None, trees.num_tokens, as_rows(source.data.x))
    if not all(trees.rows(name.removesuffix('_mask')).numel() for name in (MASKS[0], MASKS[2])):
        return {}
    return score_gnns(models, trees, seed, config)
