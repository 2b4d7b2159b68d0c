r"""Graphs from files of arrays and tensors: ``.npz``, ``.npy`` and ``.pt``. None can run code."""

from __future__ import annotations

import pickle
import re
import struct
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import (
    BaseStorage,
    EdgeStorage,
    GlobalStorage,
    NodeStorage,
)
from torch_geometric.utils import remove_self_loops, to_undirected

from torch_geometric_cgt.data import MASKS
from torch_geometric_cgt.datasets.reading import Decision, Reading
from torch_geometric_cgt.errors import SourceError

NAMES = {  # other names of arrays
    'x': ('node_features', 'features'),
    'y': ('node_labels', 'labels'),
    'edge_index': ('edges',),
    **{mask: (f'{mask}s',) for mask in MASKS},
}
SPARSE = ('data', 'indices', 'indptr', 'shape')  # of a matrix in CSR form, e.g. 'adj_data'
# What a file of PyG's Data consists of beside tensors and Python's own containers.
SAFE = [
    Data,
    HeteroData,
    DataEdgeAttr,
    DataTensorAttr,
    BaseStorage,
    GlobalStorage,
    NodeStorage,
    EdgeStorage,
    defaultdict,
    dict,
    list,
]


def read_npz_graph(path: Path) -> tuple[Data, Reading]:
    r"""Reads a graph from the arrays of a :obj:`.npz` file:

    - :obj:`x` ``[N, F]``, :obj:`y` ``[N]`` and :obj:`edge_index` ``[2, E]``
      (or :obj:`edges` ``[E, 2]``), and optionally masks, :obj:`train_idx` and
      others, which are attributes of the graph by their names; or
    - :obj:`attr_*`, :obj:`adj_*` (:obj:`data`, :obj:`indices`, :obj:`indptr`,
      :obj:`shape` of matrices in CSR form) and :obj:`labels`, as the files of
      :class:`~torch_geometric.datasets.Amazon` have them. As in PyG, their
      edges get both directions.

    Args:
        path (Path): The file.
    """
    try:
        if not zipfile.is_zipfile(path):
            raise SourceError(
                f"'{path}' is not a readable .npz file: write it with numpy.savez(path, x=..., "
                f'edge_index=..., y=...)'
            )
        with np.load(path, allow_pickle=False) as raw:
            arrays = {}
            for name in raw.files:
                try:
                    arrays[name] = raw[name]
                except ValueError as error:  # an array of Python objects would be unpickled
                    raise SourceError(
                        f"The array '{name}' of '{path}' holds Python objects, which are not "
                        f'read because they can run code: save arrays of numbers'
                    ) from error
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        if isinstance(error, SourceError):
            raise
        raise SourceError(f"'{path}' is not a readable .npz file: {error}") from error
    is_sparse = any(f'adj_{part}' in arrays for part in SPARSE)
    data = _from_csr(path, arrays) if is_sparse else _from_arrays(path, arrays)
    return data, _reading(data, path)


def read_npy_folder(folder: Path) -> tuple[Data, Reading]:
    r"""Reads a graph from a folder with one :obj:`.npy` file per array, named as the
    arrays of :meth:`read_npz_graph`: :obj:`x.npy`, :obj:`y.npy`,
    :obj:`edge_index.npy` and others.

    The arrays are memory-mapped: the operating system reads those parts of them
    that are used, and all processes of a machine share what it has read. Types
    that PyTorch does not have, and integers of edges and labels other than
    :obj:`int64`, are converted in memory.

    Args:
        folder (Path): The folder.
    """
    arrays = {}
    for path in sorted(folder.glob('*.npy')):
        try:  # changes of a tensor stay in memory and do not reach the file
            arrays[path.stem] = np.load(path, mmap_mode='c', allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise SourceError(
                f"'{path}' is not a readable .npy file of numbers: {error}"
            ) from error
    data = _from_arrays(folder, arrays)
    return data, _reading(data, folder)


def _from_arrays(path: Path, arrays: dict[str, np.ndarray]) -> Data:
    r"""A graph of arrays that have the names of attributes."""
    found = dict(arrays)
    for name, others in NAMES.items():
        for other in others:
            if other in found and name not in found:
                value = found.pop(other)
                found[name] = value.T if other == 'edges' else value
    missing = [name for name in ('x', 'edge_index', 'y') if name not in found]
    if missing:
        raise SourceError(
            f"'{path}' has no array {missing}: a graph needs 'x', 'edge_index' and 'y', or "
            f"'attr_data', 'adj_data', ... and 'labels' (got {sorted(arrays)})"
        )
    for mask in MASKS:
        if mask in found and found[mask].ndim == 2 and len(found[mask]) != len(found['x']):
            found[mask] = found[mask].T  # one split per row
    return Data.from_dict({name: _tensor(path, name, value) for name, value in found.items()})


def _from_csr(path: Path, arrays: dict[str, np.ndarray]) -> Data:
    r"""A graph of two sparse matrices and labels."""
    names = [f'{matrix}_{part}' for matrix in ('attr', 'adj') for part in SPARSE]
    if missing := [name for name in (*names, 'labels') if name not in arrays]:
        raise SourceError(f"'{path}' has no array {missing} (got {sorted(arrays)})")
    try:
        attr, adj = (
            csr_matrix(
                tuple(arrays[f'{matrix}_{part}'] for part in SPARSE[:3]),
                tuple(arrays[f'{matrix}_shape']),
            )
            for matrix in ('attr', 'adj')
        )
    except (ValueError, TypeError) as error:
        raise SourceError(f"'{path}' does not hold sparse matrices: {error}") from error
    if adj.shape != (attr.shape[0],) * 2 or len(arrays['labels']) != attr.shape[0]:
        raise SourceError(
            f"'{path}' has features of shape {list(attr.shape)}, edges of shape "
            f'{list(adj.shape)} and {len(arrays["labels"])} labels'
        )
    edges = torch.from_numpy(np.stack(adj.nonzero()).astype(np.int64))
    edge_index = to_undirected(remove_self_loops(edges)[0], num_nodes=attr.shape[0])
    x = torch.from_numpy(attr.toarray()).float()
    more = {
        name: _tensor(path, name, value)
        for name, value in arrays.items()
        if name not in (*names, 'labels') and value.dtype.kind in 'biuf'
    }
    return Data(x=x, edge_index=edge_index, y=_tensor(path, 'labels', arrays['labels']), **more)


def _tensor(path: Path, name: str, value: np.ndarray) -> Tensor:
    if value.dtype.kind not in 'biufc':
        how = f": number them with 'np.unique({name}, return_inverse=True)[1]'"
        raise SourceError(
            f"The array '{name}' of '{path}' must hold numbers (got {value.dtype})"
            f'{how if value.ndim == 1 else ""}'
        )
    if value.dtype.kind == 'f' and value.dtype.itemsize > 8:  # PyTorch has no wider type
        value = value.astype(np.float64)
    value = np.ascontiguousarray(value.astype(value.dtype.newbyteorder('='), copy=False))
    wide = np.dtype(np.int64) if value.dtype.kind == 'u' and value.dtype.itemsize > 1 else None
    tensor = torch.from_numpy(value if wide is None else value.astype(wide))
    return tensor.long() if name in ('edge_index', 'y', 'labels') and _is_integer(value) else tensor


def _is_integer(value: np.ndarray) -> bool:
    return value.dtype.kind in 'iub'


def read_pt_graph(path: Path) -> tuple[Any, Reading]:
    r"""Reads a :class:`~torch_geometric.data.Data` object that
    :meth:`torch.save` wrote, a dictionary of tensors, or the file of an
    :class:`~torch_geometric.data.InMemoryDataset` of one graph.

    Only tensors, Python's own containers and PyG's classes of graphs are read
    (:obj:`weights_only=True`). A file with anything else is refused before any
    of its code could run.

    Args:
        path (Path): The file.
    """
    try:
        # On exit, torch forgets all classes that it is given here. PyG allows some of them itself.
        known = torch.serialization.get_safe_globals()
        with torch.serialization.safe_globals([c for c in SAFE if c not in known]):
            content = torch.load(path, map_location='cpu', weights_only=True)
    except pickle.UnpicklingError as error:
        named = re.search(r'GLOBAL ([\w.]+)', str(error))
        what = f" ('{named[1]}')" if named else ''
        raise SourceError(
            f"'{path}' holds more than tensors and a PyG 'Data' object{what}, and is not read "
            f"because it can run code. Where you trust the file, load it and save the 'Data' "
            f'object alone: torch.save(data, path)'
        ) from error
    except (LookupError, AssertionError, struct.error, OverflowError) as error:  # of other bytes
        raise SourceError(
            f"'{path}' is not a readable .pt file: write it with torch.save(data, path)"
        ) from error
    except (OSError, EOFError, RuntimeError, ValueError, AttributeError, TypeError) as error:
        reason = str(error).splitlines() or [repr(error)]
        raise SourceError(f"'{path}' is not a readable .pt file: {reason[0]:.160}") from error
    data = _graph_of(content, path)
    return data, _reading(data, path)


def _graph_of(content: Any, path: Path) -> Data | HeteroData:
    r"""The graph of a file: itself, its dictionary, or one of a dataset."""
    if isinstance(content, (Data, HeteroData)):
        return content
    if isinstance(content, tuple) and len(content) in (2, 3):  # of InMemoryDataset.save
        graph, slices = content[:2]
        sizes = {len(value) - 1 for value in slices.values()} if isinstance(slices, dict) else {1}
        if sizes == {1}:
            return _graph_of(graph, path)
        raise SourceError(f"'{path}' must hold one graph (got a dataset of {max(sizes)} graphs)")
    if isinstance(content, dict) and all(isinstance(name, str) for name in content):
        return Data.from_dict(content)
    raise SourceError(
        f"'{path}' must hold a PyG 'Data' object or a dictionary of its tensors (got "
        f"'{type(content).__name__}')"
    )


def _reading(data: Any, path: Path) -> Reading:
    r"""What a file of arrays holds: all of it by name, nothing is encoded."""
    if not isinstance(data, Data):
        return Reading(f"read '{path.name}': {type(data).__name__}")
    parts = tuple(
        Decision(
            'array', (name,), f'{list(value.shape)}, {str(value.dtype).removeprefix("torch.")}'
        )
        for name, value in data.to_dict().items()
        if isinstance(value, Tensor)
    )
    return Reading(f"read '{path.name}', as it is", parts)
