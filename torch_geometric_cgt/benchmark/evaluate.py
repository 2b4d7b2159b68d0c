r"""GNN accuracy on the original, the quantized and the generated graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from torch_geometric_cgt.benchmark.metrics import agreement
from torch_geometric_cgt.benchmark.models import ALL_MODELS, MODELS
from torch_geometric_cgt.benchmark.rows import as_rows
from torch_geometric_cgt.benchmark.statistics import duplicates, wasserstein, zero_vectors
from torch_geometric_cgt.benchmark.training import GNNConfig, TreeSet, test_gnn, train_gnn
from torch_geometric_cgt.data import TokenTrees, TreeShape, tokens_of
from torch_geometric_cgt.datasets.synthetic import SyntheticCGTDataset
from torch_geometric_cgt.pipeline.source import Source, check_source
from torch_geometric_cgt.sampler import InNeighbors, sample_trees
from torch_geometric_cgt.utils.seeds import derive_seed

COLUMNS = ('original', 'quantized', 'generated', 'transfer')


@dataclass
class Evaluation:
    r"""The scores of several models over several seeds, and what they say."""

    models: list[str]
    scores: dict[str, dict[str, list[float]]] = field(default_factory=dict)  # column, model, seed
    histograms: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    wasserstein: dict[str, dict[str, float]] = field(default_factory=dict)

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
        r"""All of it, for a JSON file."""
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
    replaced by cluster means, where the clusters are at hand),
    :obj:`generated`, and :obj:`transfer`: trained on generated, tested on
    original computation graphs.

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
            sets = tree_sets(checked, dataset, run)
            if run == 0:
                _add_statistics(out, sets)
            for name in models:
                for column, score in _scores(name, sets, config, run).items():
                    out.scores.setdefault(column, {}).setdefault(name, []).append(score)
                bar.update()
    return out


def tree_sets(source: Source, dataset: SyntheticCGTDataset, run: int) -> dict[str, TreeSet]:
    r"""The graphs to compare, as rows of indices into tables of features."""
    seed = dataset.card['parameters']['seed']
    made_from = dataset.card['source']['num_features']
    if source.data.num_features != made_from:
        raise ValueError(
            f'The source has {source.data.num_features} features and that of the synthetic '
            f'dataset had {made_from}: it was not made from this source'
        )
    encoded = SourceTrees(source, dataset.trees.shape, seed, run)
    # Where codewords are projected, all graphs are compared under that projection.
    sets = {'original': encoded.with_features(dataset.project(source.data.x))}
    if dataset.cluster is not None:
        sets['quantized'] = encoded.with_features(dataset.codebook, dataset.cluster)
    sets['generated'] = generated_set(dataset.trees, dataset.codebook)
    return sets


class SourceTrees:
    r"""Computation graphs of a source, whatever stands for its features.

    Args:
        source (Source): The source.
        shape (TreeShape): The geometry of the trees.
        seed (int): The seed that the source is split by, where it is not yet.
        run (int): Other neighbours are drawn for each run.
    """

    def __init__(self, source: Source, shape: TreeShape, seed: int, run: int) -> None:
        self.source, self.shape = source, shape
        graph = InNeighbors.from_edge_index(source.data.edge_index, self.num_nodes)
        rng = torch.Generator().manual_seed(derive_seed(seed, f'evaluate/{run}'))
        self.tree = sample_trees(graph, source.root, shape, rng)
        split = source.split_codes(derive_seed(seed, 'split'))  # [N]
        child = self.tree[:, shape.layer_slice(1)]
        self.split = split[source.root]
        self.child_split = torch.where(child < 0, 0, split[child])

    @property
    def num_nodes(self) -> int:
        return int(self.source.data.num_nodes or 0)

    def with_features(self, x: Tensor, row: Tensor | None = None) -> TreeSet:
        r"""The trees over a table of features.

        Args:
            x (torch.Tensor): The table, ``[R, F]``.
            row (torch.Tensor, optional): The row of each node, ``[N]``. By
                default, its own. (default: :obj:`None`)
        """
        row = torch.arange(self.num_nodes) if row is None else row
        y = self.source.data.y[self.source.root]
        index = tokens_of(self.tree, row, x.size(0))
        classes = self.source.num_classes
        return TreeSet(as_rows(x), index, y, self.split, classes, self.shape, self.child_split)


def generated_set(trees: TokenTrees, codebook: Tensor) -> TreeSet:
    r"""Synthetic computation graphs as rows of indices into the codebook."""
    return TreeSet(
        as_rows(codebook),
        trees.tokens.long(),
        trees.y.long(),
        trees.split,
        trees.num_classes,
        trees.shape,
    )


def _scores(name: str, sets: dict[str, TreeSet], config: GNNConfig, seed: int) -> dict[str, float]:
    scores = {}
    for column, trees in sets.items():
        model = train_gnn(name, trees, config, seed)
        scores[column] = test_gnn(model, trees, trees.rows('test'), seed)
        if column == 'generated':
            original = sets['original']
            scores['transfer'] = test_gnn(model, original, original.rows('test'), seed)
    return scores


def _add_statistics(out: Evaluation, sets: dict[str, TreeSet]) -> None:
    for name, statistic in [('zero vectors', zero_vectors), ('duplicates', duplicates)]:
        counts = {column: statistic(s.index, s.x.size(0)) for column, s in sets.items()}
        out.histograms[name] = {
            column: torch.bincount(c, minlength=s.index.size(1)).tolist()
            for (column, c), s in zip(counts.items(), sets.values(), strict=True)
        }
        reference = 'quantized' if 'quantized' in counts else 'original'
        out.wasserstein[name] = {
            f'generated to {reference}': wasserstein(counts['generated'], counts[reference])
        }
