r"""The plan of a private build: its ledger entries and noise, from public numbers only."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.errors import BudgetError
from torch_geometric_cgt.models import (
    PrivateGenerator,
    PrivateHistograms,
    PrivateMixing,
    TreeModel,
)
from torch_geometric_cgt.models.edge_counts import EdgeCaps
from torch_geometric_cgt.models.edge_tables import EDGE_VALUES, edge_value_entry
from torch_geometric_cgt.models.scenes import ROOTS
from torch_geometric_cgt.pipeline.promise import DifferentialPrivacy
from torch_geometric_cgt.privacy import Budget, Entry, Gaussian, Ledger, SampledGaussian
from torch_geometric_cgt.privacy.units import CHANGED_ROW, HISTOGRAM, StableSample
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
# Relative shares of the budget. Only builds with edge values have the last one.
SHARES = {'labels': 0.02, 'clusters': 0.55, 'model': 0.43, 'edges': 0.1}
ROUNDS = 6  # maximum number of fixed-point iterations in at_noise()
# From this product of records and epsilon on, DP-SGD is better than histograms of frozen records.
ENOUGH_FOR_GRADIENTS = 8_000
NO_EDGES = 'rows'  # the form that ignores edges
NOT_COVERED = 'the unit edge does not protect features and labels'
NOTES = {  # of the stage 'computation graphs'
    'mixing': 'not used: the model learns from counts of nodes and edges',
    NO_EDGES: 'not used: the model ignores edges',
    'stable': 'sampled again for each graph; the entries of the model count those that change',
    'frozen': 'sampled once and never released: the sample is a part of the data',
}


def stages_of(has_edge_values: bool) -> tuple[str, ...]:
    r"""The stages of the ledger of a private build.

    Args:
        has_edge_values (bool): Whether the release has edge values.
    """
    return (*STAGES, EDGE_VALUES) if has_edge_values else STAGES


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
        r"""The tree model. The default is :obj:`"mixing"`, which protects nodes of
        any degree. For frozen records, it is DP-SGD if the product of records and
        epsilon is large enough, and histograms otherwise.
        """
        if self.config.form != 'auto':
            return self.config.form
        if self.config.public is not None:
            return 'dp_sgd'
        if self.config.unit != 'frozen_record':
            return 'mixing'
        enough = self.numbers.num_roots * self.budget.epsilon >= ENOUGH_FOR_GRADIENTS
        return 'dp_sgd' if enough else 'histograms'

    @property
    def uses_trees(self) -> bool:
        r"""Whether the tree model learns from computation graphs."""
        return self.form in ('histograms', 'dp_sgd')

    @property
    def sample(self) -> StableSample | None:
        r"""The bounds on the number of computation graphs that one unit changes;
        :obj:`None` if none are used, or if they are frozen.
        """
        config = self.config
        if not self.uses_trees or config.unit == 'frozen_record':
            return None
        return StableSample(config.max_parents, self.numbers.shape.depth, config.max_degree)

    @property
    def max_degree(self) -> int | None:
        r"""The largest number of edges of a node that is protected; :obj:`None` for
        all nodes.
        """
        return self.config.max_degree if self.uses_trees and self.config.unit == 'node' else None

    @property
    def k(self) -> int | None:
        r"""The minimum number of nodes that share a feature vector, if features are
        not protected by noise.
        """
        return None if self.has_private_codebook else self.config.k

    @property
    def changed_trees(self) -> int:
        r"""The largest number of computation graphs that one unit changes."""
        sample = self.sample
        return 1 if sample is None else getattr(sample, f'trees_per_{self.config.unit}')

    @property
    def has_large_delta(self) -> bool:
        r"""Whether delta exceeds one over the number of nodes."""
        return self.budget.delta > 1 / self.numbers.num_nodes

    @property
    def is_projected(self) -> bool:
        r"""Whether feature vectors are released in the space of a public projection."""
        return self.config.clusters.space == 'projected'

    @property
    def has_private_codebook(self) -> bool:
        r"""Whether features and labels are protected. The unit edge protects edges
        only, and its feature vectors are means of at least :math:`k` nodes.
        """
        return self.config.unit != 'edge'

    @property
    def declared_public(self) -> dict[str, str] | None:
        r"""Name and fingerprint of the public graph for pre-training, as on the card."""
        return None if self.config.public is None else asdict(self.config.public)

    def solver(self) -> PrivateKMeans:
        r"""The clustering, with as many clusters as its share of the budget allows."""
        return self.config.clusters.solver(self.budget.part(SHARES['clusters']))

    @property
    def most_clusters(self) -> int:
        r"""The largest number of feature vectors."""
        numbers = self.numbers
        if not self.has_private_codebook:
            return max(1, numbers.num_nodes // self.config.k)
        return self.solver().plan(numbers.num_nodes, numbers.num_classes).num_clusters

    def make_model(self, num_tokens: int) -> TreeModel:
        r"""The tree model before it is fitted."""
        numbers = self.numbers
        sizes = (num_tokens, numbers.num_classes, list(numbers.shape.num_neighbors))
        if self.form in ('mixing', NO_EDGES):
            caps = EdgeCaps.of(numbers.num_nodes, self.config.unit != 'edge')
            return PrivateMixing(*sizes, caps, use_edges=self.form != NO_EDGES)
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
        kind = 'stable' if self.sample is not None else 'frozen' if self.uses_trees else self.form
        trees = Entry.free('computation graphs', 'computation graphs of roots', NOTES[kind])
        return [*self._codebook(), trees, *self._shared(self._model(), 'model'), *self._edges()]

    @property
    def stages(self) -> tuple[str, ...]:
        r"""The stages of the ledger."""
        return stages_of(self.config.edge_bounds is not None)

    def _edges(self) -> list[Entry]:
        r"""The entry of edge values, if their bounds are declared."""
        grid = self.config.edge_grid
        if grid is None:
            return []
        sizes = (self.numbers.num_classes, grid.num_cells)
        return self._shared([edge_value_entry(*sizes, self.config.unit != 'edge')], 'edges')

    def _codebook(self) -> list[Entry]:
        r"""The entries of labels and feature vectors."""
        numbers = self.numbers
        if not self.has_private_codebook:
            means = f'{NOT_COVERED}; each feature vector is the mean of at least {self.config.k}'
            free = [('projection', 'projection'), ('clustering', 'clusters')]
            return [
                Entry.free('labels', LABELS, NOT_COVERED),
                *(Entry.free(stage, name, NOT_COVERED) for stage, name in free),
                Entry.free('centres', 'means of clusters', f'{means} nodes'),
            ]
        labels = Entry('labels', LABELS, HISTOGRAM, Gaussian(1.0))
        clusters = self.solver().plan(numbers.num_nodes, numbers.num_classes).entries()
        return [*self._shared([labels], 'labels'), *self._shared(clusters, 'clusters')]

    def _model(self) -> list[Entry]:
        r"""The entries of the tree model. Those of computation graphs are multiplied by the
        number that one unit changes.
        """
        entries = self.make_model(1).entries()
        if self.sample is not None:
            unit, number = self.config.unit, self.changed_trees
            rows = {True: float(number), False: number * CHANGED_ROW}
            entries = [
                replace(entry, changes={unit: rows[isinstance(entry.noise, SampledGaussian)]})
                for entry in entries
            ]
        return [*self._public_start(), *entries]

    def _public_start(self) -> list[Entry]:
        r"""The free entry of the pre-training on a public graph, if there is one."""
        public = self.config.public
        if public is None:
            return []
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
        if not self.has_private_codebook:
            return None
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
        entries = self._shared(self._model(), 'model')
        roots = next(entry for entry in entries if entry.name == ROOTS)
        change = roots.changes[self.config.unit]
        return change / math.sqrt(2 * roots.share * self.budget.concentrated)

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
        r"""Scales the shares of entries to one part of the budget."""
        entries = list(entries)
        total = sum(entry.share for entry in entries if entry.noise is not None)
        return [
            entry
            if entry.noise is None
            else replace(entry, share=SHARES[key] * entry.share / total)
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
            return Ledger(self.stages, entries).calibrate(self.budget)
        unit = self.config.unit
        given = [
            replace(entry, noise=entry.noise and entry.noise.of_width(width, entry.changes[unit]))
            if entry.changes.get(unit)
            else entry
            for entry in entries
        ]
        return Ledger(self.stages, given)

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
