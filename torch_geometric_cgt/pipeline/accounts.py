r"""The account of one source: its builds, its limits, and the sealed file that keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.pipeline.source_sketch import SourceSketch
from torch_geometric_cgt.privacy import Budget
from torch_geometric_cgt.privacy.composition import Cost
from torch_geometric_cgt.utils.files import read_sealed_json, write_sealed_json

FORMAT = 1
NEARLY_EQUAL = 0.9  # share of the nodes of the smaller source that are in both


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
