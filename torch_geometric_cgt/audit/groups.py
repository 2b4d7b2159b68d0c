r"""Groups: is every codeword the mean of at least k source nodes?"""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_geometric_cgt.audit.check import Check, verdict
from torch_geometric_cgt.quantizer import cluster_means, label_homogeneity
from torch_geometric_cgt.release.card import Card

TOLERANCE = 1e-4  # of the largest feature
ORIGIN = 'the promise of the card: k = {k}'


def check_groups(
    card: Card,
    codebook: Tensor,
    data: Data,
    cluster: Tensor | None = None,
) -> list[Check]:
    r"""Checks the promise of the card, node by node where the groups are at
    hand, else by what the card says.

    Args:
        card (Card): What the release guarantees.
        codebook (torch.Tensor): The codewords, ``[m, F]``.
        data (Data): The source graph.
        cluster (torch.Tensor, optional): The group of each source node,
            ``[N]``, which stays in the house. (default: :obj:`None`)
    """
    assert card.k is not None and card.k_reached is not None
    if cluster is None:
        return [
            Check(
                'Size of groups',
                verdict(card.k_reached >= card.k),
                float(card.k_reached),
                'The smallest group, as the card states it; the groups themselves, which stay in '
                'the house, were not at hand to count them.',
                float(card.k),
                ORIGIN.format(k=card.k),
            )
        ]
    sizes = torch.bincount(cluster.long(), minlength=codebook.size(0))
    return [
        Check(
            'Size of groups',
            verdict(int(sizes.min()) >= card.k),
            float(sizes.min()),
            f'The smallest of {sizes.numel()} groups, counted; {int((sizes < card.k).sum())} have '
            f'fewer than {card.k} nodes.',
            float(card.k),
            ORIGIN.format(k=card.k),
            details={'sizes': sizes.tolist()},
        ),
        _check_means(codebook, data, cluster, sizes),
        _check_card(card, data, cluster, sizes),
    ]


def _check_means(codebook: Tensor, data: Data, cluster: Tensor, sizes: Tensor) -> Check:
    r"""Whether codewords are the means of their groups, and of nothing else."""
    present = sizes > 0
    names = present.cumsum(0) - 1
    means = cluster_means(data.x, names[cluster.long()], int(present.sum()))
    apart = (means.double() - codebook[present].double()).abs().max()
    scale = max(1e-12, float(means.abs().max()))
    value = float(apart) / scale
    return Check(
        'Codewords are means',
        verdict(value <= TOLERANCE and bool(present.all())),
        value,
        'The largest difference between a codeword and the mean of its group, relative to the '
        'largest mean.',
        TOLERANCE,
        'rounding',
    )


def _check_card(card: Card, data: Data, cluster: Tensor, sizes: Tensor) -> Check:
    r"""Whether the card states what can be counted."""
    labels = label_homogeneity(cluster, data.y.clamp(min=-1))
    counted = {
        'k_reached': int(sizes.min()),
        'num_clusters': sizes.numel(),
        'homogeneous': labels.num_homogeneous,
        'l_reached': int(labels.distinct.min()),
        't_closeness': round(float(labels.t_closeness.max()), 4),
    }
    wrong = [
        f'{name} is {value}, stated as {getattr(card, name)}'
        for name, value in counted.items()
        if abs(getattr(card, name) - value) > 1e-3
    ]
    return Check(
        'Statements of the card',
        verdict(not wrong),
        float(len(wrong)),
        'Numbers of the card that counting does not confirm'
        + (f': {"; ".join(wrong)}.' if wrong else f' ({", ".join(counted)} were counted).'),
        0.0,
        'a card must be true',
        details=counted,
    )
