r"""Scores of GNNs on a source and on its synthetic substitutes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
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
from torch_geometric_cgt.benchmark.graph_comparison import compare_joined
from torch_geometric_cgt.benchmark.judge import (
    CEILING,
    CONTROL,
    CORRELATIONS,
    judge,
    resolution_of,
)
from torch_geometric_cgt.benchmark.metrics import (
    agreement,
    compared_trees,
    duplicates,
    encode_source,
    generated_trees,
    histograms,
    wasserstein,
    zero_vectors,
)
from torch_geometric_cgt.benchmark.variants import shuffle_children
from torch_geometric_cgt.benchmark.zoo import (
    FLOOR,
    ZOO,
    ZooConfig,
    ZooTrees,
    metric_of,
    resplit,
    train_zoo,
    zoo_metrics,
)
from torch_geometric_cgt.benchmark.zoo_models import MAKERS
from torch_geometric_cgt.data import TokenTrees
from torch_geometric_cgt.data.token_trees import matrix_of
from torch_geometric_cgt.data.views import used_tokens
from torch_geometric_cgt.datasets.synthetic import SyntheticCGTDataset
from torch_geometric_cgt.nn.view_networks import network_scores
from torch_geometric_cgt.pipeline.source import Source, check_source

VIEW_ROOTS = 4_000  # maximum number of trees that probes of views learn from
CEILING_SEED = 1000  # added to the seed of training
# The columns of models that are trained on one graph and tested on the original.
TRANSFER = {
    'generated': 'transfer',
    'quantized': 'quantized transfer',
    'control': 'control transfer',
}


@dataclass
class Evaluation:
    r"""The scores of several models over several seeds, and statistics of
    computation graphs.

    Args:
        models (list[str]): The names of the models.
        scores (dict): The scores by column, model and seed.
        histograms (dict): Statistics of trees by statistic and column.
        wasserstein (dict): Distances by statistic and pair of columns.
        metric (str): What a score is, :obj:`"accuracy"` or :obj:`"roc_auc"`.
        floor (list[str]): Models that do not count in comparisons.
        views (dict): The score of a network by view of a tree and column: its accuracy,
            or the area under the ROC curve for two labels.
        graph (dict): The output of
            :func:`~torch_geometric_cgt.benchmark.graph_comparison.compare_joined`;
            empty if it was not asked for.
    """

    models: list[str]
    scores: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    histograms: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    wasserstein: dict[str, dict[str, float]] = field(default_factory=dict)
    metric: str = 'accuracy'
    floor: list[str] = field(default_factory=list)
    views: dict[str, dict[str, float]] = field(default_factory=dict)
    graph: dict[str, Any] = field(default_factory=dict)

    def mean(self, column: str) -> list[float] | None:
        r"""The mean score of each model in one column."""
        if column not in self.scores:
            return None
        return [sum(runs) / len(runs) for runs in map(self.scores[column].get, self.models) if runs]

    def agreement(self, column: str = 'generated') -> dict[str, float | None]:
        r"""How well one column reproduces the original. The floor does not count,
        and there are no correlations where :meth:`no_correlations` has a reason.
        """
        original, other = self.mean('original'), self.mean(column)
        if original is None or other is None:
            raise ValueError(f"There are no scores for '{column}'")
        counted = [i for i, model in enumerate(self.models) if model not in self.floor]
        found = agreement([original[i] for i in counted], [other[i] for i in counted])
        if self.no_correlations() is not None:
            found.update(dict.fromkeys(CORRELATIONS))
        return found

    def no_correlations(self) -> str | None:
        r"""Why correlations with the original mean nothing: models differ by less
        than the noise of seeds. It is :obj:`None` if they differ by more, and if
        the noise is not known, from one seed without a ceiling.
        """
        models = [model for model in self.models if model not in self.floor]
        if 'original' not in self.scores or len(models) < 2:
            return None
        found = resolution_of(self.scores, models)
        return None if found is None or found.is_resolved else found.text()

    def judged(self) -> dict[str, Any] | None:
        r"""The measures of :func:`~torch_geometric_cgt.benchmark.judge.judge`
        beside those of the ceiling, or :obj:`None` if there is no ceiling.
        """
        if CEILING not in self.scores or all(model in self.floor for model in self.models):
            return None
        reason = self.no_correlations()
        columns = [c for c in (CEILING, 'quantized', 'generated', CONTROL) if c in self.scores]
        resolution, verdicts = judge(self.scores, columns, self.floor)
        found: dict[str, Any] = {c: asdict(verdict) for c, verdict in verdicts.items()}
        for column, name in TRANSFER.items():
            if column in found and name in self.scores:
                found[column]['transfer'] = self._overall(name)
        return {
            'columns': found,
            'original': self._overall('original'),
            'resolution': None if resolution is None else asdict(resolution),
            'no_correlations': reason,
            'metric': self.metric,
            'num_models': len([model for model in self.models if model not in self.floor]),
            'num_seeds': len(self.scores['original'][self.models[0]]),
        }

    def _overall(self, column: str) -> float:
        runs = [r for m, runs in self.scores[column].items() if m not in self.floor for r in runs]
        return sum(runs) / len(runs)

    def to_dict(self) -> dict[str, Any]:
        r"""The content of a JSON file."""
        has_original = 'original' in self.scores
        compared = [c for c in ('quantized', 'generated') if has_original and c in self.scores]
        return {
            'models': self.models,
            'metric': self.metric,
            'floor': self.floor,
            'scores': self.scores,
            'mean': {column: self.mean(column) for column in self.scores},
            'agreement': {column: self.agreement(column) for column in compared},
            'no_correlations': self.no_correlations(),
            'judged': self.judged(),
            'views': self.views,
            'graph': self.graph,
            'histograms': self.histograms,
            'wasserstein': self.wasserstein,
        }

    def text(self) -> str:
        r"""The mean scores as a table of plain text."""
        width = max(8, *(len(model) + 1 for model in self.models))
        widths = {column: max(12, len(column) + 2) for column in self.scores}
        lines = [' ' * width + ''.join(f'{c:>{widths[c]}}' for c in self.scores)]
        for i, model in enumerate(self.models):
            means = {column: (self.mean(column) or [])[i] for column in self.scores}
            cells = ''.join(f'{mean:{widths[c]}.3f}' for c, mean in means.items())
            lines.append(f'{model:{width}}' + cells)
        if 'original' not in self.scores:
            return '\n'.join(lines)
        facts = [f'{n} {"n/a" if v is None else f"{v:.4f}"}' for n, v in self.agreement().items()]
        reason = self.no_correlations()
        why = '' if reason is None else f' (no correlations: {reason})'
        return '\n'.join([*lines, 'generated against original: ' + ', '.join(facts) + why])


def evaluate_dataset(
    source: Any,
    datasets: Sequence[SyntheticCGTDataset],
    models: Sequence[str] | None = None,
    config: GNNConfig | ZooConfig | None = None,
    log: bool = True,
    publishable: bool = False,
    zoo: bool = False,
    graph: bool = False,
    ceiling: bool | None = None,
    control: bool = False,
) -> Evaluation:
    r"""Trains GNNs on the source and on synthetic substitutes of it.

    Columns are :obj:`original`, :obj:`quantized` (the source with features
    replaced by cluster means; a release without its source has no clusters
    and no such column), :obj:`generated`, and :obj:`transfer`: trained on
    generated, tested on original computation graphs. All but
    :obj:`generated`, and the statistics of computation graphs, are exact
    statistics of the source that no guarantee of a release covers. With
    :obj:`zoo`, there is also :obj:`quantized transfer`. Two further columns
    give the scores a scale: :obj:`ceiling`, the original with another split,
    other neighbours and another seed, and :obj:`control`, the generated graph
    with shuffled neighbours, which must be worse.

    Args:
        source (Dataset or Data): The source; it is not read with
            :obj:`publishable`.
        datasets (list[SyntheticCGTDataset]): One substitute per seed.
        models (list[str], optional): Names of models. By default,
            :obj:`MODELS` or, with :obj:`zoo`, :obj:`ZOO`.
            (default: :obj:`None`)
        config (GNNConfig or ZooConfig, optional): How to train.
            (default: :obj:`None`)
        log (bool, optional): Whether to show progress. (default: :obj:`True`)
        publishable (bool, optional): Whether to compute only what follows from
            the release. (default: :obj:`False`)
        zoo (bool, optional): Whether to train the models of the zoo, which are
            built on PyG's layers, instead of :obj:`ALL_MODELS`.
            (default: :obj:`False`)
        graph (bool, optional): Whether to compare the source with the first
            substitute as one graph, see
            :meth:`SyntheticCGTDataset.to_graph`, too.
            (default: :obj:`False`)
        ceiling (bool, optional): Whether to train on the original a second
            time. By default, with :obj:`zoo` only. (default: :obj:`None`)
        control (bool, optional): Whether to train on the control.
            (default: :obj:`False`)
    """
    models = (ZOO if zoo else MODELS) if models is None else models
    _check_models(models, zoo)
    checked = None if publishable else check_source(source)
    out = Evaluation(list(models))
    if zoo:
        out.metric = metric_of(datasets[0].num_classes)
        out.floor = [name for name in models if name in FLOOR]
    scores_of = _zoo_scores if zoo else _gnn_scores
    num_roots = len(datasets[0].trees) if checked is None else checked.root.numel()
    if config is None:
        config = ZooConfig() if zoo else GNNConfig.for_roots(num_roots // 2)
    with tqdm(
        total=len(datasets) * len(models), desc='evaluate', disable=None if log else True
    ) as bar:
        for run, dataset in enumerate(datasets):
            if checked is None:
                trees = {'generated': generated_trees(dataset)}
            else:
                trees = compared_trees(checked, dataset, run)
            if run == 0:
                _add_statistics(out, trees)
                out.views = compared_views(trees)
            if checked is not None and (zoo if ceiling is None else ceiling):
                trees = _with_ceiling(trees, checked, dataset, run)
            if control:
                trees[CONTROL] = shuffle_children(trees['generated'], run)
            score = scores_of(trees, config, run)
            for name in models:
                for column, value in score(name).items():
                    out.scores.setdefault(column, {}).setdefault(name, []).append(value)
                bar.update()
    if graph:
        own = config if isinstance(config, GNNConfig) else None
        chosen = [name for name in models if name in ALL_MODELS] or list(MODELS)
        out.graph = compare_joined(checked, datasets[0], chosen, own)
    return out


def _check_models(models: Sequence[str], zoo: bool) -> None:
    allowed = list(MAKERS if zoo else ALL_MODELS)
    if unknown := [name for name in models if name not in allowed]:
        raise ValueError(f'Unknown models {unknown}; choose from {allowed}')


def compared_views(trees: dict[str, TokenTrees]) -> dict[str, dict[str, float]]:
    r"""The score of a network on each view of some trees, by view and column, see
    :meth:`~torch_geometric_cgt.nn.view_networks.network_scores`.

    Args:
        trees (dict[str, TokenTrees]): The trees of each column, with features.
    """
    out: dict[str, dict[str, float]] = {}
    for column, own in trees.items():
        rng = torch.Generator().manual_seed(0)
        some = own.select(torch.randperm(len(own), generator=rng)[:VIEW_ROOTS])
        used, x = used_tokens(some, matrix_of(own.features))
        for view, score in network_scores(used, x).items():
            out.setdefault(view, {})[column] = score
    return out


def _gnn_scores(
    trees: dict[str, TokenTrees], config: Any, seed: int
) -> Callable[[str], dict[str, float]]:
    def score(name: str) -> dict[str, float]:
        original, scores, transfer = trees.get('original'), {}, {}
        for column, own in trees.items():
            model = train_gnn(name, own, config, _seed_of(column, seed))
            scores[column] = gnn_accuracy(model, own, own.rows('test'), seed)
            if column in ('generated', CONTROL) and original is not None:
                found = gnn_accuracy(model, original, original.rows('test'), seed)
                transfer[TRANSFER[column]] = found
        return {**scores, **transfer}

    return score


def _zoo_scores(
    trees: dict[str, TokenTrees], config: Any, seed: int
) -> Callable[[str], dict[str, float]]:
    batches = {column: ZooTrees(own, config.batch_size, seed) for column, own in trees.items()}

    def score(name: str) -> dict[str, float]:
        scores, transfer = {}, {}
        for column, own in batches.items():
            model = train_zoo(name, own, _seed_of(column, seed), config)
            scores[column] = zoo_metrics(model, own.test, seed)[own.metric]
            if column in TRANSFER and 'original' in batches:
                found = zoo_metrics(model, batches['original'].test, seed)
                transfer[TRANSFER[column]] = found[own.metric]
        return {**scores, **dict(sorted(transfer.items(), reverse=True))}

    return score


def _seed_of(column: str, seed: int) -> int:
    r"""The seed of training on a column."""
    return CEILING_SEED + seed if column == CEILING else seed


def _with_ceiling(
    trees: dict[str, TokenTrees], source: Source, dataset: SyntheticCGTDataset, run: int
) -> dict[str, TokenTrees]:
    r"""Adds the original with another split and other neighbours, after it."""
    seed = dataset.card['parameters']['seed']
    original = trees['original']
    again = encode_source(source, original.shape, seed, CEILING_SEED + run)
    again = again.map_tokens(None, again.num_tokens, original.x)
    return {'original': original, CEILING: resplit(again, CEILING_SEED + run), **trees}


def _add_statistics(out: Evaluation, trees: dict[str, TokenTrees]) -> None:
    reference = next((column for column in ('quantized', 'original') if column in trees), None)
    for name, statistic in [('zero vectors', zero_vectors), ('duplicates', duplicates)]:
        counts = histograms(statistic, trees)
        out.histograms[name] = counts
        if reference is not None:
            distance = wasserstein(counts['generated'], counts[reference])
            out.wasserstein[name] = {f'generated to {reference}': distance}
