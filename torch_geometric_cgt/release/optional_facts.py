r"""The facts that only some cards state, with their sentences and tensors: edge values, degrees and
homophily of the source, and the generator of the trees if that is not CGT.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.data import EdgeForm, EdgeValues, TreeShape
from torch_geometric_cgt.data.graph_profile import GraphProfile, group_sizes, least_nodes
from torch_geometric_cgt.pipeline.generator_choice import GENERATORS, GeneratorChoice
from torch_geometric_cgt.release.checks import integer, number, optional
from torch_geometric_cgt.release.wording import DP, K_ANONYMITY
from torch_geometric_cgt.transforms.edge_codebook import EdgeGrid, check_bounds
from torch_geometric_cgt.utils.limits import MAX_EDGE_COLUMNS
from torch_geometric_cgt.utils.untrusted import TensorSpec

FIRST_FORMAT = 3  # that has these facts
EDGE_FORM = ('weight', 'attr', 'size')
PROFILE_TENSOR = 'mean_degree'
PROFILE_FACTS = ('k', 'k_reached', 'num_groups', 'homophily')
PROFILE_GROUPS = (
    'This release holds the mean degrees of {num_groups} groups of source nodes with similar '
    'degrees. Each group has at least {k} nodes (the smallest has {k_reached}). Degrees far above '
    'those of the last group are clipped, and means are rounded to steps that are at least three '
    'times as large as the degree of one node can move them.'
)
PROFILE_HOMOPHILY = (
    'The share of edges between nodes of the same label, {homophily:.2f}, is rounded by the same '
    'rule.'
)
PROFILE_LIMITS = (
    'Degrees are protected in groups only. Whoever knows the rank of a node among the degrees of '
    'all nodes can read its degree up to the range of its group. A node with all its edges also '
    'changes the degrees of its neighbours, which the rounding does not cover: somebody who knows '
    'all other edges may notice a node with many of them.'
)
GENERATOR_COPIES = (
    'NEIGHBOURHOODS ARE COPIES. The generator {generator} releases whole computation graphs of the '
    'source: each tree of this release is that of a source node, with its label. Only the feature '
    'vectors are replaced by those of groups. Whoever knows the groups of a node and of its '
    'neighbours can find the node and read its label.'
)
GENERATOR_OTHER = (
    'The trees come from the generator {generator}. Nothing limits how many of them equal whole '
    'computation graphs of the source.'
)
GENERATOR_DEGREES = (
    'The trees come from the generator {generator}, a random graph with the exact degree and the '
    'exact label of every source node.'
)
KEEPS_DEGREES = ('ConfigurationModel', 'DegreeCorrectedSBM')
GENERATOR_FACTS = ('generator', 'copies_trees')


def check_edge_facts(card: dict[str, Any]) -> None:
    r"""Raises :class:`ValueError` unless the facts of a card about edge values have
    the types that the rest of this package relies on, and agree with the
    parameters.

    Args:
        card (dict): A card that :meth:`~torch_geometric_cgt.release.checks.check_card`
            accepts.
    """
    facts = card['privacy'].get('edges')
    is_private = card['privacy']['mechanism'] == DP
    if is_private and (facts is None) != (_declared(card) is None):
        raise ValueError("'edges' of the card must be given if and only if 'edge_bounds' are")
    if facts is None:
        return
    if card['format'] < FIRST_FORMAT:
        raise ValueError(f'Format {card["format"]} has no edge values: the card was altered')
    names = {*EDGE_FORM, 'num_values', *(() if is_private else ('k', 'k_reached'))}
    if not isinstance(facts, dict) or facts.keys() != names:
        raise ValueError(f"'edges' of the card must hold {sorted(names)} (got {facts!r:.80})")
    integer(0, MAX_EDGE_COLUMNS)('size of edge values', facts['size'])
    integer(1, (1 << 31) - 1)('number of edge values', facts['num_values'])
    form_of(facts)
    if is_private:
        return
    for name in ('k', 'k_reached'):
        integer(1)(name, facts[name])
    asked, num_nodes = card['parameters'].get('k'), card['source']['num_nodes']
    if facts['k'] != asked:
        raise ValueError(
            f'The card contradicts itself: k = {facts["k"]} is promised for edge values, but '
            f'{asked!r:.40} was asked for'
        )
    if not facts['k'] <= facts['k_reached'] <= num_nodes:
        raise ValueError(
            f'The card contradicts itself: {facts["k_reached"]} of {num_nodes} nodes are behind an '
            f'edge value, but k = {facts["k"]} is promised'
        )


def _declared(card: dict[str, Any]) -> Any:
    r"""The bounds of edge values among the parameters of a private build."""
    asked = card['parameters'].get('private')
    return asked.get('edge_bounds') if isinstance(asked, dict) else None


def check_edge_codebook(card: dict[str, Any], values: EdgeValues) -> None:
    r"""Raises :class:`ValueError` unless the edge values of a private release are
    those of the public grid of its parameters.

    Args:
        card (dict): A card that :meth:`check_edge_facts` accepts.
        values (EdgeValues): The edge values of the release.
    """
    if card['privacy']['mechanism'] != DP:
        return
    asked = card['parameters']['private']
    grid = EdgeGrid(check_bounds(asked['edge_bounds']), asked['edge_bins'])
    if grid.num_cells != len(values) or len(grid.columns) != values.form.num_columns:
        raise ValueError(
            f'{len(values)} edge values are not those of {grid.num_cells} cells of the parameters'
        )
    if not torch.equal(grid.values(values.form).table, values.table):
        raise ValueError('The edge values are not the middles of the cells of the parameters')


def form_of(facts: dict[str, Any]) -> EdgeForm:
    r"""The form of edge values that a card states.

    Args:
        facts (dict): The facts of the card about edge values.
    """
    return EdgeForm(**{name: facts[name] for name in EDGE_FORM})


def edge_specs(card: dict[str, Any]) -> dict[str, TensorSpec]:
    r"""The tensors of edge values that a release must hold, by its card.

    Args:
        card (dict): A card that :meth:`check_edge_facts` accepts.
    """
    facts = card['privacy'].get('edges')
    if facts is None:
        return {}
    num_slots = TreeShape.of(card['num_neighbors']).num_slots
    return {
        'edge_tokens': TensorSpec(('I32',), (card['num_trees'], num_slots)),
        'edge_codebook': TensorSpec(('F64',), (facts['num_values'], form_of(facts).num_columns)),
    }


def profile_sentences(facts: dict[str, Any]) -> tuple[list[str], list[str]]:
    r"""What is guaranteed about degrees and homophily, and what is not.

    Args:
        facts (dict): The fields of a :class:`~torch_geometric_cgt.release.Card`.
    """
    profile = facts.get('profile')
    if profile is None:
        return [], []
    text = PROFILE_GROUPS.format(**profile)
    if profile['homophily'] is not None:
        text = f'{text} {PROFILE_HOMOPHILY.format(**profile)}'
    return [text], [PROFILE_LIMITS]


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
    if not isinstance(facts, dict) or facts.keys() != set(PROFILE_FACTS):
        raise ValueError(
            f"'profile' of the card must hold {list(PROFILE_FACTS)} (got {facts!r:.80})"
        )
    for name in PROFILE_FACTS[:-1]:
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
    return {} if facts is None else {PROFILE_TENSOR: TensorSpec(('F64',), (facts['num_groups'],))}


def read_profile(card: dict[str, Any], tensors: dict[str, Tensor]) -> GraphProfile | None:
    r"""The profile of a release; :obj:`None` if it has none. Raises :class:`ValueError` if no
    graph can have it.

    Args:
        card (dict): A card that :meth:`check_profile_facts` accepts.
        tensors (dict): The tensors of the release.
    """
    if PROFILE_TENSOR not in tensors:
        return None
    mean = tensors[PROFILE_TENSOR]
    highest = max(1, card['source']['num_edges'] or 0)
    if not bool(((mean >= 0) & (mean <= highest)).all()) or bool((mean.diff() < 0).any()):
        raise ValueError(
            f'The mean degrees of the profile must ascend from 0 to at most {highest} (got '
            f'{mean.tolist()!r:.80})'
        )
    return GraphProfile(mean, card['privacy']['profile']['homophily'])


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
        return [GENERATOR_COPIES.format(generator=name)]
    return [
        (GENERATOR_DEGREES if name in KEEPS_DEGREES else GENERATOR_OTHER).format(generator=name)
    ]


def check_generator_facts(card: dict[str, Any]) -> None:
    r"""Raises :class:`ValueError` unless the facts of a card about its generator are
    those of its parameters.

    Args:
        card (dict): A card that :meth:`~torch_geometric_cgt.release.checks.check_card`
            accepts.
    """
    facts = {name: card['privacy'][name] for name in GENERATOR_FACTS if name in card['privacy']}
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
