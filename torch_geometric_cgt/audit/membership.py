r"""Membership inference: how well scores tell members, or edges, of the source from others."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from torch_geometric_cgt.audit.attack_limit import Limit
from torch_geometric_cgt.audit.attack_scores import Counts
from torch_geometric_cgt.audit.check import AREA, Accusation, Check, TooFewError, verdict
from torch_geometric_cgt.audit.estimates import (
    Estimate,
    TruePositives,
    area,
    curve,
    has_threshold,
    threshold_of,
    true_positives,
)
from torch_geometric_cgt.audit.records import Records
from torch_geometric_cgt.data import TokenTrees
from torch_geometric_cgt.utils.linear import fit_linear

FALSE_POSITIVES = (0.1, 0.01, 0.001)
GROUP_SHARE = 0.05  # of all records
MIN_GROUP = 20  # members and others, for a group to be measured
NUM_FOLDS = 5
SMOOTHING = 0.5  # observations of independent ends, for pairs of nodes
EDGES = 'Edge inference'


@dataclass(frozen=True)
class Attack:
    r"""How well one score tells members from others in one group of records."""

    score: str
    group: str
    num_members: int
    num_others: int
    area: Estimate
    true_positives: dict[float, TruePositives | None]


@dataclass(frozen=True)
class Measured:
    r"""One number of one attack, its limit, and the privacy loss that it proves."""

    attack: Attack
    estimate: Estimate
    threshold: float
    epsilon: float
    rate: TruePositives | None = None


@dataclass(frozen=True)
class Membership:
    r"""All attacks on all groups of records.

    Args:
        attacks (list[Attack]): The attacks.
        confidence (float): The probability that the intervals of all attacks
            hold together.
        curves (dict[str, list]): The ROC curve of each score over all records.
        title (str, optional): The name of the checks.
            (default: :obj:`"Membership inference"`)
        whom (str, optional): What is told from others.
            (default: :obj:`"members"`)
    """

    attacks: list[Attack]
    confidence: float
    curves: dict[str, list[tuple[float, float]]]
    title: str = 'Membership inference'
    whom: str = 'members'

    def accusations(self) -> list[Accusation]:
        r"""All attacks at all rates, to choose the strongest one from."""
        return [
            _accusation(self, attack, rate)
            for attack in self.attacks
            for rate in attack.true_positives.values()
            if rate is not None
        ]

    def checks(self, limit: Limit) -> list[Check]:
        r"""One check of the areas under the curves, and one of the members that are
        found at low rates of false positives. A check is above the limit if the
        interval of any attack lies above it.

        Args:
            limit (Limit): The most that an attack may show.
        """
        areas = [Measured(a, a.area, limit.max_auc, _log_odds(a.area.low)) for a in self.attacks]
        rates = [
            Measured(a, t.share, limit.highest(t.others.high), _accusation(self, a, t).epsilon, t)
            for a in self.attacks
            for t in a.true_positives.values()
            if t is not None
        ]
        return [
            self._check(AREA, areas, limit),
            self._check(f'{self.whom} found', rates, limit),
        ]

    def _check(self, name: str, found: list[Measured], limit: Limit) -> Check:
        if not found:
            few = f'There are too few others: a rate of {FALSE_POSITIVES[0]:.0%} needs at least 10.'
            return Check.unchecked(f'{self.title}: {name}', few)
        above = [m for m in found if m.estimate.low > m.threshold]
        best = max(above or found, key=lambda m: (m.epsilon, m.estimate.value))
        attack, estimate = best.attack, best.estimate
        group = 'all records' if attack.group == 'all' else attack.group
        rate = '' if best.rate is None else f' {_accusation(self, attack, best.rate).sentence()}'
        return Check(
            f'{self.title}: {name}',
            verdict(best.epsilon > 0, bool(above)),
            estimate.value,
            f"The strongest attack: score '{attack.score}' on {group} ({attack.num_members:,} "
            f'{self.whom}, {attack.num_others:,} others).{rate} The attacked build contains the '
            f'{self.whom} and not the others. The confidence intervals of all '
            f'{len(self.attacks)} attacks hold together at {self.confidence:.0%}.',
            best.threshold,
            limit.origin,
            estimate.low,
            estimate.high,
        )

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
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

    A further score, ``combined``, is learned from the given ones: a linear
    model that is fitted on four fifths of the records, with their membership,
    scores the remaining fifth.

    Args:
        records (Records): Members and others.
        is_member (torch.Tensor): The mask of the members, ``[n]``.
        scores (dict[str, torch.Tensor]): The scores of attackers, ``[n]``
            each; high for members.
        expected (torch.Tensor): The log-density of each record in the
            population, ``[n]``.
        confidence (float, optional): The probability that all intervals hold
            together. (default: :obj:`0.95`)
        seed (int, optional): The seed of the folds. (default: :obj:`0`)
    """
    scores = {**scores, 'combined': combined_score(records, is_member, scores, expected, seed)}
    return tell_apart(scores, is_member, groups_of(records, expected), confidence)


def tell_apart(
    scores: dict[str, Tensor],
    is_member: Tensor,
    groups: dict[str, Tensor],
    confidence: float = 0.95,
    title: str = 'Membership inference',
    whom: str = 'members',
) -> Membership:
    r"""Measures how well scores tell members from others in some groups.

    Each threshold is set on the others of all groups. In each group, the share
    of members and the share of others above it are measured. Within every
    group, a differentially private mechanism bounds the first by the second.

    Args:
        scores (dict[str, torch.Tensor]): The scores of attackers, ``[n]``
            each; high for members.
        is_member (torch.Tensor): The mask of the members, ``[n]``.
        groups (dict[str, torch.Tensor]): Masks ``[n]``. Groups with fewer than
            20 members or others are left out.
        confidence (float, optional): The probability that all intervals hold
            together. (default: :obj:`0.95`)
        title (str, optional): The name of the checks.
            (default: :obj:`"Membership inference"`)
        whom (str, optional): What is told from others.
            (default: :obj:`"members"`)
    """
    groups = {
        name: mask
        for name, mask in groups.items()
        if min(int((mask & is_member).sum()), int((mask & ~is_member).sum())) >= MIN_GROUP
    }
    num_others = int((~is_member).sum())
    if not groups:
        raise TooFewError(
            f'Expected at least {MIN_GROUP} {whom} and {MIN_GROUP} others '
            f'(got {int(is_member.sum())} and {num_others})'
        )
    num_rates = sum(has_threshold(num_others, rate) for rate in FALSE_POSITIVES)
    each = 1 - (1 - confidence) / (len(scores) * len(groups) * (1 + num_rates))
    # One threshold for all groups: an attacker accuses every record above it.
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
    return Membership(attacks, confidence, curves, title, whom)


def groups_of(records: Records, expected: Tensor) -> dict[str, Tensor]:
    r"""Groups of records that an average over all records hides. Each is a mask
    ``[n]`` of about a twentieth of the records. Membership is not used.

    - hubs have the most neighbours;
    - outliers have the lowest expected log-density;
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
    r"""Scores each record by a linear model that was fitted without it, ``[n]``."""
    real = torch.stack([draw.real.double().sum(dim=1) for draw in records.draws]).mean(dim=0)
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
    r"""The largest values. Ties are broken at random, since members come first."""
    chance = torch.randperm(x.numel(), generator=torch.Generator().manual_seed(x.numel()))
    order = chance[x[chance].argsort(descending=True, stable=True)]
    return torch.isin(torch.arange(x.numel()), order[:size])


def _facts(found: TruePositives | None) -> dict[str, Any] | None:
    return None if found is None else asdict(found)


def _accusation(found: Membership, attack: Attack, rate: TruePositives) -> Accusation:
    name = f'{found.title}: {attack.score}'
    return Accusation(name, attack.group, rate.share, rate.others, found.whom)


def _log_odds(area: float) -> float:
    r"""The :math:`\epsilon` of randomised response with some area under its curve."""
    return 0.0 if area <= 0.5 else math.log(area / max(1e-12, 1 - area))


def pair_scores(trees: TokenTrees, token: Tensor, y: Tensor, pairs: Tensor) -> dict[str, Tensor]:
    r"""How much more often two nodes are parent and child in released trees than
    independence predicts, ``[p]`` each.

    - ``pairs of tokens``: the tokens of a parent and a child in any layer;
    - ``pairs with label``: the label and the token of a root, and the token of
      one of its children.

    Both directions of a pair are added.

    Args:
        trees (TokenTrees): The released trees.
        token (torch.Tensor): The token of each node, ``[N]``.
        y (torch.Tensor): The label of each node, ``[N]``, negative if it has
            none.
        pairs (torch.Tensor): Pairs of nodes, ``[p, 2]``.
    """
    size = trees.num_tokens + 1
    parent, child = _released_pairs(trees)
    any_layer = _lift(parent, child, size, token[pairs], token[pairs].flip(1))
    slots = trees.shape.layer_slice(1)
    below = trees.tokens[:, slots].long()
    root = (trees.y.long() * size + trees.tokens[:, 0].long())[:, None].expand_as(below)
    real = below != trees.num_tokens
    labelled = torch.where(y >= 0, y * size + token, -1)
    with_label = _lift(root[real], below[real], size, labelled[pairs], token[pairs].flip(1))
    return {'pairs of tokens': any_layer, 'pairs with label': with_label}


def _released_pairs(trees: TokenTrees) -> tuple[Tensor, Tensor]:
    r"""The tokens of all real parents and children, ``[e]`` each."""
    slots = torch.arange(1, trees.shape.num_slots)
    child = trees.tokens[:, slots].long()
    parent = trees.tokens[:, trees.shape.parent[slots]].long()
    real = child != trees.num_tokens
    return parent[real], child[real]


def _lift(parent: Tensor, child: Tensor, size: int, first: Tensor, second: Tensor) -> Tensor:
    r"""The log-ratio of observed and expected pairs, summed over both directions.
    ``first`` and ``second`` are ``[p, 2]``: parent and child, one direction per
    column.
    """
    together, parents, children = Counts(parent * size + child), Counts(parent), Counts(child)
    key = torch.where(first >= 0, first * size + second, -1)
    total = max(1, parent.numel())
    seen = together.get(key).sum(dim=1)
    expected = (parents.get(first) * children.get(second) / total).sum(dim=1)
    return ((seen + SMOOTHING) / (expected + SMOOTHING)).log()


def edge_inference(
    trees: TokenTrees,
    token: Tensor,
    y: Tensor,
    inside: Tensor,
    held_out: Tensor,
    confidence: float = 0.95,
    max_pairs: int = 2000,
    seed: int = 0,
) -> Membership:
    r"""Measures how well connected pairs of a build are told from pairs whose
    connection was removed before. Both are connected in the source: what is true
    of all connected pairs of the population does not tell them apart.

    Args:
        trees (TokenTrees): The released trees.
        token (torch.Tensor): The token of each node of the build, ``[N]``.
        y (torch.Tensor): The label of each node, ``[N]``.
        inside (torch.Tensor): The connected pairs, ``[e, 2]``.
        held_out (torch.Tensor): The removed pairs, ``[h, 2]``.
        confidence (float, optional): The probability that all intervals hold
            together. (default: :obj:`0.95`)
        max_pairs (int, optional): The largest number of pairs of each kind.
            (default: :obj:`2000`)
        seed (int, optional): The seed of their choice. (default: :obj:`0`)
    """
    if min(len(inside), len(held_out)) < MIN_GROUP:
        raise ValueError(
            f'Expected at least {MIN_GROUP} connected and {MIN_GROUP} removed pairs '
            f'(got {len(inside)} and {len(held_out)})'
        )
    rng = torch.Generator().manual_seed(seed)
    inside, held_out = (
        pairs[torch.randperm(len(pairs), generator=rng)[:max_pairs]] for pairs in (inside, held_out)
    )
    pairs = torch.cat([inside, held_out])
    is_member = torch.arange(len(pairs)) < len(inside)
    scores = pair_scores(trees, token, y, pairs)
    every = {'all': torch.ones_like(is_member)}
    return tell_apart(scores, is_member, every, confidence, EDGES, 'edges')
