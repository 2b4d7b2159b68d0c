r"""Compares a release as one graph with its source: statistics and GNNs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch_geometric.data import Data

from torch_geometric_cgt.benchmark.convs import as_rows
from torch_geometric_cgt.benchmark.gnn_training import GNNConfig, score_gnns
from torch_geometric_cgt.benchmark.graph_statistics import (
    choose_tail,
    degree_distance,
    degrees_of,
    graph_statistics,
)
from torch_geometric_cgt.benchmark.metrics import encode_source
from torch_geometric_cgt.data import MASKS, TreeShape
from torch_geometric_cgt.data.token_trees import masks_of
from torch_geometric_cgt.datasets.synthetic import SyntheticCGTDataset
from torch_geometric_cgt.pipeline.source import Source, check_source
from torch_geometric_cgt.utils.seeds import derive_seed

ORIGINAL = 'original'


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
