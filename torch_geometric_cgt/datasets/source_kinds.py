r"""The user's own graph from what names it: a folder, files, or a Python function."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch_geometric.data import Data, Dataset, HeteroData, InMemoryDataset
from torch_geometric.transforms import ToUndirected

from torch_geometric_cgt.datasets.array_files import read_npz_graph, read_pt_graph
from torch_geometric_cgt.datasets.graph_files import TableOptions, read_tables
from torch_geometric_cgt.datasets.reading import Reading
from torch_geometric_cgt.datasets.table_files import find_table, table_suffix
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.utils.limits import MAX_TEXT

FUNCTION = r'[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*'
NODES, EDGES = 'nodes', 'edges'


class SourceGraph(InMemoryDataset):
    r"""A PyG dataset of the user's own graph.

    Args:
        data (Data): The graph.
        name (str): Its name on cards and pages.
        reading (Reading, optional): What was decided when its files were read.
            (default: :obj:`None`)
    """

    def __init__(self, data: Data, name: str, reading: Reading | None = None) -> None:
        super().__init__()
        self.name = check_name(name)
        self.reading = reading
        self._graph = data

    def len(self) -> int:
        return 1

    def get(self, idx: int) -> Any:
        return self._graph.clone()

    @property
    def num_classes(self) -> int:
        r"""The number of classes."""
        y = getattr(self._graph, 'y', None)
        return 0 if y is None or y.numel() == 0 else int(y.max()) + 1


def check_name(name: str) -> str:
    r"""Returns the name of a source, or raises an error if a card cannot have it.

    Args:
        name (str): The name.
    """
    if not name or len(name) > MAX_TEXT or not name.isprintable():
        raise ValueError(
            f'The name of a source must be a line of 1 to {MAX_TEXT} printable characters (got '
            f"{name!r:.60}): give another one ('--name')"
        )
    return name


def is_function(source: str) -> bool:
    r"""Whether a text names a function, as in :obj:`"package.module:function"`.

    Args:
        source (str): The text.
    """
    return re.fullmatch(FUNCTION, source) is not None


def open_source(
    source: str | Path | tuple[str | Path, str | Path],
    name: str | None = None,
    options: TableOptions | None = None,
    directed: bool | None = None,
) -> Dataset:
    r"""Opens a graph that the user has.

    Args:
        source (str or tuple[str, str]): A folder with the tables
            :obj:`nodes` and :obj:`edges`; the files of these two tables; a
            :obj:`.npz` or :obj:`.pt` file; or :obj:`"package.module:function"`,
            a function without arguments that returns a PyG dataset of one graph
            or a graph. It is imported from the current folder or from installed
            packages, and runs as any imported code does.
        name (str, optional): The name on cards and pages. By default, that of
            the file, the folder or the function. (default: :obj:`None`)
        options (TableOptions, optional): How to read tables.
            (default: :obj:`None`)
        directed (bool, optional): Whether edges of tables have one direction.
            For other kinds, :obj:`False` adds the missing directions. By
            default, edges of tables get both directions, and all others stay
            as they are. (default: :obj:`None`)
    """
    if isinstance(source, tuple) or Path(source).expanduser().is_dir():
        nodes, edges = _tables(source)
        used = replace(options or TableOptions(), directed=bool(directed))
        data, reading = read_tables(nodes, edges, used)
        return SourceGraph(data, name or _table_name(nodes), reading)
    if options is not None:
        options.refuse_for(str(source))
    if is_function(str(source)) and not Path(source).exists():
        dataset = _call(str(source), name)
    else:
        dataset = _open_file(Path(source).expanduser(), name)
    if directed is False:
        data = dataset[0]
        if isinstance(data, Data):
            data = ToUndirected()(data)
        found = getattr(dataset, 'reading', None)
        dataset = SourceGraph(data, dataset.name, found)
    return dataset


def _tables(source: str | Path | tuple[str | Path, str | Path]) -> tuple[Path, Path]:
    if isinstance(source, tuple):
        return Path(source[0]).expanduser(), Path(source[1]).expanduser()
    folder = Path(source).expanduser()
    return find_table(folder, NODES), find_table(folder, EDGES)


def _table_name(nodes: Path) -> str:
    r"""The name of the file of nodes, or of its folder if it is just ``nodes``."""
    stem = nodes.name[: -len(table_suffix(nodes) or '')] or nodes.name
    return nodes.absolute().parent.name or stem if stem.lower() == NODES else stem


def _open_file(path: Path, name: str | None) -> Dataset:
    if not path.is_file():
        raise SourceError(f"There is no file or folder '{path}'")
    suffix = path.suffix.lower()
    if suffix == '.npz':
        data, reading = read_npz_graph(path)
    elif suffix in ('.pt', '.pth'):
        data, reading = read_pt_graph(path)
    elif table_suffix(path) is not None:
        raise SourceError(
            f"'{path}' is one table, and a graph needs two: give '--nodes FILE --edges FILE', or a "
            f"folder with the files 'nodes' and 'edges'"
        )
    else:
        raise SourceError(
            f"'{path}' is not a graph by its suffix '{suffix}': known are .npz, .pt, and pairs of "
            f'.csv, .tsv or .parquet'
        )
    return SourceGraph(data, name or path.stem, reading)


def _call(source: str, name: str | None) -> Dataset:
    r"""Imports and calls a function."""
    module, function = source.split(':')
    with _current_folder_first():
        try:
            found = getattr(importlib.import_module(module), function)
        except ModuleNotFoundError as error:
            raise SourceError(
                f"'{source}' cannot be imported from '{Path.cwd()}' or from installed packages: "
                f'{error}'
            ) from error
        except AttributeError as error:
            raise SourceError(f"'{module}' has no function '{function}': {error}") from error
        if not callable(found):
            raise SourceError(
                f"'{source}' must be a function that returns a graph (got '{type(found).__name__}')"
            )
        graph = found()
    if isinstance(graph, (Data, HeteroData)):
        return SourceGraph(graph, name or function)
    if not isinstance(graph, Dataset):
        raise SourceError(
            f"'{source}' must return a PyG dataset of one graph or a 'Data' object (got "
            f"'{type(graph).__name__}')"
        )
    if name is None:
        if not getattr(graph, 'name', None):
            graph.name = type(graph).__name__
        return graph
    return SourceGraph(graph[0], name)


@contextmanager
def _current_folder_first() -> Iterator[None]:
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
