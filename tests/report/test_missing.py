from tests.helpers.cells import by_key, pair_cell
from torch_geometric_cgt.benchmark.experiments import AGGREGATION, EXPERIMENTS, SAMPLING
from torch_geometric_cgt.report.missing import not_run
from torch_geometric_cgt.report.tables import tables_of


def said(cells, name):
    tables = tables_of(by_key(*cells))
    return not_run(next(table for table in tables if table.experiment.name == name))


def test_datasets_levels_and_models():
    cells = [pair_cell(0.8, 0.8, level=level, model=m) for level in '02' for m in AGGREGATION]
    cells += [
        pair_cell(0.8, 0.8, dataset, '0', m) for dataset in ('CS', 'Photo') for m in AGGREGATION
    ]
    cells.append(pair_cell(0.8, 0.8, 'Photo', '2', 'GCN'))
    assert said(cells, 'aggregation') == (
        'Cora (noisy edges 4); CiteSeer, PubMed, Computers, Physics (all); '
        'Photo (noisy edges 2 with SGC, GIN, GAT, 4); CS (noisy edges 2, 4)'
    )


def test_variants():
    some = [
        pair_cell(0.8, 0.8, model=m, experiment='ablation', variant=variant)
        for variant in EXPERIMENTS['ablation'].variants
        for m in (*AGGREGATION, *SAMPLING)
        if variant not in ('', 'no label') or m != 'PASS'
    ]
    some += [
        pair_cell(0.8, 0.8, model='PPNP', experiment='ablation', variant=variant)
        for variant in EXPERIMENTS['ablation'].variants
    ]
    assert said(some, 'ablation') == 'Cora [default, no label] (PASS); CiteSeer, PubMed (all)'


def test_nothing_is_missing():
    keys = EXPERIMENTS['control'].keys()
    cells = [
        pair_cell(0.8, 0.8, k.dataset, k.level, k.model, 'control', variant=k.variant) for k in keys
    ]
    assert said(cells, 'control') == ''
