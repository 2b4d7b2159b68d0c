r"""The checks of one audit, with what they share."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.audit.attacks import Attacks, attack, audit_build, audit_canaries
from torch_geometric_cgt.audit.check import Check
from torch_geometric_cgt.audit.closest import closest_records
from torch_geometric_cgt.audit.copies import count_copies
from torch_geometric_cgt.audit.groups import check_groups
from torch_geometric_cgt.audit.halves import Halves
from torch_geometric_cgt.audit.limit import Limit
from torch_geometric_cgt.audit.power import sharpest
from torch_geometric_cgt.audit.rebuild import Mechanism, config_of
from torch_geometric_cgt.audit.records import Records, projected, records_of
from torch_geometric_cgt.audit.support import path_support
from torch_geometric_cgt.models import TreeModel
from torch_geometric_cgt.models.path_support import NUM_DRAWS
from torch_geometric_cgt.pipeline import Build, BuildConfig
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.release.release import Release
from torch_geometric_cgt.release.statements import K_ANONYMITY
from torch_geometric_cgt.utils.seeds import derive_seed

COMMON = 30  # roots, where the card names no k


class AuditRun:
    r"""Runs the checks of an audit, each by a method of its name.

    Args:
        release (Release): What is audited.
        source (Source): What it was built from.
        halves (Halves, optional): The source and those who were left out,
            where they are known.
        mechanism (callable): What makes a build of a source and parameters.
        cluster (torch.Tensor, optional): The group of each source node.
        generator (TreeModel, optional): The fitted model.
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
        generator: TreeModel | None,
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
    def config(self) -> BuildConfig:
        r"""The parameters that the release was built with. The delta of a private
        one stays, whatever the size of the source that is built from.
        """
        config = config_of(self.release.card)
        if config.private is None:
            return config
        delta = self.release.privacy.delta
        private = replace(config.private, delta=delta, accept_large_delta=True)
        return replace(config, privacy=private)

    @cached_property
    def records(self) -> Records:
        r"""Trees of all source roots: those that the support rule of a build
        looks at.
        """
        return records_of(
            projected(self.source.data, self.release.projection),
            self.source.root,
            self.release.codebook,
            self.release.trees.shape,
            NUM_DRAWS,
            torch.Generator().manual_seed(derive_seed(self.config.seed, 'support')),
            self.cluster,
        )

    @cached_property
    def attacks(self) -> Attacks:
        r"""Attacks on the release, or on a build from half of the source."""
        how = (self.seed, self.confidence, self.settings['max_records'])
        if self.halves is not None:
            trees, codebook = self.release.trees, self.release.codebook
            built = Build(trees, codebook, self.generator, projection=self.release.projection)
            return attack(self.halves, built, *how)
        return audit_build(self.source, self.config, self.mechanism, self.settings['unit'], *how)

    @property
    def k(self) -> int | None:
        r"""What the card promises of groups; nothing, if it has none."""
        return self.release.privacy.k

    def groups(self) -> list[Check]:
        r"""The size of groups, where the card speaks of them."""
        card = self.release.privacy
        if card.mechanism != K_ANONYMITY:
            return []
        return check_groups(card, self.release.codebook, self.source.data, self.cluster)

    def support(self) -> list[Check]:
        r"""The support of paths."""
        asked: int | None = self.settings['min_support']
        promised: int | None = getattr(self.release.privacy, 'min_support', None)
        found = path_support(
            self.release.trees, self.records, max(asked or 0, promised or 0) or self.k or COMMON
        )
        self.details['support'] = found.to_dict()
        if promised is not None and self.cluster is not None and promised >= (asked or 0):
            return [found.check(promised, f'the promise of the card: min_support = {promised}')]
        if asked is not None:
            return [found.check(asked, f'asked for: min_support = {asked}')]
        if promised is None:
            return [found.check(None, 'The card promises nothing about paths.')]
        return [
            found.check(
                None,
                f'The card promises that {promised} roots show each of them; the groups, which '
                f'stay in the house, were not at hand to count that.',
            )
        ]

    def copies(self) -> list[Check]:
        r"""Copies of source trees."""
        trees, common = self.release.trees, self.k or COMMON
        found = count_copies(trees, self.records, common, self.confidence)
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
        return self._scoped(found.checks(self.limit), self.attacks.unit)

    def attribute(self) -> list[Check]:
        r"""Attribute inference."""
        found = self.attacks.attributes
        self.details['attribute'] = [attribute.to_dict() for attribute in found]
        checks = [attribute.check(self.limit) for attribute in found]
        return self._scoped(checks, self.attacks.unit)

    def canary(self) -> list[Check]:
        r"""The canary audit, at the delta where it can refute most."""
        num_canaries: int = self.settings['num_canaries']
        limit = sharpest(self.limit, num_canaries, self.confidence)
        found = audit_canaries(
            self.source,
            self.config,
            self.mechanism,
            num_canaries,
            limit.delta,
            self.seed,
            self.confidence,
        )
        claim = limit.epsilon if limit.is_claim else None
        self.details['canary'] = {**found.to_dict(), 'claim': claim}
        return self._scoped([found.check(limit)], 'record')

    def _scoped(self, checks: list[Check], attacked: str) -> list[Check]:
        r"""Says what an attack on one unit leaves out of the claim."""
        scope = self.limit.scope(attacked)
        return [replace(check, says=f'{check.says} {scope}'.rstrip()) for check in checks]
