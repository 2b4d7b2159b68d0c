"""Promises: what is contradictory is refused before anything runs."""

import pytest

from torch_geometric_cgt.errors import BudgetError
from torch_geometric_cgt.pipeline import KAnonymity


@pytest.mark.parametrize(
    'wrong, error, message',
    [
        ({'cluster_epsilon': 0}, BudgetError, 'epsilon'),
        ({'cluster_epsilon': 1, 'l': 2}, ValueError, "'l' is not for method='dp'"),
        ({'cluster_epsilon': 1, 'task_weight': 0.5}, ValueError, "'task_weight' is not for"),
    ],
)
def test_what_private_clusters_cannot_do(wrong, error, message):
    with pytest.raises(error, match=message):
        KAnonymity(**wrong)
