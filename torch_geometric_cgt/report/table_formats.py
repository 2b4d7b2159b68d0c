r"""Tables as CSV, LaTeX and Markdown, written by pandas."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from torch_geometric_cgt.report.text_tables import TextTable

# pandas escapes all other special characters of LaTeX.
LATEX = str.maketrans(
    {'<': r'\textless{}', '>': r'\textgreater{}', '|': r'\textbar{}', '±': r'$\pm$'}
)


def to_csv(records: Sequence[Mapping[str, Any]]) -> str:
    r"""Records of numbers with all digits. Missing numbers are empty."""
    # Columns of objects: counts beside missing numbers stay integers.
    return pd.DataFrame(records, dtype=object).to_csv(index=False, lineterminator='\n')


def to_latex(table: TextTable) -> str:
    r"""A ``tabular`` with the rules of ``booktabs``, and a rule between groups."""
    columns = ''.join(side[0] for side in table.alignment)
    text = _frame(table).to_latex(index=False, escape=True, column_format=columns)
    lines = text.translate(LATEX).splitlines()
    head, rows, end = lines[:4], lines[4:-2], lines[-2:]
    body = []
    for i, row in enumerate(rows):
        # LaTeX reads a leading [ or * as an argument of the command before it.
        protected = f'{{{row[0]}}}{row[1:]}' if row[0] in '[*' else row
        body += [r'\midrule'] * table.starts_group(i) + [protected]
    title = f'% {_one_line(table.title)}; needs \\usepackage{{booktabs}}'
    notes = [f'% {_one_line(note)}' for note in table.notes]
    return '\n'.join([title, *head, *body, *end, *notes]) + '\n'


def to_markdown(table: TextTable) -> str:
    r"""A table with pipes. Cells that are marked as better are bold."""
    frame = _frame(table).rename(columns=escape_markdown).map(escape_markdown)
    for (row, column), mark in table.marks.items():
        if mark == 'better':
            frame.iloc[row, column] = f'**{frame.iloc[row, column]}**'
    alignment = table.alignment if table.body else None  # tabulate 0.9 cannot align an empty table
    return frame.to_markdown(index=False, colalign=alignment, disable_numparse=True)


def escape_markdown(text: str) -> str:
    r"""Escapes all characters that Markdown or HTML would interpret."""
    return re.sub(r'([\\|<>*_`])', r'\\\1', _one_line(text))


def _frame(table: TextTable) -> pd.DataFrame:
    body = [[_one_line(text) for text in row] for row in table.grouped]
    return pd.DataFrame(body, columns=[_one_line(name) for name in table.header], dtype=object)


def _one_line(text: str) -> str:
    return ' '.join(text.split())
