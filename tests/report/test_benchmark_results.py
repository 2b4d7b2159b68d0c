import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.cells import FACTS, by_key, pair_cell, some_cells
from torch_geometric_cgt.benchmark.cells import Cell, add_cell, read_cells
from torch_geometric_cgt.benchmark.experiments import CellKey
from torch_geometric_cgt.cli import main
from torch_geometric_cgt.report.benchmark_results import (
    Note,
    Results,
    measured_runs,
    read_notes,
    read_results,
)

CELLS = Path(__file__).parents[2] / 'docs' / 'results' / 'benchmark.jsonl'
KEY = CellKey('aggregation', 'Cora', '0', 'GCN')
NOTES = """# What was tried

About all of it.

## link

Longer training did
not help.

Nor did `<b>` another head.

## 1, Photo
A second seed.
## control
"""


def test_several_files_and_folders_are_one_set(tmp_path):
    folder = tmp_path / 'cells'
    for cell in some_cells().values():
        add_cell(folder / f'{cell.key.experiment}.jsonl', cell)
    add_cell(tmp_path / 'more.txt', pair_cell(0.9, 0.9, dataset='CiteSeer'))
    results = read_results([folder, tmp_path / 'more.txt'])
    (total,) = (s for s in results.summaries['aggregation'] if not s.dataset)
    assert total.run == 17


def test_headline_has_no_variants():
    cells = some_cells() | by_key(pair_cell(0.8, 0.7, variant='k=100'))
    results = Results.from_cells(cells)
    names = dict.fromkeys(row[0] for row in results.headline().body)
    assert list(names) == [
        '1. Noisy edges and aggregation',
        '2. Noisy edges and sampling',
        '3. Number of sampled neighbours',
        '4. Shift between training and test',
        'Link prediction',
    ]
    ablation = next(t for t in results.tables if t.experiment.name == 'ablation')
    assert results.variants(ablation).body[0][:2] == ['default', 'ours']
    text = results.only_run().text()
    assert 'no label' in text and 'k=100' in text


def test_cells_of_another_protocol_are_left_out(tmp_path):
    old = pair_cell(0.9, 0.9, level='Dot', experiment='link')
    add_cell(tmp_path / 'cells.jsonl', old)
    add_cell(tmp_path / 'cells.jsonl', pair_cell(0.8, 0.8))
    with pytest.warns(UserWarning, match=r'1 cells \(link\) were measured by another protocol'):
        results = read_results([tmp_path / 'cells.jsonl'])
    run = {table.experiment.name for table in results.tables if table.is_run}
    assert run == {'aggregation'}


@pytest.fixture
def notes(tmp_path):
    path = tmp_path / 'notes.md'
    path.write_text(NOTES)
    return path


def test_headings_say_what_a_note_is_about(notes):
    link, photo = read_notes(notes)
    assert (link.experiment, link.dataset) == ('link', '')
    assert link.paragraphs == [
        'Longer training did not help.',
        'Nor did `<b>` another head.',
    ]
    assert photo == Note('aggregation', 'Photo', 'A second seed.')


@pytest.mark.parametrize(
    'heading, message',
    [('## lnk', "'lnk'.*'link'"), ('## link, Kora', "unknown dataset 'Kora'.*'Cora'")],
)
def test_wrong_headings_list_the_right_ones(tmp_path, heading, message):
    (tmp_path / 'notes.md').write_text(f'{heading}\ntext\n')
    with pytest.raises(ValueError, match=message):
        read_notes(tmp_path / 'notes.md')


def test_experiment_that_is_not_planned(tmp_path):
    (tmp_path / 'notes.md').write_text('## mine\ntext')
    assert read_notes(tmp_path / 'notes.md', ['mine'])[0].experiment == 'mine'


def test_notes_are_in_their_sections(notes, tmp_path):
    add_cell(tmp_path / 'cells.jsonl', pair_cell(0.8, 0.7))
    cells, out = str(tmp_path / 'cells.jsonl'), str(tmp_path)
    assert main(['report', cells, '--out', out, '--notes', str(notes)]) == 0
    report = json.loads((tmp_path / 'report.json').read_text())
    found = {e['name']: e['notes'] for e in report['experiments']}
    assert found['aggregation'] == [{'dataset': 'Photo', 'text': 'A second seed.'}]
    assert found['control'] == []
    page = (tmp_path / 'report.html').read_text()
    section = page[page.index('id="experiment-link"') :]
    assert 'Nor did `&lt;b&gt;` another head.' in section[: section.index('<h2')]
    markdown = (tmp_path / 'report.md').read_text()
    section = markdown[markdown.index('## Link prediction') :]
    assert 'Nor did `<b>` another head.' in section[: section.index('\n## ')]


def test_missing_file_of_notes(tmp_path, capsys):
    add_cell(tmp_path / 'cells.jsonl', pair_cell(0.8, 0.7))
    cells, missing = str(tmp_path / 'cells.jsonl'), str(tmp_path / 'nowhere.md')
    assert main(['report', cells, '--out', str(tmp_path / 'out'), '--notes', missing]) == 2
    assert 'nowhere.md' in capsys.readouterr().err and not (tmp_path / 'out').exists()


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
    one, two, three = measured_runs(cells)
    assert (one['cells'], one['first'], one['last']) == (2, '2026-01-01', '2026-02-01')
    assert (one['seconds'], one['version']) == (30, '0.1')
    assert one['settings'] == 'k = 30, num_neighbors = 5 5'
    assert (two['cells'], two['commit'], two['first']) == (1, 'b', '')
    assert three['settings'].startswith('k = 5,')
    (run,) = measured_runs([Cell(KEY, facts={**FACTS, 'protocol': 2})])
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
    found = {run['experiment']: run['build_seconds'] for run in measured_runs(cells)}
    assert found == {'aggregation': 400.0, 'sampling': 50.0}


def test_copied_cells_took_no_time():
    first = Cell(KEY, facts=FACTS)
    copied = Cell(
        replace(KEY, experiment='privacy', variant='k=30'),
        facts={**FACTS, 'copied_from': 'aggregation'},
    )
    one, two = measured_runs([first, copied])
    assert (one['copied'], one['seconds'], one['build_seconds']) == (0, 1800, 7200)
    assert (two['copied'], two['seconds'], two['build_seconds']) == (1, 0, 0)


@pytest.mark.skipif(not CELLS.exists(), reason='the measured cells are not beside the tests')
def test_facts_are_those_that_the_runner_writes():
    runs = measured_runs(read_cells([CELLS]).values())
    assert all('k = ' in run['settings'] for run in runs)
    assert sum(run['build_seconds'] for run in runs) > 3600
