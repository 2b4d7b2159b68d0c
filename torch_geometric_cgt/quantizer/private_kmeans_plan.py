r"""The plan of a private clustering: its size and its ledger entries, from public numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch_geometric_cgt.errors import BudgetError, LedgerError
from torch_geometric_cgt.privacy.accounting import Budget
from torch_geometric_cgt.privacy.entries import Entry
from torch_geometric_cgt.privacy.noise import Gaussian
from torch_geometric_cgt.privacy.units import HISTOGRAM, ONE_COUNT, SUMS

STAGES = ('projection', 'clustering', 'centres')
MEDIAN_STEPS = 8
MAX_DEPTH = 10
# The standard deviation of the noise in a coordinate of a mean of rows of length one. The first
# two are the targets with and without clusters per label. From the third on, means carry no
# signal. Measured on Cora and PubMed, see docs/privacy.md.
LABEL_NOISE, FREE_NOISE, USELESS_NOISE = 0.0075, 0.015, 0.05
# The shares of the budget, with and without clusters per label.
LABEL_SHARES = {'median': 0.02, 'tree': 0.1, 'sums': 0.88}
FREE_SHARES = {
    'median': 0.02,
    'mean': 0.02,
    'tree': 0.06,
    'leaves': 0.15,
    'counts': 0.075,
    'sums': 0.675,
}


@dataclass(frozen=True)
class PrivateKMeansPlan:
    r"""The plan of a private clustering. It follows from public numbers.

    Args:
        per_label (bool): Whether each label has its own clusters.
        num_trees (int): The number of prefix trees: one per label, or one.
        depth (int): The largest number of bits of a prefix.
        leaf_min (float): The smallest noisy count of a leaf that results from
            a split.
        num_clusters (int): The largest number of clusters.
        num_steps (int): How often centres are computed from all rows.
    """

    per_label: bool
    num_trees: int
    depth: int
    leaf_min: float
    num_clusters: int
    num_steps: int

    def entries(self, noise: float = 1.0) -> list[Entry]:
        r"""Returns the entries of all mechanisms, each with its share of the budget.

        A row has length one at most, and it is in one bin of each histogram. So
        removing it changes sums by 1 and counts by 1 at most, and replacing it
        changes sums by 2 and histograms by the root of 2 at most.

        Args:
            noise (float, optional): The width of the noise of all entries,
                before calibration. (default: :obj:`1.0`)
        """

        def entry(stage: str, key: str, name: str, changes: dict[str, float], count: int) -> Entry:
            shares = LABEL_SHARES if self.per_label else FREE_SHARES
            return Entry(stage, name, changes, Gaussian(noise), count, shares[key])

        free = Entry.free(
            'projection',
            'random projection and hashes',
            'drawn from a seed; they do not look at the data',
        )
        steps = self.num_steps
        median = entry('centres', 'median', 'median length', ONE_COUNT, MEDIAN_STEPS)
        tree = entry('clustering', 'tree', 'prefix counts', HISTOGRAM, 1 + self.depth)
        sums = entry('centres', 'sums', 'decoded sums', SUMS, steps)
        if self.per_label:
            return [free, median, tree, sums]
        return [
            free,
            median,
            entry('clustering', 'mean', 'sum of all rows', SUMS, 1),
            tree,
            entry('clustering', 'leaves', 'prefix sums', SUMS, 1),
            entry('centres', 'counts', 'decoded counts', HISTOGRAM, steps),
            sums,
        ]


def plan_clustering(
    budget: Budget,
    num_rows: int,
    num_labels: int | None = None,
    n_clusters: int | None = None,
    num_steps: int = 3,
) -> PrivateKMeansPlan:
    r"""Plans as many clusters as the budget can tell apart.

    Args:
        budget (Budget): The approximate budget of the clustering.
        num_rows (int): The number of rows.
        num_labels (int, optional): The number of labels, for clusters per
            label. (default: :obj:`None`)
        n_clusters (int, optional): The largest number of clusters. By
            default, what the budget allows. (default: :obj:`None`)
        num_steps (int, optional): How often centres are computed, without
            labels. (default: :obj:`3`)
    """
    per_label = num_labels is not None
    num_trees, steps = (num_labels or 1, 1) if per_label else (1, num_steps)
    share = (LABEL_SHARES if per_label else FREE_SHARES)['sums']
    # The noise of the sums of one step, if all steps get the same part of the share.
    sigma = SUMS[budget.unit] / math.sqrt(2 * share * budget.concentrated / steps)
    fewest = num_trees if per_label else 2
    if sigma * fewest / num_rows > USELESS_NOISE:
        enough = smallest_useful_epsilon(budget, num_rows, fewest, share / steps)
        raise BudgetError(
            f'epsilon = {budget.epsilon:g} is too small for any signal in {fewest} clusters of '
            f'{num_rows} rows: use at least {enough:.2g}'
        )
    if per_label:
        leaf_min = sigma / LABEL_NOISE
        depth = _bits(num_rows / num_trees / leaf_min)
        if n_clusters is not None:
            if n_clusters < num_trees:
                raise ValueError(
                    f"'n_clusters' must not be below the number of labels, {num_trees} "
                    f'(got {n_clusters})'
                )
            depth = min(depth, int(math.log2(n_clusters / num_trees)))
        return PrivateKMeansPlan(True, num_trees, depth, leaf_min, num_trees << depth, steps)
    num_clusters = n_clusters or max(
        2, min(1 << (MAX_DEPTH - 1), int(FREE_NOISE * num_rows / sigma))
    )
    depth = min(MAX_DEPTH, math.ceil(math.log2(num_clusters)) + 1)
    return PrivateKMeansPlan(False, 1, depth, num_rows / (4 * num_clusters), num_clusters, steps)


def smallest_useful_epsilon(
    budget: Budget, num_rows: int, num_clusters: int, share: float
) -> float:
    r"""Returns the smallest epsilon at which clusters can be told from noise.

    Args:
        budget (Budget): A budget with the same delta.
        num_rows (int): The number of rows.
        num_clusters (int): The number of clusters.
        share (float): The share of the budget for their sums.
    """
    change = SUMS[budget.unit]
    needed = (change * num_clusters / (num_rows * USELESS_NOISE)) ** 2 / 2 / share
    low, high = 1e-3, 1e3
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        enough = Budget(middle, budget.delta, budget.unit).concentrated >= needed
        low, high = (low, middle) if enough else (middle, high)
    return high


def check_entries(plan: PrivateKMeansPlan, given: Sequence[Entry]) -> None:
    r"""Raises an error unless the ledger holds every entry of the plan.

    Args:
        plan (PrivateKMeansPlan): The plan.
        given (list[Entry]): The entries of the ledger, which may hold others.
    """
    paid = {(entry.stage, entry.name): entry for entry in given}
    for entry in plan.entries():
        found = paid.get((entry.stage, entry.name))
        if found is None or not entry.is_same_as(found):
            raise LedgerError(
                f"The ledger does not pay for '{entry.name}' as planned ({entry.count} runs, "
                f'change by one node {entry.changes.get("node")}; in the ledger: {found}). If '
                f"another version began the build, restart it with 'force_reload=True'"
            )


def _bits(ratio: float) -> int:
    r"""Returns how often a node can be halved, and one more for unequal halves."""
    return min(MAX_DEPTH, max(0, math.floor(math.log2(max(ratio, 1e-9))) + 1))
