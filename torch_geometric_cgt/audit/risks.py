r"""The risks that European guidance (WP216) names: singling out, linkability, inference."""

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
from torch_geometric_cgt.audit.similarity import layer_means
from torch_geometric_cgt.data import TokenTrees

NUM_PREDICATES = 2000
NUM_LINKS = 5  # closest released trees that count as a link
BLOCK = 256  # records at a time
MEANINGS = {
    'singling out': (
        'An attacker who has the release states a combination of a label, the feature group of a '
        'node and the groups of some of its neighbours, and claims that exactly one person has '
        'it. The value is the share of such statements that are true'
    ),
    'linkability': (
        'An attacker holds two data sets: one with the label and the features of people, one with '
        'their neighbourhoods. The release is used to link them: two entries are linked if their '
        f'{NUM_LINKS} closest released trees have one in common. The value is the share of people '
        'who are linked'
    ),
    'inference of the label': (
        'An attacker knows the features and the neighbourhood of a person, and guesses the label. '
        'The value is the share of right guesses'
    ),
    'inference of the features': (
        'An attacker knows the label and the neighbourhood of a person, and guesses the group of '
        'the features. The value is the share of right guesses'
    ),
}


@dataclass(frozen=True)
class Risk:
    r"""The success of one kind of attack on members, on others, and of guessing
    without the release.

    What succeeds on others, who are not in the source of the build, is knowledge
    about the population. The risk is what members have on top, as a share of what
    was left: :math:`(m - o) / (1 - o)`.

    Args:
        name (str): One of :obj:`"singling out"`, :obj:`"linkability"`,
            :obj:`"inference of the label"` and :obj:`"inference of the
            features"`.
        members (Estimate): The success rate on members.
        others (Estimate): The success rate on others.
        baseline (float): The success rate on members without the release.
        risk (Estimate): The risk, with its interval.
    """

    name: str
    members: Estimate
    others: Estimate
    baseline: float
    risk: Estimate

    def check(self, limit: Limit) -> Check:
        r"""Above the limit if members are attacked better than the limit allows."""
        most = limit.highest_gain(self.others.low, self.others.high)
        allowed = most / max(1e-9, 1 - self.others.value)
        return Check(
            f'Risk of {self.name}',
            verdict(self.risk.low > 0, self.risk.low > allowed),
            self.risk.value,
            f'{MEANINGS[self.name]}: {self.members.value:.1%} for members of the source, '
            f'{self.others.value:.1%} for others, {self.baseline:.1%} for guesses without the '
            f'release. The risk is what members have on top of others, as a share of what was '
            f'left.',
            min(1.0, allowed),
            limit.origin,
            self.risk.low,
            self.risk.high,
        )

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        return asdict(self)


def measure_risks(
    trees: TokenTrees,
    codebook: Tensor,
    records: Records,
    is_member: Tensor,
    confidence: float = 0.95,
    seed: int = 0,
) -> list[Risk]:
    r"""Measures all risks of a build whose members are known.

    Args:
        trees (TokenTrees): The released trees.
        codebook (torch.Tensor): The codewords, ``[m, F]``.
        records (Records): Members and others.
        is_member (torch.Tensor): The mask of the members, ``[n]``.
        confidence (float, optional): The probability that the intervals of all
            risks hold together. (default: :obj:`0.95`)
        seed (int, optional): The seed of all choices. (default: :obj:`0`)
    """
    each = 1 - (1 - confidence) / len(MEANINGS)
    rng = torch.Generator().manual_seed(seed)
    return [
        singling_out(trees, records, is_member, each, rng),
        linkability(trees, codebook, records, is_member, each, rng),
        inference('label', trees, records, is_member, each),
        inference('features', trees, records, is_member, each),
    ]


def singling_out(
    trees: TokenTrees,
    records: Records,
    is_member: Tensor,
    confidence: float,
    rng: torch.Generator,
) -> Risk:
    r"""States combinations that one released tree has, and counts those that exactly
    one member has. As many others as members are compared. Without the release,
    combinations are made of labels and groups that are drawn independently.

    Args:
        trees (TokenTrees): The released trees.
        records (Records): Members and others.
        is_member (torch.Tensor): The mask of the members, ``[n]``.
        confidence (float): The confidence of the interval.
        rng (torch.Generator): The source of randomness.
    """
    size = min(int(is_member.sum()), int((~is_member).sum()))
    sides = [_some(mask, size, rng) for mask in (is_member, ~is_member)]
    own = records.draws[0]
    claims = _predicates(trees, NUM_PREDICATES, rng, unique_in=trees)
    naive = _predicates(_shuffled(trees, rng), NUM_PREDICATES, rng)
    hits = [int((_matches(own.select(side), *claims) == 1).sum()) for side in sides]
    alone = float((_matches(own.select(sides[0]), *naive) == 1).double().mean())
    total = max(1, claims[0].numel())
    return _risk('singling out', (hits[0], total), (hits[1], total), alone, confidence)


def linkability(
    trees: TokenTrees,
    codebook: Tensor,
    records: Records,
    is_member: Tensor,
    confidence: float,
    rng: torch.Generator,
) -> Risk:
    r"""Links the features and the neighbourhood of each record by the released trees
    that are closest to each. Without the release, links are random.

    Args:
        trees (TokenTrees): The released trees.
        codebook (torch.Tensor): The codewords, ``[m, F]``.
        records (Records): Members and others.
        is_member (torch.Tensor): The mask of the members, ``[n]``.
        confidence (float): The confidence of the interval.
        rng (torch.Generator): The source of randomness.
    """
    released, own = (layer_means(t, codebook) for t in (trees, records.draws[0]))
    width, links = codebook.size(1), min(NUM_LINKS, len(trees))
    # Equal trees are equally close: a random order chooses among them.
    order = torch.randperm(len(trees), generator=rng)
    released, labels = released[order], trees.y.long()[order]
    linked = torch.zeros(len(records), dtype=torch.bool)
    for rows in torch.arange(len(records)).split(BLOCK):
        features = torch.cdist(own[rows, :width], released[:, :width])
        features += (records.y[rows, None] != labels[None]) * (1 + 2 * features.max())
        around = torch.cdist(own[rows, width:], released[:, width:])
        first, second = (d.topk(links, largest=False).indices for d in (features, around))
        linked[rows] = (first[:, :, None] == second[:, None, :]).flatten(1).any(dim=1)
    hits = [(int(linked[mask].sum()), int(mask.sum())) for mask in (is_member, ~is_member)]
    chance = 1 - (1 - links / len(trees)) ** links
    return _risk('linkability', hits[0], hits[1], chance, confidence)


def inference(
    attribute: str, trees: TokenTrees, records: Records, is_member: Tensor, confidence: float
) -> Risk:
    r"""Guesses an attribute of each record from released trees by Bayes' rule.
    Without the release, the most frequent value is guessed.

    Args:
        attribute (str): :obj:`"label"` or :obj:`"features"`.
        trees (TokenTrees): The released trees.
        records (Records): Members and others.
        is_member (torch.Tensor): The mask of the members, ``[n]``.
        confidence (float): The confidence of the interval.
    """
    guess = guess_label if attribute == 'label' else guess_cluster
    truth = records.y if attribute == 'label' else records.draws[0].tokens[:, 0]
    right = guess(trees, records) == truth
    hits = [(int(right[mask].sum()), int(mask.sum())) for mask in (is_member, ~is_member)]
    prior = float((truth == truth.long().mode().values).double().mean())
    return _risk(f'inference of the {attribute}', hits[0], hits[1], prior, confidence)


def _risk(
    name: str,
    members: tuple[int, int],
    others: tuple[int, int],
    baseline: float,
    confidence: float,
) -> Risk:
    gain, control = difference(members, others, confidence), proportion(*others, confidence)
    left = max(1e-9, 1 - control.value)
    risk = Estimate(*(max(-1.0, min(1.0, x / left)) for x in (gain.value, gain.low, gain.high)))
    return Risk(name, proportion(*members, confidence), control, baseline, risk)


def _predicates(
    trees: TokenTrees, size: int, rng: torch.Generator, unique_in: TokenTrees | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Statements about labels, root tokens and the tokens of some children: labels
    ``[p]``, root tokens ``[p]``, and the number of times that each child token is
    required, ``[p, m]``. With :obj:`unique_in`, only those that hold for one tree.
    """
    row = torch.randperm(len(trees), generator=rng)[:size]  # one statement per tree
    size = row.numel()
    below = trees.tokens[row][:, trees.shape.layer_slice(1)].long()
    real = below != trees.num_tokens
    kept = real & (torch.rand(below.shape, generator=rng) < 0.7)
    needed = torch.zeros(size, trees.num_tokens + 1, dtype=torch.int16)
    needed.scatter_add_(1, below, kept.to(torch.int16))
    found = (trees.y.long()[row], trees.tokens[row, 0].long(), needed[:, : trees.num_tokens])
    if unique_in is None:
        return found
    unique = _matches(unique_in, *found) == 1
    return found[0][unique], found[1][unique], found[2][unique]


def _matches(trees: TokenTrees, label: Tensor, root: Tensor, needed: Tensor) -> Tensor:
    r"""The number of trees for which each statement holds, ``[p]``."""
    below = trees.tokens[:, trees.shape.layer_slice(1)].long()
    have = torch.zeros(len(trees), trees.num_tokens + 1, dtype=torch.int16)
    have.scatter_add_(1, below, torch.ones_like(below, dtype=torch.int16))
    y, own = trees.y.long(), trees.tokens[:, 0].long()
    count = torch.zeros(label.numel(), dtype=torch.long)
    for place in range(label.numel()):
        row = ((y == label[place]) & (own == root[place])).nonzero().view(-1)
        column = needed[place].nonzero().view(-1)
        enough = have[row][:, column] >= needed[place, column]
        count[place] = int(enough.all(dim=1).sum())
    return count


def _shuffled(trees: TokenTrees, rng: torch.Generator) -> TokenTrees:
    r"""Trees with the same labels, root tokens and child tokens, in independent order."""
    tokens = trees.tokens.clone()
    tokens[:, 0] = tokens[torch.randperm(len(trees), generator=rng), 0]
    below = trees.shape.layer_slice(1)
    flat = tokens[:, below].flatten()
    tokens[:, below] = flat[torch.randperm(flat.numel(), generator=rng)].view(len(trees), -1)
    return replace(trees, tokens=tokens)


def _some(mask: Tensor, size: int, rng: torch.Generator) -> Tensor:
    r"""As many of the marked places as asked for, at random."""
    place = mask.nonzero().view(-1)
    return place[torch.randperm(place.numel(), generator=rng)[:size]]


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
