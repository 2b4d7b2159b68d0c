"""Privacy cards by hand."""

import torch

from torch_geometric_cgt.pipeline.promise import measure_clusters
from torch_geometric_cgt.pipeline.tree_facts import unique_share
from torch_geometric_cgt.release.card import Card


def measured(k, cluster, y, tokens, num_clusters=None) -> dict:
    """The facts of a card. Tokens are those of labelled roots and of their children."""
    groups = measure_clusters(cluster, y, num_clusters)
    rest = {'task_weight': 0.0, 'min_support': None}
    return {'k': k, **groups, 'unique_share': unique_share(y[y >= 0], tokens), **rest}


def card() -> Card:
    cluster = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    y = torch.tensor([0, 0, -1, 0, 1, 1, 1])
    # one tree per labelled node: root, two children (2 is null); children have no order
    tokens = torch.tensor([[0, 1, 0], [0, 0, 1], [1, 2, 2], [1, 0, 0], [1, 1, 2], [1, 2, 1]])
    return Card('k-anonymity', **measured(3, cluster, y, tokens))
