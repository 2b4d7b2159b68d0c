r"""Attribute inference: does a release reveal more about its members than about others?"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.audit.attack_limit import Limit
from torch_geometric_cgt.audit.attack_scores import BackoffDensity
from torch_geometric_cgt.audit.check import Check, verdict
from torch_geometric_cgt.audit.estimates import Estimate, difference, proportion
from torch_geometric_cgt.audit.records import Records
from torch_geometric_cgt.data import TokenTrees

ATTRIBUTES = {
    'label': 'the features and the neighbourhood of a node, but not its label,',
    'cluster': 'the label and the neighbourhood of a node, but not the cluster of its features,',
}


@dataclass(frozen=True)
class AttributeInference:
    r"""How often an attribute is guessed correctly.

    Args:
        attribute (str): What is guessed.
        members (Estimate): The share of correct guesses for members.
        others (Estimate): The share for others.
        advantage (Estimate): The difference.
        prior (float): The share of records that have the most frequent value
            of the release.
    """

    attribute: str
    members: Estimate
    others: Estimate
    advantage: Estimate
    prior: float

    def check(self, limit: Limit) -> Check:
        r"""Fails if members are guessed better than the limit allows."""
        most = limit.highest_gain(self.others.low, self.others.high)
        return Check(
            f'Attribute inference: {self.attribute}',
            verdict(self.advantage.low <= most),
            self.advantage.value,
            f'An attacker who knows {ATTRIBUTES[self.attribute]} guesses the missing part '
            f'correctly for {self.members.value:.1%} of members and for {self.others.value:.1%} of '
            f'others, whose records the build did not contain (always guessing the most frequent '
            f'value: {self.prior:.1%}). The value is the difference between members and others. '
            f'What can be guessed for others as well is knowledge about the population.',
            most,
            limit.origin,
            self.advantage.low,
            self.advantage.high,
        )

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        return asdict(self)


def attribute_inference(
    attribute: str,
    trees: TokenTrees,
    records: Records,
    is_member: Tensor,
    confidence: float = 0.95,
) -> AttributeInference:
    r"""Guesses an attribute of each record from released trees by Bayes' rule.

    Args:
        attribute (str): :obj:`"label"` or :obj:`"cluster"`.
        trees (TokenTrees): The released trees.
        records (Records): Members and others.
        is_member (torch.Tensor): The mask of the members, ``[n]``.
        confidence (float, optional): The probability that an interval covers
            its value. (default: :obj:`0.95`)
    """
    guess = guess_label if attribute == 'label' else guess_cluster
    truth = records.y if attribute == 'label' else records.draws[0].tokens[:, 0]
    released = trees.y if attribute == 'label' else trees.tokens[:, 0]
    right = guess(trees, records) == truth
    hits = [(int(right[mask].sum()), int(mask.sum())) for mask in (is_member, ~is_member)]
    members, others = (proportion(hit, total, confidence) for hit, total in hits)
    return AttributeInference(
        attribute,
        members,
        others,
        difference(hits[0], hits[1], confidence),
        float((truth == released.long().mode().values).double().mean()),
    )


def guess_label(trees: TokenTrees, records: Records) -> Tensor:
    r"""The most likely label of each record given its tree, ``[n]``."""
    model = BackoffDensity(trees)
    prior = model.label_log_prob(trees.num_classes)
    by_label = []
    for label in range(trees.num_classes):
        y = torch.full_like(records.y, label)
        draws = [replace(draw, y=y) for draw in records.draws]
        by_label.append(prior[label] + model.mean_log_prob(draws))
    return torch.stack(by_label).argmax(dim=0)


def guess_cluster(trees: TokenTrees, records: Records) -> Tensor:
    r"""The most likely token of each root given its label and the rest of its
    tree, ``[n]``, among the root tokens that the release has for the label;
    :obj:`-1` where it has none.
    """
    model = BackoffDensity(trees)
    best = torch.full((len(records),), -math.inf, dtype=torch.double)
    guess = torch.full((len(records),), -1)
    for token in trees.tokens[:, 0].long().unique().tolist():
        labels = trees.y[trees.tokens[:, 0] == token].unique()
        rows = torch.isin(records.y, labels).nonzero().view(-1)
        if rows.numel() == 0:
            continue
        draws = [_with_root(draw.select(rows), token) for draw in records.draws]
        log_prob = model.mean_log_prob(draws)
        better = log_prob > best[rows]
        best[rows[better]] = log_prob[better]
        guess[rows[better]] = token
    return guess


def _with_root(trees: TokenTrees, token: int) -> TokenTrees:
    r"""The same trees with another token at the root."""
    tokens = trees.tokens.clone()
    tokens[:, 0] = token
    return replace(trees, tokens=tokens)
