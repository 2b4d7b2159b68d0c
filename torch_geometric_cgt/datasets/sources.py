r"""The paper's graphs by name: thin functions that return PyG datasets."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from torch_geometric.data import Data, Dataset
from torch_geometric.datasets import Amazon, Coauthor, Planetoid
from torch_geometric.transforms import Compose, LargestConnectedComponents

from torch_geometric_cgt.data import MASKS
from torch_geometric_cgt.datasets.digits import Digits
from torch_geometric_cgt.errors import SourceError


def cache_folder() -> Path:
    r"""The user's cache folder of this package."""
    base = os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache'
    return Path(base) / 'torch_geometric_cgt'


def Cora(root: str | None = None) -> Dataset:
    r"""The Cora citation graph."""
    return Planetoid(_root(root, 'Cora'), 'Cora')


def CiteSeer(root: str | None = None) -> Dataset:
    r"""The CiteSeer citation graph."""
    return Planetoid(_root(root, 'CiteSeer'), 'CiteSeer')


def PubMed(root: str | None = None) -> Dataset:
    r"""The PubMed citation graph."""
    return Planetoid(_root(root, 'PubMed'), 'PubMed')


def Computers(root: str | None = None) -> Dataset:
    r"""The Amazon Computers co-purchase graph."""
    return Amazon(_root(root, 'Computers'), 'Computers')


def Photo(root: str | None = None) -> Dataset:
    r"""The Amazon Photo co-purchase graph."""
    return Amazon(_root(root, 'Photo'), 'Photo')


def CS(root: str | None = None) -> Dataset:
    r"""The MS Academic CS co-author graph."""
    return Coauthor(_root(root, 'CS'), 'CS')


def Physics(root: str | None = None) -> Dataset:
    r"""The MS Academic Physics co-author graph."""
    return Coauthor(_root(root, 'Physics'), 'Physics')


SOURCES: dict[str, Callable[[], Dataset]] = {
    source.__name__: source
    for source in (Digits, Cora, CiteSeer, PubMed, Computers, Photo, CS, Physics)
}


def load_source(name: str, largest_component: bool = False, random_split: bool = False) -> Dataset:
    r"""Returns a source by its name.

    Args:
        name (str): One of :obj:`SOURCES`.
        largest_component (bool, optional): Whether to keep the largest
            connected component only, as the paper does.
            (default: :obj:`False`)
        random_split (bool, optional): Whether to drop the masks of the graph,
            so that it is split 50/10/40, as in the paper.
            (default: :obj:`False`)
    """
    if name not in SOURCES:
        raise ValueError(f"Unknown source '{name}'; choose from {list(SOURCES)}")
    try:
        dataset = SOURCES[name]()
    except OSError as error:
        raise SourceError(
            f"'{name}' could not be loaded: its raw files are not in '{_folder(None) / name}' and "
            f'downloading them failed ({error}). Set $CGT_DATA_ROOT to a folder that has them'
        ) from error
    steps: list[Callable[[Data], Data]] = []
    if largest_component:
        steps.append(LargestConnectedComponents())
    if random_split:
        steps.append(_drop_masks)
    dataset.transform = Compose(steps) if steps else None
    return dataset


def _drop_masks(data: Data) -> Data:
    for name in MASKS:
        if name in data:
            del data[name]
    return data


def _folder(root: str | None) -> Path:
    return Path(root or os.environ.get('CGT_DATA_ROOT') or cache_folder()).expanduser()


def _root(root: str | None, name: str) -> str:
    r"""The folder PyG works in. Raw files in a folder that must not be
    written to are used through a link in the user's cache folder.
    """
    raw = _folder(root) / name / 'raw'
    if not raw.is_dir() or _may_write(raw.parent):
        return str(_folder(root))
    base = cache_folder() / 'linked'
    link = base / name / 'raw'
    if not link.is_symlink() or link.resolve() != raw.resolve():
        # A link to other files, and what was made of them, is of no use.
        shutil.rmtree(link.parent, ignore_errors=True)
        link.parent.mkdir(parents=True)
        link.symlink_to(raw.resolve(), target_is_directory=True)
    return str(base)


def _may_write(folder: Path) -> bool:
    # The mode counts even for the superuser: read-only was meant.
    return os.access(folder, os.W_OK) and bool(folder.stat().st_mode & 0o222)
