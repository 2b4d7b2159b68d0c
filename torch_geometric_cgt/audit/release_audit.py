r"""The audit of a release against its source: which checks run, on what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset

from torch_geometric_cgt.audit.anonymity import check_groups, path_support
from torch_geometric_cgt.audit.attack_limit import Limit, sharpest
from torch_geometric_cgt.audit.attacks import (
    MAX_RECORDS,
    Attacks,
    attack,
    audit_build,
    audit_canaries,
)
from torch_geometric_cgt.audit.check import Audit, Check
from torch_geometric_cgt.audit.membership import UNITS, MemberSplit, split_members
from torch_geometric_cgt.audit.rebuild import Mechanism, config_of, mechanism_on
from torch_geometric_cgt.audit.records import Records, projected, records_of
from torch_geometric_cgt.audit.similarity import closest_distances, count_copies
from torch_geometric_cgt.datasets import SyntheticCGTDataset
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.models import TreeModel
from torch_geometric_cgt.models.path_support import NUM_DRAWS
from torch_geometric_cgt.pipeline import Build, BuildConfig
from torch_geometric_cgt.pipeline.source import Source, check_source
from torch_geometric_cgt.release import Release
from torch_geometric_cgt.release.card import K_ANONYMITY
from torch_geometric_cgt.training import resolve_device
from torch_geometric_cgt.utils.seeds import derive_seed

CHECKS = ('groups', 'support', 'copies', 'closest', 'membership', 'attribute', 'canary')
COMMON = 30  # source roots that make a tree common, if the card has no k


def run_audit(
    dataset: SyntheticCGTDataset | Release,
    source: Dataset | Data,
    checks: Sequence[str] = CHECKS,
    max_epsilon: float | None = None,
    min_support: int | None = None,
    members: Tensor | None = None,
    unit: str | None = None,
    num_canaries: int = 100,
    max_records: int = MAX_RECORDS,
    confidence: float = 0.95,
    seed: int = 0,
    device: str | torch.device = 'auto',
    log: bool = True,
    build: Build | None = None,
) -> Audit:
    r"""Audits a release against its source.

    Group sizes, the support of paths, copies and distances are measured on the
    release itself. Membership and attribute inference need nodes that were not
    in the source. Unless :obj:`members` is given, they attack a new build with
    the same parameters from a random half of the source. The canary audit
    attacks a new build from the source with canaries.

    Args:
        dataset (SyntheticCGTDataset or Release): What is audited. A dataset
            that was built, and not loaded from a release, also has the cluster
            of each source node and the generator, which the audit uses.
        source (Dataset or Data): The graph that it was built from.
        checks (list[str], optional): The checks to run, of :obj:`CHECKS`.
            (default: :obj:`CHECKS`)
        max_epsilon (float, optional): The privacy loss that attacks are
            compared with. By default, the claim of the card, and 1 if it has
            none. (default: :obj:`None`)
        min_support (int, optional): The number of source roots that must have
            every path. By default, the promise of the card, if it has one.
            (default: :obj:`None`)
        members (torch.Tensor, optional): The mask of those nodes of
            :obj:`source`, ``[N]``, that the release was built from.
            (default: :obj:`None`)
        unit (str, optional): Whether membership is that of a :obj:`"node"`
            or of a :obj:`"record"`, one computation graph. By default,
            that of a record if the card claims differential privacy, else
            that of a node. (default: :obj:`None`)
        num_canaries (int, optional): The number of canaries.
            (default: :obj:`100`)
        max_records (int, optional): The largest number of members, and of
            others, to attack. (default: :obj:`2000`)
        confidence (float, optional): The probability that the intervals of a
            check hold. (default: :obj:`0.95`)
        seed (int, optional): The seed of all draws. (default: :obj:`0`)
        device (str or torch.device, optional): Where to build.
            (default: :obj:`"auto"`)
        log (bool, optional): Whether to show progress. (default: :obj:`True`)
        build (Build, optional): The build that a release was saved from, see
            :meth:`find_build`. (default: :obj:`None`)
    """
    if unknown := [name for name in checks if name not in CHECKS]:
        raise ValueError(f'Unknown checks {unknown}; choose from {list(CHECKS)}')
    if not 0 < confidence < 1:
        raise ValueError(f"'confidence' must lie between 0 and 1 (got {confidence})")
    if unit is not None and unit not in UNITS:
        raise ValueError(f"'unit' must be one of {UNITS} (got '{unit}')")
    for name, value in (
        ('min_support', 1 if min_support is None else min_support),
        ('num_canaries', num_canaries),
        ('max_records', max_records),
    ):
        if value < 1:
            raise ValueError(f"'{name}' must be at least 1 (got {value})")
    release = dataset if isinstance(dataset, Release) else dataset.release
    own = build if isinstance(dataset, Release) else dataset
    limit = Limit.of(release.privacy, max_epsilon)
    unit = unit or ('record' if release.privacy.epsilon is not None else 'node')
    whole = check_source(source)
    split = split_members(whole, members, unit) if members is not None else None
    inside = split.members if split is not None else whole
    check_fit(release, inside)

    cluster = None if own is None else own.cluster
    model = None if own is None else own.model
    chosen = [name for name in CHECKS if name in checks]
    settings = {
        'source': inside.name,
        'checks': chosen,
        'limit': {'epsilon': limit.epsilon, 'delta': limit.delta, 'origin': limit.origin},
        'min_support': min_support,
        'unit': unit,
        'halves': 'given' if split is not None else 'a random half of the source, built again',
        'tokens': 'nearest codeword' if cluster is None else 'cluster assignment of the build',
        'num_canaries': num_canaries,
        'max_records': max_records,
        'confidence': confidence,
        'seed': seed,
    }
    mechanism = mechanism_on(resolve_device(device), log)
    run = AuditRun(release, inside, split, mechanism, cluster, model, limit, settings)
    found = [check for name in chosen for check in getattr(run, name)()]
    return Audit(release.card, found, run.details, settings)


def check_fit(release: Release, source: Source) -> None:
    r"""Raises an error if the release cannot have been made from the source."""
    stated = release.card['source']
    have = {
        'num_nodes': source.data.num_nodes,
        'num_edges': source.data.num_edges,
        'num_features': source.data.num_features,
        'num_classes': max(source.num_classes, declared_labels(release) or 0),
        'num_labelled': source.root.numel(),
    }
    wrong = [
        f'{name[4:]}: {value:,} in the source, {stated[name]:,} in the card'
        for name, value in have.items()
        if stated.get(name) is not None and value != stated[name]
    ]
    if wrong:
        raise SourceError(
            f"The release was not made from this source ('{source.name}'; the card names "
            f"'{stated['name']}'): {'; '.join(wrong)}"
        )


def declared_labels(release: Release) -> int | None:
    r"""The number of labels that was declared for a private release, if one was."""
    return (release.card['parameters'].get('private') or {}).get('num_classes')


class AuditRun:
    r"""The checks of one audit. Each check is a method with its name in
    :obj:`CHECKS`.

    Args:
        release (Release): The release.
        source (Source): The source that it was built from.
        split (MemberSplit, optional): The source and the nodes that were left
            out, if they are known.
        mechanism (callable): Makes a build from a source and parameters.
        cluster (torch.Tensor, optional): The cluster of each source node.
        model (TreeModel, optional): The fitted model.
        limit (Limit): The limit of all attacks.
        settings (dict): The further arguments of :meth:`run_audit`.
    """

    def __init__(
        self,
        release: Release,
        source: Source,
        split: MemberSplit | None,
        mechanism: Mechanism,
        cluster: Tensor | None,
        model: TreeModel | None,
        limit: Limit,
        settings: dict[str, Any],
    ) -> None:
        self.release = release
        self.source = source
        self.split = split
        self.mechanism = mechanism
        self.cluster = cluster
        self.model = model
        self.limit = limit
        self.settings = settings
        self.seed: int = settings['seed']
        self.confidence: float = settings['confidence']
        self.details: dict[str, Any] = {}

    @cached_property
    def config(self) -> BuildConfig:
        r"""The parameters of the release. A private build from a source of
        another size keeps the delta of the release.
        """
        config = config_of(self.release.card)
        if config.private is None:
            return config
        delta = self.release.privacy.delta
        private = replace(config.private, delta=delta, accept_large_delta=True)
        return replace(config, privacy=private)

    @cached_property
    def records(self) -> Records:
        r"""The trees of all source roots, sampled with the seed of the support
        rule of the build.
        """
        return records_of(
            projected(self.source, self.release.projection),
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
        if self.split is not None:
            trees, codebook = self.release.trees, self.release.codebook
            built = Build(trees, codebook, self.model, projection=self.release.projection)
            return attack(self.split, built, *how)
        return audit_build(self.source, self.config, self.mechanism, self.settings['unit'], *how)

    @property
    def k(self) -> int | None:
        r"""The group size that the card promises, if it promises one."""
        return self.release.privacy.k

    def groups(self) -> list[Check]:
        r"""The size of groups, if the release is k-anonymous."""
        card = self.release.privacy
        if card.mechanism != K_ANONYMITY:
            return []
        return check_groups(card, self.release.codebook, self.source.data, self.cluster)

    def support(self) -> list[Check]:
        r"""The support of paths."""
        asked: int | None = self.settings['min_support']
        promised = self.release.privacy.min_support
        found = path_support(
            self.release.trees, self.records, max(asked or 0, promised or 0) or self.k or COMMON
        )
        self.details['support'] = found.to_dict()
        if promised is not None and self.cluster is not None and promised >= (asked or 0):
            return [found.check(promised, f'the promise of the card: min_support = {promised}')]
        if asked is not None:
            return [found.check(asked, f'asked for: min_support = {asked}')]
        if promised is None:
            return [found.check(None, 'The card makes no promise about paths.')]
        return [
            found.check(
                None,
                f'The card promises that at least {promised} source nodes have each path. Not '
                f'checked: the cluster assignment (the group of each source node) is not '
                f'available, so each node was counted with its nearest codeword.',
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
        found = closest_distances(release.trees, self.records, release.codebook, seed=self.seed)
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
        r"""The canary audit, at the delta where canaries can refute most."""
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
        r"""Adds what an attack on one unit leaves out of the claim."""
        scope = self.limit.scope(attacked)
        return [replace(check, says=f'{check.says} {scope}'.rstrip()) for check in checks]
