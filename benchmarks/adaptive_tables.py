r"""The form `mixing` with tables that are chosen by their noisy errors, as AIM does.

`mixing` measures six tables, which are fixed beforehand. Here, root tokens and edges at several
rates are measured first. Then there are rounds. In each of them, the exponential mechanism chooses
the table that the current model predicts worst, the table is measured, and the model is estimated
again from all answers. Tables are divided by their largest change, so that each measurement and
each choice has a sensitivity of one, whichever table it is. The number of rounds and the noise of
each are fixed beforehand, and later rounds have less noise.

**The price of a choice.** Suppose that removing a unit changes every score by at most one. The
probability of a candidate is proportional to exp(score / b), so the logarithm of the ratio of its
probabilities with and without the unit lies in an interval of length h = 2 / b. Among mechanisms
with this property, the easiest to tell apart have two results, with probabilities p and q of the
first one, where logit(p) - logit(q) = h. Gaussian noise with distance mu is as easy to tell apart
if probit(p) - probit(q) <= mu. The left side is largest for q = 1 - p, so that all of them cost at
most mu = 2 probit(logistic(h / 2)). A choice is therefore priced as Gaussian noise with sigma = 1 /
mu on a number that changes by one, which composes with all other entries.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import torch
from scipy.special import log_ndtr
from torch import Tensor

from torch_geometric_cgt.models import PrivateMixing
from torch_geometric_cgt.models.edge_counts import EdgeCaps, EdgeCounter, capped_pairs
from torch_geometric_cgt.models.mixing import (
    LABELS,
    MUTUAL,
    NUMBERS,
    RATES,
    ROOTS,
    USUAL_EXCESS,
    WEDGES,
    concentration_of,
    homophily_prior,
    mean_degree,
    shares_of_nodes,
)
from torch_geometric_cgt.models.noisy_tables import back_off
from torch_geometric_cgt.models.scenes import as_distribution, draw_columns, label_evidence
from torch_geometric_cgt.models.tree_model import STAGE, TokenGraph
from torch_geometric_cgt.privacy import Entry, Gaussian, Queries
from torch_geometric_cgt.privacy.noise import _bernoulli_exp, _uniform
from torch_geometric_cgt.privacy.units import HISTOGRAM

EQUAL = 'equal labels of neighbours'  # the coarse level of labels of neighbours
NUMBERS_PER_LABEL = 'numbers of children per label'  # the fine level of numbers of children
AGREEMENT = 'equal labels per label and indicated label'
ROUNDS, GROWTH, CHOICE = 6, 1.5, 0.1  # growth of the cost of a round, share of its choice
SHARES = {ROOTS: 0.42, RATES: 0.05}  # the rounds have the rest
STEPS = 1 << 40  # of scores per scale of a choice


def choice_scale(sigma: float) -> float:
    r"""The scale b of a choice that is as private as Gaussian noise on a number that changes by
    one: logistic(1 / b) = Phi(1 / (2 sigma)).
    """
    return float(1 / (log_ndtr(0.5 / sigma) - log_ndtr(-0.5 / sigma)))


def choose(scores: Tensor, scale: float, generator: torch.Generator | None = None) -> int:
    r"""Draws a candidate with a probability proportional to exp(score / scale), by rejection.
    All decisions compare integers, so that the probabilities are exact for the rounded scores.
    """
    steps = (scores.double() / scale * STEPS).round().long()
    below = steps.max() - steps
    while True:
        place = _uniform(1, scores.numel(), generator)
        if bool(_bernoulli_exp(below[place], STEPS, generator)):
            return int(place)


@dataclass(frozen=True)
class Candidate:
    r"""A table that may be measured.

    Args:
        name (str): Its name.
        exact (torch.Tensor): Its integer counts, which are **not** private, ``[n]``.
        change (float): The largest change by one node, as an L2 norm.
        has_scale (bool): Whether the model predicts counts, and not only their shares.
        unit (float): The value of one count.
    """

    name: str
    exact: Tensor
    change: float
    has_scale: bool = False
    unit: float = 1.0

    def error(self, predicted: Tensor) -> float:
        r"""The distance between the counts and their prediction, in units of the largest change.
        Without a scale, it is the distance to the nearest multiple. Both move by at most one if
        a node is removed, because a projection shortens all distances.
        """
        exact, predicted = self.exact.double() * self.unit, predicted.double().view(-1)
        if not self.has_scale:
            direction = predicted / predicted.norm().clamp(min=1e-12)
            predicted = (exact @ direction) * direction
        return float((exact - predicted).norm()) / self.change


def plan_adaptive(caps: EdgeCaps, cost: float) -> list[Entry]:
    r"""The entries of the model, which cost rho = `cost` together."""
    weight = [GROWTH**i for i in range(ROUNDS)]
    entries = [
        Entry(STAGE, ROOTS, HISTOGRAM, Gaussian(1.0), share=SHARES[ROOTS]),
        Entry(STAGE, RATES, caps.change_of_rates(), Gaussian(1.0), share=SHARES[RATES]),
    ]
    for i, part in enumerate(weight):
        share = (1 - sum(SHARES.values())) * part / sum(weight)
        for name, own in ((f'choice {i}', CHOICE), (f'chosen table {i}', 1 - CHOICE)):
            entries.append(Entry(STAGE, name, {'node': 1.0}, Gaussian(1.0), share=own * share))
    return [
        replace(e, noise=e.noise.at_cost(cost * e.share, e.changes['node']))  # type: ignore
        for e in entries
    ]


def candidates(
    counter: EdgeCounter, agrees: Tensor, rate: float, fan_out: int, num_classes: int
) -> list[Candidate]:
    r"""All tables that can be chosen, with their changes by one node.

    In a cell, a node changes a capped count by its cap as a child if it can be a child there, and
    by its cap as a parent if it can be a parent there.
    """
    caps, (child, parent) = counter.caps, counter.thinned(rate)
    same = counter.group[child] == counter.group[parent]
    edges, group = counter.thinned(rate), counter.group
    equal = [
        capped_pairs(edges[:, part], cap, cap)
        for part, cap in ((same, caps.same), (~same, caps.other))
    ]
    per_label, agreement = [], []
    for label in range(num_classes):
        part = counter.edges[:, group[counter.edges[1]] == label]
        per_label += [capped_pairs(part, caps.child, j) for j in range(1, fan_out + 1)]
        for agree in (False, True):
            here = (group[parent] == label) & (agrees[parent] == agree)
            for is_same, cap in ((True, caps.same), (False, caps.other)):
                agreement.append(capped_pairs(edges[:, here & (same == is_same)], cap, cap))
    others = num_classes - 1
    numbers = sum((caps.child + j) ** 2 + others * caps.child**2 for j in range(1, fan_out + 1))
    # A node is a parent in the two cells of its row, and a child in those of equal labels with
    # its own label and in those of different labels with any other one.
    rows = (2 * caps.same) ** 2 + caps.same**2 + caps.other**2 + 2 * others * caps.other**2

    def table(counts: Iterable[int]) -> Tensor:
        return torch.tensor(list(counts))

    return [
        Candidate(EQUAL, table(equal), 2 * math.hypot(caps.same, caps.other)),
        Candidate(LABELS, counter.labels(rate), caps.change_of_labels(num_classes)['node']),
        Candidate(NUMBERS, counter.numbers(fan_out), caps.change_of_numbers(fan_out)['node'], True),
        Candidate(NUMBERS_PER_LABEL, table(per_label), math.sqrt(numbers), True),
        Candidate(MUTUAL, counter.mutual().view(1), caps.change_of_mutual()['node'], True),
        Candidate(
            WEDGES,
            counter.wedges(rate),
            caps.change_of_wedges()['node'],
            unit=counter.rounding,
        ),
        Candidate(AGREEMENT, table(agreement), math.sqrt(rows)),
    ]


class AdaptiveMixing(PrivateMixing):
    r"""`mixing`, with the tables that the rounds have chosen. What was not measured has its usual
    value: mutual edges, a geometric distribution of degrees, labels by homophily.
    """

    def fit_chosen(self, graph: TokenGraph, queries: Queries) -> list[str]:
        r"""Measures, chooses and estimates. Returns the names of the chosen tables."""
        size = (self.num_classes, self.num_tokens)
        self.num_nodes, self.fan_out = graph.num_nodes, max(self.num_neighbors)
        noisy = queries.histogram(ROOTS, graph.y * size[1] + graph.token, math.prod(size))
        noisy = noisy.view(size)
        self.token.copy_(back_off(noisy, queries.sigma(ROOTS)))
        self.frequency = as_distribution(noisy.sum(dim=1))
        self.says = label_evidence(self.token, self.frequency)[: size[1]].argmax(dim=1)
        counter = EdgeCounter(graph.edge_index, graph.y, self.num_classes, self.caps)
        self.rates = queries.counts(RATES, counter.at_rates())
        self.degree.fill_(mean_degree(self.rates, self.num_nodes, self.caps.rates))
        rate = min(1.0, self.caps.edges_per_node / float(self.degree))
        agrees = self.says[graph.token] == graph.y
        found = candidates(counter, agrees, rate, self.fan_out, self.num_classes)
        self.measured: dict[str, tuple[Tensor, float]] = {}  # counts, variance of their noise
        self.estimate()
        names = []
        for i in range(ROUNDS):
            name, scale = f'chosen table {i}', choice_scale(queries.sigma(f'choice {i}'))
            width = queries.sigma(name)
            scores = [c.error(self.predict(c.name)) - width * c.exact.numel() ** 0.5 for c in found]
            chosen = found[choose(torch.tensor(scores), scale, queries.generator)]
            answer = queries.counts(name, chosen.exact, chosen.unit / chosen.change)
            self.add(chosen.name, answer * chosen.change, (width * chosen.change) ** 2)
            self.estimate()
            names.append(chosen.name)
        self.is_fitted.fill_(True)
        return names

    def add(self, name: str, counts: Tensor, variance: float) -> None:
        r"""Combines a measurement with earlier ones of the same table."""
        if name in self.measured:
            before, other = self.measured[name]
            weight = variance / (variance + other)
            counts = weight * before + (1 - weight) * counts
            variance = weight * other
        self.measured[name] = counts, variance

    def estimate(self) -> None:
        r"""Estimates all tables of the model from what was measured."""
        size, known = self.num_classes, self.measured
        equal = 0.5  # without any measurement
        if EQUAL in known:
            counts = known[EQUAL][0].clamp(min=0)
            equal = float(counts[0] / counts.sum().clamp(min=1))
        pairs = torch.eye(size, dtype=torch.double) * equal
        pairs = pairs + (1 - equal) / max(size - 1, 1) * (1 - torch.eye(size, dtype=torch.double))
        self.neighbor.copy_(homophily_prior(pairs * 1e6, self.frequency))
        weight = self.frequency
        if LABELS in known:
            pairs, variance = known[LABELS][0].view(size, size), known[LABELS][1]
            weight = pairs.sum(dim=1)
            prior = homophily_prior(pairs, self.frequency) if EQUAL not in known else self.neighbor
            self.neighbor.copy_(back_off(pairs, variance**0.5, prior))
        self.mutual.fill_(1.0)
        if MUTUAL in known:
            share = float(known[MUTUAL][0]) / max(float(self.rates[0]), 1.0)
            self.mutual.fill_(min(1.0, max(0.0, share)))
        excess = USUAL_EXCESS
        self.concentration.fill_(1 / excess - 1)
        if WEDGES in known:
            counts, variance = known[WEDGES]
            self.concentration.fill_(concentration_of(counts, variance**0.5, self.neighbor, weight))
        self._estimate_numbers()
        self._estimate_agreement()

    def _estimate_numbers(self) -> None:
        ratio = float(self.degree / (1 + self.degree))
        self.at_least.copy_(ratio ** torch.arange(self.fan_out + 1, dtype=torch.double))
        if NUMBERS in self.measured:
            self.at_least.copy_(shares_of_nodes(self.measured[NUMBERS][0], self.num_nodes))
        elif NUMBERS_PER_LABEL in self.measured:
            counts = self.measured[NUMBERS_PER_LABEL][0].view(self.num_classes, -1).sum(dim=0)
            self.at_least.copy_(shares_of_nodes(counts, self.num_nodes))
        self.at_least_of = self.at_least.repeat(self.num_classes, 1)
        if NUMBERS_PER_LABEL in self.measured:
            counts, variance = self.measured[NUMBERS_PER_LABEL]
            nodes = (self.frequency * self.num_nodes).clamp(min=1)
            for label, row in enumerate(counts.view(self.num_classes, -1)):
                own = shares_of_nodes(row, float(nodes[label]))
                noise = 2 * variance / float(nodes[label]) ** 2
                signal = float((own - self.at_least).square().mean()) - noise
                kept = max(0.0, signal) / (max(0.0, signal) + noise)
                self.at_least_of[label] += kept * (own - self.at_least)

    def _estimate_agreement(self) -> None:
        r"""The labels of children, given whether the token of a node indicates its label."""
        size = self.num_classes
        table = self.neighbor[:, None].repeat(1, 2, 1)  # [C, 2, C]
        if AGREEMENT in self.measured:
            counts, variance = self.measured[AGREEMENT]
            prior = self.neighbor.diagonal().repeat_interleave(2)
            prior = torch.stack([prior, 1 - prior], dim=1)
            share = back_off(counts.view(-1, 2), variance**0.5, prior)[:, 0].view(size, 2)
            own = torch.eye(size, dtype=torch.bool)[:, None].expand_as(table)
            rest = table.masked_fill(own, 0)
            rest = rest / rest.sum(dim=2, keepdim=True).clamp(min=1e-12)
            table = torch.where(own, share[:, :, None], (1 - share)[:, :, None] * rest)
        self.neighbor_of = table.reshape(2 * size, size)

    def predict(self, name: str) -> Tensor:
        r"""The counts of a table, or their shares, by the current model."""
        if name in self.measured:
            return self.measured[name][0]
        equal = (self.frequency * self.neighbor.diagonal()).sum()
        total = self.at_least_of[:, 1:].cumsum(dim=1)
        nodes = self.frequency * self.num_nodes
        independent = (self.frequency * self.neighbor.square().sum(dim=1)).sum()
        agree = (1 + self.concentration * independent) / (1 + self.concentration)
        indicated = self.token @ torch.eye(self.num_classes, dtype=torch.double)[self.says]
        sure = indicated.diagonal()
        rows = self.frequency[:, None] * torch.stack([1 - sure, sure], dim=1)
        own = self.neighbor_of.view(self.num_classes, 2, -1)
        share = torch.stack([row.diagonal() for row in own.unbind(dim=1)], dim=1)
        predictions: dict[str, Callable[[], Tensor]] = {
            EQUAL: lambda: torch.stack([equal, 1 - equal]),
            LABELS: lambda: self.frequency[:, None] * self.neighbor,
            NUMBERS: lambda: self.num_nodes * self.at_least[1:].cumsum(dim=0),
            NUMBERS_PER_LABEL: lambda: nodes[:, None] * total,
            MUTUAL: lambda: (self.mutual * self.rates[0]).view(1),
            WEDGES: lambda: torch.stack([agree, 1 - agree, torch.ones_like(agree)]),
            AGREEMENT: lambda: torch.stack([rows * share, rows * (1 - share)], dim=2),
        }
        return predictions[name]()

    @torch.no_grad()
    def sample(
        self, y: Tensor, generator: torch.Generator | None = None, scene: Tensor | None = None
    ) -> Tensor:
        labels = y.long()[:, None]
        tokens = [draw_columns(self.token, labels, generator)]
        real = torch.ones_like(labels, dtype=torch.bool)
        for layer, fan_out in enumerate(self.num_neighbors):
            table = torch.stack([self._numbers_of(c, fan_out, layer > 0) for c in self.at_least_of])
            number = draw_columns(table, labels, generator).masked_fill(~real, 0)
            agrees = self.says[tokens[-1].clamp(max=self.num_tokens - 1)] == labels
            children = self._draw_children(2 * labels + agrees.long(), fan_out, generator)
            token = draw_columns(self.token, children, generator)
            if layer > 0:
                token = self._walk_back(token, tokens, number, fan_out, generator)
            real = torch.arange(fan_out) < number[:, :, None]
            tokens.append(token.masked_fill(~real, self.num_tokens).flatten(1))
            labels, real = children.flatten(1), real.flatten(1)
        return torch.cat(tokens, dim=1)

    def _numbers_of(self, at_least: Tensor, fan_out: int, of_child: bool) -> Tensor:
        r"""The distribution of the number of children of nodes with one label."""
        common = self.at_least.clone()
        self.at_least.copy_(at_least)
        numbers = self._numbers(fan_out, of_child)
        self.at_least.copy_(common)
        return numbers

    def _draw_children(
        self, row: Tensor, fan_out: int, generator: torch.Generator | None
    ) -> Tensor:
        neighbor = self.neighbor
        self.neighbor = self.neighbor_of
        children = self._draw_labels(row, fan_out, generator)
        self.neighbor = neighbor
        return children
