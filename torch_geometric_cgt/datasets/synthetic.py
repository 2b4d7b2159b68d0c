r"""The synthetic substitute of a graph, as a PyG dataset."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset
from torch_geometric.loader import NeighborLoader

from torch_geometric_cgt.data import (
    CodebookFeatureStore,
    ForestGraphStore,
    LazyForest,
    TokenTrees,
    root_nodes,
)
from torch_geometric_cgt.datasets.options import Options, make_config
from torch_geometric_cgt.datasets.sources import cache_folder
from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.models import TransformerModel, TreeModel
from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.pipeline import (
    Build,
    BuildConfig,
    Source,
    build,
    check_source,
    with_declared_labels,
)
from torch_geometric_cgt.pipeline.workspace import clear, exclusive, report_full_disk
from torch_geometric_cgt.release import (
    Card,
    Release,
    cache_name,
    read_cache,
    read_release,
    write_cache,
    write_release,
)
from torch_geometric_cgt.sampler import TreeNeighborSampler
from torch_geometric_cgt.training import World, join_world, resolve_device
from torch_geometric_cgt.utils.files import atomic_folder, require_writable
from torch_geometric_cgt.utils.memory import check_memory

if TYPE_CHECKING:
    from typing_extensions import Unpack

BYTES_PER_NODE = 100  # of a forest beside its features: edges, masks and what makes them


class SyntheticCGTDataset(Dataset):
    r"""A synthetic substitute of a graph, k-anonymous or, with
    :obj:`epsilon`, differentially private. It holds one
    :class:`~torch_geometric.data.Data` object, a forest of generated
    computation graphs, and replaces the source in a PyG script.

    .. code-block:: python

        dataset = SyntheticCGTDataset(source=Planetoid('data', 'Cora'), k=30)
        data = dataset[0]

    The first construction quantizes the features, fits a
    :class:`~torch_geometric_cgt.nn.CGTGenerator` and samples from it. The
    result is kept under :obj:`root`, and later constructions with the same
    source and parameters load it. In a script that :obj:`torchrun` started,
    every process must construct it: one quantizes, all fit and sample.

    :obj:`k`, :obj:`epsilon` and :obj:`delta` are short for a
    :obj:`privacy` object. Further arguments come in three groups:

    ============= ================================= ==========================
    argument      type                              what it groups
    ============= ================================= ==========================
    ``privacy``   :class:`KAnonymity` or            what is promised, with all
                  :class:`DifferentialPrivacy`      parameters of the promise
    ``generator`` :obj:`dict`                       ``num_scenes`` and
                                                    arguments of
                                                    :class:`CGTGenerator`
    ``fit``       :class:`FitConfig`                how to train, and whether
                                                    to resume
    ============= ================================= ==========================

    Args:
        source (Dataset or Data): A PyG dataset of one graph, or the graph.
            Nodes with a negative label are neighbours, but no roots. A graph
            without masks is split 50/10/40.
        k (int, optional): The minimum number of nodes that share a feature
            vector; 30 if not given. With :obj:`epsilon`, there is none.
            (default: :obj:`None`)
        num_neighbors (list[int], optional): The fan-out of each layer.
            (default: :obj:`[5, 5]`)
        num_samples (int, optional): The number of computation graphs. By
            default, as many as the source has labelled nodes.
            (default: :obj:`None`)
        root (str, optional): Where results are kept. By default, in the
            user's cache folder. (default: :obj:`None`)
        epsilon (float, optional): A budget for differential privacy of the
            whole release, instead of clusters of :obj:`k` nodes. It protects
            one computation graph; :class:`DifferentialPrivacy` has other units.
            (default: :obj:`None`)
        delta (float, optional): The failure probability of differential
            privacy. By default, :math:`n^{-1.1}` for :math:`n` nodes.
            (default: :obj:`None`)
        seed (int, optional): The same seed gives the same dataset. With
            :obj:`epsilon`, the noise is new in every build and does not follow
            from it. (default: :obj:`0`)
        device (str or torch.device, optional): Where to fit and sample.
            (default: :obj:`"auto"`)
        transform (callable, optional): Applied on every access.
            (default: :obj:`None`)
        force_reload (bool, optional): Whether to fit again.
            (default: :obj:`False`)
        log (bool, optional): Whether to show progress. (default: :obj:`True`)
        **options (optional): The groups :obj:`privacy`, :obj:`generator` and
            :obj:`fit` of the table above.
    """

    def __init__(
        self,
        source: Dataset | Data,
        k: int | None = None,
        num_neighbors: Sequence[int] = (5, 5),
        num_samples: int | None = None,
        root: str | Path | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        seed: int = 0,
        device: str | torch.device = 'auto',
        transform: Callable | None = None,
        force_reload: bool = False,
        log: bool = True,
        **options: Unpack[Options],
    ) -> None:
        config = make_config(k, epsilon, delta, num_neighbors, num_samples, seed, dict(options))
        checked = with_declared_labels(check_source(source), config)
        config.check(checked.data.num_nodes, checked.root.numel(), checked.num_classes)
        folder = Path(root).expanduser() if root is not None else cache_folder() / 'synthetic'
        path = folder / cache_name(checked, config)
        device = resolve_device(device)
        world = join_world(device)
        if world.first(force_reload or not path.exists()):
            _build(path, checked, config, device, world, force_reload, log)
        try:
            release, built = read_cache(path)
        except CorruptFileError as error:
            raise CorruptFileError(f'{error}. Build it again with force_reload=True') from error
        self._init(release, str(folder), transform, log, built)

    def _init(
        self,
        release: Release,
        root: str | None,
        transform: Callable | None,
        log: bool,
        built: Build | None = None,
    ) -> None:
        # PyG's own download and process steps know files by name only and
        # pickle; all input and output is ours.
        super().__init__(None, transform, log=log)
        self.root = root
        self.release = release
        self.model: TreeModel | None = None if built is None else built.model
        self.cluster: Tensor | None = None if built is None else built.cluster
        self.history: dict[str, Any] | None = None if built is None else built.history

    @property
    def generator(self) -> CGTGenerator | TreeModel | None:
        r"""The fitted generator; :obj:`None` for a release that was loaded."""
        return self.model.generator if isinstance(self.model, TransformerModel) else self.model

    @property
    def trees(self) -> TokenTrees:
        r"""The synthetic computation graphs as token trees."""
        return self.release.trees

    @property
    def tokens(self) -> Tensor:
        r"""The token of each breadth-first slot, ``[num_trees, T]``; the
        number of clusters where null.
        """
        return self.release.trees.tokens

    @property
    def codebook(self) -> Tensor:
        r"""The mean feature vector of each cluster, ``[m, F]``."""
        return self.release.codebook

    @property
    def privacy(self) -> Card:
        r"""What is guaranteed, for which unit, and what is not."""
        return self.release.privacy

    @property
    def card(self) -> dict[str, Any]:
        r"""The facts that are released along: source size, parameters,
        privacy, versions and date.
        """
        return self.release.card

    @property
    def num_classes(self) -> int:
        r"""The number of labels of the source."""
        return self.trees.num_classes

    @property
    def num_node_features(self) -> int:
        r"""The number of features of a node: that of the source, or that of a
        public projection of them, where the card declares one.
        """
        return self.codebook.size(1)

    def len(self) -> int:
        return 1

    def get(self, idx: int) -> Data:
        return copy.copy(self._data)  # as in-memory datasets of PyG: new object, same tensors

    @cached_property
    def _data(self) -> Data:
        num_nodes, width = self._forest.num_nodes, self.codebook.size(1)
        check_memory(
            num_nodes * (width * self.codebook.element_size() + BYTES_PER_NODE),
            f"'dataset[0]', one graph of {num_nodes:,} nodes with {width} features each,",
            "train from 'dataset.loader(split)', which decodes the features of a batch at a time, "
            "or give 'dataset.stores()' to a loader of your own",
        )
        return self.trees.to_data(self.codebook)

    @cached_property
    def _forest(self) -> LazyForest:
        return LazyForest.of(self.trees)

    def stores(self) -> tuple[CodebookFeatureStore, ForestGraphStore]:
        r"""The forest as a feature store and a graph store for
        :class:`~torch_geometric.loader.NeighborLoader`; features are looked
        up in the codebook when a batch asks for them.
        """
        return (
            CodebookFeatureStore(self._forest, self.codebook),
            ForestGraphStore(self._forest),
        )

    def loader(self, split: str = 'train', batch_size: int = 64, **kwargs: Any) -> NeighborLoader:
        r"""A :class:`~torch_geometric.loader.NeighborLoader` over the
        computation graphs of one split that needs no native extension.

        Args:
            split (str, optional): One of :obj:`"train"`, :obj:`"val"`,
                :obj:`"test"`, :obj:`"all"`. (default: :obj:`"train"`)
            batch_size (int, optional): Computation graphs per batch.
                (default: :obj:`64`)
            **kwargs (optional): Further arguments of the loader.
        """
        stores = self.stores()
        fan_outs = list(self.trees.shape.num_neighbors)
        kwargs.setdefault('shuffle', split == 'train')
        return NeighborLoader(
            stores,
            num_neighbors=fan_outs,
            neighbor_sampler=TreeNeighborSampler(stores, fan_outs),
            input_nodes=root_nodes(self._forest, split),
            batch_size=batch_size,
            **kwargs,
        )

    def project(self, x: Tensor) -> Tensor:
        r"""Features of the source, or of others like it, in the space of
        :obj:`codebook`: as they are, or under the public projection that the
        card declares.

        Args:
            x (torch.Tensor): The features, dense or sparse, ``[N, F]``.
        """
        return self.release.project(x)

    def save(self, folder: str | Path, accept_seeded_noise: bool = False) -> None:
        r"""Writes what may leave the house, and nothing else: tokens, labels,
        splits, codebook, :obj:`card.json` and a readable :obj:`README.md`.

        Args:
            folder (str): A folder that does not exist yet, or is empty.
            accept_seeded_noise (bool, optional): Whether a private dataset
                whose noise came from a seed may be written, which guarantees
                nothing. (default: :obj:`False`)
        """
        if self.privacy.seeded_noise and not accept_seeded_noise:
            raise ValueError(
                "The noise of this dataset was drawn from a seed ('noise_seed'), so that nothing "
                'is guaranteed. Build it without a seed to release it; for tests, use '
                "'save(folder, accept_seeded_noise=True)'"
            )
        folder = Path(folder).expanduser()
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise FileExistsError(f"'{folder}' exists already; choose a new folder")
        with atomic_folder(folder) as draft:
            write_release(draft, self.release)

    @classmethod
    def load(
        cls, folder: str | Path, transform: Callable | None = None, log: bool = True
    ) -> SyntheticCGTDataset:
        r"""Loads a release, with no access to the source. Nothing in the
        release can run; a truncated or altered one is refused.

        Args:
            folder (str): The folder that :meth:`save` wrote.
            transform (callable, optional): Applied on every access.
                (default: :obj:`None`)
            log (bool, optional): Whether to print. (default: :obj:`True`)
        """
        dataset = cls.__new__(cls)
        dataset._init(read_release(Path(folder).expanduser()), None, transform, log)
        return dataset

    def __repr__(self) -> str:
        name, privacy = self.card['source']['name'], self.privacy
        promise = f'epsilon={privacy.epsilon:g}' if privacy.k is None else f'k={privacy.k}'
        if privacy.seeded_noise:
            promise = f'no guarantee: seeded noise, {promise}'
        return f'{self.__class__.__name__}({name}, {promise}, trees={len(self.trees)})'


def _build(
    path: Path,
    source: Source,
    config: BuildConfig,
    device: torch.device,
    world: World,
    again: bool,
    log: bool,
) -> None:
    r"""Builds a dataset into its cache folder, from where an interrupted build
    stopped. All processes take part, the first one writes.
    """
    work = path.with_name(f'{path.name}.fit')
    with report_full_disk(work), ExitStack() as stack:
        with world.together('prepare the build'):
            if world.is_first:
                require_writable(path.parent)
                stack.enter_context(exclusive(work))
                if again or not config.fit.resume:
                    clear(work)
        if world.first(again or not path.exists()):  # another process may have built it
            result = build(source, config, work, device, log, world, path.name)
            with world.together('write the dataset'):
                if result is not None:
                    write_cache(path, source, config, result)
                    shutil.rmtree(work, ignore_errors=True)
