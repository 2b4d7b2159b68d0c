r"""A graph from two tables, one of nodes and one of edges, in CSV or Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch_geometric.data import Data

from torch_geometric_cgt.datasets.column_encoding import MAX_VALUES, EncodingOptions
from torch_geometric_cgt.datasets.graph_tables import read_edges, read_nodes
from torch_geometric_cgt.datasets.reading import Reading
from torch_geometric_cgt.datasets.table_files import columns_of, table_suffix
from torch_geometric_cgt.errors import SourceError


@dataclass(frozen=True)
class TableOptions:
    r"""How two tables become a graph. The fields are arguments of
    :meth:`from_files`.
    """

    label: str | None = None
    id: str | None = None
    drop: Sequence[str] = ()
    categorical: Sequence[str] = ()
    missing: str = 'error'
    standardize: bool = False
    max_values: int = MAX_VALUES
    directed: bool = False
    encoding: EncodingOptions = field(init=False)

    def __post_init__(self) -> None:
        for name in ('drop', 'categorical'):
            if isinstance(value := getattr(self, name), str):
                raise ValueError(
                    f"'{name}' must be a list of columns (got {value!r}): {name}=[{value!r}]"
                )
        made = EncodingOptions(
            tuple(self.categorical), self.missing, self.standardize, self.max_values
        )
        object.__setattr__(self, 'encoding', made)

    def refuse_for(self, source: str) -> None:
        r"""Raises an error if options are set, for a source that is not a table.

        Args:
            source (str): The name of the source.
        """
        if self != TableOptions():
            raise ValueError(
                f"Options for the columns of tables ('--label', '--id', '--drop', ...) do not "
                f"apply to '{source}', which is not a table"
            )


def from_files(
    nodes: str | Path,
    edges: str | Path,
    label: str | None = None,
    id: str | None = None,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    missing: str = 'error',
    standardize: bool = False,
    max_values: int = MAX_VALUES,
    directed: bool = False,
) -> Data:
    r"""Reads a graph from a table of nodes and a table of edges. Each is a CSV file
    (:obj:`.csv`, :obj:`.tsv`, also with :obj:`.gz`) or a Parquet file.

    .. code-block:: python

        data = from_files('nodes.csv', 'edges.csv', label='y')
        dataset = SyntheticCGTDataset(data, k=30)

    Columns of numbers are features as they are, booleans are 0 and 1, and columns
    of text are one-hot encoded. Free text, dates and columns with too many
    values raise a :class:`SourceError` that names the column. The function
    :meth:`read_tables` also returns what was decided for each column.

    Args:
        nodes (str): The table of nodes.
        edges (str): The table of edges, with the columns :obj:`source` and
            :obj:`target`, :obj:`src` and :obj:`dst`, or :obj:`from` and
            :obj:`to`; otherwise its first two columns. A column
            :obj:`weight` becomes :obj:`edge_weight`, and all others
            :obj:`edge_attr`.
        label (str, optional): The column of labels, text or integers. A node
            with an empty cell is a neighbour, but not a root. By default,
            :obj:`y` or :obj:`label`. (default: :obj:`None`)
        id (str, optional): The column of ids, which may be text. By default,
            :obj:`id`, :obj:`node` or :obj:`node_id`. (default: :obj:`None`)
        drop (list[str], optional): Columns to leave out.
            (default: :obj:`()`)
        categorical (list[str], optional): Columns of numbers to encode
            one-hot. (default: :obj:`()`)
        missing (str, optional): What to do with missing numbers:
            :obj:`"error"`, or :obj:`"mean"` to fill in the mean of the column.
            (default: :obj:`"error"`)
        standardize (bool, optional): Whether columns of numbers get mean 0 and
            standard deviation 1. (default: :obj:`False`)
        max_values (int, optional): The largest number of distinct values of a
            one-hot column. (default: :obj:`100`)
        directed (bool, optional): Whether edges have one direction, from source
            to target. By default, every edge gets both directions.
            (default: :obj:`False`)
    """
    options = TableOptions(label, id, drop, categorical, missing, standardize, max_values, directed)
    return read_tables(Path(nodes), Path(edges), options)[0]


def read_tables(
    nodes: Path, edges: Path, options: TableOptions | None = None
) -> tuple[Data, Reading]:
    r"""Reads a graph from two tables, and returns what was decided for each column.

    Args:
        nodes (Path): The table of nodes.
        edges (Path): The table of edges.
        options (TableOptions, optional): How to read them.
            (default: :obj:`None`)
    """
    options = options or TableOptions()
    for path in (nodes, edges):
        if table_suffix(path) is None:
            raise SourceError(f"'{path}' must be a CSV or Parquet file, by its suffix")
    both = [*columns_of(nodes), *columns_of(edges)]
    for name in (*options.drop, *options.categorical):
        if name not in both:
            raise SourceError(f"Neither '{nodes}' nor '{edges}' has a column '{name}'")
    of_nodes = set(columns_of(nodes))
    drop = [name for name in options.drop if name in of_nodes]
    encoding = EncodingOptions(
        tuple(name for name in options.categorical if name in of_nodes),
        options.missing,
        options.standardize,
        options.max_values,
    )
    table = read_nodes(nodes, options.label, options.id, drop, encoding)
    found = read_edges(edges, table.ids, options.directed, options.drop, options.encoding)
    data = Data(x=table.x, edge_index=found.edge_index, y=table.y, **table.masks)
    if found.edge_weight is not None:
        data.edge_weight = found.edge_weight
    if found.edge_attr is not None:
        data.edge_attr = found.edge_attr
    title = (
        f'read {data.num_nodes:,} nodes with {data.num_features:,} features and '
        f'{data.num_edges:,} edges ({found.counts})'
    )
    reading = Reading(
        title,
        (*table.decisions, *found.decisions),
        table.classes,
        table.features,
        (*table.notes, *found.notes),
    )
    return data, reading
