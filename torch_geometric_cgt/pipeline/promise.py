r"""The promises of a release, k-anonymity and differential privacy, with their parameters."""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any

import torch

from torch_geometric_cgt.models import PRIVATE_MODELS
from torch_geometric_cgt.models.path_support import check_min_support
from torch_geometric_cgt.pipeline.source import PublicGraph
from torch_geometric_cgt.privacy import Budget
from torch_geometric_cgt.privacy.units import check_unit
from torch_geometric_cgt.quantizer import PrivateKMeans
from torch_geometric_cgt.training.dp_sgd import DPSGDConfig
from torch_geometric_cgt.transforms import Quantize

FORMS = ('auto', *PRIVATE_MODELS)


@dataclass(frozen=True)
class KAnonymity:
    r"""Every released feature vector is the mean of at least :obj:`k` source nodes.

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
    """

    k: int = 30
    l: int | None = None  # noqa: E741
    min_support: int | None = None
    num_clusters: int | None = None
    task_weight: float | str | None = 'auto'
    cluster_epsilon: float | None = None

    def __post_init__(self) -> None:
        self.quantize()
        if self.min_support is not None:
            check_min_support(self.min_support)

    def quantize(self, seed: int = 0, device: torch.device | str = 'cpu') -> Quantize:
        r"""The transform that clusters the features of a source.

        Args:
            seed (int, optional): The seed. (default: :obj:`0`)
            device (torch.device or str, optional): The device.
                (default: :obj:`"cpu"`)
        """
        if self.cluster_epsilon is not None:  # clusters of any size, by default without labels
            return Quantize(
                1,
                self.num_clusters,
                method='dp',
                epsilon=self.cluster_epsilon,
                seed=seed,
                l=self.l,
                task_weight=None if self.task_weight == 'auto' else self.task_weight,
                device=device,
            )
        return Quantize(
            self.k,
            self.num_clusters,
            seed=seed,
            l=self.l,
            task_weight=self.task_weight,
            device=device,
        )


@dataclass(frozen=True)
class PrivateClusters:
    r"""The parameters of the private codebook. The budget sets the number of
    clusters unless :obj:`n_clusters` limits it. See
    :class:`~torch_geometric_cgt.quantizer.PrivateKMeans`.

    Args:
        n_clusters (int, optional): The largest number of clusters.
            (default: :obj:`None`)
        space (str, optional): The space of the codebook: :obj:`"features"`, or
            :obj:`"projected"` for the space of a public random projection.
            (default: :obj:`"features"`)
        n_components (int, optional): The number of dimensions of the
            projection. (default: :obj:`None`)
        num_steps (int, optional): The number of Lloyd steps, if clusters are
            found without labels. (default: :obj:`3`)
        nonnegative (bool, optional): Whether features are publicly known to be
            non-negative, such as word counts. (default: :obj:`False`)
        random_state (int, optional): The public seed of projection and hashes.
            (default: :obj:`0`)
    """

    n_clusters: int | None = None
    space: str = 'features'
    n_components: int | None = None
    num_steps: int = 3
    nonnegative: bool = False
    random_state: int = 0

    def solver(self, budget: Budget) -> PrivateKMeans:
        r"""The clustering, with as many clusters as its share of the budget allows.

        Args:
            budget (Budget): The share of the clustering in the whole budget.
        """
        return PrivateKMeans(
            budget.epsilon,
            budget.delta,
            per_label=True,
            accept_large_delta=True,  # the whole budget is already checked
            **asdict(self),
        )


@dataclass(frozen=True)
class DifferentialPrivacy:
    r"""The whole release is differentially private.

    Args:
        epsilon (float): The budget of the whole build.
        delta (float, optional): The failure probability. By default,
            :math:`n^{-1.1}` for :math:`n` nodes. (default: :obj:`None`)
        unit (str, optional): The unit of privacy: :obj:`"record"` (one
            computation graph), :obj:`"edge"` or :obj:`"node"`.
            (default: :obj:`"record"`)
        max_parents (int, optional): For the units edge and node, the maximum
            number of sampled neighbourhoods that contain a node.
            (default: :obj:`2`)
        form (str, optional): The tree model: :obj:`"histograms"`,
            :obj:`"dp_sgd"`, or :obj:`"auto"` for the better one at this budget
            and size. (default: :obj:`"auto"`)
        accept_large_delta (bool, optional): Whether to accept a delta above
            :math:`1 / n`. (default: :obj:`False`)
        noise_seed (int, optional): A seed of the noise, for tests only: an
            attacker who knows it can subtract the noise. By default, noise comes
            from the operating system, and a build cannot be repeated.
            (default: :obj:`None`)
        clusters (PrivateClusters, optional): The parameters of the codebook.
            (default: :obj:`PrivateClusters()`)
        dp_sgd (DPSGDConfig, optional): The training parameters of
            :obj:`form="dp_sgd"`. (default: :obj:`DPSGDConfig()`)
        public (Dataset or Data, optional): A public graph for pre-training
            without noise. It requires :obj:`form="dp_sgd"`.
            (default: :obj:`None`)
        num_classes (int, optional): The number of labels, if it is known
            without reading the source. By default, one more than the largest
            label, which is then assumed to be public. (default: :obj:`None`)
    """

    epsilon: float
    delta: float | None = None
    unit: str = 'record'
    max_parents: int = 2
    form: str = 'auto'
    accept_large_delta: bool = False
    noise_seed: int | None = None
    clusters: PrivateClusters = field(default_factory=PrivateClusters)
    dp_sgd: DPSGDConfig = field(default_factory=DPSGDConfig)
    public: Any = None  # a PublicGraph after __post_init__
    num_classes: int | None = None

    def __post_init__(self) -> None:
        Budget(self.epsilon, 0.5 if self.delta is None else self.delta)
        check_unit(self.unit)
        if self.max_parents < 1:
            raise ValueError(f"'max_parents' must be at least 1 (got {self.max_parents})")
        if self.form not in FORMS:
            raise ValueError(
                f"'form' must be one of {', '.join(map(repr, FORMS))} (got {self.form!r})"
            )
        if self.num_classes is not None and self.num_classes < 1:
            raise ValueError(f"'num_classes' must be at least 1 (got {self.num_classes})")
        if self.public is not None:
            if self.form == 'histograms':
                raise ValueError(
                    "'public' is for form='dp_sgd' (got form='histograms'): histograms have no "
                    'weights to start from'
                )
            object.__setattr__(self, 'public', PublicGraph.of(self.public))
        for name, kind in (('clusters', PrivateClusters), ('dp_sgd', DPSGDConfig)):
            value = getattr(self, name)
            if isinstance(value, dict):
                object.__setattr__(self, name, _typed(name, kind, value))

    def budget(self, num_nodes: int) -> Budget:
        r"""The budget for a graph with :obj:`num_nodes` nodes.

        Args:
            num_nodes (int): The number of nodes.
        """
        return Budget.of(self.epsilon, self.delta, num_nodes, self.unit, self.accept_large_delta)

    def to_dict(self) -> dict[str, Any]:
        r"""All parameters, for a JSON file. A public graph is represented by its
        name and fingerprint.
        """
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        own |= {'clusters': _changed(self.clusters), 'dp_sgd': _changed(self.dp_sgd)}
        for name in ('public', 'num_classes'):
            if own[name] is None:
                del own[name]
        if self.public is not None:
            own['public'] = asdict(self.public)
        return own


Promise = KAnonymity | DifferentialPrivacy


def _typed(name: str, kind: type, arguments: dict[str, Any]) -> Any:
    r"""Creates a configuration object from a dictionary of its arguments."""
    own = {'epsilon', 'delta', 'per_label', 'accept_large_delta', 'generator'}
    if name == 'clusters' and (taken := sorted(own & arguments.keys())):
        raise ValueError(f"'clusters' must not hold {taken}: the dataset sets them")
    try:
        return kind(**arguments)
    except TypeError as error:
        raise ValueError(f"Unknown argument in '{name}': {error}") from error


def _changed(config: PrivateClusters | DPSGDConfig) -> dict[str, Any]:
    r"""The fields of a configuration that differ from their defaults."""
    defaults = {f.name: f.default for f in fields(config) if f.default is not MISSING}
    return {name: value for name, value in asdict(config).items() if value != defaults[name]}
