r"""Attacks on a build: membership and attribute inference, and canaries."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_geometric_cgt.audit.attack_scores import (
    codebook_score,
    expected_log_prob,
    model_scores,
    release_scores,
    sums_score,
)
from torch_geometric_cgt.audit.attribute import ATTRIBUTES, AttributeInference, attribute_inference
from torch_geometric_cgt.audit.canaries import CanaryAudit, canary_audit, insert_canaries
from torch_geometric_cgt.audit.membership import (
    Membership,
    MemberSplit,
    membership_inference,
    random_members,
    split_members,
)
from torch_geometric_cgt.audit.rebuild import Mechanism, scaled_to
from torch_geometric_cgt.audit.records import Records, projected, records_of
from torch_geometric_cgt.pipeline import Build, BuildConfig, Source
from torch_geometric_cgt.utils.seeds import derive_seed

NUM_DRAWS = 4  # trees of each record
MAX_RECORDS = 2000  # members, and as many others
CANARY_SCORES = ('sums', 'codebook', 'calibrated', 'closest', 'calibrated loss', 'calibrated draws')


@dataclass(frozen=True)
class Attacks:
    r"""The results of membership and attribute inference on one build."""

    unit: str
    membership: Membership
    attributes: list[AttributeInference]


def audit_build(
    source: Source,
    config: BuildConfig,
    mechanism: Mechanism,
    unit: str = 'node',
    seed: int = 0,
    confidence: float = 0.95,
    max_records: int = MAX_RECORDS,
) -> Attacks:
    r"""Builds from a random half of a source with the same parameters, and
    attacks that build.

    Args:
        source (Source): The checked source graph.
        config (BuildConfig): The parameters of the build in question.
        mechanism (callable): Makes a build from a source and parameters.
        unit (str, optional): Whether to split by :obj:`"node"` or by
            :obj:`"record"`, see :meth:`~torch_geometric_cgt.audit.membership.split_members`.
            (default: :obj:`"node"`)
        seed (int, optional): The seed of the split and of all draws.
            (default: :obj:`0`)
        confidence (float, optional): The probability that intervals hold.
            (default: :obj:`0.95`)
        max_records (int, optional): The largest number of members, and of
            others, to attack. (default: :obj:`2000`)
    """
    split = split_members(source, random_members(source, unit, derive_seed(seed, 'halves')), unit)
    built = mechanism(split.members, scaled_to(config, split.members, source))
    return attack(split, built, seed, confidence, max_records)


def attack(
    split: MemberSplit,
    built: Build,
    seed: int = 0,
    confidence: float = 0.95,
    max_records: int = MAX_RECORDS,
) -> Attacks:
    r"""Attacks a build whose members are known.

    Args:
        split (MemberSplit): The members and the others.
        built (Build): The build from the members.
        seed (int, optional): The seed of all draws. (default: :obj:`0`)
        confidence (float, optional): The probability that intervals hold.
            (default: :obj:`0.95`)
        max_records (int, optional): The largest number of members, and of
            others, to attack. (default: :obj:`2000`)
    """
    rng = torch.Generator().manual_seed(derive_seed(seed, 'attack'))
    trees = built.trees

    def draw(source: Source) -> Records:
        order = torch.randperm(source.root.numel(), generator=rng)[:max_records]
        root = source.root[order.sort().values]
        source = projected(source, built.projection)
        return records_of(source, root, built.codebook, trees.shape, NUM_DRAWS, rng)

    members, others = draw(split.members), draw(split.others)
    records = Records.cat([members, others])
    is_member = torch.arange(len(records)) < len(members)
    expected = expected_log_prob(records)
    scores = _scores(built, records, expected, rng)
    membership = membership_inference(records, is_member, scores, expected, confidence, seed)
    each = 1 - (1 - confidence) / len(ATTRIBUTES)
    attributes = [attribute_inference(name, trees, records, is_member, each) for name in ATTRIBUTES]
    return Attacks(split.unit, membership, attributes)


def audit_canaries(
    source: Source,
    config: BuildConfig,
    mechanism: Mechanism,
    num_canaries: int = 100,
    delta: float = 0.0,
    seed: int = 0,
    confidence: float = 0.95,
) -> CanaryAudit:
    r"""Builds from the source with about half of some canaries, and guesses
    from the result which ones they were.

    Args:
        source (Source): The checked source graph.
        config (BuildConfig): The parameters of the build in question.
        mechanism (callable): Makes a build from a source and parameters.
        num_canaries (int, optional): The number of canaries.
            (default: :obj:`100`)
        delta (float, optional): The claimed failure probability.
            (default: :obj:`0.0`)
        seed (int, optional): The seed of canaries, coins and draws.
            (default: :obj:`0`)
        confidence (float, optional): The probability that the bound holds.
            (default: :obj:`0.95`)
    """
    canaries = insert_canaries(source, num_canaries, config.shape, derive_seed(seed, 'canaries'))
    built = mechanism(canaries.inside, config)
    rng = torch.Generator().manual_seed(derive_seed(seed, 'canary trees'))
    shape, every = built.trees.shape, projected(canaries.every, built.projection)
    records = records_of(every, canaries.node, built.codebook, shape, NUM_DRAWS, rng)
    known = projected(source, built.projection)
    population = records_of(known, source.root, built.codebook, shape, 1, rng)
    expected = expected_log_prob(records, population)
    scores = _scores(built, records, expected, rng)
    if built.seen:
        del scores['codebook']
        scores['sums'] = sums_score(built.seen, every.data.x, every.data.y, canaries.node)
    else:
        scores['codebook'] = codebook_score(built.codebook, every.data.x, canaries.node)
    chosen = {name: scores[name] for name in CANARY_SCORES if name in scores}
    return canary_audit(canaries.coin, chosen, delta, confidence)


def _scores(
    built: Build, records: Records, expected: Tensor, rng: torch.Generator
) -> dict[str, Tensor]:
    found = release_scores(built.trees, records, expected)
    if built.model is not None:
        found |= model_scores(built.model, built.trees, records, expected, rng)
    return found
