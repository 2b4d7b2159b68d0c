import pytest

from torch_geometric_cgt.errors import BudgetError
from torch_geometric_cgt.privacy import Budget
from torch_geometric_cgt.quantizer.private_kmeans_plan import plan_clustering

DELTA = 1e-4


def test_clusters_follow_the_budget():
    def sizes(per_label):
        labels = 5 if per_label else None
        return [
            plan_clustering(Budget(epsilon, DELTA), 20_000, labels).num_clusters
            for epsilon in (0.5, 2.0, 10.0)
        ]

    for per_label in (False, True):
        assert sizes(per_label) == sorted(set(sizes(per_label)))
    assert plan_clustering(Budget(10.0, DELTA), 20_000, 5, n_clusters=23).num_clusters == 20
    assert plan_clustering(Budget(10.0, DELTA), 20_000, n_clusters=23).num_clusters == 23


@pytest.mark.parametrize('labels', [None, 7])
def test_a_budget_without_signal_is_refused_with_one_that_has_some(labels):
    with pytest.raises(BudgetError, match=r'epsilon = 0.01 is too small.*at least (\S+)') as error:
        plan_clustering(Budget(0.01, DELTA), 2708, labels)
    enough = float(str(error.value).split()[-1])
    plan_clustering(Budget(1.05 * enough, DELTA), 2708, labels)
    with pytest.raises(BudgetError):
        plan_clustering(Budget(0.9 * enough, DELTA), 2708, labels)
