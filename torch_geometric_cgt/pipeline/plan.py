r"""The plan of a private build: its ledger entries and noise, from public numbers only."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.errors import BudgetError
from torch_geometric_cgt.models import PrivateGenerator, PrivateHistograms, PrivateTreeModel
from torch_geometric_cgt.models.private_model import ROOTS
from torch_geometric_cgt.pipeline.promise import DifferentialPrivacy
from torch_geometric_cgt.privacy import Budget, CappedSample, DiscreteGaussian, Entry, Ledger
from torch_geometric_cgt.privacy.units import group_size
from torch_geometric_cgt.quantizer import PrivateKMeans

# The stages of the ledger. Each stage must have an entry before any data are read.
STAGES = (
    'labels',
    'projection',
    'clustering',
    'centres',
    'computation graphs',
    'sequence model',
)
LABELS = 'labels and splits'
SAMPLE_NOTE = 'they are sampled once and never released: the sample is a part of the data'
SHARES = {'labels': 0.02, 'clusters': 0.5, 'model': 0.48}
ROUNDS = 6  # maximum number of fixed-point iterations in at_noise()
# From this product of records and epsilon on, DP-SGD is the better model, see docs/privacy.md.
ENOUGH_FOR_GRADIENTS = 8_000


@dataclass(frozen=True)
class PublicNumbers:
    r"""The numbers of a source that are assumed to be public.

    Args:
        num_nodes (int): The number of nodes.
        num_roots (int): The number of nodes with a label.
        num_classes (int): The number of labels.
        shape (TreeShape): The geometry of computation graphs.
    """

    num_nodes: int
    num_roots: int
    num_classes: int
    shape: TreeShape


@dataclass(frozen=True)
class PrivatePlan:
    r"""The mechanisms of a private build, and their noise.

    Args:
        numbers (PublicNumbers): The public numbers of the source.
        config (DifferentialPrivacy): The promise.
    """

    numbers: PublicNumbers
    config: DifferentialPrivacy

    @property
    def budget(self) -> Budget:
        r"""The budget of the whole build."""
        return self.config.budget(self.numbers.num_nodes)

    @property
    def form(self) -> str:
        r"""The tree model. DP-SGD is used for the unit :obj:`"record"` if the
        product of records and epsilon is large enough. Otherwise, histograms are
        used: they are as good there and a hundred times faster.
        """
        if self.config.form != 'auto':
            return self.config.form
        enough = self.numbers.num_roots * self.budget.epsilon >= ENOUGH_FOR_GRADIENTS
        return 'dp_sgd' if self.config.unit == 'record' and enough else 'histograms'

    @property
    def sample(self) -> CappedSample | None:
        r"""The frozen sample, if one unit can be in several trees."""
        if self.config.unit == 'record':
            return None
        return CappedSample(self.config.max_parents, self.numbers.shape.depth)

    @property
    def has_large_delta(self) -> bool:
        r"""Whether delta exceeds one over the number of nodes."""
        return self.budget.delta > 1 / self.numbers.num_nodes

    @property
    def is_projected(self) -> bool:
        r"""Whether feature vectors are released in the space of a public projection."""
        return self.config.clusters.space == 'projected'

    @property
    def declared_public(self) -> dict[str, str] | None:
        r"""Name and fingerprint of the public graph for pre-training, as on the card."""
        return None if self.config.public is None else asdict(self.config.public)

    def group(self, rows: str) -> int:
        r"""The number of rows of a table that belong to one unit, but at least one."""
        return max(1, group_size(rows, self.config.unit, self.sample))

    def solver(self) -> PrivateKMeans:
        r"""The clustering, with as many clusters as its share of the budget allows."""
        return self.config.clusters.solver(self.budget.part(SHARES['clusters']))

    def make_model(self, num_tokens: int) -> PrivateTreeModel:
        r"""The tree model before it is fitted."""
        numbers = self.numbers
        sizes = (num_tokens, numbers.num_classes, list(numbers.shape.num_neighbors))
        if self.form == 'histograms':
            return PrivateHistograms(*sizes)
        return PrivateGenerator(*sizes, numbers.num_roots, self.config.dp_sgd)

    def entries(self) -> list[Entry]:
        r"""All mechanisms, with their shares of the budget and with noise that is
        not calibrated yet.
        """
        numbers, budget = self.numbers, self.budget
        assert budget.concentrated > 0  # raises BudgetError if no Gaussian noise fits
        if (weak := self.without_signal()) is not None:
            raise BudgetError(
                f'epsilon = {budget.epsilon:g} per {budget.unit} is too small for any signal in '
                f'{numbers.num_nodes} nodes with {numbers.num_classes} labels ({weak}): use at '
                f'least {self.smallest_useful():g}'
            )
        labels = Entry('labels', LABELS, 'node', 1.0, DiscreteGaussian(1.0), share=1.0)
        clusters = self.solver().plan(numbers.num_nodes, numbers.num_classes).entries()
        trees = Entry.free(
            'computation graphs',
            'one computation graph of each root',
            SAMPLE_NOTE,
        )
        model = [*self._public_start(), *self.make_model(1).entries()]
        return [
            *self._shared([labels], 'labels'),
            *self._shared(clusters, 'clusters'),
            trees,
            *self._shared(model, 'model'),
        ]

    def _public_start(self) -> list[Entry]:
        r"""The free entry of the pre-training on a public graph, if there is one."""
        public = self.config.public
        if public is None:
            return []
        if self.form != 'dp_sgd':
            raise ValueError(
                f"'public' is for form='dp_sgd', but '{self.form}' was chosen for this size and "
                f"budget: set form='dp_sgd', or omit the public graph"
            )
        why = f"learned from '{public.name}' ({public.fingerprint}), which is taken to be public"
        return [Entry.free('sequence model', 'public pre-training', why)]

    def without_signal(self) -> str | None:
        r"""The reason why the result would be pure noise; :obj:`None` if there is
        a signal.

        Two conditions must hold. First, the mean of all rows of a label must
        exceed the noise of its sum. Second, in the histogram of root tokens per
        label, the mean count of a cell must exceed the noise, even if there
        are no more tokens than labels. Both tree models start from this
        histogram.
        """
        numbers = self.numbers
        try:
            self.solver().plan(numbers.num_nodes, numbers.num_classes)
            sigma = self.root_noise()
        except BudgetError:
            return 'the mean of the rows of a label would be noise'
        mean = numbers.num_roots / numbers.num_classes**2
        if mean <= sigma:
            return (
                f"the noise of '{ROOTS}' has sigma {sigma:.3g}, and its cells have {mean:.3g} "
                f'roots on average'
            )
        return None

    def root_noise(self) -> float:
        r"""The approximate noise of the histogram of root tokens per label, from
        its share of the concentrated cost.
        """
        entries = self._shared(self.make_model(1).entries(), 'model')
        roots = next(entry for entry in entries if entry.name == ROOTS)
        return 1 / math.sqrt(2 * roots.share * self.budget.concentrated)

    def smallest_useful(self) -> float:
        r"""The approximate smallest epsilon for which there is a signal, rounded up
        to two digits.
        """
        low, high = 1e-3, 1e4
        while high / low > 1.001:
            middle = math.sqrt(low * high)
            plan = replace(self, config=replace(self.config, epsilon=middle))
            low, high = (middle, high) if plan.without_signal() else (low, middle)
        digits = 1 - math.floor(math.log10(high))
        return round(math.ceil(high * 10**digits) / 10**digits, max(0, digits))

    def _shared(self, entries: Iterable[Entry], key: str) -> list[Entry]:
        r"""Scales the shares of entries to one part of the budget. A share is
        divided by the square of the number of rows per unit, because the cost of
        a unit grows with this square.
        """
        entries = list(entries)
        total = sum(entry.share for entry in entries if entry.noise is not None)
        return [
            entry
            if entry.noise is None
            else replace(
                entry, share=SHARES[key] * entry.share / total / self.group(entry.unit) ** 2
            )
            for entry in entries
        ]

    def ledger(self, width: float | None = None) -> Ledger:
        r"""The ledger with the noise that the budget needs.

        Args:
            width (float, optional): Use noise of this many sensitivities for all
                mechanisms instead, and ignore the budget.
                (default: :obj:`None`)
        """
        entries = self.entries()
        if width is None:
            return Ledger(STAGES, entries, self.sample).calibrate(self.budget)
        given = [
            replace(entry, noise=entry.noise and entry.noise.of_width(width, entry.sensitivity))
            for entry in entries
        ]
        return Ledger(STAGES, given, self.sample)

    def at_noise(self, width: float) -> PrivatePlan:
        r"""The plan whose epsilon is the cost of noise of the given width. The cost
        depends on sizes such as the number of clusters, which depend on epsilon,
        so that the plan is found by iteration.

        Args:
            width (float): The noise of all mechanisms, in sensitivities.
        """
        plan = self
        for _ in range(ROUNDS):
            before = plan.entries()
            epsilon = plan.ledger(width).total(self.config.unit, self.budget.delta).epsilon
            plan = replace(plan, config=replace(plan.config, epsilon=epsilon))
            after = plan.entries()
            if len(before) == len(after) and all(map(Entry.is_same_as, before, after)):
                break
        return plan
