r"""The privacy card: what a release guarantees, for which unit, and what not."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

GUARANTEED = (
    'Every feature vector in this release is the mean of the feature vectors of at least '
    '{k} source nodes (the smallest group has {k_reached}).'
)

NOT_GUARANTEED = (
    'This is not differential privacy: no bound holds against somebody who knows all other '
    'nodes, or who compares several releases of the same graph.',
    'The groups protect feature vectors one by one. How tokens are combined in a computation '
    'graph is learned from the source: {unique_share:.0%} of its nodes are the only one with '
    'their label, group and groups of neighbours.',
    'Labels are not protected by the groups: synthetic labels are drawn from the exact label '
    'counts of the source, and {homogeneous} of {num_clusters} groups hold nodes of one label '
    'only, so that membership in such a group gives the label away.',
    'The sizes of the source graph and of its splits are stated as they are.',
)


@dataclass(frozen=True)
class PrivacyCard:
    r"""What is guaranteed, for which unit, at what cost.

    Args:
        k (int): The minimum group size that was asked for.
        k_reached (int): The size of the smallest group.
        num_clusters (int): The number of groups.
        homogeneous (int): The number of groups whose labelled members all
            have the same label.
        unique_share (float): The share of source nodes that nobody shares
            (label, token, tokens of sampled neighbours) with.
        epsilon (float, optional): The differential privacy budget that was
            spent, :obj:`None` for no differential privacy.
        delta (float, optional): Its failure probability.
    """

    k: int
    k_reached: int
    num_clusters: int
    homogeneous: int
    unique_share: float
    epsilon: float | None = None
    delta: float | None = None

    @property
    def unit(self) -> str:
        r"""What the guarantee speaks of."""
        return 'the feature vector of a node'

    @property
    def guaranteed(self) -> list[str]:
        r"""What holds, in sentences."""
        return [GUARANTEED.format(**asdict(self))]

    @property
    def not_guaranteed(self) -> list[str]:
        r"""What does not hold, in sentences."""
        return [sentence.format(**asdict(self)) for sentence in NOT_GUARANTEED]

    def to_dict(self) -> dict[str, Any]:
        r"""All of it, for a JSON file."""
        return {
            'mechanism': 'k-anonymity',
            'unit': self.unit,
            **asdict(self),
            'guaranteed': self.guaranteed,
            'not_guaranteed': self.not_guaranteed,
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> PrivacyCard:
        r"""The inverse of :meth:`to_dict`."""
        return cls(**{name: content[name] for name in cls.__dataclass_fields__})


def privacy_card(k: int, cluster: Tensor, y: Tensor, tokens: Tensor, fan_out: int) -> PrivacyCard:
    r"""Measures a clustering and the computation graphs that were learned from.

    Args:
        k (int): The minimum group size that was asked for.
        cluster (torch.Tensor): The group of each source node, ``[N]``.
        y (torch.Tensor): The label of each source node, ``[N]``, negative
            where there is none.
        tokens (torch.Tensor): The encoded computation graph of each labelled
            node, ``[n, T]``.
        fan_out (int): The number of child slots of a root.
    """
    sizes = torch.bincount(cluster)
    labelled = y >= 0
    pairs = torch.stack([cluster[labelled], y[labelled]], dim=1).unique(dim=0)
    labels_per_cluster = torch.bincount(pairs[:, 0], minlength=sizes.numel())
    children = tokens[:, 1 : 1 + fan_out].sort(dim=1).values
    view = torch.cat([y[labelled, None].to(tokens.dtype), tokens[:, :1], children], dim=1)
    count = view.unique(dim=0, return_counts=True)[1]
    return PrivacyCard(
        k=k,
        k_reached=int(sizes.min()),
        num_clusters=sizes.numel(),
        homogeneous=int((labels_per_cluster <= 1).sum()),
        unique_share=round(int((count == 1).sum()) / max(1, tokens.size(0)), 4),
    )
