r"""What was decided when the files of a graph were read, for the owner of the graph."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

SHOWN = 8  # names in a list; the others are counted


@dataclass(frozen=True)
class Decision:
    r"""What became of some columns or arrays of a file.

    Args:
        role (str): Their role in the graph, *e.g.*, :obj:`"label"`,
            :obj:`"numeric"`, :obj:`"one-hot"` or :obj:`"dropped"`.
        columns (tuple[str, ...]): The columns.
        detail (str): How they were encoded.
    """

    role: str
    columns: tuple[str, ...]
    detail: str


@dataclass(frozen=True)
class Reading:
    r"""How files became a graph. It names columns, values and classes of the
    source, so that it belongs to the owner. It is not a part of a release.

    Args:
        title (str): The sizes of the graph in one line.
        decisions (tuple[Decision, ...]): What became of each column.
        classes (tuple[str, ...]): The name of each class; the class of
            :obj:`classes[i]` is :obj:`i`.
        features (tuple[str, ...]): The name of each feature.
        notes (tuple[str, ...]): What the owner should look at.
    """

    title: str
    decisions: tuple[Decision, ...] = ()
    classes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def rows(self) -> list[tuple[str, str, str]]:
        r"""A table with one row per decision: role, columns, detail."""
        return [(each.role, shown(each.columns), each.detail) for each in self.decisions]

    def text(self) -> str:
        r"""The reading as plain text."""
        rows = self.rows()
        width = [max((len(row[i]) for row in rows), default=0) for i in range(2)]
        lines = [f'  {role:{width[0]}}  {names:{width[1]}}  {how}' for role, names, how in rows]
        return '\n'.join(
            [self.title, *(line.rstrip() for line in lines), *(f'  {note}' for note in self.notes)]
        )

    def to_dict(self) -> dict[str, Any]:
        r"""The reading for a JSON file."""
        return asdict(self)


def shown(names: tuple[str, ...] | list[str], limit: int = SHOWN) -> str:
    r"""The first names of a list, and the number of the others.

    Args:
        names (list[str]): The names.
        limit (int, optional): How many names to show. (default: :obj:`8`)
    """
    more = f' and {len(names) - limit:,} more' if len(names) > limit else ''
    return ', '.join(names[:limit]) + more
