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

from torch_geometric_cgt.data import TokenTrees
from torch_geometric_cgt.datasets.forest_dataset import ForestDataset
from torch_geometric_cgt.datasets.options import Options, make_config
from torch_geometric_cgt.datasets.sources import build_folder
from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.models import TransformerModel, TreeModel
from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.pipeline import (
    Build,
    BuildConfig,
    Odometer,
    Source,
    build,
    cache_name,
    check_source,
    with_declared_labels,
)
from torch_geometric_cgt.pipeline.odometer import BuildRegister
from torch_geometric_cgt.pipeline.workspace import clear, exclusive, report_full_disk
from torch_geometric_cgt.privacy.queries import Answer
from torch_geometric_cgt.release import (
    Card,
    Release,
    Terms,
    read_cache,
    read_release,
    save_release,
    with_class_names,
    with_terms,
    write_cache,
)
from torch_geometric_cgt.training.kept_steps import KeptSteps
from torch_geometric_cgt.utils.checks import check_memory
from torch_geometric_cgt.utils.distributed import World, join_world, resolve_device
from torch_geometric_cgt.utils.files import require_writable
from torch_geometric_cgt.utils.limits import MAX_RELEASE_BYTES, SHARD_BYTES
from torch_geometric_cgt.utils.run_limits import Limits
from torch_geometric_cgt.utils.warn import warn_user

if TYPE_CHECKING:
    from typing_extensions import Unpack

BYTES_PER_NODE = 100  # of a forest without its features: edges, masks and temporary tensors


class SyntheticCGTDataset(ForestDataset):
    r"""A synthetic substitute of a graph: k-anonymous or, with :obj:`epsilon`,
    differentially private. It contains one
    :class:`~torch_geometric.data.Data` object, a forest of generated
    computation graphs, and replaces the source in a PyG script.

    .. code-block:: python

        dataset = SyntheticCGTDataset(source=Planetoid('data', 'Cora'), k=30)
        data = dataset[0]

    The first construction quantizes the features, fits a
    :class:`~torch_geometric_cgt.nn.CGTGenerator` and samples from it. The
    result is stored in :obj:`root`, and later constructions with the same
    source and parameters load it. In a script that is started by
    :obj:`torchrun`, every process must construct the dataset: one process
    quantizes, all processes fit and sample.

    :obj:`k`, :obj:`epsilon` and :obj:`delta` are shortcuts for a
    :obj:`privacy` object. There are five further arguments:

    ================= ============================= ==========================
    argument          type                          content
    ================= ============================= ==========================
    ``privacy``       :class:`KAnonymity` or        the promise with all its
                      :class:`DifferentialPrivacy`  parameters
    ``generator``     :obj:`dict`                   ``num_scenes`` and
                                                    arguments of
                                                    :class:`CGTGenerator`; or
                                                    ``model``, the name of
                                                    another generator, with
                                                    its arguments
    ``fit``           :class:`FitConfig`            how to train, and whether
                                                    to resume
    ``pre_transform`` callable                      applied once to the forest,
                                                    on first access
    ``limits``        :class:`Limits`               the time and the memory of
                                                    the build
    ================= ============================= ==========================

    Args:
        source (Dataset or Data): A PyG dataset of one graph, or the graph.
            Nodes with a negative label are neighbours, but not roots. A graph
            without masks is split 50/10/40.
        k (int, optional): The minimum number of nodes that share a feature
            vector. By default, 30; with :obj:`epsilon`, there is no minimum.
            (default: :obj:`None`)
        num_neighbors (list[int], optional): The fan-out of each layer.
            (default: :obj:`[5, 5]`)
        num_samples (int, optional): The number of computation graphs. By
            default, the number of labelled nodes of the source.
            (default: :obj:`None`)
        root (str, optional): The folder of finished builds. By default, a
            folder in the user's cache. (default: :obj:`None`)
        epsilon (float, optional): The budget for differential privacy of the
            whole release, instead of clusters of :obj:`k` nodes. Its unit is
            one node with its features, its label and its edges;
            :class:`DifferentialPrivacy` offers other units.
            (default: :obj:`None`)
        delta (float, optional): The failure probability of differential
            privacy. By default, :math:`n^{-1.1}` for :math:`n` nodes.
            (default: :obj:`None`)
        seed (int, optional): The same seed gives the same dataset. With
            :obj:`epsilon`, the noise does not depend on the seed and differs
            between builds. (default: :obj:`0`)
        device (str or torch.device, optional): Where to fit and sample.
            (default: :obj:`"auto"`)
        transform (callable, optional): Applied on every access.
            :class:`~torch_geometric.transforms.RandomNodeSplit` and
            :class:`~torch_geometric.transforms.RandomLinkSplit` split roots
            and links of roots (see
            :meth:`~torch_geometric_cgt.transforms.forest_splits`).
            (default: :obj:`None`)
        force_reload (bool, optional): Whether to fit again.
            (default: :obj:`False`)
        log (bool, optional): Whether to show progress. (default: :obj:`True`)
        **options (optional): The arguments :obj:`privacy`, :obj:`generator`,
            :obj:`fit`, :obj:`pre_transform` and :obj:`limits` of the table above.
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
        folder = build_folder(root)
        path = folder / cache_name(checked, config)
        device = resolve_device(device)
        world = join_world(device)
        for text in checked.warnings() if world.is_first else ():
            warn_user(text)
        if world.first(force_reload or not path.exists()):
            _build(path, checked, config, device, world, force_reload, log, options.get('limits'))
        try:
            release, built = read_cache(path)
        except CorruptFileError as error:
            raise CorruptFileError(f'{error}. Build it again with force_reload=True') from error
        self._init(release, str(folder), transform, log, built)
        self.folder = path
        self._use_transforms(transform, options.get('pre_transform'))

    def _init(
        self,
        release: Release,
        root: str | None,
        transform: Callable | None,
        log: bool,
        built: Build | None = None,
    ) -> None:
        # PyG's download and process steps identify files by name only, and pickle them. This
        # dataset does its own input and output instead.
        super().__init__(None, transform, log=log)
        self.root = root
        self.release = release
        self.model: TreeModel | None = None if built is None else built.model
        self.cluster: Tensor | None = None if built is None else built.cluster
        self.edge_cluster: Tensor | None = None if built is None else built.edge_cluster
        self.history: dict[str, Any] | None = None if built is None else built.history
        self.answers: dict[str, list[Answer]] = {} if built is None else built.answers
        self.steps: KeptSteps | None = None if built is None else built.steps

    @property
    def generator(self) -> CGTGenerator | TreeModel | None:
        r"""The fitted generator; :obj:`None` for a loaded release."""
        return self.model.generator if isinstance(self.model, TransformerModel) else self.model

    @property
    def trees(self) -> TokenTrees:
        r"""The synthetic computation graphs as token trees."""
        return self.release.trees

    @property
    def tokens(self) -> Tensor:
        r"""The token of each breadth-first slot, ``[num_trees, T]``. The number of
        clusters is the null token.
        """
        return self.release.trees.tokens

    @property
    def codebook(self) -> Tensor:
        r"""The feature vector of each cluster, ``[m, F]``."""
        return self.release.codebook

    @property
    def privacy(self) -> Card:
        r"""The privacy card: what is guaranteed, for which unit, and what is not."""
        return self.release.privacy

    @property
    def card(self) -> dict[str, Any]:
        r"""The content of :obj:`card.json`: size of the source, parameters,
        privacy, versions and date.
        """
        return self.release.card

    @property
    def num_classes(self) -> int:
        r"""The number of labels of the source."""
        return self.trees.num_classes

    @property
    def class_names(self) -> tuple[str, ...] | None:
        r"""The name of each label; :obj:`None` if the owner does not publish names."""
        names = self.card.get('class_names')
        return None if names is None else tuple(names)

    @property
    def num_node_features(self) -> int:
        r"""The number of features of a node: that of the source, or that of the
        public projection if the card declares one.
        """
        return self.codebook.size(1)

    def len(self) -> int:
        return 1

    def get(self, idx: int) -> Data:
        return copy.copy(self._data)  # a new object with the same tensors, as in PyG

    @cached_property
    def _data(self) -> Data:
        num_nodes, width = self._forest.num_nodes, self.codebook.size(1)
        check_memory(
            num_nodes * (width * self.codebook.element_size() + BYTES_PER_NODE),
            f"'dataset[0]', one graph of {num_nodes:,} nodes with {width} features each,",
            "train from 'dataset.loader(split)', which computes features batch by batch, "
            "or pass 'dataset.stores()' to your own loader",
        )
        data = self.trees.to_data(self.codebook)
        return data if self.pre_transform is None else self.pre_transform(data)

    def project(self, x: Tensor) -> Tensor:
        r"""Maps features of the source, or of another graph with the same
        features, to the space of :obj:`codebook`: unchanged, or by the public
        projection that the card declares.

        Args:
            x (torch.Tensor): The features, dense or sparse, ``[N, F]``.
        """
        return self.release.project(x)

    def save(
        self,
        folder: str | Path,
        accept_seeded_noise: bool = False,
        sign_with: str | Path | None = None,
        max_bytes: int = MAX_RELEASE_BYTES,
        terms: Terms | None = None,
        class_names: Sequence[str] | None = None,
        shard_bytes: int = SHARD_BYTES,
    ) -> None:
        r"""Writes the release, which is the part that may be published: tokens,
        labels, splits, codebook, :obj:`card.json` and :obj:`README.md`. The
        folder appears only if :meth:`load` accepts it.

        Args:
            folder (str): A folder that does not exist yet, or is empty.
            accept_seeded_noise (bool, optional): Whether to write a private
                dataset whose noise came from a seed. Such a release guarantees
                nothing. (default: :obj:`False`)
            sign_with (str, optional): The file of a secret key to sign the
                release with, see :meth:`~torch_geometric_cgt.release.new_key`.
                (default: :obj:`None`)
            max_bytes (int, optional): The largest allowed size of the tensors.
                :meth:`load` needs the same argument to read a larger release.
                (default: 512 MiB)
            terms (Terms, optional): The licence, the contact and the intended
                use, which the card and the README will state.
                (default: :obj:`None`)
            class_names (list[str], optional): The name of each label, to be
                published. No promise covers names. By default, the release has
                the numbers of labels only. (default: :obj:`None`)
            shard_bytes (int, optional): A larger release is written in several
                files of at most this size. (default: 512 MiB)
        """
        if self.privacy.seeded_noise and not accept_seeded_noise:
            raise ValueError(
                "The noise of this dataset was drawn from a seed ('noise_seed'), so that nothing "
                "is guaranteed. Build the dataset without 'noise_seed' to release it; for tests, "
                "use 'save(folder, accept_seeded_noise=True)'"
            )
        folder = Path(folder).expanduser()
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise FileExistsError(f"'{folder}' exists already; choose a new folder")
        release = self.release if terms is None else with_terms(self.release, terms)
        if class_names is not None:
            release = with_class_names(release, class_names)
        save_release(folder, release, sign_with, max_bytes, shard_bytes)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        transform: Callable | None = None,
        log: bool = True,
        public_key: str | Path | None = None,
        max_bytes: int = MAX_RELEASE_BYTES,
        pre_transform: Callable | None = None,
    ) -> SyntheticCGTDataset:
        r"""Loads a release without access to the source. Release files cannot
        contain code. A truncated, altered or inconsistent release raises
        :class:`~torch_geometric_cgt.errors.CorruptFileError` within seconds, and
        so does a folder with other files.

        Args:
            folder (str): The folder that :meth:`save` wrote.
            transform (callable, optional): Applied on every access.
                (default: :obj:`None`)
            log (bool, optional): Whether to print. (default: :obj:`True`)
            public_key (str, optional): The public key of the sender, or its
                file. The release must then have a signature of this key.
                (default: :obj:`None`)
            max_bytes (int, optional): The largest allowed size of the tensors.
                (default: 512 MiB)
            pre_transform (callable, optional): Applied once, on first access.
                (default: :obj:`None`)
        """
        release = read_release(
            Path(folder).expanduser(), public_key=public_key, max_bytes=max_bytes
        )
        dataset = cls.__new__(cls)
        dataset._init(release, None, transform, log)
        dataset.folder = Path(folder).expanduser()
        dataset._use_transforms(transform, pre_transform)
        return dataset

    def __repr__(self) -> str:
        name, privacy = self.card['source']['name'], self.privacy
        promise = f'epsilon={privacy.epsilon:g}' if privacy.is_private else f'k={privacy.k}'
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
    limits: Limits | None = None,
) -> None:
    r"""Builds a dataset into its cache folder, or resumes an interrupted build. All
    processes take part; the first one writes.
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
            register = BuildRegister(Odometer(path.parent), source, config, path.name, work)
            result = build(
                source, config, work, device, log, world, path.name, register.start, limits
            )
            with world.together('write the dataset'):
                if result is not None:
                    register.finish()
                    write_cache(path, source, config, result)
                    shutil.rmtree(work, ignore_errors=True)
