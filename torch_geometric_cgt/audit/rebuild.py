r"""Building again, with the parameters of a card, from a source that the audit changed."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from torch_geometric_cgt.audit.attack_limit import Limit
from torch_geometric_cgt.audit.check import TooFewError
from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.pipeline import Build, BuildConfig, KAnonymity, Source, build, cache_name
from torch_geometric_cgt.pipeline.plan import PrivatePlan
from torch_geometric_cgt.pipeline.private import public_numbers
from torch_geometric_cgt.release import Release, read_cache


def config_of(card: dict[str, Any]) -> BuildConfig:
    r"""The parameters that a release was built with.

    Args:
        card (dict): The card of the release.
    """
    try:
        return BuildConfig.from_dict(card['parameters'])
    except (KeyError, TypeError) as error:
        raise CorruptFileError(
            f'The card names parameters that this version does not build with: {error}'
        ) from error


def claim_of(source: Source, config: BuildConfig, num_canaries: int = 0) -> Limit:
    r"""What a private build of a source will claim, before it is made.

    Args:
        source (Source): The checked source graph.
        config (BuildConfig): The parameters of the build.
        num_canaries (int, optional): The number of canaries that an audit will
            add to the source. (default: :obj:`0`)
    """
    if config.private is None:
        raise ValueError("The parameters name no budget: 'privacy' must be DifferentialPrivacy")
    known = public_numbers(source, config)
    sizes = (known.num_nodes + num_canaries, known.num_roots + num_canaries)
    known = replace(known, num_nodes=sizes[0], num_roots=sizes[1])
    plan = PrivatePlan(known, config.private)
    budget, ledger = plan.budget, plan.ledger()
    epsilon = ledger.total(budget.unit, budget.delta).epsilon
    stated = f'epsilon = {epsilon:.3g}, delta = {budget.delta:.2g} for a {budget.unit}'
    return Limit(epsilon, budget.delta, f'the plan: {stated}', unit=budget.unit, ledger=ledger)


def find_build(release: Release, source: Source, root: Path) -> Build | None:
    r"""The build that a release was saved from, with the group of each source
    node and the generator, or :obj:`None` where it is not kept. A release
    whose card is not that of its build is refused.

    Args:
        release (Release): The release.
        source (Source): What it was built from.
        root (Path): Where builds are kept.
    """
    folder = root / cache_name(source, config_of(release.card))
    if not folder.is_dir():
        return None
    own, found = read_cache(folder)
    if not torch.equal(own.trees.tokens, release.trees.tokens):
        return None
    if not torch.equal(own.codebook, release.codebook):
        return None
    if wrong := [name for name in own.card if own.card[name] != release.card.get(name)]:
        raise CorruptFileError(
            f'The card of the release is not the one that its build wrote: {wrong} were changed'
        )
    return found


def scaled_to(config: BuildConfig, part: Source, whole: Source) -> BuildConfig:
    r"""The same parameters for a part of a source: sizes and supports shrink
    with it, :math:`k` stays.
    """
    share = part.root.numel() / whole.root.numel()
    num_nodes = int(part.data.num_nodes or 0)
    promise = config.privacy
    k = promise.k if isinstance(promise, KAnonymity) else 1
    if num_nodes < k:
        raise TooFewError(f'A part of {num_nodes} nodes cannot have groups of k = {k}')
    changes: dict[str, Any] = {}
    if config.num_samples is not None:
        changes['num_samples'] = max(1, round(config.num_samples * share))
    if config.num_scenes is not None:
        changes['num_scenes'] = min(config.num_scenes, max(1, part.root.numel() // k))
    if isinstance(promise, KAnonymity):
        share_of_nodes = num_nodes / int(whole.data.num_nodes or 1)
        smaller: dict[str, Any] = {}
        if promise.num_clusters is not None:
            fewer = round(promise.num_clusters * share_of_nodes)
            smaller['num_clusters'] = max(1, min(fewer, num_nodes // k))
        if promise.min_support is not None:
            smaller['min_support'] = max(1, int(promise.min_support * share))
        changes['privacy'] = replace(promise, **smaller)
    return replace(config, **changes)


Mechanism = Callable[[Source, BuildConfig], Build]


def mechanism_on(device: torch.device, log: bool = True) -> Mechanism:
    r"""The mechanism that releases are made with; it leaves nothing behind.

    Args:
        device (torch.device): Where to fit and sample.
        log (bool, optional): Whether to show progress. (default: :obj:`True`)
    """

    def run(source: Source, config: BuildConfig) -> Build:
        with tempfile.TemporaryDirectory(prefix='cgt-audit-') as folder, warnings.catch_warnings():
            warnings.simplefilter('ignore', UserWarning)  # what it warns of is measured here
            built = build(source, config, Path(folder), device, log)
            assert built is not None  # there is one process
            # Tokens are mapped from a file in the folder.
            trees = replace(built.trees, tokens=built.trees.tokens.clone())
        return replace(built, trees=trees)

    return run
