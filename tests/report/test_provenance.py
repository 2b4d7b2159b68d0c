from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.cells import FACTS
from torch_geometric_cgt.benchmark.cells import Cell, CellKey, read_cells
from torch_geometric_cgt.report.provenance import runs_of

CELLS = Path(__file__).parents[2] / 'docs' / 'results' / 'benchmark.jsonl'
KEY = CellKey('aggregation', 'Cora', '0', 'GCN')


def test_runs_are_told_apart_by_code_settings_and_command():
    facts = {'commit': 'a', 'command': 'x', 'version': '0.1'}
    config = {'k': 30, 'num_neighbors': [5, 5], 'epochs': None}
    keys = [replace(KEY, model=model) for model in ('GCN', 'SGC', 'GIN', 'GAT')]
    cells = [
        Cell(keys[0], facts={**facts, 'config': config, 'date': '2026-02-01', 'seconds': 10}),
        Cell(keys[1], facts={**facts, 'config': config, 'date': '2026-01-01', 'seconds': 20}),
        Cell(keys[2], facts={**facts, 'config': config, 'commit': 'b'}),
        Cell(keys[3], facts={**facts, 'config': {**config, 'k': 5}}),
    ]
    one, two, three = runs_of(cells)
    assert (one['cells'], one['first'], one['last']) == (2, '2026-01-01', '2026-02-01')
    assert (one['seconds'], one['version']) == (30, '0.1')
    assert one['settings'] == 'k = 30, num_neighbors = 5 5'
    assert (two['cells'], two['commit'], two['first']) == (1, 'b', '')
    assert three['settings'].startswith('k = 5,')
    (run,) = runs_of([Cell(KEY, facts={**FACTS, 'protocol': 2})])
    assert run['settings'] == 'k = 30, num_neighbors = 5 5, protocol = 2'


def test_a_build_counts_once():
    def cell(seconds, **key):
        return Cell(replace(KEY, **key), facts={**FACTS, 'build_seconds': seconds})

    cells = [
        cell(100.0),
        cell(100.0, model='SGC'),
        cell(200.0, level='2'),
        cell(100.0, variant='no label'),  # another generator that took as long
        cell(100.0, experiment='sampling', model='PASS'),  # of the same graph
        cell(50.0, experiment='sampling', model='PASS', level='4'),
    ]
    found = {run['experiment']: run['build_seconds'] for run in runs_of(cells)}
    assert found == {'aggregation': 400.0, 'sampling': 50.0}


def test_copied_cells_took_no_time():
    first = Cell(KEY, facts=FACTS)
    copied = Cell(
        replace(KEY, experiment='privacy', variant='k=30'),
        facts={**FACTS, 'copied_from': 'aggregation'},
    )
    one, two = runs_of([first, copied])
    assert (one['copied'], one['seconds'], one['build_seconds']) == (0, 1800, 7200)
    assert (two['copied'], two['seconds'], two['build_seconds']) == (1, 0, 0)


@pytest.mark.skipif(not CELLS.exists(), reason='the measured cells are not beside the tests')
def test_facts_are_those_that_the_runner_writes():
    runs = runs_of(read_cells([CELLS]).values())
    assert all('k = ' in run['settings'] for run in runs)
    assert sum(run['build_seconds'] for run in runs) > 3600
