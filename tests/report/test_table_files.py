import csv
import json

import pytest

from torch_geometric_cgt.report.table_files import (
    as_csv,
    as_json,
    as_latex,
    as_text,
    escape_latex,
    write_tables,
)
from torch_geometric_cgt.report.text_tables import TextTable

TABLE = TextTable(
    'Title 100 %\n\\input{x}',
    ['Dataset', 'Model', 'Score'],
    [['Cora', 'GCN', '0.1'], ['Cora', 'a_b', '0.25 ± 0.1'], ['[x]', '*', 'not run']],
    notes=['[1] a & b'],
)


def test_latex_by_hand():
    assert as_latex(TABLE).splitlines() == [
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
        ('\\input{/etc/passwd}', r'\textbackslash{}input\{/etc/passwd\}'),
        ('~ ^', r'\textasciitilde{} \textasciicircum{}'),
        ('<a>|', r'\textless{}a\textgreater{}\textbar{}'),
        ('one\n\ntwo', 'one two'),
    ],
)
def test_hostile_text_in_latex(text, escaped):
    assert escape_latex(text) == escaped


def test_text_is_aligned():
    assert as_text(TABLE).splitlines() == [
        'Dataset  Model       Score',
        'Cora     GCN           0.1',
        '         a_b    0.25 ± 0.1',
        '[x]      *         not run',
    ]


def test_csv_and_json_keep_all_digits():
    records = [{'model': 'a,"b"\nc', 'score': 0.1 + 0.2, 'std': None}]
    (line,) = csv.DictReader(as_csv(records).splitlines(keepends=True))
    assert line == {'model': 'a,"b"\nc', 'score': '0.30000000000000004', 'std': ''}
    assert json.loads(as_json(records)) == records
    with pytest.raises(ValueError, match='not JSON compliant'):
        as_json({'score': float('nan')})


def test_names_of_files_cannot_leave_the_folder(tmp_path):
    content = ([{'a': 1}], TABLE)
    folder = tmp_path / 'deep' / 'tables'
    names = ['../../x', 'x', '...', 'ok', 'a' * 500]
    paths = write_tables(folder, dict.fromkeys(names, content))
    assert len(set(paths)) == 2 * len(names)
    assert all(path.resolve().parent == folder.resolve() for path in paths)
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in paths)
    assert list(tmp_path.rglob('*.csv')) == list(folder.glob('*.csv'))
