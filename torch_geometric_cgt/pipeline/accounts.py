r"""The account of one source: its builds, its limits, the sealed file that keeps them, and a sketch
of the source that recognizes nearly equal ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.privacy import Budget
from torch_geometric_cgt.privacy.composition import Cost
from torch_geometric_cgt.utils.files import read_sealed_json, write_sealed_json
from torch_geometric_cgt.utils.rows import rows_per_block, to_csr

FORMAT = 1
NEARLY_EQUAL = 0.9  # share of the nodes of the smaller source that are in both
SKETCH_SIZE = 1024  # hashes of a sketch; the error of a share is about 0.01
DISTINCT = 0.5  # share of different rows from which on features alone identify nodes
SKETCH_SEED = 0x5EED  # of the public multipliers: sketches of two sources must be comparable


@dataclass(frozen=True)
class CountedBuild:
    r"""One build of a source.

    Args:
        id (str): A random name. A resumed build keeps it.
        cache (str): The folder of the build.
        time (str): When it was counted.
        cost (Cost, optional): The cost of a differentially private build;
            :obj:`None` for a k-anonymous build, which has no bounded cost.
            (default: :obj:`None`)
        seeded_noise (bool, optional): Whether the noise came from a seed. Such a
            build is for tests, and costs nothing because it is not released.
            (default: :obj:`False`)
        parameters (dict, optional): The parameters of the build.
            (default: none)
    """

    id: str
    cache: str
    time: str
    cost: Cost | None = None
    seeded_noise: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def is_private(self) -> bool:
        r"""Whether the build is differentially private and its noise is secret."""
        return self.cost is not None and not self.seeded_noise

    @property
    def is_k_anonymous(self) -> bool:
        r"""Whether the build has no bounded cost."""
        return self.cost is None

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> CountedBuild:
        r"""The inverse of :meth:`to_dict`."""
        cost = content['cost']
        return cls(**{**content, 'cost': None if cost is None else Cost(**cost)})


@dataclass(frozen=True)
class Account:
    r"""All builds of one source, and the limits that its owner set.

    Args:
        fingerprint (str): The digest of the source.
        name (str): The name of the source.
        sketch (SourceSketch): The sketch of the source. It is a secret of the
            owner.
        limits (dict[str, Budget], optional): The limit of each unit.
            (default: none)
        builds (tuple[CountedBuild, ...], optional): The builds, in the order in
            which they were counted. (default: none)
    """

    fingerprint: str
    name: str
    sketch: SourceSketch
    limits: Mapping[str, Budget] = field(default_factory=dict)
    builds: tuple[CountedBuild, ...] = ()

    @classmethod
    def of(cls, source: Source) -> Account:
        r"""The account of a source without builds.

        Args:
            source (Source): The checked source graph.
        """
        return cls(source.fingerprint(), source.name, SourceSketch.of(source))

    def is_near(self, other: Account) -> bool:
        r"""Whether both sources are different, but have nearly all nodes of the
        smaller one in common.

        Args:
            other (Account): The account of the other source.
        """
        if self.fingerprint == other.fingerprint:
            return False
        return self.sketch.share_in_common(other.sketch) >= NEARLY_EQUAL

    def costs(self, unit: str) -> list[Cost]:
        r"""The costs of the private builds that protect a unit.

        Args:
            unit (str): The unit.
        """
        own = [build.cost for build in self.builds if build.is_private]
        return [cost for cost in own if cost is not None and cost.unit == unit]

    def write(self, folder: Path) -> None:
        r"""Writes the file of the account atomically, with a checksum.

        Args:
            folder (Path): The folder of all accounts.
        """
        content = {
            'format': FORMAT,
            'fingerprint': self.fingerprint,
            'name': self.name,
            'sketch': self.sketch.to_dict(),
            'limits': {unit: asdict(limit) for unit, limit in self.limits.items()},
            'builds': [build.to_dict() for build in self.builds],
        }
        write_sealed_json(folder / f'{self.fingerprint}.json', content, [])

    @classmethod
    def read(cls, path: Path) -> Account:
        r"""Reads the file of an account. Raises :class:`CorruptFileError` if it was
        altered.

        Args:
            path (Path): The file.
        """
        try:
            content = read_sealed_json(path)
            if content['format'] != FORMAT or content['fingerprint'] != path.stem:
                raise ValueError(f'format {content["format"]} of {content["fingerprint"]}')
            return cls(
                content['fingerprint'],
                content['name'],
                SourceSketch(**content['sketch']),
                {unit: Budget(**limit) for unit, limit in content['limits'].items()},
                tuple(CountedBuild.from_dict(build) for build in content['builds']),
            )
        except (CorruptFileError, KeyError, TypeError, ValueError) as error:
            raise CorruptFileError(
                f"The odometer file '{path}' cannot be trusted, and nothing is built without it: "
                f'{error}. Restore it from a backup. If you remove it, what was spent is forgotten'
            ) from error


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
    index = torch.arange(1, size + 1) * 0x9E3779B97F4A7C1 + SKETCH_SEED + stream
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
    return numbered.sort().values[:SKETCH_SIZE].tolist()


def _containment(a: list[int], b: list[int], size_a: int, size_b: int) -> float:
    r"""The estimated size of the intersection of two sets, relative to the smaller one."""
    both = set(a) & set(b)
    union = sorted({*a, *b})
    if (
        len(a) == SKETCH_SIZE or len(b) == SKETCH_SIZE
    ):  # a sketch that is not full holds the whole set
        limits = [own[-1] for own in (a, b) if len(own) == SKETCH_SIZE]
        union = [value for value in union if value <= min(limits)][:SKETCH_SIZE]
    jaccard = len(both.intersection(union)) / max(1, len(union))
    common = jaccard / (1 + jaccard) * (size_a + size_b)
    return min(1.0, common / max(1, min(size_a, size_b)))
