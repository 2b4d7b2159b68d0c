r"""The sources by name: handwritten digits, graphs of the paper, heterophilous ones, and OGB."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch_geometric.data import Data, Dataset, InMemoryDataset
from torch_geometric.datasets import Amazon, Coauthor, Planetoid
from torch_geometric.transforms import Compose, LargestConnectedComponents, ToUndirected
from torch_geometric.utils import to_undirected

from torch_geometric_cgt.data import masks_of, random_split
from torch_geometric_cgt.data.graph_checks import SPLIT_ATTRIBUTES
from torch_geometric_cgt.datasets.graph_files import TableOptions
from torch_geometric_cgt.datasets.heterophilous import link_npz, load_heterophilous
from torch_geometric_cgt.datasets.ogb import OGBNodes
from torch_geometric_cgt.datasets.source_kinds import (
    SourceGraph,
    check_task,
    is_function,
    open_source,
)
from torch_geometric_cgt.errors import SourceError

SIDE = 8  # pixels of a side of an image of a digit


def cache_folder() -> Path:
    r"""The user's cache folder of this package."""
    base = os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache'
    return Path(base) / 'torch_geometric_cgt'


def build_folder(root: str | Path | None = None) -> Path:
    r"""The folder of builds.

    Args:
        root (str, optional): The folder that the user chose. By default, one in
            the user's cache. (default: :obj:`None`)
    """
    return cache_folder() / 'synthetic' if root is None else Path(root).expanduser()


class Digits(InMemoryDataset):
    r"""The nearest-neighbour graph of the 1,797 handwritten digits of
    scikit-learn. Nothing is downloaded.

    Nodes are 8 x 8 images with pixel values in :math:`[0, 1]`, labels are the
    digits. The masks are a fixed 50/10/40 split.

    Args:
        num_neighbors (int, optional): The number of nearest neighbours that
            each image has an edge to. The graph is undirected.
            (default: :obj:`4`)
        transform (callable, optional): Applied on every access.
            (default: :obj:`None`)
    """

    name = 'Digits'

    def __init__(self, num_neighbors: int = 4, transform: object = None) -> None:
        super().__init__(transform=transform)
        pixels, labels = load_digits(return_X_y=True)
        neighbor = torch.from_numpy(nearest_images(pixels, num_neighbors)).reshape(-1)
        image = torch.arange(len(pixels)).repeat_interleave(num_neighbors)
        data = Data(
            x=torch.from_numpy(pixels / 16.0).float(),
            edge_index=to_undirected(torch.stack([neighbor, image])),
            y=torch.from_numpy(labels).long(),
        )
        split = random_split(data.y >= 0, seed=0)
        data.update(masks_of(split))
        self.data, self.slices = self.collate([data])


class DigitQuarters(Digits):
    r"""The graph :class:`Digits`, in which each node shows one random quarter of
    its image and is black elsewhere. Nothing is downloaded.

    Neighbours have similar images and show other quarters. A GNN therefore
    sees more of the image than a perceptron, and more with two layers than with
    one: accuracies range from 0.55 to 0.98.

    Args:
        num_neighbors (int, optional): The number of nearest neighbours, by
            whole images, that each image has an edge to. (default: :obj:`4`)
        transform (callable, optional): Applied on every access.
            (default: :obj:`None`)
    """

    name = 'DigitQuarters'

    def __init__(self, num_neighbors: int = 4, transform: object = None) -> None:
        super().__init__(num_neighbors, transform)
        data = self._data
        assert data is not None
        # The stream of this generator does not change between versions of NumPy.
        shown = torch.from_numpy(np.random.RandomState(0).randint(4, size=data.num_nodes))
        pixel, half = torch.arange(SIDE * SIDE), SIDE // 2
        quarter = 2 * (pixel // SIDE // half) + pixel % SIDE // half
        data.x = data.x * (quarter == shown[:, None])


def nearest_images(pixels: np.ndarray, num_neighbors: int) -> np.ndarray:
    r"""Finds the nearest other images of each image, ``[N, num_neighbors]``.

    Pixels are integers, so squared distances are exact. Of images at the same
    distance, those with the lowest index come first. The result therefore
    depends neither on the number of threads nor on the processor.

    Args:
        pixels (numpy.ndarray): The images, with integer values, ``[N, F]``.
        num_neighbors (int): The number of neighbours of an image.
    """
    pixels = pixels.astype(float)
    length = np.square(pixels).sum(axis=1)
    distance = length[:, None] + length - 2 * (pixels @ pixels.T)
    np.fill_diagonal(distance, np.inf)
    return distance.argsort(axis=1, kind='stable')[:, :num_neighbors]


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


def OgbnArxiv(root: str | None = None) -> Dataset:
    r"""The ogbn-arxiv citation graph: 169,343 nodes, 2,315,598 directed edges
    (both directions counted), 128 features, 40 classes, split by year. The raw
    files are read from the folder :obj:`ogbn_arxiv`, in the layout of OGB.
    """
    return OGBNodes(_root(root, 'ogbn_arxiv', ('raw', 'split')), 'ogbn-arxiv', 'time')


def OgbnProducts(root: str | None = None) -> Dataset:
    r"""The ogbn-products co-purchase graph: 2,449,029 nodes, 123.7 million
    directed edges (both directions counted), 100 features, 47 classes, split by
    sales. The raw files are read from the folder :obj:`ogbn_products`.
    """
    root = _root(root, 'ogbn_products', ('raw', 'split'))
    return OGBNodes(root, 'ogbn-products', 'sales_ranking')


def Actor(root: str | None = None, split: int = 0) -> Dataset:
    r"""The Actor co-occurrence graph: 7,600 nodes, 26,659 edges, 932 features, 5
    classes, with little homophily and ten splits, one of which is kept.
    """
    return _heterophilous(root, 'actor', split)


def SquirrelFiltered(root: str | None = None, split: int = 0) -> Dataset:
    r"""The Wikipedia graph Squirrel without its duplicate nodes: 2,223 nodes,
    46,998 edges, 2,089 features, 5 classes, with ten splits.
    """
    return _heterophilous(root, 'squirrel_filtered', split)


def Minesweeper(root: str | None = None, split: int = 0) -> Dataset:
    r"""The Minesweeper grid: 10,000 nodes, 39,402 edges, 7 features, 2 classes,
    with ten splits.
    """
    return _heterophilous(root, 'minesweeper', split)


def Tolokers(root: str | None = None, split: int = 0) -> Dataset:
    r"""The crowdsourcing graph Tolokers: 11,758 nodes, 519,000 edges, 10 features,
    2 classes, with ten splits.
    """
    return _heterophilous(root, 'tolokers', split)


SOURCES: dict[str, Callable[[], Dataset]] = {
    source.__name__: source
    for source in (
        Digits,
        DigitQuarters,
        Cora,
        CiteSeer,
        PubMed,
        Computers,
        Photo,
        CS,
        Physics,
        Actor,
        SquirrelFiltered,
        Minesweeper,
        Tolokers,
        OgbnArxiv,
        OgbnProducts,
    )
}


RAW_FILES = {  # what the folder $CGT_DATA_ROOT must hold
    **{name: (f'{name}/raw/ind.{name.lower()}.*',) for name in ('Cora', 'CiteSeer', 'PubMed')},
    'Computers': ('Computers/raw/amazon_electronics_computers.npz',),
    'Photo': ('Photo/raw/amazon_electronics_photo.npz',),
    'CS': ('CS/raw/ms_academic_cs.npz',),
    'Physics': ('Physics/raw/ms_academic_phy.npz',),
    'Actor': ('actor/raw/actor.npz',),
    'SquirrelFiltered': ('squirrel_filtered/raw/squirrel_filtered.npz',),
    'Minesweeper': ('minesweeper/raw/minesweeper.npz',),
    'Tolokers': ('tolokers/raw/tolokers.npz',),
    'OgbnArxiv': ('ogbn_arxiv/raw', 'ogbn_arxiv/split'),
    'OgbnProducts': ('ogbn_products/raw', 'ogbn_products/split'),
}


def source_name(text: str) -> str | None:
    r"""The name in :obj:`SOURCES` that a text means in any case, also with dashes, or
    :obj:`None`.

    Args:
        text (str): The text, *e.g.*, :obj:`"cora"` or :obj:`"ogbn-arxiv"`.
    """
    wanted = text.lower().replace('-', '').replace('_', '')
    return next((name for name in SOURCES if name.lower() == wanted), None)


def load_source(
    source: str | Path | tuple[str | Path, str | Path],
    largest_component: bool = False,
    random_split: bool = False,
    name: str | None = None,
    options: TableOptions | None = None,
    directed: bool | None = None,
) -> Dataset:
    r"""Returns a graph by its name, or the user's own graph.

    Args:
        source (str or tuple[str, str]): One of :obj:`SOURCES` in any case; or a
            folder, two tables, a :obj:`.npz` or :obj:`.pt` file, or
            :obj:`"package.module:function"`. :obj:`docs/sources.md` describes
            them.
        largest_component (bool, optional): Whether to keep the largest
            connected component only, as the paper does.
            (default: :obj:`False`)
        random_split (bool, optional): Whether to drop the masks of the graph,
            so that it is split 50/10/40, as in the paper.
            (default: :obj:`False`)
        name (str, optional): The name on cards and pages. By default, that of
            the dataset, the file or the function. (default: :obj:`None`)
        options (TableOptions, optional): How to read tables, see
            :meth:`from_files`. (default: :obj:`None`)
        directed (bool, optional): Whether edges of tables have one direction.
            For other kinds, :obj:`False` adds the missing directions.
            (default: :obj:`None`)
    """
    known = source_name(source) if isinstance(source, str) else None
    if known is not None:
        if options is not None:
            options.refuse_for(known)
        dataset = _load_named(known)
        if name is not None:
            dataset = SourceGraph(dataset[0], name)
    elif isinstance(source, str) and not is_function(source) and not _is_path(source):
        raise ValueError(
            f"Unknown source '{source}'; choose from {list(SOURCES)}, or give a folder with the "
            f'tables nodes and edges, a .npz or .pt file, or package.module:function'
        )
    else:
        dataset = open_source(source, name, options, directed)
    steps: list[Callable[[Data], Data]] = [dataset.transform] if dataset.transform else []
    if known is not None and directed is False:
        steps.append(ToUndirected())
    if largest_component:
        steps.append(LargestConnectedComponents())
    if random_split:
        steps.append(_drop_splits)
    dataset.transform = Compose(steps) if steps else None
    if known is None:
        check_task(dataset)
    return dataset


def _load_named(name: str) -> Dataset:
    try:
        return SOURCES[name]()
    except OSError as error:
        folder = _folder(None)
        raise SourceError(
            f"'{name}' could not be loaded: its raw files are not in '{folder}', and downloading "
            f'them failed ({error}). Set $CGT_DATA_ROOT to a folder that has them: it must hold '
            f'{" and ".join(RAW_FILES.get(name, ()))}'
        ) from error


def _is_path(text: str) -> bool:
    r"""Whether a text is meant as a file or folder: it exists, or looks like one."""
    path = Path(text).expanduser()
    return path.exists() or path.suffix != '' or len(path.parts) > 1


def _drop_splits(data: Data) -> Data:
    for name in SPLIT_ATTRIBUTES:
        if name in data:
            del data[name]
    return data


def _folder(root: str | None) -> Path:
    return Path(root or os.environ.get('CGT_DATA_ROOT') or cache_folder()).expanduser()


def _root(root: str | None, name: str, parts: Sequence[str] = ('raw',)) -> str:
    r"""The root folder of a dataset. If the raw files are in a read-only folder, it
    is a folder in the user's cache with links to them.
    """
    folder = _folder(root) / name
    if not all((folder / part).is_dir() for part in parts) or _may_write(folder):
        return str(_folder(root))
    base = cache_folder() / 'linked'
    links = {base / name / part: (folder / part).resolve() for part in parts}
    if any(not link.is_symlink() or link.resolve() != raw for link, raw in links.items()):
        # The links point to other files: remove them and the files that were processed from them.
        shutil.rmtree(base / name, ignore_errors=True)
        (base / name).mkdir(parents=True)
        for link, raw in links.items():
            link.symlink_to(raw, target_is_directory=True)
    return str(base)


def _heterophilous(root: str | None, name: str, split: int) -> Dataset:
    base = Path(_root(root, name))
    if not (base / name / 'raw').is_dir():
        linked = cache_folder() / 'linked'
        if link_npz(_folder(root), name, linked):
            base = linked
    return load_heterophilous(str(base), name, split)


def _may_write(folder: Path) -> bool:
    # The superuser can write anywhere, so that the mode of the folder is checked, too.
    return os.access(folder, os.W_OK) and bool(folder.stat().st_mode & 0o222)
