r"""The privacy card: what a release guarantees, for which unit, and what not."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor

from torch_geometric_cgt.quantizer import label_homogeneity

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
    'Labels are not protected by the size of a group: {homogeneous} of {num_clusters} groups hold '
    'nodes of one label only, so that membership in such a group gives the label away (every '
    'group holds at least {l_reached} distinct labels; the labels of a group are up to '
    '{t_closeness:.2f} away from those of all nodes, on a scale from 0 to 1). Synthetic labels '
    'are drawn from the exact label counts of the source, and each comes with a class of '
    'surroundings, drawn from the counts of such classes per label and split.',
    'The sizes of the source graph and of its splits are stated as they are.',
)

SUPPORTED = (
    'Every path in this release, from the label of a root over the groups of the nodes down to one '
    'of them, is shown by the computation graphs of at least {min_support} source nodes.'
)

COMBINED = (
    'The support of paths (at least {min_support} source nodes) protects paths one by one: which '
    'paths are together in a computation graph is learned from the source.'
)

DIVERSE = 'The members of every group have at least {l_reached} distinct labels.'

TASK = (
    'Groups were formed with a view to the labels (weight {task_weight:.2f}). The class '
    'probabilities of a node come from models that did not see its own label, but groups are more '
    'homogeneous than without them.'
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
        l_reached (int): The smallest number of distinct labels in a group
            (distinct l-diversity).
        t_closeness (float): The largest total variation distance between the
            labels of a group and those of all nodes.
        task_weight (float): How much class probabilities counted when groups
            were formed, 0 for not at all.
        unique_share (float): The share of source nodes that nobody shares
            (label, token, tokens of sampled neighbours) with.
        epsilon (float, optional): The differential privacy budget that was
            spent, :obj:`None` for no differential privacy.
        delta (float, optional): Its failure probability.
        min_support (int, optional): The number of source nodes that show each
            path, :obj:`None` where that was not asked for.
    """

    k: int
    k_reached: int
    num_clusters: int
    homogeneous: int
    l_reached: int
    t_closeness: float
    task_weight: float
    unique_share: float
    epsilon: float | None = None
    delta: float | None = None
    min_support: int | None = None

    mechanism: ClassVar[str] = 'k-anonymity'

    @property
    def protects(self) -> str:
        r"""The unit in short."""
        return 'features'

    @property
    def unit(self) -> str:
        r"""What the guarantee speaks of."""
        return 'the feature vector of a node'

    @property
    def summary(self) -> str:
        r"""The promise in one line."""
        return (
            f'asked for k = {self.k}, reached k = {self.k_reached}, with {self.num_clusters} groups'
        )

    @property
    def guaranteed(self) -> list[str]:
        r"""What holds, in sentences."""
        sentences = [GUARANTEED.format(**asdict(self))]
        if self.l_reached > 1:
            sentences.append(DIVERSE.format(**asdict(self)))
        if self.min_support is not None:
            sentences.append(SUPPORTED.format(**asdict(self)))
        return sentences

    @property
    def not_guaranteed(self) -> list[str]:
        r"""What does not hold, in sentences."""
        sentences = [sentence.format(**asdict(self)) for sentence in NOT_GUARANTEED]
        if self.task_weight > 0:
            sentences.append(TASK.format(**asdict(self)))
        if self.min_support is not None:
            sentences.append(COMBINED.format(**asdict(self)))
        return sentences

    def to_dict(self) -> dict[str, Any]:
        r"""All of it, for a JSON file."""
        own = asdict(self)
        if self.min_support is None:  # cards without the rule are as they were before it
            del own['min_support']
        return {
            'mechanism': self.mechanism,
            'unit': self.unit,
            **own,
            'guaranteed': self.guaranteed,
            'not_guaranteed': self.not_guaranteed,
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> PrivacyCard:
        r"""The inverse of :meth:`to_dict`."""
        names = {f.name for f in fields(cls)} - {'min_support'}
        own = {name: content[name] for name in names}
        return cls(**own, min_support=content.get('min_support'))


def privacy_card(
    k: int,
    cluster: Tensor,
    y: Tensor,
    tokens: Tensor,
    fan_out: int,
    task_weight: float = 0.0,
    min_support: int | None = None,
    num_clusters: int | None = None,
) -> PrivacyCard:
    r"""Measures a clustering and the computation graphs that were learned from.

    Args:
        k (int): The minimum group size that was asked for.
        cluster (torch.Tensor): The group of each source node, ``[N]``.
        y (torch.Tensor): The label of each source node, ``[N]``, negative
            where there is none.
        tokens (torch.Tensor): The encoded computation graph of each labelled
            node, ``[n, T]``.
        fan_out (int): The number of child slots of a root.
        task_weight (float, optional): How much class probabilities counted
            when groups were formed. (default: :obj:`0.0`)
        min_support (int, optional): The number of source nodes that show each
            path of the release. (default: :obj:`None`)
        num_clusters (int, optional): The number of groups, where some may be
            empty. (default: :obj:`None`)
    """
    sizes = torch.bincount(cluster, minlength=num_clusters or 0)
    labelled = y >= 0
    labels = label_homogeneity(cluster, y.clamp(min=-1))
    children = tokens[:, 1 : 1 + fan_out].sort(dim=1).values
    view = torch.cat([y[labelled, None].to(tokens.dtype), tokens[:, :1], children], dim=1)
    count = count_equal_rows(view)
    return PrivacyCard(
        k=k,
        k_reached=int(sizes.min()),
        num_clusters=sizes.numel(),
        homogeneous=labels.num_homogeneous,
        l_reached=int(labels.distinct.min()),
        t_closeness=round(float(labels.t_closeness.max()), 4),
        task_weight=round(task_weight, 4),
        unique_share=round(int((count == 1).sum()) / max(1, tokens.size(0)), 4),
        min_support=min_support,
    )


def count_equal_rows(rows: Tensor) -> Tensor:
    r"""How often each distinct row of non-negative integers occurs. Columns are taken one by one,
    which sorts numbers instead of rows.
    """
    key = torch.zeros(rows.size(0), dtype=torch.long)
    for column in rows.long().t():
        key = key * (1 + column.max()) + column
        key = key.unique(return_inverse=True)[1]
    return torch.bincount(key)
