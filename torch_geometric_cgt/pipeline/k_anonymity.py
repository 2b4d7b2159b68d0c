r"""k-anonymity as the promise of a release, with its parameters."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, TypeGuard

import torch
from torch import Tensor

from torch_geometric_cgt.models.path_support import check_min_support
from torch_geometric_cgt.quantizer import protected_means
from torch_geometric_cgt.transforms import Quantize
from torch_geometric_cgt.transforms.quantize import Clustering
from torch_geometric_cgt.transforms.task_weight import sharing
from torch_geometric_cgt.utils.checks import use_python_numbers
from torch_geometric_cgt.utils.distributed import World
from torch_geometric_cgt.utils.rows import block_of
from torch_geometric_cgt.utils.warn import warn_user

SUPPORT_RANGE = (5, 10)  # of min_value_support='auto'
MAX_STEP = 0.5  # of rounding='auto'
PROTECTION = ('min_value_support', 'rounding')
OPTIONAL = (
    'min_support',
    'cluster_epsilon',
    *PROTECTION,
    'graph_profile',
    'accept_no_anonymity',
    'accept_one_group',
)


@dataclass(frozen=True)
class KAnonymity:
    r"""Every released feature vector is the mean of at least :obj:`k` source nodes.

    By default, means are protected: values of few members are left out, and
    means are rounded, see
    :meth:`~torch_geometric_cgt.quantizer.protected_means`. From exact means
    (:obj:`min_value_support=None`, :obj:`rounding=None`), it can be read who is
    in the source.

    Args:
        k (int, optional): The minimum number of nodes that share a feature
            vector. (default: :obj:`30`)
        l (int, optional): The minimum number of distinct labels among the
            nodes that share a feature vector. (default: :obj:`None`)
        min_support (int, optional): The minimum number of source nodes whose
            computation graphs contain a path of a generated tree. A path is
            the label of a root and the clusters from the root to a node. Other
            paths are redrawn or cut. By default, there is no such rule.
            (default: :obj:`None`)
        num_clusters (int, optional): The number of distinct feature vectors,
            see :class:`~torch_geometric_cgt.transforms.Quantize`.
            (default: :obj:`None`)
        task_weight (float or str, optional): The weight of class probabilities
            in the clustering, see
            :class:`~torch_geometric_cgt.transforms.Quantize`.
            (default: :obj:`"auto"`)
        cluster_epsilon (float, optional): The budget per node of a
            differentially private codebook. Only the codebook is private; the
            paper calls this DP k-means. Clusters have no minimum size, and the
            noise does not depend on the seed. (default: :obj:`None`)
        min_value_support (int or str, optional): The minimum number of nodes
            of a group that have a non-zero value of a feature. A value that
            fewer nodes have is replaced by the mean over four similar
            groups, or by zero if fewer of their nodes have it as well. With
            :obj:`"auto"`, a third of :obj:`k`, but at least 5 (or :obj:`k`) and at most 10.
            :obj:`None` leaves nothing out. (default: :obj:`"auto"`)
        rounding (float or str, optional): Means are rounded to multiples of
            this share of the scale of their feature. With :obj:`"auto"`, the
            share that :obj:`min_value_support` is of :obj:`k`, at most one
            half. :obj:`None` does not round. (default: :obj:`"auto"`)
        graph_profile (bool, optional): Whether the release holds the mean degrees
            of groups of at least :obj:`k` nodes and the homophily, rounded, for
            ``to_graph()``, see :class:`~torch_geometric_cgt.data.GraphProfile`.
            There is none with :obj:`cluster_epsilon`. (default: :obj:`True`)
        accept_no_anonymity (bool, optional): Whether to accept :obj:`k=1`,
            which releases feature vectors of single nodes.
            (default: :obj:`False`)
        accept_one_group (bool, optional): Whether to accept a :obj:`k` that
            leaves one group, so that all nodes have the same feature vector.
            (default: :obj:`False`)
    """

    k: int = 30
    l: int | None = None  # noqa: E741
    min_support: int | None = None
    num_clusters: int | None = None
    task_weight: float | str | None = 'auto'
    cluster_epsilon: float | None = None
    min_value_support: int | str | None = 'auto'
    rounding: float | str | None = 'auto'
    graph_profile: bool = True
    accept_no_anonymity: bool = False
    accept_one_group: bool = False

    def __post_init__(self) -> None:
        use_python_numbers(self)
        self.quantize()
        if self.min_support is not None:
            check_min_support(self.min_support)
        self._check_protection()
        if self.cluster_epsilon is not None:  # noise protects the means, and groups have no size
            for name in PROTECTION:
                object.__setattr__(self, name, None)
            object.__setattr__(self, 'graph_profile', False)
        if self.k == 1 and self.cluster_epsilon is None and not self.accept_no_anonymity:
            raise ValueError(
                'k=1 releases the feature vectors of single source nodes: use a larger k, or '
                "state that you want this with 'KAnonymity(k=1, accept_no_anonymity=True)', on the "
                "command line '--accept-no-anonymity'"
            )

    def _check_protection(self) -> None:
        support, step = self.min_value_support, self.rounding
        if self.cluster_epsilon is not None:
            for name, value in zip(PROTECTION, (support, step), strict=True):
                if value not in (None, 'auto'):
                    raise ValueError(
                        f"'{name}' is not for 'cluster_epsilon' (got {value!r}): noise protects "
                        f'the means'
                    )
            return
        if support not in (None, 'auto') and not (_is_int(support) and 2 <= support <= self.k):
            raise ValueError(
                f"'min_value_support' must be None, 'auto' or an integer from 2 to k = {self.k} "
                f'(got {support!r})'
            )
        if step not in (None, 'auto') and not (_is_number(step) and 0 < step <= 1):
            raise ValueError(
                f"'rounding' must be None, 'auto' or a number above 0 and at most 1 (got {step!r})"
            )

    @property
    def value_support(self) -> int | None:
        r"""The number of members of a group who must have a value; :obj:`None`
        if values of single members stay.
        """
        if self.k == 1 or self.min_value_support is None:
            return None
        if self.min_value_support == 'auto':
            return self._auto_support
        return int(self.min_value_support)

    @property
    def step(self) -> float | None:
        r"""The distance of two rounded means, in scales of their feature;
        :obj:`None` if means are not rounded.
        """
        if self.k == 1 or self.rounding is None:
            return None
        if self.rounding == 'auto':
            return round(min(MAX_STEP, (self.value_support or self._auto_support) / self.k), 4)
        return float(self.rounding)

    @property
    def _auto_support(self) -> int:
        low, high = SUPPORT_RANGE
        return min(self.k, max(low, min(high, -(-self.k // 3))))

    def check_groups(self, num_nodes: int) -> None:
        r"""Raises an error if a graph of this size cannot have groups of
        :obj:`k` nodes, or has one group only and this is not accepted.

        Args:
            num_nodes (int): The number of nodes.
        """
        num_groups = self.quantize().num_clusters_for(num_nodes)
        if num_groups == 1 and self.cluster_epsilon is None and not self.accept_one_group:
            raise ValueError(
                f'k={self.k} leaves one group of {num_nodes} nodes: all nodes would have the same '
                f'feature vector, from which no model learns anything. {self._smaller(num_nodes)}, '
                f"or state that you want this with 'KAnonymity({self.k}, accept_one_group=True)', "
                f"on the command line '--accept-one-group'"
            )

    @staticmethod
    def _smaller(num_nodes: int) -> str:
        if num_nodes < 4:  # k = 1 is no way out
            return 'Use a graph of 4 nodes or more'
        return f'Use k <= {num_nodes // 2}'

    def check_labels(self, num_classes: int) -> None:
        r"""Raises an error if no group can have as many labels as :obj:`l` asks for.

        Args:
            num_classes (int): The number of labels.
        """
        if self.l is not None and self.l > num_classes:
            raise ValueError(
                f"'l' must not exceed the number of labels of the source, {num_classes} (got "
                f'{self.l})'
            )

    def to_dict(self) -> dict[str, Any]:
        r"""All parameters, for a JSON file. Optional ones are written only if they
        are set.
        """
        own = asdict(self)
        return {name: v for name, v in own.items() if v or name not in OPTIONAL}

    @classmethod
    def from_dict(cls, parameters: dict[str, Any]) -> KAnonymity:
        r"""The inverse of :meth:`to_dict`. A file that does not mention the
        protection of means is of a release with exact means, which may be older
        than it. Older files do not hold a profile of the graph or the consent to
        :obj:`k=1` either.

        Args:
            parameters (dict): The content of a file.
        """
        own = {**dict.fromkeys(PROTECTION), 'graph_profile': False, **parameters}
        own.setdefault('accept_no_anonymity', own.get('k') == 1)
        return cls(**own)

    @property
    def min_size(self) -> int:
        r"""The minimum number of nodes of a cluster."""
        return self.k if self.cluster_epsilon is None else 1

    def quantize(self, seed: int = 0, device: torch.device | str = 'cpu') -> Quantize:
        r"""The transform that clusters the features of a source.

        Args:
            seed (int, optional): The seed. (default: :obj:`0`)
            device (torch.device or str, optional): The device.
                (default: :obj:`"cpu"`)
        """
        if self.cluster_epsilon is not None:  # clusters of any size, by default without labels
            return Quantize(
                self.min_size,
                self.num_clusters,
                method='dp',
                epsilon=self.cluster_epsilon,
                seed=seed,
                l=self.l,
                task_weight=None if self.task_weight == 'auto' else self.task_weight,
                device=device,
            )
        return Quantize(
            self.min_size,
            self.num_clusters,
            seed=seed,
            l=self.l,
            task_weight=self.task_weight,
            device=device,
        )

    def protect(self, x: Tensor, found: Clustering, world: World | None = None) -> Tensor:
        r"""The codebook without what few members of a cluster have, and rounded.

        Args:
            x (torch.Tensor): The features of all nodes, dense or sparse,
                ``[N, F]``.
            found (Clustering): The clusters and their exact means.
            world (World, optional): The processes, which share the rows of a
                large graph. (default: :obj:`None`)
        """
        if self.value_support is None and self.step is None:
            return found.codebook
        num_clusters = found.codebook.size(0)
        rows = sharing(world or World(), x.size(0))
        own = rows.share(x.size(0))
        codebook = protected_means(
            block_of(x, own), found.cluster[own], num_clusters, self.value_support, self.step, rows
        )
        lost = _is_one_row(codebook) and not _is_one_row(found.codebook)
        if lost and (world or World()).is_first:
            warn_user(
                'All feature vectors of the release are the same, and no model learns anything '
                'from them: no feature has a value that enough nodes of a group share, as with one '
                'feature per node. Use features that nodes have in common, e.g. '
                "'torch_geometric.transforms.LocalDegreeProfile()'",
            )
        return codebook


def _is_one_row(x: Tensor) -> bool:
    r"""Whether all rows of a matrix are the same."""
    return bool((x == x[0]).all())


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
