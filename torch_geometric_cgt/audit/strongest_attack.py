r"""The strongest membership attack on a generator, for comparisons of generators."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch

from torch_geometric_cgt.audit.attacks import attack_members
from torch_geometric_cgt.audit.membership import Membership
from torch_geometric_cgt.audit.neighbours import random_members, split_members
from torch_geometric_cgt.audit.rebuild import mechanism_on, scaled_to
from torch_geometric_cgt.pipeline import BuildConfig, Source
from torch_geometric_cgt.utils.run_limits import Limits
from torch_geometric_cgt.utils.seeds import derive_seed

MAX_RECORDS = 1000  # members, and as many others


@dataclass(frozen=True)
class StrongestAttack:
    r"""The attack that proves the largest privacy loss by its area under the curve.

    Args:
        score (str): What the attacker computes.
        group (str): The group of records on which it is strongest.
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
    def of(cls, membership: Membership) -> StrongestAttack:
        r"""Chooses the attack whose interval begins highest.

        Args:
            membership (Membership): All attacks.
        """
        best = max(membership.attacks, key=lambda a: (a.area.low, a.area.value))
        found = best.area
        num_attacks = len(membership.attacks)
        return cls(best.score, best.group, found.value, found.low, found.high, num_attacks)

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        return asdict(self)


def attack_generator(
    source: Source, config: BuildConfig, seed: int, max_records: int, limits: Limits
) -> dict[str, Any]:
    r"""Builds from a random half of the nodes with the same parameters, and tells this
    half from the other one: from the release, and with the fitted model. There are no
    shadow builds.

    Args:
        source (Source): The checked source graph.
        config (BuildConfig): The parameters of the build.
        seed (int): The seed of the halves and of all draws.
        max_records (int): The largest number of members, and of others, to attack.
        limits (Limits): The time and the memory of the run.
    """
    mask = random_members(source, 'node', derive_seed(seed, 'halves'))
    split = split_members(source, mask)
    part = scaled_to(config, split.members, source)
    built = mechanism_on(torch.device('cpu'), log=False, limits=limits)(split.members, part)
    limits.check()
    membership, _, _ = attack_members(split, built, seed, max_records=max_records)
    return StrongestAttack.of(membership).to_dict()
