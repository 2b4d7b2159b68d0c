r"""What a private build will spend on what, from public numbers alone."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.datasets.private_config import PrivateConfig
from torch_geometric_cgt.errors import BudgetError
from torch_geometric_cgt.privacy import Budget, CappedSample, DiscreteGaussian, Entry, Ledger
from torch_geometric_cgt.privacy.histograms import PrivateHistograms
from torch_geometric_cgt.privacy.private_generator import PrivateGenerator
from torch_geometric_cgt.privacy.private_model import PrivateTreeModel
from torch_geometric_cgt.privacy.units import group_size
from torch_geometric_cgt.quantizer import PrivateKMeans
from torch_geometric_cgt.training.dp_sgd import DPSGDConfig

# What a private build runs. Each of them must have an entry before anything is read.
STAGES = (
    'labels',
    'projection',
    'clustering',
    'centres',
    'computation graphs',
    'sequence model',
)
LABELS = 'labels and splits'
SHARES = {'labels': 0.02, 'clusters': 0.5, 'model': 0.48}
# From this number of records times epsilon on, DP-SGD is the better one, see docs/privacy.md.
ENOUGH_FOR_GRADIENTS = 8_000


@dataclass(frozen=True)
class PublicNumbers:
    r"""What is taken to be known of a source, whatever is private.

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
    r"""The stages of a private build, and their noise.

    Args:
        numbers (PublicNumbers): What is known of the source.
        config (PrivateConfig): What was asked for.
    """

    numbers: PublicNumbers
    config: PrivateConfig

    @property
    def budget(self) -> Budget:
        r"""What may be spent."""
        return self.config.budget(self.numbers.num_nodes)

    @property
    def form(self) -> str:
        r"""The model of trees: DP-SGD for records with enough of a budget
        between them, and else histograms, which are as good there and a hundred
        times as fast.
        """
        if self.config.form != 'auto':
            return self.config.form
        enough = self.numbers.num_roots * self.budget.epsilon >= ENOUGH_FOR_GRADIENTS
        return 'dp_sgd' if self.config.unit == 'record' and enough else 'histograms'

    @property
    def sample(self) -> CappedSample | None:
        r"""The frozen sample, where a unit can be in several trees."""
        if self.config.unit == 'record':
            return None
        return CappedSample(self.config.max_parents, self.numbers.shape.depth)

    def group(self, rows: str) -> int:
        r"""How many rows of a table go with one unit; one where none do."""
        return max(1, group_size(rows, self.config.unit, self.sample))

    def solver(self) -> PrivateKMeans:
        r"""The clustering, as large as its part of the budget allows."""
        part = self.budget.part(SHARES['clusters'])
        return PrivateKMeans(
            part.epsilon,
            part.delta,
            per_label=True,
            accept_large_delta=True,  # it was looked at as a part of the whole budget
            **self.config.clusters,
        )

    def make_model(self, num_tokens: int) -> PrivateTreeModel:
        r"""The model of trees before it has learned anything."""
        numbers = self.numbers
        sizes = (num_tokens, numbers.num_classes, list(numbers.shape.num_neighbors))
        if self.form == 'histograms':
            return PrivateHistograms(*sizes)
        return PrivateGenerator(*sizes, numbers.num_roots, DPSGDConfig(**self.config.dp_sgd))

    def entries(self) -> list[Entry]:
        r"""All mechanisms, with their shares of the budget and some noise."""
        numbers, _ = self.numbers, self.budget  # which may be refused
        labels = Entry('labels', LABELS, 'node', 1.0, DiscreteGaussian(1.0), share=1.0)
        try:
            clusters = self.solver().plan(numbers.num_nodes, numbers.num_classes).entries()
        except BudgetError as error:
            raise BudgetError(
                f'epsilon = {self.config.epsilon:g} per {self.config.unit} is too small for any '
                f'signal in {numbers.num_nodes} nodes with {numbers.num_classes} labels: use at '
                f'least {self.smallest_useful():.2g}'
            ) from error
        trees = Entry.free(
            'computation graphs',
            'one computation graph of each root',
            'they are sampled once and stay in the house: the sample is a part of the data',
        )
        model = self.make_model(1).entries()
        return [
            *self._shared([labels], 'labels'),
            *self._shared(clusters, 'clusters'),
            trees,
            *self._shared(model, 'model'),
        ]

    def smallest_useful(self) -> float:
        r"""About the smallest epsilon with which clusters can be told from noise."""
        low, high = 1e-3, 1e4
        while high / low > 1.01:
            middle = math.sqrt(low * high)
            plan = replace(self, config=replace(self.config, epsilon=middle))
            try:
                plan.solver().plan(self.numbers.num_nodes, self.numbers.num_classes)
                high = middle
            except BudgetError:
                low = middle
        return high

    def _shared(self, entries: Iterable[Entry], key: str) -> list[Entry]:
        r"""Entries that share a part of the budget. What is spent on a unit
        grows with the square of the number of its rows.
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
            width (float, optional): Give all mechanisms noise of this many
                sensitivities instead, whatever it costs.
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
