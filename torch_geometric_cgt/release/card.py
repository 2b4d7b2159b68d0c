r"""The privacy card: what a release guarantees, for which unit, and what it does not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from torch_geometric_cgt.errors import LedgerError
from torch_geometric_cgt.privacy import Ledger
from torch_geometric_cgt.privacy.units import CappedSample
from torch_geometric_cgt.release.wording import NEWEST, WORDINGS, Wording

K_ANONYMITY, PRIVATE_CLUSTERS, DP = 'k-anonymity', 'private clusters', 'differential privacy'

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
FIELDS = {  # the fields of each mechanism, in the order of the file
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
class Statement:
    r"""The promise of a release, in words.

    Args:
        unit (str): The unit that the guarantee holds for.
        summary (str): The promise in one line.
        guaranteed (list[str]): Sentences on what is guaranteed.
        not_guaranteed (list[str]): Sentences on what is not guaranteed.
    """

    unit: str
    summary: str
    guaranteed: list[str]
    not_guaranteed: list[str]


def state(mechanism: str, facts: dict[str, Any], format: int = NEWEST) -> Statement:
    r"""States the promise of a release.

    Args:
        mechanism (str): One of :obj:`"k-anonymity"`, :obj:`"private clusters"`
            and :obj:`"differential privacy"`.
        facts (dict): The fields of its :class:`~torch_geometric_cgt.release.Card`.
        format (int, optional): The format of the release. Each format has its
            own wording. (default: the newest)
    """
    return STATEMENTS[mechanism](facts, WORDINGS[format])


def state_k_anonymity(facts: dict[str, Any], say: Wording) -> Statement:
    r"""The promise of clusters of at least :math:`k` nodes."""
    guaranteed = [say.groups.format(**facts)]
    not_guaranteed = [sentence.format(**facts) for sentence in say.group_limits]
    if facts['l_reached'] > 1:
        guaranteed.append(say.diverse.format(**facts))
    if facts['task_weight'] > 0:
        not_guaranteed.append(say.task.format(**facts))
    if facts['min_support'] is not None:
        guaranteed.append(say.supported.format(**facts))
        not_guaranteed.append(say.combined.format(**facts))
    summary = 'asked for k = {k}, reached k = {k_reached}, with {num_clusters} groups'
    unit = 'the feature vector of a node'
    return Statement(unit, summary.format(**facts), guaranteed, not_guaranteed)


def state_private_clusters(facts: dict[str, Any], say: Wording) -> Statement:
    r"""The promise of a private codebook, if everything else is not private."""
    return Statement(
        'node',
        f'{facts["num_clusters"]} groups of any size, with noise in their feature vectors',
        [say.private_codebook.format(**facts)],
        [sentence.format(**facts) for sentence in say.unprotected + say.group_limits[1:]],
    )


def state_differential_privacy(facts: dict[str, Any], say: Wording) -> Statement:
    r"""The promise of a release that is differentially private as a whole. If the
    noise comes from a seed, nothing is guaranteed.
    """
    unit, seeded = say.units[facts['protects']], facts['seeded_noise']
    words = {'epsilon': facts['epsilon'], 'delta': facts['delta'], 'unit_words': unit}
    guaranteed = [say.nothing] if seeded else _end_to_end(facts, words, say)
    not_guaranteed = [say.seeded.format(**words)] if seeded else []
    not_guaranteed += {'record': [say.record], 'edge': [say.edge]}.get(facts['protects'], [])
    not_guaranteed += say.dp_limits
    if facts['large_delta']:
        not_guaranteed.append(say.large_delta)
    if facts['form'] == 'dp_sgd':
        not_guaranteed.append(say.gradients)
    if facts['projected'] is not None:
        num_features, size = facts['projected']
        not_guaranteed.append(say.projected.format(num_features=num_features, size=size))
    if facts['public'] is not None:
        not_guaranteed.append(say.pretrained.format(**facts['public']))
    summary = (
        f'epsilon = {facts["epsilon"]:.3g}, delta = {facts["delta"]:.2g} per {facts["protects"]} '
        f'({facts["form"]}), {facts["num_clusters"]} feature vectors'
    )
    if seeded:
        summary = f'no guarantee, the noise has a seed; else {summary}'
    return Statement(unit, summary, guaranteed, not_guaranteed)


def _end_to_end(facts: dict[str, Any], words: dict[str, Any], say: Wording) -> list[str]:
    epsilon, sample = facts['epsilon'], facts['ledger']['sample']
    factor = math.exp(min(epsilon, 700.0))
    times = f'{factor:,.3g}' if factor < 1e6 else f'e^{epsilon:.3g}'
    sentences = [sentence.format(**words, factor=times) for sentence in say.end_to_end]
    if sample is not None:
        capped = CappedSample(**sample)
        sentences.append(
            say.capped.format(
                trees_per_node=capped.trees_per_node,
                trees_per_edge=capped.trees_per_edge,
                max_parents=capped.max_parents,
            )
        )
    return sentences


STATEMENTS: dict[str, Callable[[dict[str, Any], Wording], Statement]] = {
    K_ANONYMITY: state_k_anonymity,
    PRIVATE_CLUSTERS: state_private_clusters,
    DP: state_differential_privacy,
}


@dataclass(frozen=True)
class Card:
    r"""What a release guarantees, for which unit, at what cost.

    The fields are facts. The sentences (:obj:`guaranteed`,
    :obj:`not_guaranteed`) follow from them.

    Args:
        mechanism (str): :obj:`"k-anonymity"`; :obj:`"private clusters"`, if
            only the codebook is differentially private; or
            :obj:`"differential privacy"`.
        num_clusters (int): The number of distinct feature vectors.
        k (int, optional): The requested minimum group size.
        k_reached (int, optional): The size of the smallest group.
        homogeneous (int, optional): The number of groups whose labelled
            members all have the same label.
        l_reached (int, optional): The smallest number of distinct labels in a
            group (distinct l-diversity).
        t_closeness (float, optional): The largest total variation distance
            between the labels of a group and those of all nodes.
        task_weight (float, optional): The weight of class probabilities in the
            clustering; 0 if they are not used.
        unique_share (float, optional): The share of source nodes whose (label,
            token, tokens of sampled neighbours) is unique.
        min_support (int, optional): The minimum number of source nodes of each
            path; :obj:`None` without the support rule.
        cluster_epsilon (float, optional): The cost of a private codebook per
            node.
        cluster_delta (float, optional): The failure probability of a private
            codebook.
        epsilon (float, optional): The spent privacy budget; :obj:`None` without
            differential privacy.
        delta (float, optional): The failure probability.
        protects (str, optional): The unit in short: :obj:`"features"`,
            :obj:`"record"`, :obj:`"edge"` or :obj:`"node"`.
        form (str, optional): The private tree model.
        seeded_noise (bool, optional): Whether the noise came from a seed.
        ledger (dict, optional): All mechanisms with their noise and cost.
        large_delta (bool, optional): Whether delta exceeds one over the number
            of nodes.
        projected (list[int], optional): The numbers of features and of
            dimensions, if vectors are released in the space of a public
            projection.
        public (dict, optional): Name and fingerprint of the public graph for
            pre-training.
        format (int, optional): The format of the release. Each format has its
            own wording. (default: the newest)
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
        r"""The unit that the guarantee holds for."""
        return self._statement.unit

    @property
    def summary(self) -> str:
        r"""The promise in one line."""
        return self._statement.summary

    @property
    def guaranteed(self) -> list[str]:
        r"""Sentences on what is guaranteed. With noise from a seed, nothing is."""
        return list(self._statement.guaranteed)

    @property
    def not_guaranteed(self) -> list[str]:
        r"""Sentences on what is not guaranteed, and on declared public data."""
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
        r"""The inverse of :meth:`to_dict`. Raises :class:`LedgerError` if the
        sentences or the ledger of a differentially private card contradict its
        facts.

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
                        f"'{name}' of the card does not match its facts: it was altered"
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
        r"""Recomputes the cost of the ledger if :obj:`dp-accounting` is installed.
        Raises :class:`LedgerError` if the card claims less.
        :meth:`~torch_geometric_cgt.release.verify.check_private_card` checks that
        the entries are those of a build.
        """
        if self.ledger is not None and find_spec('dp_accounting') is not None:
            Ledger.from_dict(self.ledger)
