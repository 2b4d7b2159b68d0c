r"""Anonymity of edge values: the number of source nodes behind each value of a release."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_geometric_cgt.audit.check import Check, verdict
from torch_geometric_cgt.data import EdgeValues
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.release.card import Card
from torch_geometric_cgt.transforms.edge_codebook import edge_codewords, edge_support

NAMES = ('Nodes behind edge values', 'Edge values are computed as stated')
NO_GROUPS = (
    'The group of each source edge is not available. Run the audit where the release was built, or '
    'give the folder of the build with --root.'
)
TOLERANCE = 1e-6  # of the largest value


def check_edge_values(
    card: Card, values: EdgeValues, source: Source, edge_cluster: Tensor | None
) -> list[Check]:
    r"""Checks that at least :math:`k` source nodes are behind each edge value, and
    that each value is computed from its group of edges alone.

    Args:
        card (Card): What the release guarantees.
        values (EdgeValues): The edge values of the release.
        source (Source): The source graph.
        edge_cluster (torch.Tensor, optional): The edge token of each source edge,
            ``[E]``, which is not a part of a release.
    """
    own, data = source.edge_values(), source.data
    assert card.edges is not None
    k, num_nodes = card.edges['k'], int(data.num_nodes or 0)
    if edge_cluster is None or own is None or len(own) != edge_cluster.numel():
        return [Check.unchecked(name, NO_GROUPS) for name in NAMES]
    support = [
        edge_support(data.edge_index[:, edge_cluster == g], num_nodes) for g in range(len(values))
    ]
    least, few = min(support), sum(count < k for count in support)
    wrong = least < k or least != card.edges['k_reached']
    found = Check(
        NAMES[0],
        verdict(False, wrong),
        float(least),
        f'The number of source nodes behind the rarest of {len(values)} edge values, counted on '
        f'the source; the card states {card.edges["k_reached"]}. Nodes that have the value only by '
        f'edges to one common node count as one. {few} values have fewer than {k}.',
        float(k),
        f'the promise of the card: k = {k}',
        details={'support': support},
    )
    if few and 0 in support:  # an empty group has no value
        return [found]
    words = edge_codewords(own, edge_cluster, data.edge_index, num_nodes, k)
    largest = max(1e-12, float(values.table.abs().max()))
    change = torch.tensor(float('inf'))
    if words.table.shape == values.table.shape:
        change = (words.table - values.table).abs().max() / largest
    return [
        found,
        Check(
            NAMES[1],
            verdict(False, float(change) > TOLERANCE),
            min(float(change), 1e9),
            'The largest difference between an edge value of the release and the one that follows '
            'from its group of source edges: the usual value or the rounded mean, relative to the '
            'largest value.',
            TOLERANCE,
            'tolerance for rounding',
        ),
    ]
