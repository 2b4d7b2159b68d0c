r"""Attacks on a build: membership and attribute inference, and canaries."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.audit.attack_limit import Limit
from torch_geometric_cgt.audit.attack_scores import (
    BackoffDensity,
    codebook_score,
    expected_log_prob,
    model_scores,
    release_scores,
    sums_score,
)
from torch_geometric_cgt.audit.canaries import CanaryAudit, canary_audit, insert_canaries
from torch_geometric_cgt.audit.check import Check, verdict
from torch_geometric_cgt.audit.estimates import Estimate, difference, proportion
from torch_geometric_cgt.audit.membership import (
    Membership,
    MemberSplit,
    membership_inference,
    random_members,
    split_members,
)
from torch_geometric_cgt.audit.rebuild import Mechanism, scaled_to
from torch_geometric_cgt.audit.records import Records, projected, records_of
from torch_geometric_cgt.data import TokenTrees
from torch_geometric_cgt.pipeline import Build, BuildConfig, Source
from torch_geometric_cgt.utils.seeds import derive_seed

NUM_DRAWS = 4  # trees of each record
MAX_RECORDS = 2000  # members, and as many others
CANARY_SCORES = ('sums', 'codebook', 'calibrated', 'closest', 'calibrated loss', 'calibrated draws')
ATTRIBUTES = {
    'label': 'the features and the neighbourhood of a node, but not its label,',
    'cluster': 'the label and the neighbourhood of a node, but not the cluster of its features,',
}


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
