r"""The privacy card: what a release guarantees, for which unit, and what not."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from torch_geometric_cgt.errors import LedgerError
from torch_geometric_cgt.privacy import Ledger
from torch_geometric_cgt.release.statements import (
    DP,
    K_ANONYMITY,
    PRIVATE_CLUSTERS,
    STATEMENTS,
    Statement,
    state,
)
from torch_geometric_cgt.release.wording import NEWEST

GROUPS = (
    'k',
    'k_reached',
    'num_clusters',
    'homogeneous',
    'l_reached',
    't_closeness',
    'task_weight',
    'unique_share',
    'epsilon',
    'delta',
)
FIELDS = {  # of each mechanism, in the order of a file
    K_ANONYMITY: GROUPS,
    PRIVATE_CLUSTERS: (*GROUPS, 'cluster_epsilon', 'cluster_delta'),
    DP: (
        'epsilon',
        'delta',
        'protects',
        'form',
        'num_clusters',
        'seeded_noise',
        'ledger',
        'large_delta',
        'projected',
        'public',
        'k',
    ),
}


@dataclass(frozen=True)
class Card:
    r"""What a release guarantees, for which unit, at what cost.

    The fields are facts. The sentences (:obj:`guaranteed`,
    :obj:`not_guaranteed`) follow from them.

    Args:
        mechanism (str): :obj:`"k-anonymity"`; :obj:`"private clusters"`, where
            the codebook is differentially private and nothing else is; or
            :obj:`"differential privacy"`.
        num_clusters (int): The number of distinct feature vectors.
        k (int, optional): The minimum group size that was asked for.
        k_reached (int, optional): The size of the smallest group.
        homogeneous (int, optional): The number of groups whose labelled
            members all have the same label.
        l_reached (int, optional): The smallest number of distinct labels in a
            group (distinct l-diversity).
        t_closeness (float, optional): The largest total variation distance
            between the labels of a group and those of all nodes.
        task_weight (float, optional): How much class probabilities counted
            when groups were formed, 0 for not at all.
        unique_share (float, optional): The share of source nodes that no other
            node shares (label, token, tokens of sampled neighbours) with.
        min_support (int, optional): The number of source nodes that show each
            path, :obj:`None` where no rule was asked for.
        cluster_epsilon (float, optional): What a private codebook costs per
            node.
        cluster_delta (float, optional): The failure probability of that.
        epsilon (float, optional): The differential privacy budget that was
            spent, :obj:`None` for no differential privacy.
        delta (float, optional): Its failure probability.
        protects (str, optional): The unit in short: :obj:`"features"`,
            :obj:`"record"`, :obj:`"edge"` or :obj:`"node"`.
        form (str, optional): The private model of trees.
        seeded_noise (bool, optional): Whether the noise came from a seed.
        ledger (dict, optional): All mechanisms with their noise and cost.
        large_delta (bool, optional): Whether delta is above one in the number
            of nodes.
        projected (list[int], optional): The numbers of features and of
            coordinates, where vectors are released in the space of a public
            projection.
        public (dict, optional): Name and fingerprint of the public graph that
            the model started from.
        format (int, optional): The format of the release, which has its own
            wording. (default: the newest)
    """

    mechanism: str
    num_clusters: int
    k: int | None = None
    k_reached: int | None = None
    homogeneous: int | None = None
    l_reached: int | None = None
    t_closeness: float | None = None
    task_weight: float | None = None
    unique_share: float | None = None
    min_support: int | None = None
    cluster_epsilon: float | None = None
    cluster_delta: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    protects: str = 'features'
    form: str | None = None
    seeded_noise: bool = False
    ledger: dict[str, Any] | None = None
    large_delta: bool = False
    projected: list[int] | None = None
    public: dict[str, str] | None = None
    format: int = NEWEST

    def __post_init__(self) -> None:
        if self.mechanism not in STATEMENTS:
            raise ValueError(f"Unknown mechanism '{self.mechanism}'; known are {list(STATEMENTS)}")

    @cached_property
    def _statement(self) -> Statement:
        return state(self.mechanism, asdict(self), self.format)

    @property
    def is_private(self) -> bool:
        r"""Whether the release as a whole is differentially private."""
        return self.mechanism == DP

    @property
    def unit(self) -> str:
        r"""What the guarantee speaks of."""
        return self._statement.unit

    @property
    def summary(self) -> str:
        r"""The promise in one line."""
        return self._statement.summary

    @property
    def guaranteed(self) -> list[str]:
        r"""What holds, in sentences; with noise from a seed, nothing does."""
        return list(self._statement.guaranteed)

    @property
    def not_guaranteed(self) -> list[str]:
        r"""What does not hold, and what is declared, in sentences."""
        return list(self._statement.not_guaranteed)

    def to_dict(self) -> dict[str, Any]:
        r"""All facts of the mechanism and the sentences, for a JSON file."""
        facts = {name: getattr(self, name) for name in FIELDS[self.mechanism]}
        if self.min_support is not None:
            facts['min_support'] = self.min_support
        return {
            'mechanism': self.mechanism,
            'unit': self.unit,
            **facts,
            'guaranteed': self.guaranteed,
            'not_guaranteed': self.not_guaranteed,
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any], format: int = NEWEST) -> Card:
        r"""The inverse of :meth:`to_dict`; refuses a differentially private card
        that contradicts itself.

        Args:
            content (dict): The content of a file.
            format (int, optional): The format of the release.
                (default: the newest)
        """
        mechanism = content['mechanism']
        facts = {name: content[name] for name in FIELDS.get(mechanism, ('num_clusters',))}
        card = cls(mechanism, min_support=content.get('min_support'), format=format, **facts)
        if card.is_private:
            card._check_ledger()
            for name in ('unit', 'guaranteed', 'not_guaranteed'):
                if getattr(card, name) != content[name]:
                    raise LedgerError(
                        f"'{name}' of the card has other words than its numbers: it was altered"
                    )
        return card

    def _check_ledger(self) -> None:
        assert self.ledger is not None
        Ledger.from_dict(self.ledger, verify=False)
        totals = {total['unit']: total for total in self.ledger['totals']}
        stated = totals.get(self.protects)
        if stated is None or (stated['epsilon'], stated['delta']) != (self.epsilon, self.delta):
            raise LedgerError(
                f'The card claims epsilon = {self.epsilon:g}, delta = {self.delta:g} per '
                f"'{self.protects}', but its ledger says {stated}: it was altered"
            )

    def verify(self) -> None:
        r"""Computes again what the entries of the ledger cost, where
        :obj:`dp-accounting` is installed, and refuses a card that claims less.
        Whether these are the entries of such a build is for
        :meth:`~torch_geometric_cgt.release.verify.check_private_card`.
        """
        if self.ledger is not None and find_spec('dp_accounting') is not None:
            Ledger.from_dict(self.ledger)
