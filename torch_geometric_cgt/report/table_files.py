r"""Tables in files: numbers as CSV and JSON, text as LaTeX, Markdown and for a terminal."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch_geometric_cgt.report.text_tables import TextTable
from torch_geometric_cgt.utils.files import write_text

LATEX = {
    '\\': r'\textbackslash{}',
    '~': r'\textasciitilde{}',
    '^': r'\textasciicircum{}',
    '<': r'\textless{}',
    '>': r'\textgreater{}',
    '|': r'\textbar{}',
    '±': r'$\pm$',
    **{char: f'\\{char}' for char in '&%$#_{}'},
}


def as_csv(records: Sequence[dict[str, Any]]) -> str:
    r"""Numbers with all their digits, nothing where there is none."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(records[0]) if records else [], lineterminator='\n')
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue()


def as_json(content: Any) -> str:
    r"""What every reader of JSON takes: no NaN."""
    return json.dumps(content, indent=2, allow_nan=False) + '\n'


def as_latex(table: TextTable) -> str:
    r"""A ``tabular`` with the rules of ``booktabs``, to be put into a document."""
    columns = 'l' * _num_left(table) + 'r' * (len(table.header) - _num_left(table))
    lines = [
        f'% {_one_line(table.title)}; needs \\usepackage{{booktabs}}',
        f'\\begin{{tabular}}{{{columns}}}',
        '\\toprule',
        _latex_row(table.header),
        '\\midrule',
    ]
    for i, row in enumerate(table.grouped):
        lines += ['\\midrule'] * table.starts_group(i) + [_latex_row(row)]
    lines += ['\\bottomrule', '\\end{tabular}']
    lines += [f'% {_one_line(note)}' for note in table.notes]
    return '\n'.join(lines) + '\n'


def as_text(table: TextTable) -> str:
    r"""Aligned columns."""
    rows = [table.header, *table.grouped]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = _num_left(table)
    return '\n'.join(
        '  '.join(
            text.ljust(width) if i < left else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def as_markdown(table: TextTable) -> str:
    r"""A table with bars between columns; what is marked as better is bold."""
    left = _num_left(table)
    ends = ['---' if i < left else '---:' for i in range(len(table.header))]
    lines = [table.header, ends]
    for i, row in enumerate(table.grouped):
        marks = [table.marks.get((i, j)) == 'better' for j in range(len(row))]
        cells = [escape_markdown(text) for text in row]
        lines.append([f'**{c}**' if m else c for c, m in zip(cells, marks, strict=True)])
    return '\n'.join(f'| {" | ".join(line)} |' for line in lines)


def write_tables(
    folder: Path, tables: Mapping[str, tuple[Sequence[dict[str, Any]], TextTable]]
) -> list[Path]:
    r"""Writes tables as CSV and as LaTeX.

    Args:
        folder (Path): Where to write.
        tables (dict): The rows of each table as numbers and as text, by
            name. Names may come from anywhere: files are named after their
            letters.
    """
    paths: list[Path] = []
    for name, (records, table) in tables.items():
        stem = re.sub(r'[^A-Za-z0-9_]+', '-', name).strip('-')[:60] or 'table'
        while folder / f'{stem}.csv' in paths:
            stem += '-'
        for ending, text in [('csv', as_csv(records)), ('tex', as_latex(table))]:
            paths.append(folder / f'{stem}.{ending}')
            write_text(paths[-1], text)
    return paths


def escape_latex(text: str) -> str:
    r"""Text that LaTeX prints as it is."""
    return ''.join(LATEX.get(char, char) for char in _one_line(text))


def escape_markdown(text: str) -> str:
    r"""Text that Markdown shows as it is."""
    return re.sub(r'([\\|<>*_`])', r'\\\1', _one_line(text))


def _latex_row(row: list[str]) -> str:
    cells = [escape_latex(text) for text in row]
    first = cells[0]
    if first.startswith(('[', '*')):  # else it belongs to the end of the line before
        cells[0] = '{' + first[0] + '}' + first[1:]
    return ' & '.join(cells) + r' \\'


def _num_left(table: TextTable) -> int:
    return table.num_keys + 1  # what a row is about, and its last word


def _one_line(text: str) -> str:
    return ' '.join(text.split())
