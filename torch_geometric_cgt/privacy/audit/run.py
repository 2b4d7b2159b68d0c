r"""The checks of one audit, with what they share."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.datasets.config import stage_seed
from torch_geometric_cgt.datasets.release import Release
from torch_geometric_cgt.datasets.source import Source
from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.privacy.audit.attacks import Attacks, attack, audit_build, audit_canaries
from torch_geometric_cgt.privacy.audit.check import Check
from torch_geometric_cgt.privacy.audit.closest import closest_records
from torch_geometric_cgt.privacy.audit.copies import count_copies
from torch_geometric_cgt.privacy.audit.groups import check_groups
from torch_geometric_cgt.privacy.audit.halves import Halves
from torch_geometric_cgt.privacy.audit.limit import Limit
from torch_geometric_cgt.privacy.audit.rebuild import Mechanism, config_of
from torch_geometric_cgt.privacy.audit.records import Records, records_of
from torch_geometric_cgt.privacy.audit.support import path_support


class AuditRun:
    r"""Runs the checks of an audit, each by a method of its name.

    Args:
        release (Release): What is audited.
        source (Source): What it was built from.
        halves (Halves, optional): The source and those who were left out,
            where they are known.
        mechanism (callable): What makes a build of a source and parameters.
        cluster (torch.Tensor, optional): The group of each source node.
        generator (CGTGenerator, optional): The fitted model.
        limit (Limit): What attacks are held against.
        settings (dict): The further arguments of :meth:`run_audit`.
    """

    def __init__(
        self,
        release: Release,
        source: Source,
        halves: Halves | None,
        mechanism: Mechanism,
        cluster: Tensor | None,
        generator: CGTGenerator | None,
        limit: Limit,
        settings: dict[str, Any],
    ) -> None:
        self.release = release
        self.source = source
        self.halves = halves
        self.mechanism = mechanism
        self.cluster = cluster
        self.generator = generator
        self.limit = limit
        self.settings = settings
        self.seed: int = settings['seed']
        self.confidence: float = settings['confidence']
        self.details: dict[str, Any] = {}

    @cached_property
    def records(self) -> Records:
        r"""Trees of all source roots."""
        return records_of(
            self.source.data,
            self.source.root,
            self.release.codebook,
            self.release.trees.shape,
            self.settings['num_draws'],
            torch.Generator().manual_seed(stage_seed(self.seed, 'source trees')),
            self.cluster,
        )

    @cached_property
    def attacks(self) -> Attacks:
        r"""Attacks on the release, or on a build from half of the source."""
        how = (self.seed, self.confidence, self.settings['max_records'])
        if self.halves is not None:
            trees, codebook = self.release.trees, self.release.codebook
            return attack(self.halves, trees, codebook, self.generator, *how)
        config, unit = config_of(self.release.card), self.settings['unit']
        return audit_build(self.source, config, self.mechanism, unit, *how)

    def groups(self) -> list[Check]:
        r"""The size of groups."""
        release = self.release
        return check_groups(release.privacy, release.codebook, self.source.data, self.cluster)

    def support(self) -> list[Check]:
        r"""The support of paths."""
        min_support = self.settings['min_support']
        k = min_support or self.release.privacy.k
        found = path_support(self.release.trees, self.records, k)
        self.details['support'] = found.to_dict()
        return [found.check(min_support)]

    def copies(self) -> list[Check]:
        r"""Copies of source trees."""
        k = self.release.privacy.k
        found = count_copies(self.release.trees, self.records, k, self.confidence)
        self.details['copies'] = found.to_dict()
        return [found.check()]

    def closest(self) -> list[Check]:
        r"""Distances to the closest record."""
        release = self.release
        found = closest_records(release.trees, self.records, release.codebook, seed=self.seed)
        self.details['closest'] = found.to_dict()
        return [found.check()]

    def membership(self) -> list[Check]:
        r"""Membership inference."""
        found = self.attacks.membership
        self.details['membership'] = found.to_dict()
        return found.checks(self.limit)

    def attribute(self) -> list[Check]:
        r"""Attribute inference."""
        found = self.attacks.attributes
        self.details['attribute'] = [attribute.to_dict() for attribute in found]
        return [attribute.check(self.limit) for attribute in found]

    def canary(self) -> list[Check]:
        r"""The canary audit."""
        found = audit_canaries(
            self.source,
            config_of(self.release.card),
            self.mechanism,
            self.settings['num_canaries'],
            self.limit.delta,
            self.seed,
            self.confidence,
        )
        self.details['canary'] = found.to_dict()
        return [found.check(self.limit)]
