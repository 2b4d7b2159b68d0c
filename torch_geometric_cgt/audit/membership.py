r"""Membership inference: can an attacker tell who was in the source?"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from torch_geometric_cgt.audit.attack_limit import Limit
from torch_geometric_cgt.audit.check import Check, verdict
from torch_geometric_cgt.audit.estimates import (
    Estimate,
    TruePositives,
    area,
    curve,
    has_threshold,
    threshold_of,
    true_positives,
)
from torch_geometric_cgt.audit.records import Records, take_rows
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.quantizer.class_probabilities import fit_linear

UNITS = ('node', 'record')
FALSE_POSITIVES = (0.01, 0.001)
GROUP_SHARE = 0.05  # of all records
MIN_GROUP = 20  # members and others, for a group to be measured
NUM_FOLDS = 5


@dataclass(frozen=True)
class MemberSplit:
    r"""A source in two parts, of which a build sees the first one.

    Args:
        members (Source): The part that is built from.
        others (Source): The part that is left out.
        unit (str): What is left out: :obj:`"node"` for nodes with all their
            edges, :obj:`"record"` for computation graphs of nodes that stay in
            the graph as neighbours.
    """

    members: Source
    others: Source
    unit: str


def split_members(source: Source, members: Tensor, unit: str = 'node') -> MemberSplit:
    r"""Splits a source into members and others.

    By :obj:`"node"`, each part is the subgraph of its own nodes. By
    :obj:`"record"`, each part is the whole graph with the labels of its own
    roots only. If the split is random, only a build that depends on single
    members can tell the parts apart.

    Args:
        source (Source): The checked source graph.
        members (torch.Tensor): The mask of the members, ``[N]``.
        unit (str, optional): :obj:`"node"` or :obj:`"record"`.
            (default: :obj:`"node"`)
    """
    num_nodes = int(source.data.num_nodes or 0)
    if unit not in UNITS:
        raise ValueError(f"'unit' must be one of {UNITS} (got '{unit}')")
    if members.dtype != torch.bool or members.shape != (num_nodes,):
        raise ValueError(
            f"'members' must be a mask of {num_nodes} nodes "
            f'(got {members.dtype} of shape {list(members.shape)})'
        )
    part = _subgraph if unit == 'node' else _own_labels
    split = MemberSplit(part(source, members), part(source, ~members), unit)
    for side, what in ((split.members, 'a member'), (split.others, "outside of 'members'")):
        if side.root.numel() == 0:
            raise SourceError(f'No labelled node of the source is {what}')
    return split


def random_members(source: Source, unit: str, seed: int) -> Tensor:
    r"""A random half of the nodes as a mask ``[N]``; for records, a random half
    of the labelled nodes.
    """
    num_nodes = int(source.data.num_nodes or 0)
    candidate = source.root if unit == 'record' else torch.arange(num_nodes)
    perm = torch.randperm(candidate.numel(), generator=torch.Generator().manual_seed(seed))
    mask = torch.zeros(num_nodes, dtype=torch.bool)
    mask[candidate[perm[: candidate.numel() // 2]]] = True
    return mask


def _subgraph(source: Source, mask: Tensor) -> Source:
    data, node = source.data, mask.nonzero().view(-1)
    edge_index, _ = subgraph(
        mask, data.edge_index, relabel_nodes=True, num_nodes=int(data.num_nodes or 0)
    )
    part = Data(x=take_rows(data.x, node), edge_index=edge_index, y=data.y[mask])
    split = None if source.split is None else source.split[mask]
    return replace(source, data=part, split=split)


def _own_labels(source: Source, mask: Tensor) -> Source:
    data = source.data
    part = Data(x=data.x, edge_index=data.edge_index, y=data.y.masked_fill(~mask, -1))
    return replace(source, data=part)


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
class Membership:
    r"""All attacks on all groups of records.

    Args:
        attacks (list[Attack]): The attacks.
        confidence (float): The probability that the intervals of all attacks
            hold together.
        curves (dict[str, list]): The ROC curve of each score over all records.
    """

    attacks: list[Attack]
    confidence: float
    curves: dict[str, list[tuple[float, float]]]

    def checks(self, limit: Limit) -> list[Check]:
        r"""One check of the area and one of each share of false positives. A
        check fails if the interval of any attack lies above the limit.
        """
        found = [(attack.area, limit.max_auc, attack) for attack in self.attacks]
        checks = [self._check('area under the curve', found, limit)]
        for rate in FALSE_POSITIVES:
            measured = [(attack.true_positives[rate], attack) for attack in self.attacks]
            found = [(t.share, limit.highest(t.others.high), attack) for t, attack in measured if t]
            if found:
                name = f'true positives at {rate:.1%} false positives'
                checks.append(self._check(name, found, limit))
        return checks

    def _check(self, name: str, found: list[tuple[Estimate, float, Attack]], limit: Limit) -> Check:
        estimate, threshold, attack = max(found, key=lambda item: item[0].low - item[1])
        group = 'all records' if attack.group == 'all' else attack.group
        return Check(
            f'Membership inference: {name}',
            verdict(estimate.low <= threshold),
            estimate.value,
            f"The strongest attack, relative to its limit: score '{attack.score}' on {group} "
            f'({attack.num_members:,} members, {attack.num_others:,} others). The attacked build '
            f'contains the members and not the others. The confidence intervals of all '
            f'{len(self.attacks)} attacks hold together at {self.confidence:.0%}.',
            threshold,
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

    Each threshold is set on the others of all groups. In each group, the share
    of members and the share of others above it are measured. Within every
    group, a differentially private mechanism bounds the first by the second.

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
    return Membership(attacks, confidence, curves)


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
