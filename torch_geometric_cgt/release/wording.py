r"""The promise of a release in words: the sentences of cards, by the format of the release.

A card is compared with the sentences of its own format, so that an altered card of an old
release is found as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from torch_geometric_cgt.errors import LedgerError
from torch_geometric_cgt.privacy.units import CappedSample
from torch_geometric_cgt.release.edge_wording import edge_sentences
from torch_geometric_cgt.release.first_wording import SENTENCES_1

K_ANONYMITY, PRIVATE_CLUSTERS, DP = 'k-anonymity', 'private clusters', 'differential privacy'
EACH_ALONE = 'Groups protect each feature vector on its own. '


@dataclass(frozen=True)
class Wording:
    r"""The sentences of one format, with places for facts."""

    # k-anonymity.
    groups: str
    diverse: str
    supported: str
    group_limits: tuple[str, ...]
    task: str
    combined: str
    # A private codebook in a release that is not private otherwise.
    private_codebook: str
    unprotected: tuple[str, ...]
    # Differential privacy of the whole release.
    units: dict[str, str]
    end_to_end: tuple[str, ...]
    capped: str
    nothing: str
    seeded: str
    dp_limits: tuple[str, ...]
    record: str
    edge: str
    large_delta: str
    gradients: str
    projected: str
    pretrained: str
    # From format 3 on.
    neighbours: dict[str, str] = field(default_factory=dict)
    changed: str = ''
    bounded: str = ''
    # k-anonymity, from format 3 on.
    protected_groups: str = ''
    value_support: str = ''
    rounded: str = ''
    no_anonymity: str = ''
    one_group: str = ''
    members_exact: str = ''
    members_protected: str = ''
    members_one: str = ''
    each_alone: str = ''


FORMAT_1 = Wording(**SENTENCES_1)

FORMAT_2 = replace(
    FORMAT_1,
    supported=(
        'At least {min_support} source nodes have a computation graph that shows each path of this '
        'release. A path is the label of a root with the groups of the nodes from the root down to '
        'one node.'
    ),
    group_limits=(
        'This is not differential privacy. There is no bound on what a person can learn who knows '
        'all other nodes, or who compares several releases of the same graph.',
        'Groups do not hide who is in the source. A person who knows the features of a node can '
        'often tell from the feature vectors of this release whether the node was in the source.',
        'Groups protect each feature vector on its own. The generator learns from the source how '
        'groups occur together in a computation graph: {unique_share:.0%} of its nodes are the '
        'only node with their label, their group and the groups of their neighbours.',
        'The size of a group does not protect labels. {homogeneous} of {num_clusters} groups hold '
        'nodes of one label only, so whoever knows that a node is in such a group knows its label. '
        'Every group holds at least {l_reached} distinct labels. The total variation distance '
        'between the labels of a group and the labels of all nodes is at most {t_closeness:.2f}. '
        'Synthetic labels are drawn from the exact label counts of the source, and scenes from '
        'their exact counts per label and split.',
        'The card states the exact sizes of the source graph and of its splits.',
    ),
    task=(
        'Class probabilities took part in forming the groups (weight {task_weight:.2f}). The '
        'probabilities of a node come from models that did not see its label, but groups are more '
        'homogeneous than without them.'
    ),
    combined=(
        'The support rule (at least {min_support} source nodes) protects each path on its own. The '
        'generator learns from the source which paths occur together in a computation graph.'
    ),
    private_codebook=(
        'The feature vectors of this release, on their own, are differentially private: epsilon = '
        '{cluster_epsilon:.4g}, delta = {cluster_delta:.2g}, for one node with its features and '
        'its label.'
    ),
    unprotected=(
        'This is not end-to-end differential privacy, and the release as a whole has no epsilon. '
        'Noise protects only the feature vectors. The group of each node, the way groups occur '
        'together in computation graphs, and the labels were learned from the source without '
        'noise.',
        'No k is guaranteed: groups have no minimum size (the smallest has {k_reached} nodes).',
    ),
    end_to_end=(
        'This release is ({epsilon:.3g}, {delta:.2g})-differentially private. Unit: {unit_words}. '
        'It was learned from two tables: the features and the label of each node, and one '
        'computation graph of each root, sampled once. Compare it with a release that was made '
        'after the rows of one unit were set to zero in both tables: the probability of any result '
        'differs by a factor of at most {factor}, except with probability {delta:.2g}.',
        'This holds against a person who knows all other data and has any computing power, and for '
        'everything that is computed from this release later. The noise is secret: it comes from '
        'the random bits of the operating system, which are assumed to be random.',
        'Every stage that reads the data is in the ledger of this card with its noise. The budget '
        'is the cost of all stages together.',
    ),
    capped=(
        'A node occurs in at most {trees_per_node} computation graphs and an edge in at most '
        '{trees_per_edge}, because every node has at most {max_parents} parents in the sample that '
        'the model learned from.'
    ),
    nothing=(
        'Nothing is guaranteed: the noise was drawn from a seed, and whoever knows or guesses the '
        'seed can subtract the noise.'
    ),
    seeded=(
        'With secret noise, the same build would be ({epsilon:.3g}, {delta:.2g})-differentially '
        'private. Unit: {unit_words}. This build is for tests.'
    ),
    dp_limits=(
        'The numbers of nodes, labelled nodes, features and labels of the source, and whether it '
        'had splits, are treated as public. The card states them as they are.',
        'The sample of neighbours is drawn once and is part of the data. It is not drawn again '
        'without the unit.',
        'Another release from the same source has its own cost: budgets add up.',
        'Facts about a whole group of nodes can be learned, also about members of the group who '
        'are not in the data.',
        'Shares of the budget and sizes were chosen with results on Cora and PubMed in view. For '
        'these two graphs, that choice is not in the ledger.',
    ),
    record=(
        'A node also occurs in the computation graphs of its neighbours. These are other records, '
        'and the unit "record" does not cover what they reveal about the node.'
    ),
    edge=(
        'Features and labels are not covered by the unit "edge". The budget limits what can be '
        'learned about one edge, not what can be learned about the features or the label of a '
        'node.'
    ),
    large_delta=(
        'delta is larger than one in the number of nodes, and this was accepted when the release '
        'was made. A mechanism that publishes one random row unchanged would satisfy it.'
    ),
    gradients=(
        'The noise of gradients consists of floating-point numbers, whose last digits are not '
        'exactly Gaussian.'
    ),
    projected=(
        'Feature vectors are not in the space of the source features. They have {size} '
        'coordinates: a public random projection of all {num_features} features, which is part of '
        'this release. They do not show the value of a single feature.'
    ),
    pretrained=(
        "The model of trees started from weights that were learned without noise from '{name}' "
        '(fingerprint {fingerprint}). That graph is taken to be public: nothing in it is '
        'protected, including what it reveals about a person who is also in the source.'
    ),
)

FORMAT_3 = replace(
    FORMAT_2,
    units={
        'node': 'one node with its features, its label and all its edges',
        'attributes': 'the features and the label of one node',
        'edge': 'one edge, in both directions',
        'frozen_record': (
            'one row of a table of computation graphs that was sampled once, with the features '
            'and the label of its root'
        ),
    },
    end_to_end=(
        'This release is ({epsilon:.3g}, {delta:.2g})-differentially private{scope}. Unit: '
        '{unit_words}. Compare it with a release that is made from {neighbour}: the probability '
        'of any result differs by a factor of at most {factor}, except with probability '
        '{delta:.2g}.{changed}',
        *FORMAT_2.end_to_end[1:],
    ),
    neighbours={
        'node': (
            'the same graph without one node, its features, its label and all its edges, with '
            'everything computed again'
        ),
        'attributes': (
            'the same graph in which one node has any other features and label, with everything '
            'computed again'
        ),
        'edge': 'the same graph without one edge, with everything computed again',
        'frozen_record': 'the same tables without this row, with all other rows as they are',
    },
    changed=' If the unit is replaced instead of removed, epsilon is {changed_epsilon:.3g}.',
    bounded=' for nodes with at most {max_degree} edges into them, and not private for others',
    dp_limits=(
        FORMAT_2.dp_limits[0],
        *FORMAT_2.dp_limits[2:4],
        'Shares of the budget, caps and sizes were chosen with results on Cora, PubMed and Photo '
        'in view. For these graphs, that choice is not in the ledger.',
    ),
    record=(
        'The unit "frozen record" protects neither a node nor its attributes. A node is also in '
        'the computation graphs of other nodes. These are other rows, and what they reveal about '
        'the node is not covered.'
    ),
    edge=(
        'Features and labels are not covered by the unit "edge". Each feature vector is computed '
        'from at least {k} source nodes, without noise. Labels are drawn from their exact counts.'
    ),
    protected_groups=(
        'Every feature vector in this release is computed from the feature vectors of at least {k} '
        'source nodes (the smallest group has {k_reached}). It is their mean, with these changes.'
    ),
    value_support=(
        'A feature that fewer than {min_value_support} nodes of a group have is left out. Its '
        'value is the mean over four similar groups if {min_value_support} of their nodes have '
        'it, and zero otherwise.'
    ),
    rounded=(
        'Means are rounded to multiples of {rounding:.3g} times the scale of their feature, and '
        'means over four groups to multiples of a quarter of that. The '
        'scale is a power of two: 1 for features that are 0 or 1, otherwise the usual size of a '
        'value. Values beyond twice the scale are clipped first.'
    ),
    no_anonymity=(
        'Nothing is guaranteed about feature vectors: k = 1 was accepted when this release was '
        'made, so they can be those of single source nodes.'
    ),
    one_group='There is one group only: all nodes have the same feature vector.',
    members_exact=(
        'Groups do not hide who is in the source. The feature vectors of this release are exact '
        'means. A person who knows the features of a node can tell from them whether the node was '
        'in the source, often with near certainty. The size of each group can be computed from '
        'means of features that are 0 or 1.'
    ),
    members_protected=(
        'It is not guaranteed that nobody can tell who is in the source. The changes to the means '
        'remove most of what the known attacks use, but a person who knows the features of a node '
        'can still guess better than by chance whether the node was in the source.'
    ),
    members_one=(
        'It is not hidden who is in the source. A person who knows the features of a node can look '
        'them up in this release.'
    ),
    group_limits=(
        FORMAT_2.group_limits[0],
        '{each_alone}' + FORMAT_2.group_limits[2].removeprefix(EACH_ALONE),
        *FORMAT_2.group_limits[3:],
    ),
    each_alone=EACH_ALONE,
)

WORDINGS = {1: FORMAT_1, 2: FORMAT_2, 3: FORMAT_3}
NEWEST = max(WORDINGS)


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
    statement = STATEMENTS[mechanism](facts, WORDINGS[format])
    if facts.get('edges') is None:
        return statement
    promised, limits = edge_sentences(facts)
    return replace(
        statement,
        guaranteed=[*statement.guaranteed, *promised],
        not_guaranteed=[*statement.not_guaranteed, *limits],
    )


def state_k_anonymity(facts: dict[str, Any], say: Wording) -> Statement:
    r"""The promise of clusters of at least :math:`k` nodes."""
    is_protected = any(facts.get(name) is not None for name in ('min_value_support', 'rounding'))
    is_single = facts['k_reached'] == 1 and bool(say.no_anonymity)
    words = {**facts, 'each_alone': '' if is_single else say.each_alone}
    not_guaranteed = [sentence.format(**words) for sentence in say.group_limits]
    members = say.members_protected if is_protected else say.members_exact
    if members:
        not_guaranteed.insert(1, say.members_one if is_single else members)
    guaranteed = [say.no_anonymity] if is_single else _groups(facts, say, is_protected)
    if facts['num_clusters'] == 1 and say.one_group:
        guaranteed.append(say.one_group)
    if facts['l_reached'] > 1:
        guaranteed.append(say.diverse.format(**facts))
    if facts['task_weight'] > 0:
        not_guaranteed.append(say.task.format(**facts))
    if facts['min_support'] is not None:
        guaranteed.append(say.supported.format(**facts))
        not_guaranteed.append(say.combined.format(**facts))
    summary = 'asked for k = {k}, reached k = {k_reached}, with {num_clusters} groups'
    if is_single:
        summary = 'no anonymity (k = {k}), with {num_clusters} groups'
    unit = 'the feature vector of a node'
    return Statement(unit, summary.format(**facts), guaranteed, not_guaranteed)


def _groups(facts: dict[str, Any], say: Wording, is_protected: bool) -> list[str]:
    r"""How feature vectors are computed from groups."""
    if not is_protected:
        return [say.groups.format(**facts)]
    sentences = [say.protected_groups.format(**facts)]
    if facts['min_value_support'] is not None:
        sentences.append(say.value_support.format(**facts))
    if facts['rounding'] is not None:
        sentences.append(say.rounded.format(**facts))
    return sentences


def state_private_clusters(facts: dict[str, Any], say: Wording) -> Statement:
    r"""The promise of a private codebook, if everything else is not private."""
    words = {**facts, 'each_alone': ''}  # groups have no minimum size
    return Statement(
        'node',
        f'{facts["num_clusters"]} groups of any size, with noise in their feature vectors',
        [say.private_codebook.format(**facts)],
        [sentence.format(**words) for sentence in say.unprotected + say.group_limits[1:]],
    )


def state_differential_privacy(facts: dict[str, Any], say: Wording) -> Statement:
    r"""The promise of a release that is differentially private as a whole. If the
    noise comes from a seed, nothing is guaranteed.
    """
    if facts['protects'] not in say.units:
        raise ValueError(
            f"This format has no unit '{facts['protects']}'; known are {list(say.units)}"
        )
    unit, seeded = say.units[facts['protects']], facts['seeded_noise']
    words = {'epsilon': facts['epsilon'], 'delta': facts['delta'], 'unit_words': unit}
    guaranteed = [say.nothing] if seeded else _end_to_end(facts, words, say)
    not_guaranteed = [say.seeded.format(**words)] if seeded else []
    if facts['protects'] in ('record', 'frozen_record'):
        not_guaranteed.append(say.record)
    if facts['protects'] == 'edge':
        not_guaranteed.append(say.edge.format(k=facts['k']))
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
    words = {**words, 'factor': times, 'scope': '', 'changed': ''}
    if say.neighbours:
        words['neighbour'] = say.neighbours[facts['protects']]
        if facts['max_degree'] is not None:
            words['scope'] = say.bounded.format(**facts)
        if facts['protects'] in ('node', 'edge'):
            words['changed'] = say.changed.format(changed_epsilon=_replaced_epsilon(facts))
    sentences = [sentence.format(**words) for sentence in say.end_to_end]
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


def _replaced_epsilon(facts: dict[str, Any]) -> float:
    r"""The epsilon that the ledger states for a unit that is replaced instead of removed."""
    for total in facts['ledger']['totals']:
        if (total['unit'], total['relation']) == (facts['protects'], 'substitute'):
            return float(total['epsilon'])
    raise LedgerError(f"The ledger has no total for a '{facts['protects']}' that is replaced")


STATEMENTS: dict[str, Callable[[dict[str, Any], Wording], Statement]] = {
    K_ANONYMITY: state_k_anonymity,
    PRIVATE_CLUSTERS: state_private_clusters,
    DP: state_differential_privacy,
}
