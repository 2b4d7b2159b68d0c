r"""Membership inference: can it be told who was in the source?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from torch_geometric_cgt.audit.check import Check, verdict
from torch_geometric_cgt.audit.limit import Limit
from torch_geometric_cgt.audit.rates import (
    TruePositives,
    area,
    curve,
    has_threshold,
    threshold_of,
    true_positives,
)
from torch_geometric_cgt.audit.records import Records
from torch_geometric_cgt.privacy.intervals import Estimate
from torch_geometric_cgt.quantizer.class_probabilities import fit_linear

FALSE_POSITIVES = (0.01, 0.001)
GROUP_SHARE = 0.05  # of all records
MIN_GROUP = 20  # members and others, for a group to be measured
NUM_FOLDS = 5


@dataclass(frozen=True)
class Attack:
    r"""How well one score tells members from others in one group."""

    score: str
    group: str
    num_members: int
    num_others: int
    area: Estimate
    true_positives: dict[float, TruePositives | None]


@dataclass(frozen=True)
class Membership:
    r"""All attacks on all groups.

    Args:
        attacks (list[Attack]): Their intervals hold all together.
        confidence (float): With this probability.
        curves (dict[str, list]): Of each score, over all records.
    """

    attacks: list[Attack]
    confidence: float
    curves: dict[str, list[tuple[float, float]]]

    def checks(self, limit: Limit) -> list[Check]:
        r"""One verdict for the area and one for each share of false alarms. A
        check fails if the interval of any attack lies above the limit.
        """
        found = [(attack.area, limit.max_auc, attack) for attack in self.attacks]
        checks = [self._check('area under the curve', found, limit)]
        for rate in FALSE_POSITIVES:
            measured = [(attack.true_positives[rate], attack) for attack in self.attacks]
            found = [(t.share, limit.highest(t.others.high), attack) for t, attack in measured if t]
            if found:
                name = f'true positives at {rate:.1%} false ones'
                checks.append(self._check(name, found, limit))
        return checks

    def _check(self, name: str, found: list[tuple[Estimate, float, Attack]], limit: Limit) -> Check:
        estimate, threshold, attack = max(found, key=lambda item: item[0].low - item[1])
        return Check(
            f'Membership inference: {name}',
            verdict(estimate.low <= threshold),
            estimate.value,
            f"The attack that comes closest to its limit: '{attack.score}' on {attack.group} "
            f'({attack.num_members:,} members, {attack.num_others:,} others). Intervals of '
            f'{len(self.attacks)} attacks hold together at {self.confidence:.0%}.',
            threshold,
            limit.origin,
            estimate.low,
            estimate.high,
        )

    def to_dict(self) -> dict[str, Any]:
        r"""All of it, for a JSON file."""
        attacks = [
            {
                **asdict(a),
                'true_positives': {f'{r:g}': _facts(t) for r, t in a.true_positives.items()},
            }
            for a in self.attacks
        ]
        return {'attacks': attacks, 'confidence': self.confidence, 'curves': self.curves}


def membership_inference(
    records: Records,
    is_member: Tensor,
    scores: dict[str, Tensor],
    expected: Tensor,
    confidence: float = 0.95,
    seed: int = 0,
) -> Membership:
    r"""Measures how well scores tell members from others, overall and for
    hubs, outliers and rare labels.

    A further score, ``combined``, is learned from all others: each record is
    scored by a linear model of them that was told who is a member among four
    fifths of the other records.

    The thresholds of rates are set on all others, and the shares above them
    are measured in each group, of its members and of its others. If a
    mechanism is differentially private, the first are bounded by the second,
    within every group.

    Args:
        records (Records): Members and others.
        is_member (torch.Tensor): Which is which, ``[n]``.
        scores (dict[str, torch.Tensor]): What attackers compute, ``[n]`` each;
            high for members.
        expected (torch.Tensor): The log-density of each record in the
            population, ``[n]``.
        confidence (float, optional): The probability that all intervals hold
            together. (default: :obj:`0.95`)
        seed (int, optional): The seed of the folds. (default: :obj:`0`)
    """
    scores = {**scores, 'combined': combined_score(records, is_member, scores, expected, seed)}
    groups = {
        name: mask
        for name, mask in groups_of(records, expected).items()
        if min(int((mask & is_member).sum()), int((mask & ~is_member).sum())) >= MIN_GROUP
    }
    if not groups:
        raise ValueError(
            f'Expected at least {MIN_GROUP} members and {MIN_GROUP} others '
            f'(got {int(is_member.sum())} and {int((~is_member).sum())})'
        )
    num_others = int((~is_member).sum())
    num_rates = sum(has_threshold(num_others, rate) for rate in FALSE_POSITIVES)
    num_intervals = len(scores) * len(groups) * (1 + num_rates)
    each = 1 - (1 - confidence) / num_intervals
    # One threshold for all: an attacker accuses whoever is above it, whatever the group.
    threshold = {
        (name, rate): threshold_of(score[~is_member], rate)
        for name, score in scores.items()
        for rate in FALSE_POSITIVES
    }
    attacks = []
    for group, mask in groups.items():
        for name, score in scores.items():
            member, other = score[mask & is_member], score[mask & ~is_member]
            rates: dict[float, TruePositives | None] = {}
            for rate in FALSE_POSITIVES:
                high = threshold[name, rate]
                rates[rate] = None if high is None else true_positives(member, other, high, each)
            attacks.append(
                Attack(name, group, len(member), len(other), area(member, other, each), rates)
            )
    curves = {name: curve(score[is_member], score[~is_member]) for name, score in scores.items()}
    return Membership(attacks, confidence, curves)


def groups_of(records: Records, expected: Tensor) -> dict[str, Tensor]:
    r"""Those whom an average hides: each a mask ``[n]`` of about a twentieth of
    the records, made without a look at who is a member.

    - hubs have the most neighbours;
    - outliers have computation graphs that the others' let expect least;
    - rare labels are the least frequent ones.
    """
    size = max(1, round(GROUP_SHARE * len(records)))
    label, count = records.y.unique(return_counts=True)
    order = count.argsort(stable=True)
    enough = int(torch.searchsorted(count[order].cumsum(0), size)) + 1
    groups = {
        'all': torch.ones(len(records), dtype=torch.bool),
        'hubs': _top(records.degree.double(), size),
        'outliers': _top(-expected, size),
    }
    if enough < label.numel():
        groups['rare labels'] = torch.isin(records.y, label[order[:enough]])
    return groups


def combined_score(
    records: Records, is_member: Tensor, scores: dict[str, Tensor], expected: Tensor, seed: int
) -> Tensor:
    r"""Scores each record by a linear model that did not see whether it is a
    member, ``[n]``.
    """
    real = (records.tokens != records.num_tokens).double().sum(dim=2).mean(dim=0)
    columns = [*scores.values(), expected, records.degree.double().log1p(), real]
    z = torch.stack(columns, dim=1).double().numpy()
    known = is_member.numpy()
    fold = np.random.default_rng(seed).permutation(len(known)) % NUM_FOLDS
    score = np.zeros(len(known))
    for i in range(NUM_FOLDS):
        train = fold != i
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
        fit_linear(model, z[train], known[train])
        score[~train] = model.decision_function(z[~train])
    return torch.from_numpy(score)


def _top(x: Tensor, size: int) -> Tensor:
    r"""The largest values. Ties are broken by chance: records are in the order of membership."""
    chance = torch.randperm(x.numel(), generator=torch.Generator().manual_seed(x.numel()))
    order = chance[x[chance].argsort(descending=True, stable=True)]
    return torch.isin(torch.arange(x.numel()), order[:size])


def _facts(found: TruePositives | None) -> dict[str, Any] | None:
    return None if found is None else asdict(found)
