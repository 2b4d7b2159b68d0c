r"""How a dataset is made differentially private."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from torch_geometric_cgt.errors import BudgetError
from torch_geometric_cgt.models.forms import FORMS
from torch_geometric_cgt.pipeline.public_graph import PublicGraph
from torch_geometric_cgt.privacy import Budget
from torch_geometric_cgt.privacy.units import check_unit
from torch_geometric_cgt.quantizer import PrivateKMeans
from torch_geometric_cgt.training.dp_sgd import DPSGDConfig

CHOICES = ('auto', *FORMS)


@dataclass(frozen=True)
class PrivateConfig:
    r"""How a dataset is made differentially private.

    Args:
        epsilon (float): The budget of the whole build.
        delta (float, optional): The failure probability. By default,
            :math:`n^{-1.1}` for :math:`n` nodes. (default: :obj:`None`)
        unit (str, optional): What the budget protects: :obj:`"record"` (one
            computation graph), :obj:`"edge"` or :obj:`"node"`.
            (default: :obj:`"record"`)
        max_parents (int, optional): For edges and nodes: in how many
            neighbourhoods a node may occur. (default: :obj:`2`)
        form (str, optional): The model of trees: :obj:`"histograms"`,
            :obj:`"dp_sgd"`, or :obj:`"auto"` for the better one at that budget
            and size. (default: :obj:`"auto"`)
        accept_large_delta (bool, optional): Whether a delta above :math:`1 / n`
            is meant. (default: :obj:`False`)
        noise_seed (int, optional): A seed of the noise, for tests: whoever
            knows it can take the noise away. By default, noise comes from the
            operating system, and a build cannot be repeated.
            (default: :obj:`None`)
        clusters (dict, optional): Further arguments of
            :class:`~torch_geometric_cgt.quantizer.PrivateKMeans`.
            (default: :obj:`{}`)
        dp_sgd (dict, optional): The arguments of
            :class:`~torch_geometric_cgt.training.dp_sgd.DPSGDConfig`.
            (default: :obj:`{}`)
        public (Dataset or Data, optional): Another graph, which is public: with
            :obj:`form="dp_sgd"`, the generator starts from weights that were
            learned from it without noise. The card declares it.
            (default: :obj:`None`)
        num_classes (int, optional): The number of labels, where it is known
            without looking at the source. By default, one more than the largest
            label, which is then taken to be known. (default: :obj:`None`)
    """

    epsilon: float
    delta: float | None = None
    unit: str = 'record'
    max_parents: int = 2
    form: str = 'auto'
    accept_large_delta: bool = False
    noise_seed: int | None = None
    clusters: dict[str, Any] = field(default_factory=dict)
    dp_sgd: dict[str, Any] = field(default_factory=dict)
    public: Any = None  # a PublicGraph, once it is checked
    num_classes: int | None = None

    def __post_init__(self) -> None:
        Budget(self.epsilon, 0.5 if self.delta is None else self.delta)
        check_unit(self.unit)
        if self.max_parents < 1:
            raise ValueError(f"'max_parents' must be at least 1 (got {self.max_parents})")
        if self.form not in CHOICES:
            raise ValueError(
                f"'form' must be one of {', '.join(map(repr, CHOICES))} (got {self.form!r})"
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
        own = {'epsilon', 'delta', 'per_label', 'accept_large_delta', 'generator'}
        if taken := sorted(own & self.clusters.keys()):
            raise ValueError(f"'clusters' must not hold {taken}: the dataset sets them")
        for name, make in (('clusters', PrivateKMeans), ('dp_sgd', DPSGDConfig)):
            try:
                make(**getattr(self, name))
            except TypeError as error:
                raise ValueError(f"Unknown argument in '{name}': {error}") from error

    @classmethod
    def of(
        cls, epsilon: float | None, delta: float | None, arguments: dict[str, Any] | None
    ) -> PrivateConfig | None:
        r"""The configuration that was asked for, :obj:`None` without a budget.

        Args:
            epsilon (float, optional): The budget.
            delta (float, optional): The failure probability.
            arguments (dict, optional): All other arguments.
        """
        if epsilon is None:
            if delta is not None or arguments:
                raise BudgetError(
                    f"'delta' and 'private_args' are for differential privacy: give an 'epsilon' "
                    f'(got delta={delta}, private_args={arguments})'
                )
            return None
        known = [f.name for f in fields(cls) if f.name not in ('epsilon', 'delta')]
        unknown = sorted(set(arguments or {}) - set(known))
        if unknown:
            raise ValueError(f"Unknown arguments {unknown} in 'private_args'; choose from {known}")
        return cls(epsilon, delta, **(arguments or {}))

    def budget(self, num_nodes: int) -> Budget:
        r"""The budget for a graph of some size.

        Args:
            num_nodes (int): The number of nodes.
        """
        return Budget.of(self.epsilon, self.delta, num_nodes, self.unit, self.accept_large_delta)

    def to_dict(self) -> dict[str, Any]:
        r"""All parameters, for a JSON file; of a public graph, what names it."""
        optional = [name for name in ('public', 'num_classes') if getattr(self, name) is None]
        return {name: value for name, value in asdict(self).items() if name not in optional}
