r"""What a card must fulfil before anything is computed from it: types, ranges and sizes, and the
facts of groups against each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.privacy.ledger import TOLERANCE
from torch_geometric_cgt.release.wording import DP, K_ANONYMITY, PRIVATE_CLUSTERS
from torch_geometric_cgt.utils.limits import (
    MAX_COUNT,
    MAX_LAYERS,
    MAX_MODEL_LAYERS,
    MAX_MODEL_WIDTH,
    MAX_PARAMETER,
    MAX_SLOTS,
    MAX_TEXT,
)
from torch_geometric_cgt.utils.untrusted import TensorSpec

Check = Callable[[str, Any], None]

FLOATS = ('F32', 'F64', 'F16', 'BF16')
MAX_NAMES = 1000  # of attributes
SEEDS = ('seed', 'noise_seed', 'random_state')
PARAMETER_LIMITS = {  # largest values by name; those of the model decide on the time of a check
    'num_layers': MAX_MODEL_LAYERS,
    'hidden_channels': MAX_MODEL_WIDTH,
    'num_heads': MAX_MODEL_WIDTH,
}


def integer(low: int, high: int = MAX_COUNT) -> Check:
    r"""A check that a value is an integer within a range."""

    def check(name: str, value: Any) -> None:
        if type(value) is not int or not low <= value <= high:
            raise ValueError(
                f"'{name}' of the card must be an integer from {low} to {high} (got {value!r:.60})"
            )

    return check


def number(low: float, high: float) -> Check:
    r"""A check that a value is a finite number within a range."""

    def check(name: str, value: Any) -> None:
        is_number = type(value) in (int, float) and math.isfinite(value)
        if not is_number or not low <= value <= high:
            raise ValueError(
                f"'{name}' of the card must be a number from {low:g} to {high:g} "
                f'(got {value!r:.60})'
            )

    return check


def optional(check: Check) -> Check:
    r"""A check that holds for :obj:`None` as well."""
    return lambda name, value: None if value is None else check(name, value)


def text(name: str, value: Any) -> None:
    r"""Checks that a value is a line of text."""
    if not isinstance(value, str) or len(value) > MAX_TEXT or not value.isprintable():
        raise ValueError(
            f"'{name}' of the card must be a line of at most {MAX_TEXT} printable characters "
            f'(got {value!r:.60})'
        )


def stated(name: str, value: Any) -> None:
    r"""Checks that a value is a line of text with something in it."""
    text(name, value)
    if not value.strip():
        raise ValueError(f"'{name}' of the card must not be empty")


def flag(name: str, value: Any) -> None:
    r"""Checks that a value is true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"'{name}' of the card must be true or false (got {value!r:.60})")


def nothing(name: str, value: Any) -> None:
    r"""Checks that there is no value."""
    if value is not None:
        raise ValueError(f"'{name}' of the card must be null (got {value!r:.60})")


def fan_outs(name: str, value: Any) -> None:
    r"""Checks that a value is the shape of a tree of bounded size."""
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_LAYERS:
        raise ValueError(
            f"'{name}' of the card must be a list of 1 to {MAX_LAYERS} fan-outs (got {value!r:.60})"
        )
    slots = layer = 1
    for fan_out in value:
        integer(1, MAX_SLOTS)(name, fan_out)
        layer *= fan_out
        slots += layer
        integer(1, MAX_SLOTS)('number of slots of a tree', slots)


def names(name: str, value: Any) -> None:
    r"""Checks that a value is a list of one or more names."""
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_NAMES:
        raise ValueError(
            f"'{name}' of the card must be a list of 1 to {MAX_NAMES} names (got {value!r:.60})"
        )
    for each in value:
        text(name, each)


def check_class_names(value: Any, num_classes: int) -> None:
    r"""Checks that a value is a list with one name for each label, and that no two
    labels have the same.

    Args:
        value (list[str]): The names.
        num_classes (int): The number of labels.
    """
    if not isinstance(value, list) or len(value) != num_classes:
        raise ValueError(
            f"'class_names' of the card must be a list of {num_classes} names, one for each label "
            f'(got {value!r:.60})'
        )
    for each in value:
        stated('class_names', each)
    if len(set(value)) < len(value):
        raise ValueError(f"'class_names' of the card must differ (got {value!r:.60})")


CARD: dict[str, Check] = {
    'created': text,
    'num_trees': integer(1),
    'num_tokens': integer(1, (1 << 31) - 1),  # tokens are 32-bit integers, and one is null
    'num_classes': integer(1),
    'num_features': integer(1),
    'num_neighbors': fan_outs,
}
SOURCE: dict[str, Check] = {
    'name': text,
    'num_nodes': integer(1),
    'num_edges': optional(integer(0)),
    'num_features': integer(1),
    'num_classes': integer(1),
    'num_labelled': integer(1),
    'splits': text,
}
TERMS: dict[str, Check] = {'license': stated, 'contact': stated, 'intended_use': stated}
GROUP_FACTS: dict[str, Check] = {
    'k': integer(1),
    'k_reached': integer(0),
    'num_clusters': integer(1),
    'homogeneous': integer(0),
    'l_reached': integer(0),
    't_closeness': number(0.0, 1.0),
    'task_weight': number(0.0, MAX_PARAMETER),
    'unique_share': number(0.0, 1.0),
    'epsilon': nothing,
    'delta': nothing,
}
FACTS: dict[str, dict[str, Check]] = {
    K_ANONYMITY: GROUP_FACTS,
    PRIVATE_CLUSTERS: {
        **GROUP_FACTS,
        'cluster_epsilon': number(0.0, MAX_PARAMETER),
        'cluster_delta': number(0.0, 1.0),
    },
    DP: {
        'epsilon': number(0.0, MAX_PARAMETER),
        'delta': number(0.0, 1.0),
        'protects': text,
        'form': text,
        'num_clusters': integer(1),
        'seeded_noise': flag,
        'large_delta': flag,
        'k': optional(integer(1)),  # of the unit edge
    },
}


def check_card(card: dict[str, Any]) -> None:
    r"""Raises :class:`ValueError` unless the entries of a card have the types and
    ranges that the rest of this package relies on.

    Args:
        card (dict): The content of :obj:`card.json`.
    """
    for name in ('source', 'parameters', 'privacy', 'versions'):
        if not isinstance(card[name], dict):
            raise ValueError(f"'{name}' of the card must be an object (got {card[name]!r:.60})")
    privacy = card['privacy']
    if privacy['mechanism'] not in FACTS:
        raise ValueError(
            f'Unknown mechanism {privacy["mechanism"]!r:.60} of the card; known are {list(FACTS)}'
        )
    facts = FACTS[privacy['mechanism']]
    for part, checks in ((card, CARD), (card['source'], SOURCE), (privacy, facts)):
        for name, check in checks.items():
            check(name, part[name])
    for name in ('min_support', 'min_value_support', 'max_degree'):
        optional(integer(1))(name, privacy.get(name))
    optional(number(0.0, MAX_PARAMETER))('rounding', privacy.get('rounding'))
    if 'not_carried' in card['source']:
        names('not_carried', card['source']['not_carried'])
    _check_terms(card.get('terms', {}))
    if 'class_names' in card:
        check_class_names(card['class_names'], card['num_classes'])
    for name, version in card['versions'].items():
        text('versions', name)
        text(name, version)
    text('torch_geometric_cgt', card['versions']['torch_geometric_cgt'])
    fan_outs('num_neighbors', card['parameters']['num_neighbors'])
    _check_parameters(card['parameters'])


def _check_terms(terms: Any) -> None:
    if not isinstance(terms, dict) or not terms.keys() <= TERMS.keys():
        raise ValueError(
            f"'terms' of the card must be an object with some of {list(TERMS)} (got {terms!r:.60})"
        )
    for name, value in terms.items():
        TERMS[name](name, value)


def _check_parameters(parameters: dict[str, Any]) -> None:
    for name, value in parameters.items():
        if isinstance(value, dict):
            _check_parameters(value)
        elif type(value) in (int, float) and name not in SEEDS:
            high = PARAMETER_LIMITS.get(name, MAX_PARAMETER)
            number(-MAX_PARAMETER, high)(name, value)


def check_groups(card: dict[str, Any]) -> None:
    r"""Compares the facts of a card about groups with each other, with the
    parameters and with the sizes of the source. Raises :class:`ValueError` if no
    build can have them.

    Args:
        card (dict): A card that :meth:`check_card` accepts, of a release that is
            not differentially private.
    """
    for reason in (*_wrong_groups(card), *_wrong_sizes(card)):
        raise ValueError(f'The card contradicts itself: {reason}')


def _wrong_groups(card: dict[str, Any]) -> Iterator[str]:
    r"""Facts about groups that contradict each other, the parameters or the number of nodes."""
    facts, asked, num_nodes = card['privacy'], card['parameters'], card['source']['num_nodes']
    anonymous, least = facts['mechanism'] == K_ANONYMITY, asked.get('l')
    groups, k, reached = facts['num_clusters'], facts['k'], facts['k_reached']
    if groups * reached > num_nodes:
        yield f'{groups} groups of at least {reached} nodes need more than {num_nodes} nodes'
    if anonymous and reached < k:
        yield f'the smallest group has {reached} nodes, but k = {k} is promised'
    if k != (asked.get('k') if anonymous else 1):
        yield f'k = {k} is promised, but {asked.get("k")!r:.40} was asked for'
    if facts['homogeneous'] > groups:
        yield f'{facts["homogeneous"]} of {groups} groups cannot have one label only'
    if facts['l_reached'] > 1 and facts['homogeneous'] > 0:
        yield f'no group can have one label only, if all have {facts["l_reached"]} or more'
    if facts['l_reached'] > card['source']['num_classes']:
        yield f'groups cannot have {facts["l_reached"]} of {card["source"]["num_classes"]} labels'
    if anonymous and least is not None and facts['l_reached'] < least:
        yield f'groups have {facts["l_reached"]} labels, but {least!r:.40} were asked for'
    if facts.get('min_support') != asked.get('min_support'):
        yield f"'min_support' is not {asked.get('min_support')!r:.40}, which was asked for"
    if 'private' in asked or (asked.get('cluster_epsilon') is None) != anonymous:
        yield 'the parameters are those of another mechanism'
    if not anonymous and facts['cluster_epsilon'] > asked['cluster_epsilon'] * TOLERANCE:
        yield f'the feature vectors cost more than {asked["cluster_epsilon"]}, the budget'


def _wrong_sizes(card: dict[str, Any]) -> Iterator[str]:
    r"""Sizes of the release that contradict those of the source or the parameters."""
    source, asked = card['source'], card['parameters']
    if card['privacy']['num_clusters'] != card['num_tokens']:
        yield f'{card["num_tokens"]} feature vectors are not one of each group'
    if source['num_labelled'] > source['num_nodes']:
        yield f'{source["num_labelled"]} of {source["num_nodes"]} nodes cannot have labels'
    if source['num_edges'] is None:
        yield 'the number of edges of the source is missing'
    if asked['num_neighbors'] != card['num_neighbors']:
        yield 'the shape of the trees is not that of the parameters'
    if card['num_trees'] != (asked.get('num_samples') or source['num_labelled']):
        yield f'{card["num_trees"]} trees are not as many as the parameters say'
    for name in ('num_classes', 'num_features'):
        if card[name] != source[name]:
            yield f"'{name}' is {card[name]}, but {source[name]} in the source"


def tensor_specs(card: dict[str, Any]) -> dict[str, TensorSpec]:
    r"""The tensors that a release must hold, by the sizes on its card.

    Args:
        card (dict): A card that :meth:`check_card` accepts.
    """
    shape = TreeShape.of(card['num_neighbors'])
    specs = {
        'tokens': TensorSpec(('I32',), (card['num_trees'], shape.num_slots)),
        'y': TensorSpec(('I64',), (card['num_trees'],)),
        'split': TensorSpec(('U8',), (card['num_trees'],)),
        'codebook': TensorSpec(FLOATS, (card['num_tokens'], card['num_features'])),
    }
    projected = card['privacy'].get('projected')
    if projected is not None:
        if not isinstance(projected, list) or len(projected) != 2:
            raise ValueError(f"'projected' of the card must be two sizes (got {projected!r:.60})")
        for size in projected:
            integer(1)('projected', size)
        specs['projection'] = TensorSpec(FLOATS, tuple(projected))
    return specs
