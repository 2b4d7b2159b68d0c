r"""What a card states about the degrees and the homophily of its source, and the tensor of them."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from torch_geometric_cgt.data.graph_profile import GraphProfile, group_sizes, least_nodes
from torch_geometric_cgt.release.checks import integer, number, optional
from torch_geometric_cgt.release.wording import K_ANONYMITY
from torch_geometric_cgt.utils.untrusted import TensorSpec

TENSOR = 'mean_degree'
NAMES = ('k', 'k_reached', 'num_groups', 'homophily')
FIRST_FORMAT = 3  # that has profiles
GROUPED = (
    'This release holds the mean degrees of {num_groups} groups of source nodes with similar '
    'degrees. Each group has at least {k} nodes (the smallest has {k_reached}). Degrees far above '
    'those of the last group are clipped, and means are rounded to steps that are at least three '
    'times as large as the degree of one node can move them.'
)
HOMOPHILY = (
    'The share of edges between nodes of the same label, {homophily:.2f}, is rounded by the same '
    'rule.'
)
LIMITS = (
    'Degrees are protected in groups only. Whoever knows the rank of a node among the degrees of '
    'all nodes can read its degree up to the range of its group. A node with all its edges also '
    'changes the degrees of its neighbours, which the rounding does not cover: somebody who knows '
    'all other edges may notice a node with many of them.'
)


def profile_sentences(facts: dict[str, Any]) -> tuple[list[str], list[str]]:
    r"""What is guaranteed about degrees and homophily, and what is not.

    Args:
        facts (dict): The fields of a :class:`~torch_geometric_cgt.release.Card`.
    """
    profile = facts.get('profile')
    if profile is None:
        return [], []
    text = GROUPED.format(**profile)
    if profile['homophily'] is not None:
        text = f'{text} {HOMOPHILY.format(**profile)}'
    return [text], [LIMITS]


def check_profile_facts(card: dict[str, Any]) -> None:
    r"""Raises :class:`ValueError` unless the facts of a card about degrees have the types that the
    rest of this package relies on, and are those of its parameters and of the size of its source.

    Args:
        card (dict): A card that :meth:`~torch_geometric_cgt.release.checks.check_card` accepts.
    """
    facts, source = card['privacy'].get('profile'), card['source']
    asked = card['parameters'].get('graph_profile', False)
    if asked is not False and asked is not True:
        raise ValueError(f"'graph_profile' must be true or false (got {asked!r:.40})")
    if facts is None:
        if asked and source['num_labelled'] >= least_nodes(card['parameters']['k']):
            raise ValueError("'profile' of the card is missing, but 'graph_profile' was asked for")
        return
    if card['format'] < FIRST_FORMAT or card['privacy']['mechanism'] != K_ANONYMITY or not asked:
        raise ValueError('A release of this kind has no profile: the card was altered')
    if not isinstance(facts, dict) or facts.keys() != set(NAMES):
        raise ValueError(f"'profile' of the card must hold {list(NAMES)} (got {facts!r:.80})")
    for name in NAMES[:-1]:
        integer(1)(f'{name} of the profile', facts[name])
    optional(number(0.0, 1.0))('homophily of the profile', facts['homophily'])
    sizes = group_sizes(source['num_labelled'], card['privacy']['k'])
    found = (facts['k'], facts['k_reached'], facts['num_groups'])
    expected = (least_nodes(card['privacy']['k']), min(sizes, default=0), len(sizes))
    if found != expected:
        raise ValueError(
            f'The card contradicts itself: groups of degrees have k, smallest size and number '
            f'{found}, but {expected} follow from the number of labelled nodes and k'
        )


def profile_specs(card: dict[str, Any]) -> dict[str, TensorSpec]:
    r"""The tensor of the profile that a release must hold, by its card.

    Args:
        card (dict): A card that :meth:`check_profile_facts` accepts.
    """
    facts = card['privacy'].get('profile')
    return {} if facts is None else {TENSOR: TensorSpec(('F64',), (facts['num_groups'],))}


def read_profile(card: dict[str, Any], tensors: dict[str, Tensor]) -> GraphProfile | None:
    r"""The profile of a release; :obj:`None` if it has none. Raises :class:`ValueError` if no
    graph can have it.

    Args:
        card (dict): A card that :meth:`check_profile_facts` accepts.
        tensors (dict): The tensors of the release.
    """
    if TENSOR not in tensors:
        return None
    mean = tensors[TENSOR]
    highest = max(1, card['source']['num_edges'] or 0)
    if not bool(((mean >= 0) & (mean <= highest)).all()) or bool((mean.diff() < 0).any()):
        raise ValueError(
            f'The mean degrees of the profile must ascend from 0 to at most {highest} (got '
            f'{mean.tolist()!r:.80})'
        )
    return GraphProfile(mean, card['privacy']['profile']['homophily'])
