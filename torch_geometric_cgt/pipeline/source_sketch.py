r"""A small sketch of a source graph, from which the share of nodes that two sources have in common
is estimated.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.utils.rows import rows_per_block, to_csr

SIZE = 1024  # hashes of a sketch; the error of a share is about 0.01
DISTINCT = 0.5  # share of different rows from which on features alone identify nodes
SEED = 0x5EED  # of the public multipliers: sketches of two sources must be comparable


@dataclass(frozen=True)
class SourceSketch:
    r"""The smallest hashes of the nodes of a source (a bottom-k MinHash).

    A node is hashed twice: by its features, and by its neighbourhood, which is
    its features, its label, and those of its neighbours. Equal nodes are
    numbered, so that a sketch describes a multiset. The order of nodes does not
    matter.

    A sketch reveals whether a known row is in the source. It is as secret as the
    source, and no part of a release.

    Args:
        num_nodes (int): The number of nodes.
        num_distinct (int): The number of different feature vectors.
        rows (list[int]): The smallest hashes of features.
        neighbourhoods (list[int]): The smallest hashes of neighbourhoods.
    """

    num_nodes: int
    num_distinct: int
    rows: list[int]
    neighbourhoods: list[int]

    @classmethod
    def of(cls, source: Source) -> SourceSketch:
        r"""The sketch of a source.

        Args:
            source (Source): The checked source graph.
        """
        data = source.data
        rows = hash_rows(data.x)
        node = _mix(rows + _multipliers(1, 1) * (data.y + 2))
        child, parent = data.edge_index
        around = torch.zeros_like(node).index_add_(0, parent, _mix(node)[child])
        num_distinct = int(rows.unique().numel())
        return cls(rows.numel(), num_distinct, _smallest(rows), _smallest(_mix(node ^ around)))

    @property
    def is_distinct(self) -> bool:
        r"""Whether features alone identify most nodes."""
        return self.num_distinct >= DISTINCT * self.num_nodes

    def share_in_common(self, other: SourceSketch) -> float:
        r"""The estimated number of nodes that are in both sources, relative to
        the smaller source.

        Nodes are compared by their features. If one of the sources has few
        different feature vectors, they are compared by their neighbourhoods.

        Args:
            other (SourceSketch): The sketch of the other source.
        """
        sizes = self.num_nodes, other.num_nodes
        if self.is_distinct and other.is_distinct:
            return _containment(self.rows, other.rows, *sizes)
        return _containment(self.neighbourhoods, other.neighbourhoods, *sizes)

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        return asdict(self)


def hash_rows(x: Tensor) -> Tensor:
    r"""A 64-bit hash of each row: equal rows have equal hashes, whether they are
    dense or sparse and whatever their type is.

    Args:
        x (torch.Tensor): The matrix, dense or sparse, ``[N, F]``.
    """
    multiplier = _multipliers(x.size(1))
    if x.layout == torch.strided:
        block = rows_per_block(2 * x.size(1))
        parts = [(_bits(rows) * multiplier).sum(dim=1) for rows in x.split(block)]
        return _mix(torch.cat(parts))
    csr = to_csr(x)
    counts = csr.crow_indices().diff()
    row = torch.arange(x.size(0)).repeat_interleave(counts)
    value = _bits(csr.values()) * multiplier[csr.col_indices().long()]
    return _mix(torch.zeros(x.size(0), dtype=torch.long).index_add_(0, row, value))


def _bits(values: Tensor) -> Tensor:
    r"""The bits of float32 values as integers. Zero, also a negative one, becomes 0."""
    return (values.to(torch.float32) + 0.0).contiguous().view(torch.int32).long()


def _multipliers(size: int, stream: int = 0) -> Tensor:
    r"""Fixed odd 64-bit numbers."""
    index = torch.arange(1, size + 1) * 0x9E3779B97F4A7C1 + SEED + stream
    return _mix(index) | 1


def _mix(value: Tensor) -> Tensor:
    r"""Mixes the bits of 64-bit integers (the finalizer of SplitMix64). Products overflow."""
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15), (31, 1)):
        high = (value >> shift) & ((1 << (64 - shift)) - 1)  # a shift without the sign
        value = (value ^ high) * factor
    return value


def _smallest(hashes: Tensor) -> list[int]:
    r"""The smallest hashes of a multiset. The copies of a node are numbered."""
    ordered = hashes.sort().values
    first = torch.searchsorted(ordered, ordered)
    copy = torch.arange(ordered.numel()) - first
    numbered = _mix(ordered + copy * _multipliers(1, 2))
    return numbered.sort().values[:SIZE].tolist()


def _containment(a: list[int], b: list[int], size_a: int, size_b: int) -> float:
    r"""The estimated size of the intersection of two sets, relative to the smaller one."""
    both = set(a) & set(b)
    union = sorted({*a, *b})
    if len(a) == SIZE or len(b) == SIZE:  # a sketch that is not full holds the whole set
        limits = [own[-1] for own in (a, b) if len(own) == SIZE]
        union = [value for value in union if value <= min(limits)][:SIZE]
    jaccard = len(both.intersection(union)) / max(1, len(union))
    common = jaccard / (1 + jaccard) * (size_a + size_b)
    return min(1.0, common / max(1, min(size_a, size_b)))
