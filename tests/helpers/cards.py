"""Privacy cards by hand."""

import torch

from torch_geometric_cgt.pipeline.measure import measure_groups
from torch_geometric_cgt.release.card import Card


def card() -> Card:
    cluster = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    y = torch.tensor([0, 0, -1, 0, 1, 1, 1])
    # one tree per labelled node: root, two children (2 is null); children have no order
    tokens = torch.tensor([[0, 1, 0], [0, 0, 1], [1, 2, 2], [1, 0, 0], [1, 1, 2], [1, 2, 1]])
    return Card('k-anonymity', **measure_groups(3, cluster, y, tokens, fan_out=2))
