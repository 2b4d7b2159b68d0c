r"""The strongest membership attack on a generator, for comparisons of generators.

All generators of a comparison release the same feature vectors. The attack is therefore on what
differs, the trees: whose computation graph was learned? It is made as easy as possible for the
attacker, who knows the graph and the token of every node.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch

from torch_geometric_cgt.audit.attack_scores import (
    expected_log_prob,
    model_scores,
    release_scores,
)
from torch_geometric_cgt.audit.attacks import NUM_DRAWS
from torch_geometric_cgt.audit.membership import Membership, membership_inference
from torch_geometric_cgt.audit.neighbours import MemberSplit, random_members, split_members
from torch_geometric_cgt.audit.rebuild import mechanism_on, scaled_to
from torch_geometric_cgt.audit.records import Records, records_of
from torch_geometric_cgt.pipeline import Build, BuildConfig, Source
from torch_geometric_cgt.utils.run_limits import Limits
from torch_geometric_cgt.utils.seeds import derive_seed

UNIT = 'frozen_record'  # the computation graph of a root
FEATURES = 'codebook'  # a score of features, which are known here


@dataclass(frozen=True)
class StrongestAttack:
    r"""The attack that proves the largest privacy loss by its area under the curve.

    Args:
        score (str): What the attacker computes.
        group (str): The group of records that it is made on.
        area (float): The area under the ROC curve; a half is a blind guess.
        low (float): The lower end of its confidence interval, which holds for all
            attacks together.
        high (float): The upper end.
        num_attacks (int): The number of attacks that were tried.
    """

    score: str
    group: str
    area: float
    low: float
    high: float
    num_attacks: int

    @classmethod
    def of(cls, membership: Membership, group: str = 'all') -> StrongestAttack:
        r"""Chooses the attack on a group whose interval begins highest.

        Args:
            membership (Membership): All attacks.
            group (str, optional): The group. (default: :obj:`"all"`)
        """
        own = [attack for attack in membership.attacks if attack.group == group]
        best = max(own, key=lambda attack: (attack.area.low, attack.area.value))
        found = best.area
        num_attacks = len(membership.attacks)
        return cls(best.score, best.group, found.value, found.low, found.high, num_attacks)

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        return asdict(self)


def attack_generator(
    source: Source, config: BuildConfig, seed: int, max_records: int, limits: Limits
) -> dict[str, Any]:
    r"""Builds with the same parameters, where only a random half of the roots has a
    label, so that the generator learns their computation graphs alone. Then this half is
    told from the other one.

    Args:
        source (Source): The checked source graph.
        config (BuildConfig): The parameters of the build.
        seed (int): The seed of the halves and of all draws.
        max_records (int): The largest number of members, and of others, to attack.
        limits (Limits): The time and the memory of the run.

    Returns:
        The strongest attack on all roots and, as :obj:`groups`, the strongest one on
        each group of roots that is large enough: hubs, outliers and rare labels.
    """
    split = split_members(source, random_members(source, UNIT, derive_seed(seed, 'halves')), UNIT)
    part = scaled_to(config, split.members, source)
    built = mechanism_on(torch.device('cpu'), log=False, limits=limits)(split.members, part)
    limits.check()
    found = attack_trees(split, built, seed, max_records)
    groups = dict.fromkeys(attack.group for attack in found.attacks if attack.group != 'all')
    by_group = {group: StrongestAttack.of(found, group).to_dict() for group in groups}
    return {**StrongestAttack.of(found).to_dict(), 'groups': by_group}


def attack_trees(split: MemberSplit, built: Build, seed: int, max_records: int) -> Membership:
    r"""Tells the roots whose computation graphs were learned from others: by the released
    trees, and by the model. The attacker knows the edges and the token of every node, and
    has no shadow builds.

    Args:
        split (MemberSplit): Members and others, by :obj:`"frozen_record"`.
        built (Build): The build from the members.
        seed (int): The seed of all draws.
        max_records (int): The largest number of members, and of others, to attack.
    """
    if split.unit != UNIT or built.cluster is None:
        raise ValueError(
            f"Expected a split by '{UNIT}' and a build that knows the token of every node "
            f"(got '{split.unit}')"
        )
    rng = torch.Generator().manual_seed(derive_seed(seed, 'attack'))
    sides, shape = [], built.trees.shape
    for side in (split.members, split.others):
        order = torch.randperm(side.root.numel(), generator=rng)[:max_records]
        root = side.root[order.sort().values]
        token = built.cluster
        sides.append(records_of(side, root, built.codebook, shape, NUM_DRAWS, rng, token))
    records = Records.cat(sides)
    is_member = torch.arange(len(records)) < len(sides[0])
    expected = expected_log_prob(records)
    scores = release_scores(built.trees, records, expected)
    if built.model is not None:
        scores |= model_scores(built.model, built.trees, records, expected, rng)
    del scores[FEATURES]
    return membership_inference(records, is_member, scores, expected, seed=seed)
