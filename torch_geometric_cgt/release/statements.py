r"""The promise of a release in words: the sentences that the facts of its card select."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch_geometric_cgt.errors import LedgerError
from torch_geometric_cgt.privacy.units import CappedSample
from torch_geometric_cgt.release.optional_facts import generator_sentences, profile_sentences
from torch_geometric_cgt.release.wording import (
    DP,
    K_ANONYMITY,
    NEWEST,
    PRIVATE_CLUSTERS,
    WORDINGS,
    Wording,
)

# Edge weights and edge attributes, from format 3 on.
EDGES_BEHIND = (
    'At least {k} source nodes are behind each of the {num_values} values of {names} in this '
    'release (the fewest are {k_reached}): if any one node is removed with all its edges, at least '
    '{others} other nodes still have an edge in the group of edges that the value was computed '
    'from. The value is one that so many nodes have exactly, or a mean over the group in which the '
    'edges of one node weigh at most as much as one edge of a node without others. Means are '
    'rounded to steps that are at least as large as one node can move them.'
)
EDGES_NO_ANONYMITY = 'Nothing is guaranteed about {names}: values can be those of single edges.'
EDGES_DRAWN = (
    'Each value of {names} is protected on its own. Values are drawn given the label, the groups '
    'of parent and child and the value drawn before, from exact counts in the source. A count is '
    'used only if its edges have at least {k} parents and at least {k} children. Which values a '
    'source node has together is not protected beyond that.'
)
EDGES_NOISY = (
    'The values of {names} are the middles of {num_values} cells between bounds that were declared '
    'without reading the source. They are drawn given the label of the parent, from counts with '
    "noise, which are the entry 'values of edges' of the ledger."
)
EDGES_NOISY_LIMITS = (
    'Values of {names} outside of the declared bounds count as the nearest bound. They do not '
    'depend on the child or on the other edges of the parent, as they may in the source.'
)
EDGES_NOT_ATTRIBUTES = (
    'The unit "attributes" does not cover {names}: they belong to edges, and their counts have '
    'noise for the label of one node only.'
)


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
    if others := generator_sentences(facts):
        statement = replace(statement, not_guaranteed=[*others, *statement.not_guaranteed])
    if facts.get('copies_trees'):
        summary = f'neighbourhoods are copies of the source; {statement.summary}'
        statement = replace(statement, summary=summary)
    for promised, limits in (profile_sentences(facts), edge_sentences(facts)):
        statement = replace(
            statement,
            guaranteed=[*statement.guaranteed, *promised],
            not_guaranteed=[*statement.not_guaranteed, *limits],
        )
    return statement


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


def edge_sentences(facts: dict[str, Any]) -> tuple[list[str], list[str]]:
    r"""What is guaranteed about edge values, and what is not.

    Args:
        facts (dict): The fields of a :class:`~torch_geometric_cgt.release.Card`.
    """
    edges = facts.get('edges')
    if edges is None:
        return [], []
    given = (('edge_weight', edges['weight']), ('edge_attr', edges['attr']))
    words = {**edges, 'names': ' and '.join(name for name, dtype in given if dtype is not None)}
    if facts['epsilon'] is not None:
        limits = [EDGES_NOISY_LIMITS.format(**words)]
        if facts['protects'] == 'attributes':
            limits.append(EDGES_NOT_ATTRIBUTES.format(**words))
        return ([] if facts['seeded_noise'] else [EDGES_NOISY.format(**words)]), limits
    if edges['k'] == 1:
        return [EDGES_NO_ANONYMITY.format(**words)], [EDGES_DRAWN.format(**words)]
    return [EDGES_BEHIND.format(**words, others=edges['k'] - 1)], [EDGES_DRAWN.format(**words)]


STATEMENTS: dict[str, Callable[[dict[str, Any], Wording], Statement]] = {
    K_ANONYMITY: state_k_anonymity,
    PRIVATE_CLUSTERS: state_private_clusters,
    DP: state_differential_privacy,
}
