r"""Node classification graphs of the Open Graph Benchmark, read from its raw files."""

from __future__ import annotations

import csv
import gzip
import os
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch_geometric.data import Data, InMemoryDataset

from torch_geometric_cgt.data import masks_of
from torch_geometric_cgt.errors import CorruptFileError, SourceError
from torch_geometric_cgt.utils.files import require_writable, write_tensors

RAW = ('edge', 'node-feat', 'node-label', 'num-node-list', 'num-edge-list')
SPLITS = ('train', 'valid', 'test')
PROCESSED = 'processed/undirected.safetensors'
BLOCK = 1 << 16  # rows


class OGBNodes(InMemoryDataset):
    r"""A graph of the Open Graph Benchmark with one label per node.

    The graph has :obj:`x`, :obj:`edge_index`, :obj:`y` and the masks of the
    official split. The graph is undirected without duplicate edges, even if the
    raw files hold one direction only. The processed graph is stored next to the
    raw files in the safetensors format; nothing is unpickled.

    Args:
        root (str): The folder that contains the folder of the graph. Missing
            raw files are downloaded with the package :obj:`ogb`.
        name (str): The name, *e.g.*, :obj:`"ogbn-arxiv"`.
        split (str): The folder of the official split, *e.g.*, :obj:`"time"`.
        transform (callable, optional): Applied on every access.
            (default: :obj:`None`)
        force_reload (bool, optional): Whether to read the raw files again.
            (default: :obj:`False`)
    """

    def __init__(
        self,
        root: str,
        name: str,
        split: str,
        transform: Callable | None = None,
        force_reload: bool = False,
    ) -> None:
        super().__init__(transform=transform)
        self.name = name
        folder = Path(root) / name.replace('-', '_')
        processed = folder / PROCESSED
        if processed.is_file() and not force_reload:
            tensors = _read_processed(processed)
        else:
            files = [f'raw/{part}.csv.gz' for part in RAW]
            files += [f'split/{split}/{part}.csv.gz' for part in SPLITS]
            missing = [file for file in files if not (folder / file).is_file()]
            if missing:
                download(name, folder, missing)
            tensors = read_ogb(folder, split)
            _write_processed(processed, tensors)
        self.data, self.slices = self.collate([Data.from_dict(tensors)])


def read_ogb(folder: Path, split: str) -> dict[str, Tensor]:
    r"""Reads a graph in the raw format of OGB. Raises :class:`SourceError` if a file
    is malformed.

    Args:
        folder (Path): The folder that contains :obj:`raw` and :obj:`split`.
        split (str): The name of the split.
    """
    raw = folder / 'raw'
    num_nodes, num_edges = (
        int(read_table(raw / f'num-{part}-list.csv.gz', 1, np.int64)[0, 0])
        for part in ('node', 'edge')
    )
    y = read_table(raw / 'node-label.csv.gz', num_nodes, np.int64)
    if y.shape[1] != 1 or y.min() < 0:
        raise SourceError(
            f"'{raw / 'node-label.csv.gz'}' must hold one non-negative label per node "
            f'(got {y.shape[1]} per node, the smallest {y.min()})'
        )
    code = _read_split(folder / 'split' / split, num_nodes)
    edges = _edges(raw / 'edge.csv.gz', num_nodes, num_edges)
    return {
        'edge_index': undirected(edges, num_edges, num_nodes),
        'x': torch.from_numpy(read_table(raw / 'node-feat.csv.gz', num_nodes, np.float32)),
        'y': torch.from_numpy(y[:, 0].copy()),
        **masks_of(code),
    }


def _edges(path: Path, num_nodes: int, num_edges: int) -> Iterator[np.ndarray]:
    done = 0
    for block in read_blocks(path, np.int64):
        done += len(block)
        if block.shape[1] != 2:
            raise SourceError(f"'{path}' must have 2 columns (got {block.shape[1]})")
        if block.min() < 0 or block.max() >= num_nodes:
            raise SourceError(
                f"'{path}' must hold node ids from 0 to {num_nodes - 1} "
                f'(got {block.min()} to {block.max()})'
            )
        if done <= num_edges:
            yield block
    if done != num_edges:
        raise SourceError(f"'{path}' must have {num_edges} rows (got {done})")


def _read_split(folder: Path, num_nodes: int) -> Tensor:
    r"""The split code of each node; 0 if it is in no split."""
    code = torch.zeros(num_nodes, dtype=torch.long)
    for bit, part in enumerate(SPLITS):
        path = folder / f'{part}.csv.gz'
        blocks = [block.reshape(-1) for block in read_blocks(path, np.int64)]
        index = torch.from_numpy(np.concatenate([*blocks, np.empty(0, np.int64)]))
        if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < num_nodes:
            raise SourceError(
                f"'{path}' must hold node ids from 0 to {num_nodes - 1} "
                f'(got {int(index.min())} to {int(index.max())})'
            )
        if bool(code[index].any()) or index.unique().numel() != index.numel():
            raise SourceError(f"'{path}' must hold nodes that are in no other split, once each")
        code[index] = 1 << bit
    return code


def _read_processed(path: Path) -> dict[str, Tensor]:
    # Tensors are copied from the mapped file one by one, so that memory holds the graph only once.
    try:
        with safe_open(path, 'pt') as file:
            return {name: file.get_tensor(name).clone() for name in file.keys()}
    except (SafetensorError, OSError) as error:
        raise CorruptFileError(f"'{path}' is not readable, delete it: {error}") from error


def _write_processed(path: Path, tensors: dict[str, Tensor]) -> None:
    require_writable(path.parent)
    handle, draft = tempfile.mkstemp(prefix=f'.{path.name}-', dir=path.parent)
    os.close(handle)
    try:
        write_tensors(Path(draft), tensors)
        os.chmod(draft, 0o644)
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def download(name: str, folder: Path, missing: Sequence[str]) -> None:
    r"""Downloads the missing files of a graph without asking on the terminal.

    The package :obj:`ogb` provides the addresses and the download, but does not
    process the files.

    Args:
        name (str): The name of the graph in OGB, *e.g.*, :obj:`"ogbn-arxiv"`.
        folder (Path): The folder of the graph.
        missing (list[str]): The paths of the missing files below the folder.
    """
    where = f"'{folder}' lacks {', '.join(missing)} of '{name}'"
    try:
        from ogb.utils.url import download_url, extract_zip
    except ImportError as error:
        raise SourceError(
            f"{where}, and 'ogb', which downloads them, is not installed: run "
            f"pip install 'torch-geometric-cgt[ogb]', or set $CGT_DATA_ROOT to a folder "
            f"that has '{folder.name}/{missing[0]}' and the others"
        ) from error
    require_writable(folder)
    with tempfile.TemporaryDirectory(prefix='.download-', dir=folder) as draft:
        try:
            url, archive = _address(name)
            extract_zip(download_url(url, draft, log=False), draft, log=False)
            for file in missing:
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                os.replace(Path(draft) / archive / file, folder / file)
        except (OSError, RuntimeError, KeyError, BadZipFile) as error:
            raise SourceError(
                f'{where}, and downloading them failed: {type(error).__name__}: {error}'
            ) from error


def _address(name: str) -> tuple[str, str]:
    r"""The address of a graph and the folder in its archive, as OGB lists them."""
    table = resources.files('ogb') / 'nodeproppred' / 'master.csv'
    lines = table.read_text(encoding='utf-8').splitlines()
    facts = {row['']: row[name] for row in csv.DictReader(lines)}
    return facts['url'], facts['download_name']


def read_blocks(path: Path, dtype: type) -> Iterator[np.ndarray]:
    r"""Yields the rows of a file in order, in blocks of shape ``[rows, columns]``.

    Args:
        path (Path): A compressed file of comma-separated numbers, no header.
        dtype (type): The type of the numbers.
    """
    row, columns = 0, None
    try:
        with gzip.open(path, 'rt', encoding='ascii') as file:
            while lines := list(islice(file, BLOCK)):
                block: np.ndarray = np.loadtxt(lines, dtype, delimiter=',', comments=None, ndmin=2)
                if columns not in (None, block.shape[1]):
                    raise ValueError(f'the number of columns changed from {columns}')
                columns = block.shape[1]
                row += len(lines)
                yield block
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(f"'{path}' cannot be read, download it again: {error}") from error
    except ValueError as error:
        raise SourceError(
            f"'{path}' is not a table of numbers after line {row}: {error}"
        ) from error


def read_table(path: Path, num_rows: int, dtype: type) -> np.ndarray:
    r"""Reads a file with a given number of rows.

    Args:
        path (Path): A compressed file of comma-separated numbers, no header.
        num_rows (int): The required number of rows.
        dtype (type): The type of the numbers.
    """
    out: np.ndarray[Any, Any] = np.empty((num_rows, 0), dtype)
    row = 0
    for block in read_blocks(path, dtype):
        if row == 0:
            out = np.empty((num_rows, block.shape[1]), dtype)
        out[row : row + len(block)] = block[: num_rows - row]
        row += len(block)
        if row > num_rows:
            break
    if row != num_rows:
        raise SourceError(
            f"'{path}' must have {num_rows} rows (got {'more' if row > num_rows else row})"
        )
    return out


def undirected(blocks: Iterable[np.ndarray], num_edges: int, num_nodes: int) -> Tensor:
    r"""Makes a graph undirected and removes duplicate edges.

    The result equals that of :meth:`torch_geometric.utils.to_undirected`, sorted
    by source and target. Each direction of an edge is encoded as one number, and
    these are sorted in place. 62 million edges need about 4 GB at the peak,
    including 2 GB for the result.

    Args:
        blocks (iterable): The edges, in blocks of shape ``[e, 2]``.
        num_edges (int): The number of edges in all blocks.
        num_nodes (int): The number of nodes; ids must be below it.
    """
    key = np.empty(2 * num_edges, dtype=np.int64)
    done = 0
    for block in blocks:
        a, b = block[:, 0].astype(np.int64), block[:, 1].astype(np.int64)
        key[done : done + len(a)] = a * num_nodes + b
        key[num_edges + done : num_edges + done + len(a)] = b * num_nodes + a
        done += len(a)
    if done != num_edges:
        raise ValueError(f'Expected {num_edges} edges (got {done})')
    key.sort()
    first = np.ones(len(key), dtype=bool)
    np.not_equal(key[1:], key[:-1], out=first[1:])
    key = key[first]
    del first
    edge_index = torch.empty(2, len(key), dtype=torch.long)
    source, target = edge_index.numpy()  # views
    np.floor_divide(key, num_nodes, out=source)
    np.multiply(source, num_nodes, out=target)
    np.subtract(key, target, out=target)
    return edge_index
