r"""The promises of a release, with their parameters, and what k-anonymous clusters reach."""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.models import PRIVATE_MODELS
from torch_geometric_cgt.pipeline.k_anonymity import KAnonymity
from torch_geometric_cgt.pipeline.source import PublicGraph
from torch_geometric_cgt.privacy import Budget
from torch_geometric_cgt.privacy.units import check_unit
from torch_geometric_cgt.quantizer import PrivateKMeans, label_homogeneity
from torch_geometric_cgt.training.dp_sgd import DPSGDConfig
from torch_geometric_cgt.transforms.edge_codebook import EdgeGrid, check_bounds
from torch_geometric_cgt.utils.checks import use_python_numbers
from torch_geometric_cgt.utils.warn import warn_user

FORMS = ('auto', *PRIVATE_MODELS, 'rows')
RECORD = "'record' is deprecated. use 'frozen_record'"


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
            unit=budget.unit,
            **asdict(self),
        )


@dataclass(frozen=True)
class DifferentialPrivacy:
    r"""The whole release is differentially private.

    Args:
        epsilon (float): The budget of the whole build.
        delta (float, optional): The failure probability. By default,
            :math:`n^{-1.1}` for :math:`n` nodes. (default: :obj:`None`)
        unit (str, optional): The unit of privacy: a :obj:`"node"` with its
            features, its label and its edges, the :obj:`"attributes"` of a node
            (its features and its label), or an :obj:`"edge"`. The unit
            :obj:`"frozen_record"`, one row of a table of computation graphs that
            is sampled once, is for comparisons only: it protects no person.
            (default: :obj:`"node"`)
        form (str, optional): The tree model: :obj:`"mixing"` (capped counts of
            edges), :obj:`"histograms"` (of computation graphs),
            :obj:`"dp_sgd"`, :obj:`"rows"` (nodes without edges, a control), or
            :obj:`"auto"` for the best one at this unit, budget and size.
            (default: :obj:`"auto"`)
        max_parents (int, optional): For models of computation graphs, the
            maximum number of sampled neighbourhoods that contain a node.
            (default: :obj:`2`)
        max_degree (int, optional): For models of computation graphs and the unit
            node, the largest number of edges into a node that is protected.
            Nodes with more edges are not protected by these models.
            (default: :obj:`None`)
        k (int, optional): For the unit edge, which does not protect features,
            the minimum number of nodes that share a feature vector.
            (default: :obj:`30`)
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
        edge_bounds (dict, optional): The lower and upper bounds of
            :obj:`edge_weight` and :obj:`edge_attr`, which must be known without
            reading the source, *e.g.*, :obj:`{"edge_weight": (0, 1)}` or
            :obj:`{"edge_attr": [(0, 1), (0, 10)]}` for two columns. Without
            them, edge values are not carried over. (default: :obj:`None`)
        edge_bins (int, optional): The number of released values between the
            bounds of a column. (default: :obj:`8`)
    """

    epsilon: float
    delta: float | None = None
    unit: str = 'node'
    form: str = 'auto'
    max_parents: int = 2
    max_degree: int | None = None
    k: int = 30
    accept_large_delta: bool = False
    noise_seed: int | None = None
    clusters: PrivateClusters = field(default_factory=PrivateClusters)
    dp_sgd: DPSGDConfig = field(default_factory=DPSGDConfig)
    public: Any = None  # a PublicGraph after __post_init__
    num_classes: int | None = None
    edge_bounds: Any = None  # a dictionary of lists after __post_init__
    edge_bins: int = 8

    def __post_init__(self) -> None:
        use_python_numbers(self)
        Budget(self.epsilon, 0.5 if self.delta is None else self.delta)
        if self.unit == 'record':
            warn_user(RECORD, DeprecationWarning)
            object.__setattr__(self, 'unit', 'frozen_record')
        check_unit(self.unit)
        for name in ('max_parents', 'max_degree', 'k', 'edge_bins'):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"'{name}' must be at least 1 (got {value})")
        if self.form not in FORMS:
            raise ValueError(
                f"'form' must be one of {', '.join(map(repr, FORMS))} (got {self.form!r})"
            )
        form = 'dp_sgd' if self.form == 'auto' and self.public is not None else self.form
        if form in ('histograms', 'dp_sgd') and self.unit == 'node' and not self.max_degree:
            raise ValueError(
                f"form='{form}' learns from computation graphs, and removing a node changes "
                f"as many of them as the node has edges. Set 'max_degree': only nodes with at most "
                f"so many edges are then protected. form='mixing' protects all nodes"
            )
        if self.num_classes is not None and self.num_classes < 1:
            raise ValueError(f"'num_classes' must be at least 1 (got {self.num_classes})")
        if self.public is not None:
            if self.form not in ('auto', 'dp_sgd'):
                raise ValueError(
                    f"'public' is for form='dp_sgd' (got form='{self.form}'): other models have "
                    f'no weights to start from'
                )
            object.__setattr__(self, 'public', PublicGraph.of(self.public))
        if self.edge_bounds is not None:
            if self.form == 'rows':
                raise ValueError("'edge_bounds' is not for form='rows', which ignores edges")
            object.__setattr__(self, 'edge_bounds', check_bounds(self.edge_bounds))
            EdgeGrid(self.edge_bounds, self.edge_bins)  # raises an error if it has too many cells
        for name, kind in (('clusters', PrivateClusters), ('dp_sgd', DPSGDConfig)):
            value = getattr(self, name)
            if isinstance(value, dict):
                object.__setattr__(self, name, _typed(name, kind, value))

    @property
    def edge_grid(self) -> EdgeGrid | None:
        r"""The public grid of edge values; :obj:`None` without bounds."""
        return None if self.edge_bounds is None else EdgeGrid(self.edge_bounds, self.edge_bins)

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
        for name in ('public', 'num_classes', 'max_degree', 'edge_bounds'):
            if own[name] is None:
                del own[name]
        if self.edge_bounds is None:
            del own['edge_bins']
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


def measure_clusters(cluster: Tensor, y: Tensor, num_clusters: int | None = None) -> dict[str, Any]:
    r"""Measures the sizes of clusters and the labels in them. Returns facts of a
    :class:`~torch_geometric_cgt.release.Card`.

    Args:
        cluster (torch.Tensor): The cluster of each source node, ``[N]``.
        y (torch.Tensor): The label of each source node, ``[N]``; negative for
            nodes without a label.
        num_clusters (int, optional): The number of clusters, if some may be
            empty. (default: :obj:`None`)
    """
    sizes = torch.bincount(cluster, minlength=num_clusters or 0)
    labels = label_homogeneity(cluster, y.clamp(min=-1))
    return dict(
        k_reached=int(sizes.min()),
        num_clusters=sizes.numel(),
        homogeneous=labels.num_homogeneous,
        l_reached=int(labels.distinct.min()),
        t_closeness=round(float(labels.t_closeness.max()), 4),
    )
