r"""Compares a synthetic dataset with its source: GNN accuracy and statistics of trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from tqdm import tqdm

from torch_geometric_cgt.benchmark.gnn_training import (
    ALL_MODELS,
    MODELS,
    GNNConfig,
    gnn_accuracy,
    train_gnn,
)
from torch_geometric_cgt.benchmark.metrics import (
    agreement,
    duplicates,
    histograms,
    wasserstein,
    zero_vectors,
)
from torch_geometric_cgt.benchmark.sparse_ops import as_rows
from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.datasets.synthetic import SyntheticCGTDataset
from torch_geometric_cgt.pipeline.source import Source, check_source
from torch_geometric_cgt.sampler import InNeighbors, sample_trees
from torch_geometric_cgt.utils.seeds import derive_seed


@dataclass
class Evaluation:
    r"""The scores of several models over several seeds, and statistics of
    computation graphs.
    """

    models: list[str]
    scores: dict[str, dict[str, list[float]]] = field(default_factory=dict)  # column, model, seed
    histograms: dict[str, dict[str, list[int]]] = field(default_factory=dict)  # statistic, column
    wasserstein: dict[str, dict[str, float]] = field(default_factory=dict)  # statistic, columns

    def mean(self, column: str) -> list[float] | None:
        r"""The mean score of each model in one column."""
        if column not in self.scores:
            return None
        return [sum(runs) / len(runs) for runs in map(self.scores[column].get, self.models) if runs]

    def agreement(self, column: str = 'generated') -> dict[str, float | None]:
        r"""How well one column reproduces the original."""
        original, other = self.mean('original'), self.mean(column)
        if original is None or other is None:
            raise ValueError(f"There are no scores for '{column}'")
        return agreement(original, other)

    def to_dict(self) -> dict[str, Any]:
        r"""The content of a JSON file."""
        compared = [c for c in ('quantized', 'generated') if c in self.scores]
        return {
            'models': self.models,
            'scores': self.scores,
            'mean': {column: self.mean(column) for column in self.scores},
            'agreement': {column: self.agreement(column) for column in compared},
            'histograms': self.histograms,
            'wasserstein': self.wasserstein,
        }

    def text(self) -> str:
        r"""The mean scores as a table of plain text."""
        lines = [f'{"":8}' + ''.join(f'{column:>12}' for column in self.scores)]
        for i, model in enumerate(self.models):
            means = [(self.mean(column) or [])[i] for column in self.scores]
            lines.append(f'{model:8}' + ''.join(f'{mean:12.3f}' for mean in means))
        facts = [f'{n} {"n/a" if v is None else f"{v:.4f}"}' for n, v in self.agreement().items()]
        return '\n'.join([*lines, 'generated against original: ' + ', '.join(facts)])


def evaluate_dataset(
    source: Any,
    datasets: Sequence[SyntheticCGTDataset],
    models: Sequence[str] = MODELS,
    config: GNNConfig | None = None,
    log: bool = True,
) -> Evaluation:
    r"""Trains GNNs on the source and on synthetic substitutes of it.

    Columns are :obj:`original`, :obj:`quantized` (the source with features
    replaced by cluster means; a release without its source has no clusters
    and no such column), :obj:`generated`, and :obj:`transfer`: trained on
    generated, tested on original computation graphs.

    Args:
        source (Dataset or Data): The source.
        datasets (list[SyntheticCGTDataset]): One substitute per seed.
        models (list[str], optional): Names of models.
        config (GNNConfig, optional): How to train. (default: :obj:`None`)
        log (bool, optional): Whether to show progress. (default: :obj:`True`)
    """
    unknown = [name for name in models if name not in ALL_MODELS]
    if unknown:
        raise ValueError(f'Unknown models {unknown}; choose from {list(ALL_MODELS)}')
    checked = check_source(source)
    config = config or GNNConfig.for_roots(checked.root.numel() // 2)
    out = Evaluation(list(models))
    with tqdm(total=len(datasets) * len(models), desc='evaluate', disable=not log) as bar:
        for run, dataset in enumerate(datasets):
            trees = compared_trees(checked, dataset, run)
            if run == 0:
                _add_statistics(out, trees)
            for name in models:
                for column, score in _scores(name, trees, config, run).items():
                    out.scores.setdefault(column, {}).setdefault(name, []).append(score)
                bar.update()
    return out


def compared_trees(source: Source, dataset: SyntheticCGTDataset, run: int) -> dict[str, TokenTrees]:
    r"""The computation graphs to compare, with features: original, quantized
    (where the clusters of the dataset are known) and generated.

    Args:
        source (Source): The source of the synthetic dataset.
        dataset (SyntheticCGTDataset): The synthetic dataset.
        run (int): Each run samples other neighbours of the source.
    """
    seed = dataset.card['parameters']['seed']
    made_from = dataset.card['source']['num_features']
    if source.data.num_features != made_from:
        raise ValueError(
            f'The source has {source.data.num_features} features and that of the synthetic '
            f'dataset had {made_from}: it was not made from this source'
        )
    encoded = encode_source(source, dataset.trees.shape, seed, run)
    # Where codewords are projected, all graphs are compared under that projection.
    codebook, x = as_rows(dataset.codebook), as_rows(dataset.project(source.data.x))
    trees = {'original': encoded.map_tokens(None, encoded.num_tokens, x)}
    if dataset.cluster is not None:
        trees['quantized'] = encoded.map_tokens(dataset.cluster, codebook.size(0), codebook)
    made = dataset.trees
    trees['generated'] = replace(made, tokens=made.tokens.long(), y=made.y.long(), x=codebook)
    return trees


def encode_source(source: Source, shape: TreeShape, seed: int, run: int) -> TokenTrees:
    r"""Computation graphs of all labelled nodes. A token is a node id, and the
    null token is the number of nodes.

    Args:
        source (Source): The source.
        shape (TreeShape): The geometry of the trees.
        seed (int): The seed of the split, where the source has none.
        run (int): Each run samples other neighbours.
    """
    num_nodes = int(source.data.num_nodes or 0)
    graph = InNeighbors.from_edge_index(source.data.edge_index, num_nodes)
    rng = torch.Generator().manual_seed(derive_seed(seed, f'evaluate/{run}'))
    tree = sample_trees(graph, source.root, shape, rng)
    split = source.split_codes(derive_seed(seed, 'split'))  # [N]
    child = tree[:, shape.layer_slice(1)]
    return TokenTrees(
        tree.masked_fill(tree < 0, num_nodes),
        source.data.y[source.root],
        split[source.root],
        num_nodes,
        source.num_classes,
        shape,
        child_split=torch.where(child < 0, 0, split[child]),
    )


def _scores(
    name: str, trees: dict[str, TokenTrees], config: GNNConfig, seed: int
) -> dict[str, float]:
    original, scores = trees['original'], {}
    for column, own in trees.items():
        model = train_gnn(name, own, config, seed)
        scores[column] = gnn_accuracy(model, own, own.rows('test'), seed)
        if column == 'generated':
            scores['transfer'] = gnn_accuracy(model, original, original.rows('test'), seed)
    return scores


def _add_statistics(out: Evaluation, trees: dict[str, TokenTrees]) -> None:
    reference = 'quantized' if 'quantized' in trees else 'original'
    for name, statistic in [('zero vectors', zero_vectors), ('duplicates', duplicates)]:
        counts = histograms(statistic, trees)
        out.histograms[name] = counts
        distance = wasserstein(counts['generated'], counts[reference])
        out.wasserstein[name] = {f'generated to {reference}': distance}
