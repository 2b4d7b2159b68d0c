r"""Graphs with little homophily, from the raw files of yandex-research/heterophilous-graphs."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data, InMemoryDataset, download_url
from torch_geometric.datasets import HeterophilousGraphDataset
from torch_geometric.utils import to_undirected

from torch_geometric_cgt.data import MASKS
from torch_geometric_cgt.errors import SourceError

ARRAYS = ('node_features', 'node_labels', 'edges', 'train_masks', 'val_masks', 'test_masks')


class FilteredGraph(InMemoryDataset):
    r"""A graph of the paper `"A Critical Look at the Evaluation of GNNs under
    Heterophily" <https://arxiv.org/abs/2302.11640>`_ that PyG has no dataset
    class for. The raw file is read on every construction; nothing is processed
    to disk.

    Args:
        root (str): The folder that contains the folder of the graph. A missing
            raw file is downloaded.
        name (str): The name of the raw file, *e.g.*, :obj:`"actor"`.
        transform (callable, optional): Applied on every access.
            (default: :obj:`None`)
    """

    def __init__(self, root: str, name: str, transform: Callable | None = None) -> None:
        super().__init__(transform=transform)
        self.name = name
        path = Path(root) / name / 'raw' / f'{name}.npz'
        if not path.is_file():
            download_url(f'{HeterophilousGraphDataset.url}/{name}.npz', str(path.parent))
        self.data, self.slices = self.collate([read_npz(path)])


def read_npz(path: Path) -> Data:
    r"""Reads a graph with all its splits, one per column of the masks. Raises
    :class:`SourceError` if the file is damaged or incomplete.

    Args:
        path (Path): The raw file.
    """
    try:
        with np.load(path, allow_pickle=False) as raw:
            missing = [name for name in ARRAYS if name not in raw]
            if missing:
                raise SourceError(f"'{path}' has no array {missing}")
            array = {name: torch.from_numpy(raw[name]) for name in ARRAYS}
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise SourceError(f"'{path}' is damaged: {error}. Download it again") from error
    x, y, edges = array['node_features'].float(), array['node_labels'].long(), array['edges'].long()
    num_nodes = x.size(0)
    masks = {name: array[f'{name}s'].bool().t().contiguous() for name in MASKS}
    if y.shape != (num_nodes,) or edges.dim() != 2 or edges.size(1) != 2:
        raise SourceError(
            f"'{path}' has {num_nodes} feature vectors, but labels of shape {list(y.shape)} and "
            f'edges of shape {list(edges.shape)}'
        )
    if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < num_nodes:
        raise SourceError(f"'{path}' has an edge to a node that does not exist")
    if any(mask.dim() != 2 or mask.size(0) != num_nodes for mask in masks.values()):
        raise SourceError(f"'{path}' has masks that are not those of {num_nodes} nodes")
    edge_index = to_undirected(edges.t().contiguous(), num_nodes=num_nodes)
    return Data(x=x, y=y, edge_index=edge_index, **masks)


class SelectSplit:
    r"""A transform that keeps one of several splits of a graph.

    Args:
        split (int): The column of the masks.
    """

    def __init__(self, split: int) -> None:
        self.split = split

    def __call__(self, data: Data) -> Data:
        for name in MASKS:
            if name in data and data[name].dim() == 2:
                if not 0 <= self.split < data[name].size(1):
                    raise ValueError(
                        f"'split' must be one of 0 to {data[name].size(1) - 1} (got {self.split})"
                    )
                data[name] = data[name][:, self.split]
        return data

    def __repr__(self) -> str:
        return f'{self.__class__.__name__}({self.split})'


def link_npz(folder: Path, name: str, target: Path) -> bool:
    r"""Links a raw file of the folder :obj:`heterophilous`, which has the layout
    of the repository that publishes the files, to where PyG looks for it.
    Returns whether there is such a file.

    Args:
        folder (Path): The folder of raw files.
        name (str): The name of the raw file.
        target (Path): The folder that contains the folder of the graph.
    """
    raw = (folder / 'heterophilous' / f'{name}.npz').resolve()
    link = target / name / 'raw' / f'{name}.npz'
    if not raw.is_file():
        return False
    if link.is_symlink() and link.resolve() == raw:
        return True
    link.parent.mkdir(parents=True, exist_ok=True)
    # Files that were processed from another raw file are stale.
    for stale in (target / name / 'processed').glob('*'):
        stale.unlink()
    fresh = link.with_name(f'{link.name}.{os.getpid()}')
    fresh.symlink_to(raw)
    fresh.replace(link)
    return True


def load_heterophilous(root: str, name: str, split: int) -> Any:
    r"""A graph with one of its splits, by PyG's own class where there is one.

    Args:
        root (str): The folder that contains the folder of the graph.
        name (str): The name of the raw file.
        split (int): Which split to keep.
    """
    if name in ('minesweeper', 'tolokers'):
        return HeterophilousGraphDataset(root, name.capitalize(), transform=SelectSplit(split))
    return FilteredGraph(root, name, transform=SelectSplit(split))
