import json

import pytest

from tests.helpers.cells import pair_cell
from torch_geometric_cgt.benchmark.cells import add_cell
from torch_geometric_cgt.cli.main import main
from torch_geometric_cgt.report.notes import Note, read_notes

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
