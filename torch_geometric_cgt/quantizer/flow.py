r"""The cheapest assignment that respects the minimum size, as a min-cost flow."""

import numpy as np
from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

# Costs become integers with this many steps between the cheapest and the dearest choice. The
# solver multiplies costs by the number of nodes, which must stay below 2^63.
COST_STEPS = 2**30


def flow_assign(
    clusters: np.ndarray, costs: np.ndarray, num_clusters: int, size_min: int
) -> np.ndarray:
    r"""Returns the cluster of each row, of least total cost with every size >= :obj:`size_min`.

    One unit flows from each row over one of its choices to a cluster. A cluster keeps the first
    :obj:`size_min` units and passes the others on to a common sink.

    Args:
        clusters (numpy.ndarray): The choices of each row, of shape :obj:`[num_rows, p]`. The first
            column must be an assignment that respects the minimum size, so that a solution exists.
        costs (numpy.ndarray): The costs of these choices, of the same shape.
        num_clusters (int): The number of clusters.
        size_min (int): The minimum size.
    """
    num_rows, p = clusters.shape
    row = np.arange(num_rows)

    # Where the minimum does not bind, the cheapest choice of every row is already the answer.
    cheapest = clusters[row, costs.argmin(axis=1)]
    if np.bincount(cheapest, minlength=num_clusters).min() >= size_min:
        return cheapest

    extra = costs - costs.min(axis=1, keepdims=True)
    largest = float(extra.max())
    scale = COST_STEPS / largest if largest > 1e-200 else 0.0  # Equal costs: choose any.
    steps = np.rint(extra * scale).astype(np.int64)

    node, sink = num_rows + np.arange(num_clusters), num_rows + num_clusters
    solver = SimpleMinCostFlow()
    solver.add_arcs_with_capacity_and_unit_cost(
        row.repeat(p),
        num_rows + clusters.reshape(-1),
        np.ones(num_rows * p, dtype=np.int64),
        steps.reshape(-1),
    )
    solver.add_arcs_with_capacity_and_unit_cost(
        node,
        np.full(num_clusters, sink),
        np.full(num_clusters, num_rows),
        np.zeros(num_clusters, dtype=np.int64),
    )
    supply = np.full(num_rows + num_clusters + 1, 1)
    supply[node] = -size_min
    supply[sink] = num_clusters * size_min - num_rows
    solver.set_nodes_supplies(np.arange(supply.size), supply)

    status = solver.solve()
    if status != solver.OPTIMAL:
        raise RuntimeError(
            f"the flow solver found no assignment (got status '{status}'): the "
            f'first choice of each row must respect the minimum size'
        )
    flow = solver.flows(np.arange(num_rows * p)).reshape(num_rows, p)
    return clusters[row, flow.argmax(axis=1)]
