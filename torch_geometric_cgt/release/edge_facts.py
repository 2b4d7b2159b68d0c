r"""What a card states about edge values, and whether the files of a release agree with it."""

from __future__ import annotations

from typing import Any

import torch

from torch_geometric_cgt.data import EdgeForm, EdgeValues, TreeShape
from torch_geometric_cgt.release.checks import integer
from torch_geometric_cgt.release.wording import DP
from torch_geometric_cgt.transforms.edge_codebook import EdgeGrid, check_bounds
from torch_geometric_cgt.utils.limits import MAX_EDGE_COLUMNS
from torch_geometric_cgt.utils.untrusted import TensorSpec

FORM = ('weight', 'attr', 'size')
FIRST_FORMAT = 3  # that has edge values


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
    names = {*FORM, 'num_values', *(() if is_private else ('k', 'k_reached'))}
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
    return EdgeForm(**{name: facts[name] for name in FORM})


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
