r"""The odometer: what all builds of a source have cost together, the limit of its owner, and the
registration of each build.
"""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from filelock import FileLock

from torch_geometric_cgt.errors import BudgetError, CorruptFileError
from torch_geometric_cgt.pipeline.accounts import Account, CountedBuild
from torch_geometric_cgt.pipeline.config import BuildConfig
from torch_geometric_cgt.pipeline.source import Source, check_source
from torch_geometric_cgt.pipeline.workspace import LOCKS
from torch_geometric_cgt.privacy import Budget, Ledger
from torch_geometric_cgt.privacy.composition import Cost, compose, left
from torch_geometric_cgt.utils.files import read_sealed_json, require_writable, write_sealed_json
from torch_geometric_cgt.utils.warn import warn_user

FOLDER = 'odometer'
SHOWN = 12  # digits of a fingerprint
# In the folder of the kept ledger: if a new ledger replaces it, the build is a new one.
MARK = Path('ledger', 'build.json')


@dataclass(frozen=True)
class Spending:
    r"""What the private builds of a source, and of nearly equal sources, cost
    together for one unit.

    Args:
        unit (str): The unit that the builds protect.
        epsilon (float): The composed privacy loss.
        delta (float): The failure probability.
        num_builds (int): The number of builds.
        limit (float, optional): The limit of the owner; :obj:`None` without one.
        left (float, optional): The largest epsilon of one more build within the
            limit.
    """

    unit: str
    epsilon: float
    delta: float
    num_builds: int
    limit: float | None = None
    left: float | None = None


class Odometer:
    r"""Counts every build of every source in a folder of builds.

    There is one file per source, named by its fingerprint. A differentially
    private build is written to it before the first noisy result is computed, so
    that a build counts even if it is killed or its folder is deleted. A resumed
    build is counted once. A build that is made again (:obj:`force_reload=True`)
    draws new noise and is counted again.

    Two sources are nearly equal if 90 % of the nodes of the smaller one are in
    both, according to a sketch of each source. A node that is in both pays for
    the builds of both. Their costs are composed, and the limits of both hold.

    Files are written atomically, with a checksum, under one lock. They hold
    sketches of the sources. They belong to the owner, as the sources do, and are
    never a part of a release.

    .. code-block:: python

        odometer = Odometer(dataset.root)
        odometer.set_limit(source, epsilon=8.0, unit='node')
        odometer.spending(source)

    Args:
        root (str): The folder of finished builds, see
            :class:`~torch_geometric_cgt.SyntheticCGTDataset`.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).expanduser()
        self.folder = self.root / FOLDER

    def accounts(self) -> list[Account]:
        r"""The accounts of all sources."""
        return [Account.read(path) for path in sorted(self.folder.glob('*.json'))]

    def account(self, source: Any) -> Account:
        r"""The account of a source. It is empty if nothing was built from it.

        Args:
            source (Dataset or Data or Source or Account or str): The source, or
                the first digits of a fingerprint in this odometer.
        """
        if isinstance(source, str):
            found = [a for a in self.accounts() if a.fingerprint.startswith(source)]
            if len(found) != 1 or not re.fullmatch('[0-9a-f]+', source):
                raise ValueError(
                    f"'{source}' must be the first digits of the fingerprint of one source in "
                    f"'{self.folder}' (got {len(found)} of them)"
                )
            return found[0]
        if isinstance(source, Account):
            path = self.folder / f'{source.fingerprint}.json'
            return Account.read(path) if path.exists() else source
        checked = source if isinstance(source, Source) else check_source(source)
        path = self.folder / f'{checked.fingerprint()}.json'
        return Account.read(path) if path.exists() else Account.of(checked)

    def near(self, account: Account) -> list[Account]:
        r"""The accounts of all sources that nearly equal a source.

        Args:
            account (Account): The account of the source.
        """
        return [other for other in self.accounts() if account.is_near(other)]

    def spending(self, source: Any) -> list[Spending]:
        r"""What was spent per unit, and what is left.

        Without a limit, the total is stated at the smallest delta of the builds.

        Args:
            source (Dataset or Data or Source or Account or str): The source.
        """
        account = self.account(source)
        family = [account, *self.near(account)]
        used = [b.cost.unit for a in family for b in a.builds if b.is_private and b.cost]
        units = dict.fromkeys([*used, *(unit for a in family for unit in a.limits)])
        return [_spending(family, unit) for unit in units]

    def set_limit(
        self, source: Any, epsilon: float | None, unit: str, delta: float | None = None
    ) -> Account:
        r"""Limits the cost of all private builds of a source together. A build that
        would pass the limit is refused before it reads the source.

        A build states its cost for one unit. If a source has limits, a build for
        a unit without a limit is refused as well, because its cost for the
        limited units is not known.

        Args:
            source (Dataset or Data or Source or Account or str): The source.
            epsilon (float, optional): The limit; :obj:`None` removes it.
            unit (str): The unit.
            delta (float, optional): The failure probability of all builds
                together. By default, :math:`n^{-1.1}` for :math:`n` nodes.
                (default: :obj:`None`)
        """
        with self._locked():
            account = self.account(source)
            limits = {name: limit for name, limit in account.limits.items() if name != unit}
            if epsilon is not None:
                num_nodes = account.sketch.num_nodes
                limits[unit] = Budget.of(epsilon, delta, num_nodes, unit)
            account = replace(account, limits=limits)
            account.write(self.folder)
        return account

    def charge(self, source: Any, build: CountedBuild) -> list[str]:
        r"""Counts a private build, unless it is resumed and counted already.
        Raises :class:`BudgetError` if the build would pass a limit.

        Args:
            source (Dataset or Data or Source or Account): The source.
            build (CountedBuild): The build.

        Returns:
            Warnings for the owner.
        """
        with self._locked():
            account = self.account(source)
            if any(other.id == build.id for other in account.builds):
                return []
            near = self.near(account)
            if build.is_private:
                _check_limits([account, *near], build)
            replace(account, builds=(*account.builds, build)).write(self.folder)
        return _private_warnings(account, near) if build.is_private else []

    def note(self, source: Any, build: CountedBuild) -> None:
        r"""Notes a k-anonymous build. The same parameters give the same build, which
        is noted once.

        Args:
            source (Dataset or Data or Source or Account): The source.
            build (CountedBuild): The build.
        """
        with self._locked():
            account = self.account(source)
            others = tuple(other for other in account.builds if other.cache != build.cache)
            replace(account, builds=(*others, build)).write(self.folder)

    def k_anonymous_warnings(self, source: Any, cache: str) -> list[str]:
        r"""What follows for a k-anonymous build from the other builds.

        Args:
            source (Dataset or Data or Source or Account): The source.
            cache (str): The folder of the build.
        """
        account = self.account(source)
        near = self.near(account)
        found = []
        own = [b.cache for b in account.builds if b.is_k_anonymous and b.cache != cache]
        if own:
            found.append(
                f'There are k-anonymous builds of this source with other parameters '
                f'({_names(own)}). If both are released, their groups can be intersected: a node '
                f'is then hidden among the nodes that are in its group in both releases, which may '
                f'be fewer than k. Release one of them'
            )
        for other in near:
            if caches := [b.cache for b in other.builds if b.is_k_anonymous]:
                found.append(
                    f'There are k-anonymous builds ({_names(caches)}) of a nearly equal source, '
                    f'{_title(other)}. If both are released, their difference shows the nodes that '
                    f'are in one source only: two releases with and without a person differ by '
                    f'that person. Release one of them'
                )
        family = [account, *near]
        if any(b.is_private for a in family for b in a.builds) or _limits(family):
            found.append(
                'There are private builds or a limit of this source. A k-anonymous build has no '
                'epsilon: if it is released, no epsilon holds for all releases together'
            )
        return found

    @contextmanager
    def _locked(self) -> Iterator[None]:
        r"""One lock for all accounts, because nearly equal sources share what is spent."""
        require_writable(self.folder)
        require_writable(self.root / LOCKS)
        with FileLock(self.root / LOCKS / f'{FOLDER}.lock'):
            yield

    def __repr__(self) -> str:
        return f'{self.__class__.__name__}({str(self.root)!r})'


def _limits(family: Sequence[Account]) -> list[Budget]:
    return [limit for account in family for limit in account.limits.values()]


def _costs(family: Sequence[Account], unit: str) -> list[Cost]:
    return [cost for account in family for cost in account.costs(unit)]


def _spending(family: Sequence[Account], unit: str) -> Spending:
    costs = _costs(family, unit)
    limits = [limit for limit in _limits(family) if limit.unit == unit]
    if not limits:
        delta = min(cost.delta for cost in costs)
        return Spending(unit, compose(costs, delta), delta, len(costs))
    rest, limit = min(((left(costs, limit), limit) for limit in limits), key=lambda pair: pair[0])
    spent = compose(costs, limit.delta)
    return Spending(unit, spent, limit.delta, len(costs), limit.epsilon, rest)


def _check_limits(family: Sequence[Account], build: CountedBuild) -> None:
    r"""Raises :class:`BudgetError` if a build passes a limit of its source or of a nearly equal
    source.
    """
    assert build.cost is not None
    unit, limits = build.cost.unit, _limits(family)
    if limits and all(limit.unit != unit for limit in limits):
        units = ', '.join(dict.fromkeys(f"'{limit.unit}'" for limit in limits))
        raise BudgetError(
            f'The owner of {_title(family[0])} limits builds per {units}. This build protects '
            f"'{unit}', and its cost per {units} is not known: nothing was read. Use a limited "
            f"unit, or set a limit with 'cgt budget --unit {unit}'"
        )
    costs = _costs(family, unit)
    for limit in (limit for limit in limits if limit.unit == unit):
        total = compose([*costs, build.cost], limit.delta)
        if total <= limit.epsilon:
            continue
        spent = [(account, b) for account in family for b in account.builds if b.is_private]
        builds = [
            f'{b.cache} (epsilon = {b.cost.epsilon:.3g}, {b.time}'
            f'{"" if account is family[0] else f", of the nearly equal source {_title(account)}"})'
            for account, b in spent
            if b.cost is not None and b.cost.unit == unit
        ]
        before = compose(costs, limit.delta)
        raise BudgetError(
            f'This build would bring the cost of {_title(family[0])} to epsilon = '
            f'{"infinity" if math.isinf(total) else f"{total:.3g}"} per {unit} at delta = '
            f'{limit.delta:.3g}, above the limit of {limit.epsilon:g} that its owner set. Spent: '
            f'{before:.3g}, by {", ".join(builds) or "no build"}. Left for one more build: about '
            f'{left(costs, limit):.3g}. Nothing was read'
        )


def _private_warnings(account: Account, near: Sequence[Account]) -> list[str]:
    r"""What follows for a private build from the other builds."""
    found = []
    if earlier := sum(build.is_private for build in account.builds):
        found.append(
            f'This is private build number {earlier + 1} of {_title(account)}. Each build draws '
            f"new noise, and all of them together cost more than one: 'cgt budget' shows the total"
        )
    for other in near:
        if number := sum(build.is_private for build in other.builds):
            found.append(
                f'There are {number} private builds of a nearly equal source, {_title(other)}. A '
                f"node that is in both sources pays for the builds of both: 'cgt budget' shows "
                f'the total'
            )
    caches = [b.cache for a in [account, *near] for b in a.builds if b.is_k_anonymous]
    if caches:
        found.append(
            f'There are k-anonymous builds of the same nodes ({_names(caches)}). If one of them is '
            f'released, no epsilon holds for all releases together'
        )
    return found


def _title(account: Account) -> str:
    return f"'{account.name}' ({account.fingerprint[:SHOWN]})"


def _names(caches: Sequence[str]) -> str:
    shown = ', '.join(caches[:3])
    return f'{shown} and {len(caches) - 3} more' if len(caches) > 3 else shown


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
            warn_user(text)

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
