r"""What each mechanism guarantees and what it does not, in sentences."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch_geometric_cgt.privacy.units import CappedSample
from torch_geometric_cgt.release.wording import NEWEST, WORDINGS, Wording

K_ANONYMITY, PRIVATE_CLUSTERS, DP = 'k-anonymity', 'private clusters', 'differential privacy'


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


def state(mechanism: str, facts: dict[str, Any], format: int = NEWEST) -> Statement:
    r"""States the promise of a release.

    Args:
        mechanism (str): One of :obj:`"k-anonymity"`, :obj:`"private clusters"`
            and :obj:`"differential privacy"`.
        facts (dict): The fields of its :class:`~torch_geometric_cgt.release.Card`.
        format (int, optional): The format of the release, which has its own
            wording. (default: the newest)
    """
    return STATEMENTS[mechanism](facts, WORDINGS[format])


def state_k_anonymity(facts: dict[str, Any], say: Wording) -> Statement:
    r"""The promise of groups of at least :math:`k` nodes."""
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
    r"""The promise of a private codebook, with all else as it was learned."""
    return Statement(
        'node',
        f'{facts["num_clusters"]} groups of any size, with noise in their feature vectors',
        [say.private_codebook.format(**facts)],
        [sentence.format(**facts) for sentence in say.unprotected + say.group_limits[1:]],
    )


def state_differential_privacy(facts: dict[str, Any], say: Wording) -> Statement:
    r"""The promise of a release that is differentially private as a whole. With
    noise from a seed, nothing holds.
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
