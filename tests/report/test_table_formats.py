import csv

import pytest

from torch_geometric_cgt.report.table_formats import escape_markdown, to_csv, to_latex, to_markdown
from torch_geometric_cgt.report.text_tables import TextTable

TABLE = TextTable(
    'Title 100 %\n\\input{x}',
    ['Dataset', 'Model', 'Score'],
    [['Cora', 'GCN', '0.1'], ['Cora', 'a_b', '0.25 ± 0.1'], ['[x]', '*', 'not run']],
    notes=['[1] a & b'],
)


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
