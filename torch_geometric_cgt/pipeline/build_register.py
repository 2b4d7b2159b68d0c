r"""Registers one build in the odometer: before its first stage, and when it is finished."""

from __future__ import annotations

import secrets
import warnings
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.pipeline.accounts import CountedBuild
from torch_geometric_cgt.pipeline.odometer import Odometer
from torch_geometric_cgt.pipeline.pipeline import BuildConfig
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.privacy import Ledger
from torch_geometric_cgt.privacy.composition import Cost
from torch_geometric_cgt.utils.files import read_sealed_json, write_sealed_json

# In the folder of the kept ledger: if a new ledger replaces it, the build is a new one.
MARK = Path('ledger', 'build.json')


@dataclass(frozen=True)
class BuildRegister:
    r"""Registers one build in the odometer.

    Args:
        odometer (Odometer): The odometer of the folder of builds.
        source (Source): The checked source graph.
        config (BuildConfig): All parameters of the build.
        cache (str): The folder name of the build.
        work (Path): The working folder of the build.
    """

    odometer: Odometer
    source: Source
    config: BuildConfig
    cache: str
    work: Path

    def start(self, ledger: Ledger | None) -> None:
        r"""Charges a private build, and warns of other builds of the same nodes.
        Raises :class:`BudgetError` if the build would pass a limit.

        Args:
            ledger (Ledger, optional): The ledger of a private build.
        """
        private = self.config.private
        if private is None or ledger is None:
            found = self.odometer.k_anonymous_warnings(self.source, self.cache)
        else:
            budget = private.budget(int(self.source.data.num_nodes or 0))
            cost = Cost.of(ledger, budget.unit, budget.delta)
            seeded = private.noise_seed is not None
            found = self.odometer.charge(self.source, self._build(self._mark(), cost, seeded))
        for text in found:
            warnings.warn(text, stacklevel=2)

    def finish(self) -> None:
        r"""Notes a k-anonymous build. A private build is counted already."""
        if self.config.private is None:
            self.odometer.note(self.source, self._build(secrets.token_hex(8)))

    def _build(self, id: str, cost: Cost | None = None, seeded: bool = False) -> CountedBuild:
        now = datetime.now(timezone.utc).isoformat(timespec='seconds')
        return CountedBuild(id, self.cache, now, cost, seeded, self.config.to_dict())

    def _mark(self) -> str:
        r"""The random name of this build. It is written before the build is charged, and kept
        with the ledger for a build that resumes.
        """
        path = self.work / MARK
        try:
            return str(read_sealed_json(path)['build'])
        except (CorruptFileError, KeyError):
            name = secrets.token_hex(8)
            write_sealed_json(path, {'build': name}, [])
            return name
