r"""Building again, with the parameters of a card, from a source that the audit changed; and shadow
builds, which show the score of a record with and without it in the source.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.audit.attack_limit import Limit
from torch_geometric_cgt.audit.attack_scores import BackoffDensity
from torch_geometric_cgt.audit.check import TooFewError
from torch_geometric_cgt.audit.neighbours import MemberSplit, random_members, split_members
from torch_geometric_cgt.audit.records import projected, records_of
from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.pipeline import Build, BuildConfig, KAnonymity, Source, build, cache_name
from torch_geometric_cgt.pipeline.config import public_numbers
from torch_geometric_cgt.pipeline.plan import PrivatePlan
from torch_geometric_cgt.release import Release, read_cache
from torch_geometric_cgt.utils.run_limits import Limits
from torch_geometric_cgt.utils.seeds import derive_seed

Mechanism = Callable[[Source, BuildConfig], Build]
NUM_SHADOWS = 4
MAX_EPOCHS = 2  # of the fit of a shadow build, which bounds its cost
NUM_DRAWS = 2  # trees of each record


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


def mechanism_on(device: torch.device, log: bool = True, limits: Limits | None = None) -> Mechanism:
    r"""The mechanism that releases are made with; it leaves nothing behind.

    Args:
        device (torch.device): Where to fit and sample.
        log (bool, optional): Whether to show progress. (default: :obj:`True`)
        limits (Limits, optional): The time and the memory of the build.
            (default: :obj:`None`)
    """

    def run(source: Source, config: BuildConfig) -> Build:
        with tempfile.TemporaryDirectory(prefix='cgt-audit-') as folder, warnings.catch_warnings():
            warnings.simplefilter('ignore', UserWarning)  # what it warns of is measured here
            built = build(source, config, Path(folder), device, log, limits=limits)
            assert built is not None  # there is one process
            # Tokens are mapped from a file in the folder.
            trees = replace(built.trees, tokens=built.trees.tokens.clone())
        return replace(built, trees=trees)

    return run


def shadow_score(
    source: Source,
    config: BuildConfig,
    mechanism: Mechanism,
    unit: str,
    node: Tensor,
    target: Tensor,
    num_shadows: int = NUM_SHADOWS,
    seed: int = 0,
) -> Tensor:
    r"""The likelihood ratio of the score of each record with and without it in the
    source, ``[n]`` (Carlini et al., `"Membership Inference Attacks From First
    Principles" <https://arxiv.org/abs/2112.03570>`_, 2022).

    Shadow builds are made like the attacked one from random halves of the source
    and from their complements, so that each record is in one half of them. Two
    normal distributions are fitted to the scores of each record, with means of
    its own and standard deviations that all records share.

    Args:
        source (Source): The checked source graph.
        config (BuildConfig): The parameters of the attacked build.
        mechanism (callable): Makes a build from a source and parameters.
        unit (str): The unit of the split.
        node (torch.Tensor): The roots of the records, ``[n]``.
        target (torch.Tensor): The scores in the attacked build, ``[n]``.
        num_shadows (int, optional): The number of shadow builds. It is rounded
            up to an even number. (default: :obj:`4`)
        seed (int, optional): The seed of halves and draws. (default: :obj:`0`)
    """
    inside, outside = [], []
    for pair in range((num_shadows + 1) // 2):
        half = random_members(source, unit, derive_seed(seed, f'shadow {pair}'))
        if unit == 'frozen_record':
            labelled = source.data.y >= 0
            sides = (half, labelled & ~half)
        else:
            sides = (half, ~half)
        for members in sides:
            split = split_members(source, members, unit)
            built = mechanism(split.members, _cheap(scaled_to(config, split.members, source)))
            score = _standard(record_scores(split, built, node, seed))
            inside.append(torch.where(members[node], score, math.nan))
            outside.append(torch.where(members[node], math.nan, score))
    return likelihood_ratio(_standard(target), torch.stack(inside), torch.stack(outside))


def likelihood_ratio(target: Tensor, inside: Tensor, outside: Tensor) -> Tensor:
    r"""The log-ratio of two normal densities per record, ``[n]``.

    Args:
        target (torch.Tensor): The score of each record, ``[n]``.
        inside (torch.Tensor): Its scores in shadow builds that contain it,
            ``[s, n]``; :obj:`nan` for the other shadow builds.
        outside (torch.Tensor): Its scores in shadow builds without it.
    """
    density = []
    for scores in (inside, outside):
        mean = scores.nanmean(dim=0)
        apart = (scores - mean).square()
        freedom = (~apart.isnan()).sum() - mean.numel()
        deviation = apart.new_ones(())  # if each record has one score only
        if freedom > 0:
            deviation = (apart.nansum() / freedom).sqrt().clamp(min=1e-6)
        density.append(-((target - mean) / deviation).square() / 2 - deviation.log())
    return density[0] - density[1]


def record_scores(split: MemberSplit, built: Build, node: Tensor, seed: int) -> Tensor:
    r"""The log-density of some records in the trees of a build, ``[n]``.

    Args:
        split (MemberSplit): The members and the others of the build.
        built (Build): The build from the members.
        node (torch.Tensor): The roots of the records in the whole source,
            ``[n]``.
        seed (int): The seed of draws.
    """
    density = BackoffDensity(built.trees)
    score = torch.zeros(node.numel(), dtype=torch.double)
    rng = torch.Generator().manual_seed(derive_seed(seed, 'shadow draws'))
    for side, mask in ((split.members, split.is_member), (split.others, ~split.is_member)):
        place = mask[node].nonzero().view(-1)
        if place.numel() == 0:
            continue
        root = node[place]
        if split.unit == 'node':  # nodes are numbered anew in each half
            root = (mask.long().cumsum(0) - 1)[root]
        graph = projected(side, built.projection)
        records = records_of(graph, root, built.codebook, built.trees.shape, NUM_DRAWS, rng)
        labels = split.members.num_classes
        draws = [replace(draw, num_classes=labels) for draw in records.draws]
        score[place] = density.mean_log_prob(draws)
    return score


def _cheap(config: BuildConfig) -> BuildConfig:
    r"""The same parameters with a short fit. Private builds keep theirs."""
    if config.private is not None:
        return config
    epochs = min(config.fit.epochs or MAX_EPOCHS, MAX_EPOCHS)
    return replace(config, fit=replace(config.fit, epochs=epochs))


def _standard(score: Tensor) -> Tensor:
    r"""Scores of different builds on one scale."""
    score = score.double()
    return (score - score.mean()) / score.std().clamp(min=1e-12)
