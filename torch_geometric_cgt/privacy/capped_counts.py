r"""Counts of edges and of pairs of neighbours that one node can change by a bounded amount only.

The largest total weight of edges such that no weight exceeds one and no node carries more
than its cap is a function of the graph that changes by at most the cap if a node is removed,
whatever its degree:

* The weights without the edges of the node are still allowed. They are lighter by what the
  node carried, which is at most its cap. So the maximum falls by at most the cap.
* Weights of the smaller graph are weights of the larger one. So the maximum does not rise.

If an edge is removed, the maximum falls by at most one, for the same reasons. The argument
holds for any number of nodes per item, and for caps that differ by the role of a node. It
needs no random order, no sampling of neighbours and no bound on degrees (Kasiviswanathan,
Nissim, Raskhodnikova and Smith, "Analyzing Graphs with Node Differential Privacy", 2013).
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import linprog
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_flow
from torch import Tensor

ROUNDING = 2.0**-10  # counts of linear programs are rounded down to multiples of this


def capped_pairs(pairs: Tensor, first_cap: int | None, second_cap: int | None) -> int:
    r"""The largest number of ordered pairs such that a node is first in at most
    :obj:`first_cap` of them and second in at most :obj:`second_cap`.

    Removing a node changes the result by at most the sum of both caps.
    Removing a pair changes it by at most one. The result is an exact maximum
    flow.

    Args:
        pairs (torch.Tensor): Distinct ordered pairs of nodes, ``[2, E]``.
        first_cap (int, optional): The cap of first nodes; :obj:`None` for none.
        second_cap (int, optional): The cap of second nodes; :obj:`None` for
            none.
    """
    size = pairs.size(1)
    if size == 0 or (first_cap is None and second_cap is None):
        return size
    if first_cap is None or second_cap is None:  # one side only: no flow is needed
        side, cap = (1, second_cap) if first_cap is None else (0, first_cap)
        number = pairs[side].unique(return_counts=True)[1]
        return int(number.clamp(max=cap).sum())
    first, i = np.unique(pairs[0].numpy(), return_inverse=True)
    second, j = np.unique(pairs[1].numpy(), return_inverse=True)
    a, b = len(first), len(second)
    start, end = a + b, a + b + 1
    tail = np.concatenate([np.full(a, start), i, a + np.arange(b)])
    head = np.concatenate([np.arange(a), a + j, np.full(b, end)])
    capacity = np.concatenate([np.full(a, first_cap), np.ones(size), np.full(b, second_cap)])
    graph = csr_matrix((capacity.astype(np.int32), (tail, head)), shape=(end + 1, end + 1))
    return int(maximum_flow(graph, start, end).flow_value)


def capped_items(items: Tensor, num_nodes: int, cap: float) -> float:
    r"""The largest total weight of items, each a tuple of distinct nodes, such
    that no weight exceeds one and no node carries more than :obj:`cap`.

    Removing a node, or all items that contain an edge, changes the exact maximum
    by at most :obj:`cap`. The result of the linear program is rounded down to a
    multiple of :obj:`ROUNDING`, which adds at most :obj:`ROUNDING` to this
    bound.

    Args:
        items (torch.Tensor): The nodes of each item, ``[H, r]``.
        num_nodes (int): The number of nodes.
        cap (float): The largest total weight of a node.
    """
    size, width = items.shape
    if size == 0:
        return 0.0
    load = torch.bincount(items.reshape(-1), minlength=num_nodes)
    crowded = load > cap
    bound = crowded[items].any(dim=1)  # all other items have weight one
    free, inside = int((~bound).sum()), items[bound]
    if inside.size(0) == 0:
        return float(free)
    # Items of uncrowded nodes only use up a part of a cap that is never reached.
    row = inside.reshape(-1)
    column = torch.arange(inside.size(0)).repeat_interleave(width)
    used = crowded[row]
    node, row = row[used].unique(return_inverse=True)
    matrix = csr_matrix(
        (np.ones(row.numel()), (row.numpy(), column[used].numpy())),
        shape=(node.numel(), inside.size(0)),
    )
    found = linprog(
        -np.ones(inside.size(0)),
        A_ub=matrix,
        b_ub=np.full(node.numel(), float(cap)),
        bounds=(0, 1),
        method='highs',
    )
    if found.status != 0:  # cannot happen: zero is allowed, and the total is bounded
        raise RuntimeError(f'The linear program has no solution: {found.message}')
    return float(np.floor((free - found.fun + 1e-6) / ROUNDING) * ROUNDING)
