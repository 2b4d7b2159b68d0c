r"""Attribute inference: does a release give away more of its members than of others?"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.audit.check import Check, verdict
from torch_geometric_cgt.audit.density import BackoffDensity
from torch_geometric_cgt.audit.limit import Limit
from torch_geometric_cgt.audit.records import Records
from torch_geometric_cgt.data import TokenTrees
from torch_geometric_cgt.privacy.intervals import Estimate, difference, proportion

ATTRIBUTES = {
    'label': 'its features and its neighbourhood, but not its label',
    'cluster': 'its label and its neighbourhood, but not the codeword of its features',
}


@dataclass(frozen=True)
class AttributeInference:
    r"""How often an attribute is guessed right.

    Args:
        attribute (str): What is guessed.
        members (Estimate): For records that the release was built from.
        others (Estimate): For records that it was built without.
        advantage (Estimate): The difference.
        prior (float): How often the most frequent value is right.
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
            f'An attacker who knows of a node {ATTRIBUTES[self.attribute]} guesses it right for '
            f'{self.members.value:.1%} of members and {self.others.value:.1%} of nodes that the '
            f'release was built without (the most frequent one: {self.prior:.1%}). The value is '
            f'the difference; what holds for others too is knowledge of the population.',
            most,
            limit.origin,
            self.advantage.low,
            self.advantage.high,
        )

    def to_dict(self) -> dict[str, Any]:
        r"""All of it, for a JSON file."""
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
        is_member (torch.Tensor): Which is which, ``[n]``.
        confidence (float, optional): The probability that an interval holds.
            (default: :obj:`0.95`)
    """
    guess = guess_label if attribute == 'label' else guess_cluster
    truth = records.y if attribute == 'label' else records.tokens[0, :, 0]
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
    model = BackoffDensity(trees.tokens.long(), trees.y.long(), trees.num_tokens, trees.shape)
    prior = model.label_log_prob(trees.num_classes)
    by_label = []
    for label in range(trees.num_classes):
        y = torch.full_like(records.y, label)
        log_prob = torch.stack([model.log_prob(t, y) for t in records.tokens]).mean(dim=0)
        by_label.append(prior[label] + log_prob)
    return torch.stack(by_label).argmax(dim=0)


def guess_cluster(trees: TokenTrees, records: Records) -> Tensor:
    r"""The most likely token of each root given its label and all else of its
    tree, ``[n]``, among those that the release shows at roots of the label.
    """
    model = BackoffDensity(trees.tokens.long(), trees.y.long(), trees.num_tokens, trees.shape)
    best = torch.full((len(records),), -math.inf, dtype=torch.double)
    guess = torch.full((len(records),), -1)
    for token in trees.tokens[:, 0].long().unique().tolist():
        labels = trees.y[trees.tokens[:, 0] == token].unique()
        rows = torch.isin(records.y, labels).nonzero().view(-1)
        if rows.numel() == 0:
            continue
        tokens = records.tokens[:, rows].clone()
        tokens[:, :, 0] = token
        log_prob = torch.stack([model.log_prob(t, records.y[rows]) for t in tokens]).mean(dim=0)
        better = log_prob > best[rows]
        best[rows[better]] = log_prob[better]
        guess[rows[better]] = token
    return guess
