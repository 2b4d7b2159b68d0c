r"""Shadow builds: what the score of a record looks like with and without it in the source."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from torch_geometric_cgt.audit.attack_scores import BackoffDensity
from torch_geometric_cgt.audit.member_split import MemberSplit, random_members, split_members
from torch_geometric_cgt.audit.rebuild import Mechanism, scaled_to
from torch_geometric_cgt.audit.records import projected, records_of
from torch_geometric_cgt.pipeline import Build, BuildConfig, Source
from torch_geometric_cgt.utils.seeds import derive_seed

NUM_SHADOWS = 4
MAX_EPOCHS = 2  # of the fit of a shadow build, which bounds its cost
NUM_DRAWS = 2  # trees of each record


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
