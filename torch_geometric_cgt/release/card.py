r"""The privacy card: what a release guarantees, and the check that a private build can have it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import torch

from torch_geometric_cgt.errors import CorruptFileError, LedgerError
from torch_geometric_cgt.pipeline import BuildConfig
from torch_geometric_cgt.pipeline.plan import PrivatePlan, PublicNumbers, stages_of
from torch_geometric_cgt.privacy import Budget, Entry
from torch_geometric_cgt.privacy.ledger import RELATIONS, TOLERANCE
from torch_geometric_cgt.privacy.stated_ledger import read_ledger
from torch_geometric_cgt.privacy.units import CappedSample
from torch_geometric_cgt.release.statements import STATEMENTS, Statement, state
from torch_geometric_cgt.release.wording import DP, K_ANONYMITY, NEWEST, PRIVATE_CLUSTERS
from torch_geometric_cgt.version import __version__

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
PLANNED = 3  # the first format whose private plans can be recomputed
OPTIONAL = (  # if set
    'min_support',
    'min_value_support',
    'rounding',
    'max_degree',
    'edges',
    'profile',
    'generator',
    'copies_trees',
)


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
        min_value_support (int, optional): The minimum number of nodes of a
            group that have a value; :obj:`None` if values of single nodes are
            in the means.
        rounding (float, optional): The distance of two rounded means, in scales
            of their feature; :obj:`None` for exact means.
        cluster_epsilon (float, optional): The cost of a private codebook per
            node.
        cluster_delta (float, optional): The failure probability of a private
            codebook.
        epsilon (float, optional): The spent privacy budget; :obj:`None` without
            differential privacy.
        delta (float, optional): The failure probability.
        protects (str, optional): The unit in short: :obj:`"features"`, or one
            of :obj:`~torch_geometric_cgt.privacy.UNITS`.
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
        max_degree (int, optional): The largest number of edges into a node that
            is protected; :obj:`None` for all nodes.
        edges (dict, optional): The types of edge weights and edge attributes, the
            number of their values and, for k-anonymity, the requested and the
            smallest number of nodes behind a value; :obj:`None` without edge
            values.
        profile (dict, optional): The requested and the smallest number of nodes in a
            group of degrees, the number of groups, and the rounded homophily;
            :obj:`None` without a profile of the graph.
        generator (str, optional): The generator of the trees; :obj:`None` for CGT
            and for private models.
        copies_trees (bool, optional): Whether the generator releases whole
            computation graphs of the source.
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
    min_value_support: int | None = None
    rounding: float | None = None
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
    max_degree: int | None = None
    edges: dict[str, Any] | None = None
    profile: dict[str, Any] | None = None
    generator: str | None = None
    copies_trees: bool | None = None
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
        facts |= {name: v for name in OPTIONAL if (v := getattr(self, name)) is not None}
        return {
            'mechanism': self.mechanism,
            'unit': self.unit,
            **facts,
            'guaranteed': self.guaranteed,
            'not_guaranteed': self.not_guaranteed,
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any], format: int = NEWEST) -> Card:
        r"""The inverse of :meth:`to_dict`. Raises :class:`CorruptFileError` if
        the sentences of a card contradict its facts, and :class:`LedgerError` if
        its ledger does.

        Args:
            content (dict): The content of a file.
            format (int, optional): The format of the release.
                (default: the newest)
        """
        mechanism = content['mechanism']
        facts = {name: content[name] for name in FIELDS.get(mechanism, ('num_clusters',))}
        facts |= {name: content.get(name) for name in OPTIONAL}
        card = cls(mechanism, format=format, **facts)
        if card.is_private:
            card._check_ledger()
        for name in ('unit', 'guaranteed', 'not_guaranteed'):
            if getattr(card, name) != content[name]:
                raise CorruptFileError(
                    f"'{name}' of the card does not match its facts: it was altered"
                )
        if unknown := sorted(content.keys() - card.to_dict().keys()):
            raise CorruptFileError(f'The card has no fact {unknown[0]!r:.60}: it was altered')
        return card

    def _check_ledger(self) -> None:
        if self.ledger is None:
            raise LedgerError('The card has no ledger: it was altered')
        read_ledger(self.ledger, verify=False)
        is_old = self.format < PLANNED
        for entry in self.ledger['entries']:
            if is_old == ('changes' in entry) or is_old != ('sensitivity' in entry):
                raise LedgerError(
                    f'{entry["name"]!r:.60} is not an entry of format {self.format}: it was altered'
                )
        totals = self.ledger['totals']
        removed = [t for t in totals if (t['unit'], t['relation']) == (self.protects, 'zero-out')]
        stated = removed[0] if len(removed) == 1 else None
        if stated is None or (stated['epsilon'], stated['delta']) != (self.epsilon, self.delta):
            raise LedgerError(
                f'The card claims epsilon = {self.epsilon:g}, delta = {self.delta:g} per '
                f"'{self.protects}', but its ledger says {stated}: it was altered"
            )
        found = [(total['unit'], total['relation'], total['delta']) for total in totals]
        expected = [(self.protects, relation, self.delta) for relation in RELATIONS]
        if not is_old and found != expected:
            raise LedgerError(
                f'The ledger has the totals {found!r:.200} and should have {expected}: '
                f'it was altered'
            )

    def verify(self) -> None:
        r"""Recomputes the cost of the ledger if :obj:`dp-accounting` is installed.
        Raises :class:`LedgerError` if the card claims less.
        :meth:`~torch_geometric_cgt.release.card.check_private_card` checks that
        the entries are those of a build.
        """
        if self.ledger is not None:
            read_ledger(self.ledger)


def check_private_card(card: dict[str, Any], num_clusters: int, num_features: int) -> None:
    r"""Recomputes the plan of a private build from the public numbers and the
    parameters of a card. Raises :class:`LedgerError` if the ledger of the card
    has other entries than the plan, or if its facts contradict each other.

    A checksum has no key, so that an attacker who alters a card can also adapt
    its checksum. This check finds cards with mechanisms, sensitivities, group
    sizes, deltas or sentences that no build has. It cannot find a card that is
    consistent but made up. The mechanisms of releases before format 3 are not known any
    more: only the facts, the sentences and the sum of such a ledger are checked.

    Args:
        card (dict): The card of a release.
        num_clusters (int): The number of feature vectors of the release.
        num_features (int): The dimension of the feature vectors.
    """
    privacy = Card.from_dict(card['privacy'], card['format'])
    asked = card['parameters'].get('private')
    if not isinstance(asked, dict) or privacy.ledger is None or privacy.epsilon is None:
        raise LedgerError('The parameters of the card are not those of a private build')
    _check_facts(_facts_of_any_format(card, privacy, num_clusters, num_features), card)
    if privacy.epsilon > asked['epsilon'] * TOLERANCE:
        what = f'epsilon = {privacy.epsilon:g} was spent, but the budget is {asked["epsilon"]:g}'
        raise LedgerError(_altered(what, card))
    if card['format'] >= PLANNED:
        _check_plan(card, privacy, num_clusters)


def _facts_of_any_format(
    card: dict[str, Any], privacy: Card, num_clusters: int, num_features: int
) -> dict[str, tuple[Any, Any]]:
    r"""The stated value and the recomputed value of each fact that does not need a plan."""
    assert privacy.ledger is not None
    source, parameters = card['source'], card['parameters']
    asked, num_nodes = parameters['private'], source['num_nodes']
    accepted = asked['accept_large_delta']
    budget = Budget.of(asked['epsilon'], asked['delta'], num_nodes, accept_large_delta=accepted)
    sample = None
    if card['format'] < PLANNED and privacy.protects != 'record':
        sample = asdict(CappedSample(asked['max_parents'], len(parameters['num_neighbors'])))
    projected = asked['clusters'].get('space') == 'projected'
    return {
        'protects': (privacy.protects, asked['unit']),
        'delta': (privacy.delta, budget.delta),
        'large_delta': (privacy.large_delta, budget.delta > 1 / num_nodes),
        'stages': (privacy.ledger['stages'], list(stages_of('edge_bounds' in asked))),
        'sample': (privacy.ledger['sample'], sample),
        'public': (privacy.public, asked.get('public')),
        'projected': (
            privacy.projected,
            [source['num_features'], num_features] if projected else None,
        ),
        'num_features of the source': (
            source['num_features'],
            source['num_features'] if projected else num_features,
        ),
        'num_features': (card['num_features'], num_features),
        'num_clusters': (privacy.num_clusters, num_clusters),
        'num_tokens': (card['num_tokens'], num_clusters),
        'num_classes': (card['num_classes'], source['num_classes']),
        'num_neighbors': (card['num_neighbors'], parameters['num_neighbors']),
        'num_trees': (card['num_trees'], parameters.get('num_samples') or source['num_labelled']),
        'num_edges': (source['num_edges'], None),
        'num_labelled': (source['num_labelled'], min(source['num_labelled'], num_nodes)),
    }


def _check_plan(card: dict[str, Any], privacy: Card, num_clusters: int) -> None:
    r"""Compares the mechanisms of a card with those of the plan of its parameters."""
    config, source = BuildConfig.from_dict(card['parameters']), card['source']
    assert config.private is not None and privacy.ledger is not None
    numbers = PublicNumbers(
        source['num_nodes'], source['num_labelled'], source['num_classes'], config.shape
    )
    plan = PrivatePlan(numbers, config.private)
    with torch.device('meta'):  # the card decides on the size of the model
        expected = plan.entries()
    _check_entries(expected, [Entry.from_dict(e) for e in privacy.ledger['entries']], card)
    facts = {
        'form': (privacy.form, plan.form),
        'max_degree': (privacy.max_degree, plan.max_degree),
        'k': (privacy.k, plan.k),
    }
    _check_facts(facts, card)
    if num_clusters > (most := plan.most_clusters):
        what = f'there are {num_clusters} feature vectors, but the budget allows at most {most}'
        raise LedgerError(_altered(what, card))


def _check_facts(facts: dict[str, tuple[Any, Any]], card: dict[str, Any]) -> None:
    r"""Raises :class:`LedgerError` unless each stated value equals the recomputed one."""
    for name, (stated, found) in facts.items():
        if not _is_equal(stated, found):
            raise LedgerError(
                _altered(f"'{name}' is {stated!r:.200} and should be {found!r:.200}", card)
            )


def _check_entries(expected: list[Entry], stated: list[Entry], card: dict[str, Any]) -> None:
    r"""Raises :class:`LedgerError` unless the entries equal those of the plan, apart from the
    width of their noise.
    """
    for i in range(max(len(expected), len(stated))):
        own, other = (entries[i] if i < len(entries) else None for entries in (expected, stated))
        if own is None or other is None or not own.is_same_as(other):
            what = f"the plan has no entry '{other and other.name}'" if own is None else ''
            what = what or f"the ledger does not pay for '{own and own.name}' as it runs"
            raise LedgerError(_altered(f'{what} (stated: {other}, in the plan: {own})', card))


def _is_equal(stated: Any, found: Any) -> bool:
    if isinstance(stated, float) and isinstance(found, float):
        return math.isclose(stated, found, rel_tol=1e-9)
    return bool(stated == found)


def _altered(what: str, card: dict[str, Any]) -> str:
    made_by = card['versions']['torch_geometric_cgt']
    other = '' if made_by == __version__ else f', or made by another version ({made_by})'
    return f'The card does not match a private build: {what}. It was altered{other}'
