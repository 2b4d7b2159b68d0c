r"""The sentences of a card about edge weights and edge attributes."""

from __future__ import annotations

from typing import Any

BEHIND = (
    'At least {k} source nodes are behind each of the {num_values} values of {names} in this '
    'release (the fewest are {k_reached}): if any one node is removed with all its edges, at least '
    '{others} other nodes still have an edge in the group of edges that the value was computed '
    'from. The value is one that so many nodes have exactly, or a mean over the group in which the '
    'edges of one node weigh at most as much as one edge of a node without others. Means are '
    'rounded to steps that are at least as large as one node can move them.'
)
NO_ANONYMITY = 'Nothing is guaranteed about {names}: values can be those of single edges.'
DRAWN = (
    'Each value of {names} is protected on its own. Values are drawn given the label, the groups '
    'of parent and child and the value drawn before, from exact counts in the source. A count is '
    'used only if its edges have at least {k} parents and at least {k} children. Which values a '
    'source node has together is not protected beyond that.'
)
NOISY = (
    'The values of {names} are the middles of {num_values} cells between bounds that were declared '
    'without reading the source. They are drawn given the label of the parent, from counts with '
    "noise, which are the entry 'values of edges' of the ledger."
)
NOISY_LIMITS = (
    'Values of {names} outside of the declared bounds count as the nearest bound. They do not '
    'depend on the child or on the other edges of the parent, as they may in the source.'
)
NOT_ATTRIBUTES = (
    'The unit "attributes" does not cover {names}: they belong to edges, and their counts have '
    'noise for the label of one node only.'
)


def edge_sentences(facts: dict[str, Any]) -> tuple[list[str], list[str]]:
    r"""What is guaranteed about edge values, and what is not.

    Args:
        facts (dict): The fields of a :class:`~torch_geometric_cgt.release.Card`
            that has edge values.
    """
    edges = facts['edges']
    given = (('edge_weight', edges['weight']), ('edge_attr', edges['attr']))
    words = {**edges, 'names': ' and '.join(name for name, dtype in given if dtype is not None)}
    if facts['epsilon'] is not None:
        limits = [NOISY_LIMITS.format(**words)]
        if facts['protects'] == 'attributes':
            limits.append(NOT_ATTRIBUTES.format(**words))
        return ([] if facts['seeded_noise'] else [NOISY.format(**words)]), limits
    if edges['k'] == 1:
        return [NO_ANONYMITY.format(**words)], [DRAWN.format(**words)]
    return [BEHIND.format(**words, others=edges['k'] - 1)], [DRAWN.format(**words)]
