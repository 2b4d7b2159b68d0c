r"""What a card states about the generator of its trees, if that is not CGT."""

from __future__ import annotations

from typing import Any

from torch_geometric_cgt.pipeline.generator_choice import GENERATORS, GeneratorChoice

COPIES = (
    'NEIGHBOURHOODS ARE COPIES. The generator {generator} releases whole computation graphs of the '
    'source: each tree of this release is that of a source node, with its label. Only the feature '
    'vectors are replaced by those of groups. Whoever knows the groups of a node and of its '
    'neighbours can find the node and read its label.'
)
OTHER = (
    'The trees come from the generator {generator}. Nothing limits how many of them equal whole '
    'computation graphs of the source.'
)
DEGREES = (
    'The trees come from the generator {generator}, a random graph with the exact degree and the '
    'exact label of every source node.'
)
KEEPS_DEGREES = ('ConfigurationModel', 'DegreeCorrectedSBM')
FACTS = ('generator', 'copies_trees')
FIRST_FORMAT = 3  # that has other generators


def generator_sentences(facts: dict[str, Any]) -> list[str]:
    r"""What is not guaranteed about the trees of another generator than CGT. The worst
    comes first.

    Args:
        facts (dict): The fields of a :class:`~torch_geometric_cgt.release.Card`.
    """
    name = facts.get('generator')
    if name is None:
        return []
    if facts.get('copies_trees'):
        return [COPIES.format(generator=name)]
    return [(DEGREES if name in KEEPS_DEGREES else OTHER).format(generator=name)]


def check_generator_facts(card: dict[str, Any]) -> None:
    r"""Raises :class:`ValueError` unless the facts of a card about its generator are
    those of its parameters.

    Args:
        card (dict): A card that :meth:`~torch_geometric_cgt.release.checks.check_card`
            accepts.
    """
    facts = {name: card['privacy'][name] for name in FACTS if name in card['privacy']}
    asked = card['parameters'].get('generator')
    if not facts and not (isinstance(asked, dict) and 'model' in asked):
        return
    if card['format'] < FIRST_FORMAT:
        raise ValueError(f'Format {card["format"]} has no other generators: the card was altered')
    name = asked.get('model') if isinstance(asked, dict) else None
    if not isinstance(asked, dict) or not isinstance(name, str) or name not in GENERATORS:
        raise ValueError(
            f'The card has an unknown generator (got {asked!r:.80}); this version knows '
            f'{list(GENERATORS)}'
        )
    expected = GeneratorChoice.of(asked).facts()
    if facts != expected:
        raise ValueError(
            f'The card contradicts itself: it states {facts!r:.80} about its generator, and its '
            f'parameters say {expected}'
        )
