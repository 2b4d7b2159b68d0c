import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.cells import by_key, pair_cell, some_cells
from torch_geometric_cgt.benchmark.cells import add_cell
from torch_geometric_cgt.benchmark.experiments import EXPERIMENTS
from torch_geometric_cgt.cli import main
from torch_geometric_cgt.report.benchmark_results import Results, read_results
from torch_geometric_cgt.report.report_files import (
    EXTRA,
    escape_markdown,
    render_markdown,
    to_csv,
    to_json,
    to_latex,
    to_markdown,
    write_tables,
)
from torch_geometric_cgt.report.text_tables import TextTable

TABLE = TextTable(
    'Title 100 %\n\\input{x}',
    ['Dataset', 'Model', 'Score'],
    [['Cora', 'GCN', '0.1'], ['Cora', 'a_b', '0.25 ± 0.1'], ['[x]', '*', 'not run']],
    notes=['[1] a & b'],
)
CELLS = Path(__file__).parents[2] / 'docs' / 'results' / 'benchmark.jsonl'


def test_latex_by_hand():
    assert to_latex(TABLE).splitlines() == [
        r'% Title 100 % \input{x}; needs \usepackage{booktabs}',
        r'\begin{tabular}{llr}',
        r'\toprule',
        r'Dataset & Model & Score \\',
        r'\midrule',
        r'Cora & GCN & 0.1 \\',
        r' & a\_b & 0.25 $\pm$ 0.1 \\',
        r'\midrule',
        r'{[}x] & * & not run \\',
        r'\bottomrule',
        r'\end{tabular}',
        r'% [1] a & b',
    ]


@pytest.mark.parametrize(
    'text, escaped',
    [
        ('a & b', r'a \& b'),
        ('50% #1 $x$ {y} _', r'50\% \#1 \$x\$ \{y\} \_'),
        ('\\input{/etc/passwd}', r'\textbackslash input\{/etc/passwd\}'),
        ('~ ^', r'\textasciitilde \space \textasciicircum '),
        ('<a>|', r'\textless{}a\textgreater{}\textbar{}'),
        ('one\n\ntwo', 'one two'),
    ],
)
def test_hostile_text_in_latex(text, escaped):
    lines = to_latex(TextTable('', [text, 'b'], [['a', text]])).splitlines()
    assert lines[3] == rf'{escaped} & b \\' and lines[5] == rf'a & {escaped} \\'


def test_markdown_by_hand():
    table = TextTable(
        '',
        ['Dataset', 'a|b', 'Paper', 'Paper'],
        [['Cora', 'x', '0.10', '1'], ['Cora', '<b>', 'n/a', '12.50']],
        marks={(0, 2): 'better', (1, 3): 'better unsure'},
    )
    assert to_markdown(table).splitlines() == [
        r'| Dataset   | a\|b   |    Paper |   Paper |',
        r'|:----------|:-------|---------:|--------:|',
        r'| Cora      | x      | **0.10** |       1 |',
        r'|           | \<b\>  |      n/a |   12.50 |',
    ]
    assert escape_markdown('a_b `c`\n*d*') == r'a\_b \`c\` \*d\*'


def test_table_without_rows():
    table = TextTable('', ['a', 'b'], [])
    assert len(to_markdown(table).splitlines()) == 2
    assert to_latex(table).splitlines()[3:6] == [r'a & b \\', r'\midrule', r'\bottomrule']


def test_csv_keeps_all_digits():
    records = [{'model': 'a,"b"\nc', 'score': 0.1 + 0.2, 'std': None, 'seeds': 3}]
    records += [{'model': '', 'score': None, 'std': 0.5, 'seeds': None}]
    text = to_csv(records)
    first, second = csv.DictReader(text.splitlines(keepends=True))
    assert first == {
        'model': 'a,"b"\nc',
        'score': '0.30000000000000004',
        'std': '',
        'seeds': '3',
    }
    assert list(second.values()) == ['', '', '0.5', '']
    assert to_csv([]) == '\n'


@pytest.fixture(scope='module')
def page():
    return render_markdown(Results.from_cells(some_cells()))


def squeezed(page):
    """The page without the padding of its tables."""
    return re.sub(' +', ' ', page)


def section(page, title):
    start = page.index(f'## {title}')
    return page[start:].split('\n## ')[0]


def test_header_says_where_numbers_come_from(page):
    header = page.split('```')[0]
    assert '36 cells, seeds 0, 1, 2026-01-02, commits 0123456789abcdef, version 0.1' in header
    assert 'k = 30, num_neighbors = 5 5' in header
    # Half an hour each; builds of two graphs and two seeds, of two variants more, and of one graph
    # for both levels, since they took as long.
    assert 'GNNs took 18.0 hours' in header
    assert '```text\ncgt benchmark --scenario 1\n```' in page


def test_top_1_is_defined_as_it_is_measured(page):
    said = ' '.join(page.split())
    assert 'best on the generated graph is best on the original' in said
    assert 'best on the original is the best on the generated' not in said


def test_every_experiment_has_a_section_with_what_was_not_run(page):
    for experiment in EXPERIMENTS.values():
        assert f'## {experiment.title}' in page
    found = section(page, 'Noisy edges and aggregation')
    assert '16 of 84 rows were run. Not run: Cora, Photo (noisy edges 4);' in found
    assert '0 of 84 rows were run.' in section(page, 'Noisy edges and sampling')


def test_tables_beside_the_paper(page):
    page = squeezed(page)
    found = section(page, 'Graph by graph').splitlines()
    assert (
        '| Experiment | Graph | Pairs | MSE | Paper | Pearson | Paper | Spearman | Paper |' in found
    )
    # Gaps of 0.02 without noise and of 0.08 with it: (4 + 64) / 2 / 10⁴.
    (cora,) = (line for line in found if '| Cora |' in line)
    assert cora.startswith('| aggregation | Cora | 8 | 0.0034 | 0.0')
    ablation = section(page, 'Parts of the generator left out')
    assert '| | no label | 1 | 0.0900 | 0.1' in ablation
    assert '- holds: Cora: the full model has a smaller MSE than no label' in ablation
    assert '| | generated / original | GCN | 0.810 | 1 | 0.770 | 0.800 |' in page
    assert '| Cora | 5 | 0.250 | 0.250 | 0.500 | 0.500 | 1 |' in page
    assert 'does not name its measure' in section(page, 'Link prediction')


def test_better_is_bold_where_it_is_sure():
    # The paper's MSE on these rows is 0.01 and more.
    cells = [pair_cell(0.8, 0.79, model=m) for m in ('GCN', 'SGC', 'GIN', 'GAT')]
    few = render_markdown(Results.from_cells(by_key(*cells)))
    assert '| Cora | ours | 0.0001 |' in squeezed(few)
    cells += [pair_cell(0.8, 0.79, level='2', model=m) for m in ('GCN', 'SGC', 'GIN', 'GAT')]
    many = render_markdown(Results.from_cells(by_key(*cells)))
    assert '| Cora | ours | **0.0001** |' in squeezed(many)


def test_hostile_names_are_text():
    cell = pair_cell(0.8, 0.7, experiment='<b>', dataset='a|b', variant='`*`')
    page = squeezed(render_markdown(Results.from_cells(by_key(cell))))
    assert '## \\<b\\>' in page and '| a\\|b | \\`\\*\\` | 1 |' in page
    assert '<b>' not in page.replace('\\<b\\>', '')


@pytest.mark.skipif(not CELLS.exists(), reason='the measured cells are not beside the tests')
def test_tables_of_measured_cells_are_whole():
    page = render_markdown(read_results([CELLS]))
    for block in page.split('\n\n'):
        if block.startswith('|'):
            assert len({line.replace('\\|', '').count('|') for line in block.splitlines()}) == 1


@pytest.mark.skipif(not CELLS.exists(), reason='the measured cells are not beside the tests')
def test_the_page_of_the_docs_is_what_the_cells_say():
    results = read_results([CELLS]).with_notes(CELLS.with_name('notes.md'))
    assert render_markdown(results) == CELLS.with_name('benchmark.md').read_text(encoding='utf-8')


@pytest.fixture
def folder(tmp_path):
    """A folder of cells in several files."""
    for cell in some_cells().values():
        add_cell(tmp_path / 'cells' / f'{cell.key.experiment}.jsonl', cell)
    return tmp_path / 'cells'


def test_report_command(folder, tmp_path, capsys):
    out = tmp_path / 'out'
    assert main(['report', str(folder), '--out', str(out)]) == 0
    shown = capsys.readouterr().out
    assert '16 of 84' in shown and '0 of 40' in shown and str(out / 'report.html') in shown

    report = json.loads((out / 'report.json').read_text())
    assert [e['name'] for e in report['experiments']] == list(EXPERIMENTS)
    assert len(report['experiments'][0]['rows']) == 84
    names = sorted(path.name for path in (out / 'tables').iterdir())
    pairs = [f'{n}-agreement' for n in EXPERIMENTS if n not in ('exchange', 'statistics')]
    expected = [f'{n}.{e}' for n in ('summary', *EXPERIMENTS, *pairs) for e in ('csv', 'tex')]
    assert names == sorted(expected)
    with open(out / 'tables' / 'aggregation.csv', newline='') as file:
        status = [line['status'] for line in csv.DictReader(file)]
    assert (status.count('run'), status.count('not run')) == (16, 68)
    with open(out / 'tables' / 'summary.csv', newline='') as file:
        first = next(csv.DictReader(file))
    assert (first['dataset'], first['pairs run'], first['pairs asked']) == ('Cora', '8', '12')
    assert 'not run' in (out / 'tables' / 'aggregation.tex').read_text()


@pytest.mark.parametrize('content', [None, '', 'not a cell\n'])
def test_without_cells_there_is_no_report(tmp_path, capsys, content):
    path = tmp_path / 'cells.jsonl'
    if content is not None:
        path.write_text(content)
    assert main(['report', str(path), '--out', str(tmp_path / 'out')]) == 2
    error = capsys.readouterr().err
    assert 'Traceback' not in error and str(path) in error
    assert ('no file or folder' if content is None else 'no valid cell') in error
    assert ('damaged' in error) == bool(content)
    assert not (tmp_path / 'out').exists()


def test_folder_without_files_of_cells(tmp_path, capsys):
    (tmp_path / 'notes.txt').write_text('')
    assert main(['report', str(tmp_path), '--out', str(tmp_path / 'out')]) == 2
    assert 'no valid cell' in capsys.readouterr().err


@pytest.mark.parametrize('missing', EXTRA)
def test_without_the_report_extra_there_is_json(folder, tmp_path, monkeypatch, capsys, missing):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, 'find_spec', lambda name: None if name == missing else find(name)
    )
    assert main(['report', str(folder), '--out', str(tmp_path / 'out')]) == 0
    shown = capsys.readouterr()
    assert f'without {missing}: ' in shown.err and '[report]' in shown.err
    assert '16 of 84' in shown.out  # the terminal needs no extra
    assert [path.name for path in (tmp_path / 'out').iterdir()] == ['report.json']


def test_the_package_does_not_import_the_report_extra():
    blocked = [name for name in EXTRA if name != 'jinja2']  # which PyG itself imports
    program = f'import sys; sys.modules.update(dict.fromkeys({blocked})); import '
    program += 'torch_geometric_cgt.cli, torch_geometric_cgt.report.report_files'
    out = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr


def test_json_keeps_all_digits_and_has_no_nan():
    records = [{'model': 'a,"b"\nc', 'score': 0.1 + 0.2, 'std': None}]
    assert json.loads(to_json(records)) == records
    with pytest.raises(ValueError, match='not JSON compliant'):
        to_json({'score': float('nan')})


def test_names_of_files_cannot_leave_the_folder(tmp_path):
    content = ([{'a': 1}], TextTable('', ['a', 'b'], [['x', '1']]))
    folder = tmp_path / 'deep' / 'tables'
    names = ['../../x', 'x', '...', 'ok', 'a' * 500]
    paths = write_tables(folder, dict.fromkeys(names, content))
    assert len(set(paths)) == 2 * len(names)
    assert all(path.resolve().parent == folder.resolve() for path in paths)
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in paths)
    assert list(tmp_path.rglob('*.csv')) == list(folder.glob('*.csv'))
