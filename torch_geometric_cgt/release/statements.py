r"""What each mechanism guarantees and what it does not, in sentences."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch_geometric_cgt.privacy.units import CappedSample

K_ANONYMITY, PRIVATE_CLUSTERS, DP = 'k-anonymity', 'private clusters', 'differential privacy'

# k-anonymity.
GROUPS = (
    'Every feature vector in this release is the mean of the feature vectors of at least '
    '{k} source nodes (the smallest group has {k_reached}).'
)

DIVERSE = 'The members of every group have at least {l_reached} distinct labels.'

SUPPORTED = (
    'Every path in this release, from the label of a root over the groups of the nodes down to one '
    'of them, is shown by the computation graphs of at least {min_support} source nodes.'
)

GROUP_LIMITS = (
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

TASK = (
    'Groups were formed with a view to the labels (weight {task_weight:.2f}). The class '
    'probabilities of a node come from models that did not see its own label, but groups are more '
    'homogeneous than without them.'
)

COMBINED = (
    'The support of paths (at least {min_support} source nodes) protects paths one by one: which '
    'paths are together in a computation graph is learned from the source.'
)

# A private codebook in a release that is not private otherwise.
PRIVATE_CODEBOOK = (
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

# Differential privacy of the whole release.
UNITS = {
    'record': 'one computation graph: that of one root, with the features and the label of the '
    'root',
    'edge': 'one edge: all computation graphs that it is in',
    'node': 'one node: its features, its label, and all computation graphs that it is in',
}

END_TO_END = (
    'This release is ({epsilon:.3g}, {delta:.2g})-differentially private. Unit: {unit_words}. Two '
    'tables were learned from: the features and the label of each node, and one computation graph '
    'of each root, sampled once. Whatever somebody could conclude from this release, they could '
    'have concluded had the rows of the unit been zeroed out in both; the probabilities of that '
    'differ by a factor of at most {factor}, but for cases of probability {delta:.2g}.',
    'This holds against somebody who knows all other data and has any computing power, and for '
    'everything that is done with this release later. The noise is secret: it was made of random '
    'bits of the operating system, which are taken to be random.',
    'Every stage that looks at the data is in the ledger of this card with its noise; the budget '
    'is the cost of all of them together.',
)

CAPPED = (
    'A node occurs in at most {trees_per_node} computation graphs, an edge in at most '
    '{trees_per_edge}: the sample that the model learned from has at most {max_parents} parents '
    'per node.'
)

NOTHING = (
    'Nothing is guaranteed: the noise was drawn from a seed, and whoever knows or guesses that '
    'seed can take the noise away.'
)

SEEDED = (
    'With noise that nobody can draw again, the same build would be ({epsilon:.3g}, {delta:.2g})-'
    'differentially private. Unit: {unit_words}. This one is for tests.'
)

DP_LIMITS = (
    'The numbers of nodes, of labelled nodes, of features and of labels of the source are taken to '
    'be known, and are stated as they are; so is whether it had splits.',
    'The sample of neighbours is drawn once and is a part of the data: it is not drawn again '
    'without the unit.',
    'Another release from the same source costs again: budgets add up.',
    'What is true of a whole group of nodes can be learned, also about members who are not in the '
    'data.',
    'Shares of the budget and sizes were fixed while looking at results on Cora and PubMed. For '
    'these two graphs, that choice is not in the ledger.',
)

RECORD = (
    'A node also occurs in the computation graphs of its neighbours. Those are other records: what '
    'they say of it is not covered by the unit "record".'
)

EDGE = (
    'Features and labels are not covered by the unit "edge": the budget bounds what is learned '
    'about one edge, and says nothing about what a node is or has.'
)

LARGE_DELTA = (
    'delta is larger than one in the number of nodes, which was accepted when this was made: a '
    'mechanism that publishes one random row as it is would meet it.'
)

GRADIENTS = (
    'The noise of gradients is made of floating-point numbers, which are not quite Gaussian in '
    'their last digits.'
)

PROJECTED = (
    'Feature vectors are not in the space of the features: they have {size} coordinates, those of '
    'a public random projection of all {num_features} features, which this release holds. What a '
    'single feature is cannot be read from them.'
)

PRETRAINED = (
    "The model of trees started from weights that were learned without noise from '{name}' "
    '(fingerprint {fingerprint}). That graph is taken to be public: nothing about it is protected, '
    'and nobody who is in it as well is protected from what it says.'
)


@dataclass(frozen=True)
class Statement:
    r"""What a release promises, for people.

    Args:
        unit (str): What the guarantee speaks of.
        summary (str): The promise in one line.
        guaranteed (list[str]): What holds, in sentences.
        not_guaranteed (list[str]): What does not hold, in sentences.
    """

    unit: str
    summary: str
    guaranteed: list[str]
    not_guaranteed: list[str]


def state(mechanism: str, facts: dict[str, Any]) -> Statement:
    r"""States the promise of a release.

    Args:
        mechanism (str): One of :obj:`"k-anonymity"`, :obj:`"private clusters"`
            and :obj:`"differential privacy"`.
        facts (dict): The fields of its :class:`~torch_geometric_cgt.release.Card`.
    """
    return STATEMENTS[mechanism](facts)


def state_k_anonymity(facts: dict[str, Any]) -> Statement:
    r"""The promise of groups of at least :math:`k` nodes."""
    guaranteed = [GROUPS.format(**facts)]
    not_guaranteed = [sentence.format(**facts) for sentence in GROUP_LIMITS]
    if facts['l_reached'] > 1:
        guaranteed.append(DIVERSE.format(**facts))
    if facts['task_weight'] > 0:
        not_guaranteed.append(TASK.format(**facts))
    if facts['min_support'] is not None:
        guaranteed.append(SUPPORTED.format(**facts))
        not_guaranteed.append(COMBINED.format(**facts))
    summary = 'asked for k = {k}, reached k = {k_reached}, with {num_clusters} groups'
    unit = 'the feature vector of a node'
    return Statement(unit, summary.format(**facts), guaranteed, not_guaranteed)


def state_private_clusters(facts: dict[str, Any]) -> Statement:
    r"""The promise of a private codebook, with all else as it was learned."""
    return Statement(
        'node',
        f'{facts["num_clusters"]} groups of any size, with noise in their feature vectors',
        [PRIVATE_CODEBOOK.format(**facts)],
        [sentence.format(**facts) for sentence in UNPROTECTED + GROUP_LIMITS[1:]],
    )


def state_differential_privacy(facts: dict[str, Any]) -> Statement:
    r"""The promise of a release that is differentially private as a whole. With
    noise from a seed, nothing holds.
    """
    unit, seeded = UNITS[facts['protects']], facts['seeded_noise']
    words = {'epsilon': facts['epsilon'], 'delta': facts['delta'], 'unit_words': unit}
    guaranteed = [NOTHING] if seeded else _end_to_end(facts, words)
    not_guaranteed = [SEEDED.format(**words)] if seeded else []
    not_guaranteed += {'record': [RECORD], 'edge': [EDGE]}.get(facts['protects'], [])
    not_guaranteed += DP_LIMITS
    if facts['large_delta']:
        not_guaranteed.append(LARGE_DELTA)
    if facts['form'] == 'dp_sgd':
        not_guaranteed.append(GRADIENTS)
    if facts['projected'] is not None:
        num_features, size = facts['projected']
        not_guaranteed.append(PROJECTED.format(num_features=num_features, size=size))
    if facts['public'] is not None:
        not_guaranteed.append(PRETRAINED.format(**facts['public']))
    summary = (
        f'epsilon = {facts["epsilon"]:.3g}, delta = {facts["delta"]:.2g} per {facts["protects"]} '
        f'({facts["form"]}), {facts["num_clusters"]} feature vectors'
    )
    if seeded:
        summary = f'no guarantee, the noise has a seed; else {summary}'
    return Statement(unit, summary, guaranteed, not_guaranteed)


def _end_to_end(facts: dict[str, Any], words: dict[str, Any]) -> list[str]:
    epsilon, sample = facts['epsilon'], facts['ledger']['sample']
    factor = math.exp(min(epsilon, 700.0))
    times = f'{factor:,.3g}' if factor < 1e6 else f'e^{epsilon:.3g}'
    sentences = [sentence.format(**words, factor=times) for sentence in END_TO_END]
    if sample is not None:
        capped = CappedSample(**sample)
        sentences.append(
            CAPPED.format(
                trees_per_node=capped.trees_per_node,
                trees_per_edge=capped.trees_per_edge,
                max_parents=capped.max_parents,
            )
        )
    return sentences


STATEMENTS: dict[str, Callable[[dict[str, Any]], Statement]] = {
    K_ANONYMITY: state_k_anonymity,
    PRIVATE_CLUSTERS: state_private_clusters,
    DP: state_differential_privacy,
}
