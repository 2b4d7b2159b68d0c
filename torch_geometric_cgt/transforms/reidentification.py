r"""Re-identification probabilities of simple perturbations, as in the CGT paper."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from torch_geometric.transforms import BaseTransform

from torch_geometric_cgt.transforms.add_attribute_noise import AddAttributeNoise
from torch_geometric_cgt.transforms.add_random_edges import AddRandomEdges
from torch_geometric_cgt.transforms.drop_random_edges import DropRandomEdges
from torch_geometric_cgt.transforms.quantize import Quantize


class Reidentification(NamedTuple):
    r"""The probability of re-identifying a node's attributes, or an edge."""

    node: float
    edge: float


def reidentification(transforms: Iterable[BaseTransform]) -> Reidentification:
    r"""Returns the probabilities of the paper's comparison of privacy baselines.

    Edge addition (times :math:`x`): :math:`1/x` for an edge; edge deletion
    (share :math:`s`): :math:`1 - s` for an edge; attribute noise (times
    :math:`x`): :math:`1/x` for a node; :math:`k`-anonymity: :math:`1/k` for
    both, as the paper claims for graphs that are generated from it. Transforms
    act independently, and their probabilities are multiplied.

    These are the probabilities of a uniform guess. An attacker with more
    knowledge can do better: random edges connect dissimilar nodes, for example,
    and can be recognised by that.

    Args:
        transforms (list[BaseTransform]): The perturbations.
    """
    node = edge = 1.0
    for transform in transforms:
        if isinstance(transform, Quantize) and transform.method != 'dp':
            node, edge = node / transform.k, edge / transform.k
        elif isinstance(transform, (AddRandomEdges, DropRandomEdges, AddAttributeNoise)):
            node *= transform.node_reidentification
            edge *= transform.edge_reidentification
        else:
            raise ValueError(f'There is no re-identification probability for {transform!r}')
    return Reidentification(node, edge)
