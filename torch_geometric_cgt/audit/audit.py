r"""The audit of a release against its source."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset

from torch_geometric_cgt.audit.attacks import MAX_RECORDS
from torch_geometric_cgt.audit.check import Audit
from torch_geometric_cgt.audit.halves import UNITS, halve
from torch_geometric_cgt.audit.limit import Limit
from torch_geometric_cgt.audit.rebuild import mechanism_on
from torch_geometric_cgt.audit.run import AuditRun
from torch_geometric_cgt.datasets import SyntheticCGTDataset
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.pipeline import Build
from torch_geometric_cgt.pipeline.source import Source, check_source
from torch_geometric_cgt.release.release import Release
from torch_geometric_cgt.training import resolve_device

CHECKS = ('groups', 'support', 'copies', 'closest', 'membership', 'attribute', 'canary')


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
            every path. By default, what the card promises, if anything.
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
        max_records (int, optional): The largest number of members, and of
            others, that are attacked. (default: :obj:`2000`)
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
    halves = halve(whole, members, unit) if members is not None else None
    inside = halves.inside if halves is not None else whole
    check_fit(release, inside)

    cluster = own.cluster if own is not None else None
    generator = own.model if own is not None else None
    chosen = [name for name in CHECKS if name in checks]
    settings = {
        'source': inside.name,
        'checks': chosen,
        'limit': {'epsilon': limit.epsilon, 'delta': limit.delta, 'origin': limit.origin},
        'min_support': min_support,
        'unit': unit,
        'halves': 'given' if halves is not None else 'drawn and built anew',
        'tokens': 'nearest codeword' if cluster is None else 'own group',
        'num_canaries': num_canaries,
        'max_records': max_records,
        'confidence': confidence,
        'seed': seed,
    }
    mechanism = mechanism_on(resolve_device(device), log)
    run = AuditRun(release, inside, halves, mechanism, cluster, generator, limit, settings)
    found = [check for name in chosen for check in getattr(run, name)()]
    return Audit(release.card, found, run.details, settings)


def declared_labels(release: Release) -> int | None:
    r"""The number of labels that was declared for a private release, if one was."""
    return (release.card['parameters'].get('private') or {}).get('num_classes')


def check_fit(release: Release, source: Source) -> None:
    r"""Refuses a source that the release cannot have been made from."""
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
