"""Made-up cells for the tests of tables and pages."""

from torch_geometric_cgt.benchmark.cells import Cell
from torch_geometric_cgt.benchmark.experiments import CellKey
from torch_geometric_cgt.report.experiment_tables import summarize_agreement, tables_of

FACTS = {
    'seconds': 1800,
    'date': '2026-01-02',
    'commit': '0123456789abcdef',
    'command': 'cgt benchmark --scenario 1',
    'version': '0.1',
    'build_seconds': 7200,
    'config': {'k': 30, 'num_neighbors': [5, 5], 'epochs': None},
}


def pair_cell(
    original, generated, dataset='Cora', level='0', model='GCN', experiment='aggregation', **key
):
    """A cell of one model on an original and on a generated graph."""
    scores = {'original': original, 'quantized': original - 0.01, 'generated': generated}
    return Cell(
        CellKey(experiment, dataset, level, model, **key),
        {name: {'accuracy': s, 'macro_f1': s - 0.1} for name, s in scores.items()},
        facts=FACTS,
    )


def by_key(*cells):
    return {cell.key: cell for cell in cells}


def some_cells():
    """Of every kind of experiment a few."""
    models = {'GCN': 0.8, 'SGC': 0.7, 'GIN': 0.6, 'GAT': 0.5}
    cells = [
        pair_cell(score - int(level) / 20, score - 0.02, dataset, level, model, seed=seed)
        for dataset in ('Cora', 'Photo')
        for level in ('0', '2')
        for model, score in models.items()
        for seed in (0, 1)
    ]
    cells += [
        pair_cell(0.8, score, experiment='ablation', variant=variant)
        for variant, score in [('', 0.79), ('no label', 0.5)]
    ]
    distances = {'zero_vectors': 0.25, 'duplicates': 0.5}
    counts = {'generated': [5, 3, 0, 0], 'original': [4, 4, 0, 0], 'quantized': [4, 3, 1, 0]}
    cells += [
        Cell(
            CellKey('exchange', 'Cora', 'generated / original', 'GCN'),
            {'score': {'accuracy': 0.81, 'macro_f1': 0.8}},
            facts=FACTS,
        ),
        Cell(
            CellKey('statistics', 'Cora', '5', ''),
            {'generated to quantized': distances, 'quantized to original': distances},
            {'zero_vectors': counts, 'duplicates': counts},
            FACTS,
        ),
    ]
    return by_key(*cells)


def table_of(cells, name='aggregation'):
    """The table of one experiment."""
    return next(table for table in tables_of(cells) if table.experiment.name == name)


def agreement_of(cells, name='aggregation', dataset='', variant=''):
    """The summary of one experiment, dataset and variant."""
    found = summarize_agreement(table_of(cells, name))
    return next(s for s in found if (s.dataset, s.variant) == (dataset, variant))
