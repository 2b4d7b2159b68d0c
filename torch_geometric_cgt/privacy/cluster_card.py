r"""The card of a release whose feature vectors are differentially private, and nothing else."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import ClassVar

from torch_geometric_cgt.privacy.card import NOT_GUARANTEED, PrivacyCard
from torch_geometric_cgt.privacy.ledger import Total

GUARANTEED = (
    'The feature vectors of this release, taken by themselves, are differentially private: '
    'epsilon = {cluster_epsilon:.4g}, delta = {cluster_delta:.2g}, for one node with its features '
    'and its label.'
)

UNPROTECTED = (
    'This is not end-to-end differential privacy, and the release as a whole has no epsilon: noise '
    'protects the feature vectors alone. The group of each node, how groups are combined in '
    'computation graphs, and the labels were learned from the source without any.',
    'No k is guaranteed: groups have no minimum size (the smallest has {k_reached} nodes).',
)


@dataclass(frozen=True)
class ClusterCard(PrivacyCard):
    r"""What is guaranteed where clusters are private and all else is not,
    which is what the paper calls DP k-means.

    Args:
        cluster_epsilon (float): What the feature vectors cost per node.
        cluster_delta (float): The failure probability of that.
        **kwargs (optional): Those of
            :class:`~torch_geometric_cgt.privacy.PrivacyCard`.
    """

    cluster_epsilon: float = field(kw_only=True)
    cluster_delta: float = field(kw_only=True)

    mechanism: ClassVar[str] = 'private clusters'

    @classmethod
    def of(cls, card: PrivacyCard, cost: Total) -> ClusterCard:
        r"""The card of groups that were measured, and of what they cost.

        Args:
            card (PrivacyCard): What was measured.
            cost (Total): The cost of the feature vectors, per node.
        """
        return cls(**asdict(card), cluster_epsilon=cost.epsilon, cluster_delta=cost.delta)

    @property
    def unit(self) -> str:
        r"""What the guarantee speaks of."""
        return 'node'

    @property
    def summary(self) -> str:
        r"""The promise in one line."""
        return f'{self.num_clusters} groups of any size, with noise in their feature vectors'

    @property
    def guaranteed(self) -> list[str]:
        r"""What holds, in sentences."""
        return [GUARANTEED.format(**asdict(self))]

    @property
    def not_guaranteed(self) -> list[str]:
        r"""What does not hold, in sentences."""
        return [sentence.format(**asdict(self)) for sentence in UNPROTECTED + NOT_GUARANTEED[1:]]
