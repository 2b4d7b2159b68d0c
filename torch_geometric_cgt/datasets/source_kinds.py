r"""The user's own graph from what names it: a folder, files, or a Python function."""

from __future__ import annotations

import copy
import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor
from torch_geometric.data import Data, Dataset, HeteroData, InMemoryDataset
from torch_geometric.transforms import ToUndirected

from torch_geometric_cgt.datasets.array_files import (
    read_npy_folder,
    read_npz_graph,
    read_pt_graph,
)
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
        is_mapped (bool, optional): Whether tensors are memory-mapped. They are
            then not copied. (default: :obj:`False`)
    """

    def __init__(
        self, data: Data, name: str, reading: Reading | None = None, is_mapped: bool = False
    ) -> None:
        super().__init__()
        self.is_mapped = is_mapped
        self.name = check_name(name)
        self.reading = reading
        self._graph = data

    def len(self) -> int:
        return 1

    def get(self, idx: int) -> Any:
        return copy.copy(self._graph) if self.is_mapped else self._graph.clone()

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
            :obj:`nodes` and :obj:`edges`, or with the arrays :obj:`x.npy`,
            :obj:`y.npy` and :obj:`edge_index.npy`, which are memory-mapped; the
            files of these two tables; a
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
    if not isinstance(source, tuple) and (Path(source).expanduser() / 'x.npy').is_file():
        return _open_arrays(Path(source).expanduser(), name, options, directed)
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


def _open_arrays(
    folder: Path, name: str | None, options: TableOptions | None, directed: bool | None
) -> Dataset:
    if options is not None:
        options.refuse_for(str(folder))
    if directed is False:
        raise SourceError(
            f"The edges of '{folder}' are memory-mapped and stay as they are: write both "
            f"directions to 'edge_index.npy' instead of '--undirected'"
        )
    data, reading = read_npy_folder(folder)
    return SourceGraph(data, name or folder.absolute().name, reading, is_mapped=True)


def check_task(dataset: Dataset) -> None:
    r"""Raises an error if no GNN can learn from a graph: it has one label only, or no
    training node with a label.

    Args:
        dataset (Dataset): The dataset of one graph.
    """
    data = dataset[0] if len(dataset) == 1 else None
    y = data.get('y') if isinstance(data, Data) else None
    if data is None or not isinstance(y, Tensor) or y.dim() != 1 or y.is_floating_point():
        return  # the check of all sources says what is wrong
    labels = y[y >= 0].unique()
    if labels.numel() == 1:
        raise SourceError(
            f"All labelled nodes of '{dataset.name}' have the label {int(labels)}: a graph needs "
            f'two labels or more'
        )
    train = data.get('train_mask')
    if isinstance(train, Tensor) and train.shape == y.shape and not bool((train & (y >= 0)).any()):
        raise SourceError(
            f"No node of '{dataset.name}' with a label is in the training split: name other "
            f"splits, or leave them out ('--random-split')"
        )


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
        except ImportError as error:
            raise SourceError(
                f"'{source}' cannot be imported from '{Path.cwd()}' or from installed packages: "
                f'{error}'
            ) from error
        except AttributeError as error:
            raise SourceError(f"'{module}' has no function '{function}': {error}") from error
        except (Exception, SystemExit) as error:  # whatever the code of the user raises
            raise SourceError(_failed(f'importing {module}', f'import {module}', error)) from error
        if not callable(found):
            raise SourceError(
                f"'{source}' must be a function that returns a graph (got '{type(found).__name__}')"
            )
        try:
            graph = found()
        except (Exception, SystemExit) as error:
            code = f'from {module} import {function}; {function}()'
            raise SourceError(_failed(f"'{source}'", code, error)) from error
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


def _failed(what: str, code: str, error: BaseException) -> str:
    r"""An error of the user's own code, and how to see where it comes from."""
    says = ' '.join(f'{type(error).__name__}: {error}'.split())
    return f'{what} failed with {says}. To see where: python -c "{code}"'


@contextmanager
def _current_folder_first() -> Iterator[None]:
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
