r"""The audit of a release: all checks, each with its verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset

from torch_geometric_cgt.datasets import SyntheticCGTDataset
from torch_geometric_cgt.datasets.config import stage_seed
from torch_geometric_cgt.datasets.release import Release
from torch_geometric_cgt.datasets.source import Source, check_source
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.privacy.audit.attacks import (
    MAX_RECORDS,
    Attacks,
    attack,
    audit_build,
    audit_canaries,
)
from torch_geometric_cgt.privacy.audit.check import Check
from torch_geometric_cgt.privacy.audit.closest import closest_records
from torch_geometric_cgt.privacy.audit.copies import count_copies
from torch_geometric_cgt.privacy.audit.groups import check_groups
from torch_geometric_cgt.privacy.audit.halves import Halves, halve
from torch_geometric_cgt.privacy.audit.limit import Limit
from torch_geometric_cgt.privacy.audit.rebuild import config_of, mechanism_on
from torch_geometric_cgt.privacy.audit.records import Records, records_of
from torch_geometric_cgt.privacy.audit.support import path_support
from torch_geometric_cgt.training import resolve_device

CHECKS = ('groups', 'support', 'copies', 'closest', 'membership', 'attribute', 'canary')
FORMAT = 1


@dataclass(frozen=True)
class Audit:
    r"""What an audit found.

    Args:
        card (dict): The card of the release.
        checks (list[Check]): One verdict each.
        details (dict): What was measured, by check.
        settings (dict): How it was measured.
    """

    card: dict[str, Any]
    checks: list[Check]
    details: dict[str, Any]
    settings: dict[str, Any]

    @property
    def failed(self) -> list[Check]:
        r"""The checks that failed."""
        return [check for check in self.checks if check.verdict == 'failed']

    @property
    def passed(self) -> bool:
        r"""Whether none failed."""
        return not self.failed

    def to_dict(self) -> dict[str, Any]:
        r"""All of it, for a JSON file."""
        return {
            'format': FORMAT,
            'passed': self.passed,
            'checks': [check.to_dict() for check in self.checks],
            'settings': self.settings,
            'details': self.details,
            'card': self.card,
        }


def run_audit(
    dataset: SyntheticCGTDataset | Release,
    source: Dataset | Data,
    checks: Sequence[str] = CHECKS,
    max_epsilon: float | None = None,
    min_support: int | None = None,
    members: Tensor | None = None,
    unit: str | None = None,
    num_canaries: int = 100,
    num_draws: int = 5,
    max_records: int = MAX_RECORDS,
    confidence: float = 0.95,
    seed: int = 0,
    device: str | torch.device = 'auto',
    log: bool = True,
) -> Audit:
    r"""Audits a release against its source.

    Size of groups, support of paths, copies and distances are measured on the
    release itself. Membership and attribute inference need people who were not
    in the source: unless :obj:`members` says who was, they attack a build
    with the same parameters from a random half of the source. The canary
    audit attacks a build from the source with canaries.

    Args:
        dataset (SyntheticCGTDataset or Release): What is audited. A dataset
            that was built, and not loaded from a release, knows the group of
            each source node and has its generator; both are made use of.
        source (Dataset or Data): What it was built from.
        checks (list[str], optional): What to check, of :obj:`CHECKS`.
            (default: :obj:`CHECKS`)
        max_epsilon (float, optional): The privacy loss that attacks are held
            against. By default, what the card claims, and 1 where it claims
            none. (default: :obj:`None`)
        min_support (int, optional): The number of source roots that must show
            every path. By default, nothing is asked for.
            (default: :obj:`None`)
        members (torch.Tensor, optional): The mask of those nodes of
            :obj:`source`, ``[N]``, that the release was built from.
            (default: :obj:`None`)
        unit (str, optional): Whether membership is that of a :obj:`"node"`
            or of a :obj:`"record"`, one computation graph. By default,
            that of a record where the card claims differential privacy, else
            that of a node. (default: :obj:`None`)
        num_canaries (int, optional): The number of canaries.
            (default: :obj:`100`)
        num_draws (int, optional): The number of computation graphs of each
            source root among which paths are looked for. (default: :obj:`5`)
        max_records (int, optional): The largest number of members, and of
            others, that are attacked. (default: :obj:`2000`)
        confidence (float, optional): The probability that the intervals of a
            check hold. (default: :obj:`0.95`)
        seed (int, optional): The seed of all draws. (default: :obj:`0`)
        device (str or torch.device, optional): Where to build.
            (default: :obj:`"auto"`)
        log (bool, optional): Whether to show progress. (default: :obj:`True`)
    """
    if unknown := [name for name in checks if name not in CHECKS]:
        raise ValueError(f'Unknown checks {unknown}; choose from {list(CHECKS)}')
    if not 0 < confidence < 1:
        raise ValueError(f"'confidence' must lie between 0 and 1 (got {confidence})")
    if min_support is not None and min_support < 1:
        raise ValueError(f"'min_support' must be at least 1 (got {min_support})")
    release = dataset if isinstance(dataset, Release) else dataset.release
    built = None if isinstance(dataset, Release) else dataset
    privacy = release.privacy
    limit = Limit.of(privacy, max_epsilon)
    unit = unit or ('record' if privacy.epsilon is not None else 'node')
    whole = check_source(source)
    halves = halve(whole, members, unit) if members is not None else None
    checked = halves.inside if halves is not None else whole
    check_fit(release, checked)

    run = _Run(release, checked, built, limit, num_draws, max_records, confidence, seed)
    found: list[Check] = []
    steps: dict[str, Callable[[], list[Check]]] = {
        'groups': run.groups,
        'support': lambda: run.support(min_support),
        'copies': run.copies,
        'closest': run.closest,
        'membership': lambda: run.membership(halves, unit, resolve_device(device), log),
        'attribute': lambda: run.attribute(halves, unit, resolve_device(device), log),
        'canary': lambda: run.canary(num_canaries, resolve_device(device), log),
    }
    for name in CHECKS:
        if name in checks:
            found += steps[name]()
    settings = {
        'source': checked.name,
        'unit': unit,
        'own_half': halves is None,
        'clusters': 'counted' if run.cluster is not None else 'nearest codeword',
        'generator': built is not None and built.generator is not None,
        'limit': {'epsilon': limit.epsilon, 'delta': limit.delta, 'origin': limit.origin},
        'num_canaries': num_canaries,
        'num_draws': num_draws,
        'max_records': max_records,
        'confidence': confidence,
        'seed': seed,
    }
    return Audit(release.card, found, run.details, settings)


class _Run:
    r"""The checks of one audit, with what they share."""

    def __init__(
        self,
        release: Release,
        source: Source,
        built: SyntheticCGTDataset | None,
        limit: Limit,
        num_draws: int,
        max_records: int,
        confidence: float,
        seed: int,
    ) -> None:
        self.release = release
        self.source = source
        self.limit = limit
        self.num_draws = num_draws
        self.max_records = max_records
        self.confidence = confidence
        self.seed = seed
        self.cluster = built.cluster if built is not None else None
        self.generator = built.generator if built is not None else None
        self.details: dict[str, Any] = {}
        self._records: Records | None = None
        self._attacks: Attacks | None = None

    @property
    def records(self) -> Records:
        r"""Trees of all source roots."""
        if self._records is None:
            self._records = records_of(
                self.source.data,
                self.source.root,
                self.release.codebook,
                self.release.trees.shape,
                self.num_draws,
                torch.Generator().manual_seed(stage_seed(self.seed, 'source trees')),
                self.cluster,
            )
        return self._records

    def groups(self) -> list[Check]:
        release = self.release
        return check_groups(release.privacy, release.codebook, self.source.data, self.cluster)

    def support(self, min_support: int | None) -> list[Check]:
        k = min_support or self.release.privacy.k
        found = path_support(self.release.trees, self.records, k)
        self.details['support'] = found.to_dict()
        return [found.check(min_support)]

    def copies(self) -> list[Check]:
        k = self.release.privacy.k
        found = count_copies(self.release.trees, self.records, k, self.confidence)
        self.details['copies'] = found.to_dict()
        return [found.check()]

    def closest(self) -> list[Check]:
        release = self.release
        found = closest_records(release.trees, self.records, release.codebook, seed=self.seed)
        self.details['closest'] = found.to_dict()
        return [found.check()]

    def attacks(self, halves: Halves | None, unit: str, device: torch.device, log: bool) -> Attacks:
        r"""Attacks on the release, or on a build from half of the source."""
        if self._attacks is None:
            how = (self.seed, self.confidence, self.max_records)
            if halves is not None:
                trees, codebook = self.release.trees, self.release.codebook
                self._attacks = attack(halves, trees, codebook, self.generator, *how)
            else:
                config = config_of(self.release.card)
                mechanism = mechanism_on(device, log)
                self._attacks = audit_build(self.source, config, mechanism, unit, *how)
        return self._attacks

    def membership(self, *how: Any) -> list[Check]:
        found = self.attacks(*how).membership
        self.details['membership'] = found.to_dict()
        return found.checks(self.limit)

    def attribute(self, *how: Any) -> list[Check]:
        found = self.attacks(*how).attributes
        self.details['attribute'] = [attribute.to_dict() for attribute in found]
        return [attribute.check(self.limit) for attribute in found]

    def canary(self, num_canaries: int, device: torch.device, log: bool) -> list[Check]:
        found = audit_canaries(
            self.source,
            config_of(self.release.card),
            mechanism_on(device, log),
            num_canaries,
            self.limit.delta,
            self.seed,
            self.confidence,
        )
        self.details['canary'] = found.to_dict()
        return [found.check(self.limit)]


def check_fit(release: Release, source: Source) -> None:
    r"""Refuses a source that the release cannot have been made from."""
    stated = release.card['source']
    have = {
        'num_nodes': source.data.num_nodes,
        'num_edges': source.data.num_edges,
        'num_features': source.data.num_features,
        'num_classes': source.num_classes,
        'num_labelled': source.root.numel(),
    }
    wrong = [
        f'{name[4:]}: {value:,} in the source, {stated[name]:,} in the card'
        for name, value in have.items()
        if value != stated[name]
    ]
    if wrong:
        raise SourceError(
            f"The release was not made from this source ('{source.name}'; the card names "
            f"'{stated['name']}'): {'; '.join(wrong)}"
        )
