r"""The views of a synthetic dataset: splits, statistics, graphs, compact features, loaders."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data, Dataset, InMemoryDataset
from torch_geometric.loader import NeighborLoader

from torch_geometric_cgt.data import (
    CodebookFeatureStore,
    DenseLoader,
    ForestGraphStore,
    ForestStatistics,
    LazyForest,
    TokenTrees,
    join_trees,
    root_nodes,
    split_of,
)
from torch_geometric_cgt.release import Release
from torch_geometric_cgt.sampler import TreeNeighborSampler
from torch_geometric_cgt.transforms import RootNodeSplit, TreeLinkSplit, forest_aware

CACHED = ('_data', '_forest')  # computed from the release on first access
# Attributes of the forest that a dataset has as well, as in PyG's InMemoryDataset.
SHOWN = ('x', 'y', 'edge_index', 'train_mask', 'val_mask', 'test_mask', 'root_mask')


class ForestDataset(Dataset):
    r"""A dataset of one forest. The release is its only content, and everything
    here is computed from it: it costs no privacy.
    """

    release: Release
    folder: Path | None = None  # of the release, or of the build

    def _use_transforms(
        self, transform: Callable | None, pre_transform: Callable | None = None
    ) -> None:
        self.transform = None if transform is None else forest_aware(transform)
        self.pre_transform = None if pre_transform is None else forest_aware(pre_transform)

    @cached_property
    def _forest(self) -> LazyForest:
        return LazyForest.of(self.release.trees)

    @property
    def data(self) -> Data:
        r"""The forest without :obj:`transform`, as in
        :class:`~torch_geometric.data.InMemoryDataset`.
        """
        return self.get(0)

    def __getattr__(self, name: str) -> Any:
        if name in SHOWN:
            return self._data[name]
        raise AttributeError(f"'{self.__class__.__name__}' has no attribute '{name}'")

    def to(self, device: int | str | torch.device) -> ForestDataset:
        r"""Moves the forest to a device in place, as in
        :class:`~torch_geometric.data.InMemoryDataset`. Loaders and stores stay on the CPU.

        Args:
            device (int, str or torch.device): The device.
        """
        self.__dict__['_data'] = self._data.to(device)
        return self

    @property
    def raw_dir(self) -> str:
        r"""As :obj:`processed_dir`. The source graph is not kept."""
        return self.processed_dir

    @property
    def raw_file_names(self) -> list[str]:
        r"""Empty: the source graph is not kept."""
        return []

    @property
    def processed_dir(self) -> str:
        r"""The folder of the release, or of the build in the cache."""
        if self.folder is None:
            raise ValueError("This dataset is not in a folder; write it with 'save(folder)'")
        return str(self.folder)

    @property
    def processed_file_names(self) -> list[str]:
        r"""The files in :obj:`processed_dir`."""
        return sorted(path.name for path in Path(self.processed_dir).iterdir())

    def statistics(self) -> ForestStatistics:
        r"""The number and shape of the trees, labels and splits of roots, and
        the homophily between roots and their children.
        """
        return ForestStatistics.of(self.release.trees)

    def to_graph(self, seed: int = 0) -> Data:
        r"""Joins the released trees into one undirected graph with as many nodes as
        there are trees. Every node has features, a label, its split and a
        :obj:`token`.

        Only the release is read, so that the graph has the guarantees of the
        release and costs no further privacy. Where two roots ask for each
        other as children, they become neighbours. Degrees and homophily are
        those of the :class:`~torch_geometric_cgt.data.GraphProfile` of the
        release. Without one, they are estimated from the trees, as triangles and
        labels of neighbours always are. An edge has the
        :obj:`edge_weight` and the :obj:`edge_attr` of the edge of a tree that asked
        for it, in both directions.

        Args:
            seed (int, optional): The same seed gives the same graph.
                (default: :obj:`0`)
        """
        release = self.release
        return join_trees(release.trees, release.codebook, seed, release.profile)

    def joined(self, transform: Callable | None = None, seed: int = 0) -> JoinedGraph:
        r"""The graph of :meth:`to_graph` as a PyG dataset, for scripts that open a
        dataset: it has :obj:`num_features`, :obj:`num_classes` and
        :obj:`transform`.

        .. code-block:: python

            dataset = SyntheticCGTDataset.load('release').joined(T.NormalizeFeatures())

        Args:
            transform (callable, optional): Applied on every access. Random
                splits of nodes and links are those of PyG: that of this dataset,
                which is for a forest, is not used. (default: :obj:`None`)
            seed (int, optional): The same seed gives the same graph.
                (default: :obj:`0`)
        """
        return JoinedGraph(self.to_graph(seed), self.release.trees.num_classes, transform)

    def split(
        self,
        num_val: int | float = 0.1,
        num_test: int | float = 0.4,
        num_train_per_class: int | None = None,
        seed: int = 0,
    ) -> ForestDataset:
        r"""The same trees with another random split of the roots, as a new
        dataset. The loaders of the new dataset follow it.

        Args:
            num_val (int or float, optional): The number or share of validation
                roots. (default: :obj:`0.1`)
            num_test (int or float, optional): The number or share of test
                roots. (default: :obj:`0.4`)
            num_train_per_class (int, optional): The number of training roots
                of each class. By default, all roots that are left.
                (default: :obj:`None`)
            seed (int, optional): The seed of the split. (default: :obj:`0`)
        """
        trees: TokenTrees = self.release.trees
        for name, value in (('num_val', num_val), ('num_test', num_test)):
            if value < 0 or value > (1 if isinstance(value, float) else len(trees)):
                raise ValueError(
                    f"'{name}' must be a share in [0, 1] or at most the number of roots, "
                    f'{len(trees)} (got {value})'
                )
        chosen = RootNodeSplit(
            'train_rest' if num_train_per_class is None else 'random',
            num_train_per_class=num_train_per_class or 0,
            num_val=num_val,
            num_test=num_test,
        )
        roots = Data(y=trees.y.long(), root_mask=torch.ones(len(trees), dtype=torch.bool))
        roots.num_nodes = len(trees)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            code = split_of(chosen(roots))
        assert code is not None
        dataset = copy.copy(self)
        for name in CACHED:
            dataset.__dict__.pop(name, None)
        dataset.folder = None
        trees = replace(trees, split=code.to(trees.split.dtype))
        source = {**self.release.card['source'], 'splits': f'random, seed {seed}'}
        card = {**self.release.card, 'source': source}
        dataset.release = replace(self.release, trees=trees, card=card)
        return dataset

    def link_split(
        self,
        num_val: int | float = 0.1,
        num_test: int | float = 0.2,
        seed: int | None = 0,
        **kwargs: Any,
    ) -> tuple[Data, Data, Data]:
        r"""Training, validation and test graphs for link prediction, by
        :class:`~torch_geometric_cgt.transforms.TreeLinkSplit`.

        Args:
            num_val (int or float, optional): The number or share of validation
                links. (default: :obj:`0.1`)
            num_test (int or float, optional): The number or share of test
                links. (default: :obj:`0.2`)
            seed (int, optional): The seed of the split. (default: :obj:`0`)
            **kwargs (optional): Further arguments of
                :class:`~torch_geometric_cgt.transforms.TreeLinkSplit`.
        """
        return TreeLinkSplit(num_val, num_test, seed=seed, **kwargs)(self.get(0))

    def compact(self) -> Data:
        r"""The forest with the token of each node as :obj:`x`, ``[num_nodes]``,
        instead of a copy of its row of the codebook.
        :class:`~torch_geometric_cgt.transforms.LookUpFeatures` or
        :class:`~torch_geometric_cgt.nn.CodebookEmbedding` look features up.
        """
        return self.release.trees.to_data(torch.arange(self.release.codebook.size(0)))

    def stores(self) -> tuple[CodebookFeatureStore, ForestGraphStore]:
        r"""The forest as a feature store and a graph store for
        :class:`~torch_geometric.loader.NeighborLoader`. Features are looked up in
        the codebook batch by batch.
        """
        return (
            CodebookFeatureStore(self._forest, self.release.codebook),
            ForestGraphStore(self._forest),
        )

    def loader(
        self,
        split: str = 'train',
        batch_size: int = 64,
        num_neighbors: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> NeighborLoader:
        r"""A :class:`~torch_geometric.loader.NeighborLoader` over the
        computation graphs of one split. It needs no native extension.

        On a machine with a GPU, batches are in pinned memory. Copy them with
        :obj:`batch.to(device, non_blocking=True)`, or wrap the loader in
        :class:`~torch_geometric.loader.PrefetchLoader`.

        Args:
            split (str, optional): One of :obj:`"train"`, :obj:`"val"`,
                :obj:`"test"`, :obj:`"all"`. (default: :obj:`"train"`)
            batch_size (int, optional): Computation graphs per batch.
                (default: :obj:`64`)
            num_neighbors (list[int], optional): The children to sample in each
                layer, :obj:`-1` for all of them. By default, all children in
                all layers. (default: :obj:`None`)
            **kwargs (optional): Further arguments of the loader.
        """
        stores = self.stores()
        fan_outs = self.release.trees.shape.sampled(num_neighbors)
        kwargs.setdefault('shuffle', split == 'train')
        kwargs.setdefault('pin_memory', torch.accelerator.is_available())
        return NeighborLoader(
            stores,
            num_neighbors=fan_outs,
            neighbor_sampler=TreeNeighborSampler(stores, fan_outs),
            input_nodes=root_nodes(self._forest, split),
            batch_size=batch_size,
            **kwargs,
        )

    def dense_loader(
        self,
        split: str = 'train',
        batch_size: int = 512,
        shuffle: bool | None = None,
        drop_last: bool = False,
        device: str | torch.device | None = None,
        generator: torch.Generator | None = None,
    ) -> DenseLoader:
        r"""Batches of the trees of one split as tensors of one shape, for
        :obj:`torch.compile(dynamic=False)` and the layers of
        :mod:`torch_geometric_cgt.nn`. Batches have :obj:`edge_weight` and
        :obj:`edge_attr`, if the release has them.

        Args:
            split (str, optional): One of :obj:`"train"`, :obj:`"val"`,
                :obj:`"test"`, :obj:`"all"`. (default: :obj:`"train"`)
            batch_size (int, optional): Trees per batch. (default: :obj:`512`)
            shuffle (bool, optional): Whether to shuffle trees in every epoch.
                By default, only those of the training split.
                (default: :obj:`None`)
            drop_last (bool, optional): Whether to drop the last trees if they
                do not fill a batch, instead of padding it with null trees.
                (default: :obj:`False`)
            device (str or torch.device, optional): The device of the batches.
                (default: :obj:`None`)
            generator (torch.Generator, optional): The source of the random
                order. (default: :obj:`None`)
        """
        return DenseLoader(
            self.release.trees,
            self.release.codebook,
            self.release.trees.rows(split),
            batch_size,
            split == 'train' if shuffle is None else shuffle,
            drop_last,
            device,
            generator,
        )


class JoinedGraph(InMemoryDataset):
    r"""A dataset of the one graph of
    :meth:`~torch_geometric_cgt.SyntheticCGTDataset.to_graph`, see
    :meth:`~torch_geometric_cgt.SyntheticCGTDataset.joined`.

    Args:
        data (Data): The graph.
        num_classes (int): The number of labels of the source.
        transform (callable, optional): Applied on every access. The graph is an
            ordinary one, so that all transforms of PyG work as they are.
            (default: :obj:`None`)
    """

    def __init__(self, data: Data, num_classes: int, transform: Callable | None = None) -> None:
        super().__init__(None, transform)
        self.declared_classes = num_classes
        self.data, self.slices = self.collate([data])
        self.size_of_graph = data.num_nodes, data.num_edges

    @property
    def num_classes(self) -> int:
        r"""The number of labels of the source."""
        return self.declared_classes

    def __repr__(self) -> str:
        num_nodes, num_edges = self.size_of_graph
        return f'{self.__class__.__name__}({num_nodes}, edges={num_edges})'
