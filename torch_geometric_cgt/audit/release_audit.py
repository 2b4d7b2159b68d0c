r"""The audit of a release against its source: which checks run, on what."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset

from torch_geometric_cgt.audit.attack_limit import RECORD, Limit
from torch_geometric_cgt.audit.attacks import MAX_RECORDS
from torch_geometric_cgt.audit.audit_run import AuditRun
from torch_geometric_cgt.audit.check import Audit
from torch_geometric_cgt.audit.neighbours import SPLIT_UNITS, split_members
from torch_geometric_cgt.audit.rebuild import NUM_SHADOWS, config_of, mechanism_on
from torch_geometric_cgt.audit.replay import Replay, replay_of
from torch_geometric_cgt.audit.sensitivity import NUM_NEIGHBOURS
from torch_geometric_cgt.datasets import SyntheticCGTDataset
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.pipeline import Build
from torch_geometric_cgt.pipeline.source import Source, check_source
from torch_geometric_cgt.release import Release
from torch_geometric_cgt.training import resolve_device

CHECKS = (
    'groups',
    'support',
    'copies',
    'closest',
    'noise',
    'sensitivity',
    'membership',
    'edges',
    'risks',
    'canary',
)


def run_audit(
    dataset: SyntheticCGTDataset | Release,
    source: Dataset | Data,
    checks: Sequence[str] = CHECKS,
    max_epsilon: float | None = None,
    min_support: int | None = None,
    members: Tensor | None = None,
    unit: str | None = None,
    num_canaries: int | None = None,
    max_records: int = MAX_RECORDS,
    num_shadows: int = NUM_SHADOWS,
    num_neighbours: int = NUM_NEIGHBOURS,
    confidence: float = 0.95,
    seed: int = 0,
    device: str | torch.device = 'auto',
    log: bool = True,
    build: Build | None = None,
    replay: Replay | None = None,
) -> Audit:
    r"""Audits a release against its source.

    Group sizes, the support of paths, copies and distances are measured on the
    release itself, noise and sensitivity on the answers of its build.
    Membership, edges and risks need nodes and edges that were not in the source.
    Unless :obj:`members` is given, they attack a new build with the same
    parameters from a random half of the source. The canary audit attacks a new
    build from the source with canaries.

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
            or of a :obj:`"frozen_record"`, one computation graph. By default,
            what the card protects, and a node if it protects neither.
            (default: :obj:`None`)
        num_canaries (int, optional): The number of canaries. By default, as
            many as can refute the claim, at least 100 and at most half of the
            number of nodes. (default: :obj:`None`)
        max_records (int, optional): The largest number of members, and of
            others, to attack. (default: :obj:`2000`)
        num_shadows (int, optional): The number of shadow builds.
            (default: :obj:`4`)
        num_neighbours (int, optional): The number of real units to remove for
            the check of sensitivities. (default: :obj:`40`)
        confidence (float, optional): The probability that the intervals of a
            check hold. (default: :obj:`0.95`)
        seed (int, optional): The seed of all draws. (default: :obj:`0`)
        device (str or torch.device, optional): Where to build.
            (default: :obj:`"auto"`)
        log (bool, optional): Whether to show progress. (default: :obj:`True`)
        build (Build, optional): The build that a release was saved from, see
            :meth:`find_build`. (default: :obj:`None`)
        replay (callable, optional): Computes the answers of a private build
            again, see :obj:`~torch_geometric_cgt.audit.replay.Replay`. By
            default, the answers of the given build are used.
            (default: :obj:`None`)
    """
    numbers = {
        'min_support': min_support,
        'num_canaries': num_canaries,
        'max_records': max_records,
        'num_shadows': num_shadows,
        'num_neighbours': num_neighbours,
    }
    _check_arguments(checks, confidence, unit, numbers)
    release = dataset if isinstance(dataset, Release) else dataset.release
    own = build if isinstance(dataset, Release) else dataset
    unit = unit or ('frozen_record' if release.privacy.protects in RECORD else 'node')
    limit = Limit.of(release.privacy, max_epsilon, unit)
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
        'max_epsilon': max_epsilon,
        'unit': unit,
        'halves': 'given' if split is not None else 'a random half of the source, built again',
        'tokens': 'nearest codeword' if cluster is None else 'cluster assignment of the build',
        **numbers,
        'confidence': confidence,
        'seed': seed,
    }
    if replay is None and own is not None and own.answers:
        replay = replay_of(inside, config_of(release.card), own.answers, release.card['privacy'])
    mechanism = mechanism_on(resolve_device(device), log)
    kept = None if own is None else own.steps
    edge_cluster = None if own is None else own.edge_cluster
    run = AuditRun(
        release, inside, split, mechanism, cluster, model, replay, settings, kept, edge_cluster
    )
    found = [check for name in chosen for check in run.checks_of(name)]
    return Audit(release.card, found, run.details, settings, run.accusations)


def _check_arguments(
    checks: Sequence[str], confidence: float, unit: str | None, numbers: dict[str, int | None]
) -> None:
    if unknown := [name for name in checks if name not in CHECKS]:
        raise ValueError(f'Unknown checks {unknown}; choose from {list(CHECKS)}')
    if not 0 < confidence < 1:
        raise ValueError(f"'confidence' must lie between 0 and 1 (got {confidence})")
    if unit is not None and unit not in SPLIT_UNITS:
        raise ValueError(f"'unit' must be one of {SPLIT_UNITS} (got '{unit}')")
    for name, value in numbers.items():
        least = 0 if name == 'num_shadows' else 1
        if value is not None and value < least:
            raise ValueError(f"'{name}' must be at least {least} (got {value})")


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
