r"""Canaries: artificial units that a fair coin includes in a build or excludes from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_geometric_cgt.audit.attack_limit import Limit
from torch_geometric_cgt.audit.check import Check, verdict
from torch_geometric_cgt.audit.epsilon_bounds import ClaimFamily, Family, one_run_bound
from torch_geometric_cgt.audit.neighbours import neighbour_of
from torch_geometric_cgt.data import EDGE_KEYS, TreeShape, values_at
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.privacy import UNITS

# (share of canaries with the highest scores, guessed included; share with the lowest, guessed not)
GUESSES = ((0.5, 0.5), (0.25, 0.25), (0.1, 0.1), (0.25, 0.0))
NAME = 'Canaries: lower bound on epsilon'
FEWEST = 100
MANY_BOUNDS = 32  # more than there are scores times numbers of guesses


@dataclass(frozen=True)
class Canaries:
    r"""A source with canaries.

    Args:
        every (Source): The source with all canaries, which the attacker knows.
        unit (str): What a coin includes or excludes.
        which (torch.Tensor): The nodes of the canaries in :obj:`every`,
            ``[m]``; for the unit :obj:`"edge"`, their pairs of nodes,
            ``[m, 2]``.
        coin (torch.Tensor): Which of them are included, ``[m]``.
    """

    every: Source
    unit: str
    which: Tensor
    coin: Tensor

    @property
    def inside(self) -> Source:
        r"""The source of the build: :obj:`every` without the excluded canaries.
        Nothing else depends on the coins.
        """
        return neighbour_of(self.every, self.unit, self.which[~self.coin])


@dataclass(frozen=True)
class Guesses:
    r"""The guesses by one score, and the lower bound on epsilon from them."""

    score: str
    num_guesses: int
    num_correct: int
    epsilon: float


@dataclass(frozen=True)
class CanaryAudit:
    r"""The lower bound on epsilon from one build.

    Args:
        unit (str): The unit of the canaries.
        num_canaries (int): The number of canaries.
        num_inside (int): The number of included canaries.
        guesses (list[Guesses]): One entry per score and number of guesses.
        delta (float): The failure probability of the bounds.
        confidence (float): The probability that all bounds hold together.
        most (float): The bound if all guesses were correct. A larger claim
            cannot be refuted with so few canaries.
    """

    unit: str
    num_canaries: int
    num_inside: int
    guesses: list[Guesses]
    delta: float
    confidence: float
    most: float

    @property
    def best(self) -> Guesses:
        r"""The guesses with the highest bound."""
        return max(self.guesses, key=lambda g: g.epsilon)

    def check(self, limit: Limit) -> Check:
        r"""Above the limit if the bound exceeds the claim. Without a claim there is
        no limit, since a cluster mean does show whether it contains an outlier.
        The check is not made if no number of correct guesses could have refuted
        the claim.

        Args:
            limit (Limit): The claim.
        """
        best = self.best
        family, parameter = limit.family()
        claim = family.epsilon(parameter)
        if limit.is_claim and self.most <= claim:
            return Check.unchecked(
                NAME,
                f'The check cannot fail: if all guesses about {self.num_canaries} canaries were '
                f'right, the bound would be {self.most:.2f}, which does not exceed the claim of '
                f'{claim:.2f}. Only more canaries (--canaries) could refute the claim.',
            )
        is_above = limit.is_claim and best.epsilon > claim
        return Check(
            NAME,
            verdict(best.epsilon > 0, is_above),
            best.epsilon,
            f'{self.num_inside} of {self.num_canaries} artificial units '
            f"('{self.unit.replace('_', ' ')}') were included in a build. An attacker guessed from "
            f"the result, by the score '{best.score}', which ones: {best.num_correct} of "
            f'{best.num_guesses} guesses were right. At {self.confidence:.0%} confidence, the '
            f'build is not ({best.epsilon:.2f}, {self.delta:.2g})-differentially private. A bound '
            f'of zero does not prove privacy: another attack may find more. If all guesses were '
            f'right, the bound would be {self.most:.2f}.',
            claim if limit.is_claim else None,
            limit.origin
            if limit.is_claim
            else 'no limit: the card claims no differential privacy for this unit',
        )

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        return asdict(self)


def insert_canaries(
    source: Source, num_canaries: int, shape: TreeShape, seed: int, unit: str = 'node'
) -> Canaries:
    r"""Adds canaries to a source, and flips their coins.

    For the unit :obj:`"edge"`, a canary is a connection of two nodes with
    different labels that are not connected otherwise. For all other units, it is a
    new node with one non-zero feature, one of those that the fewest nodes have,
    with a random label, and with as many random neighbours as a root has child
    slots. It has edges to its neighbours too, so that it is in their computation
    graphs and every stage of a build sees it; a :obj:`"frozen_record"` has none
    and is in its own computation graph only.

    Args:
        source (Source): The checked source graph.
        num_canaries (int): The number of canaries.
        shape (TreeShape): The geometry of the trees.
        seed (int): The seed of canaries and coins.
        unit (str, optional): What a coin includes or excludes, see
            :meth:`~torch_geometric_cgt.audit.neighbours.neighbour_of`.
            (default: :obj:`"node"`)
    """
    if num_canaries < 1:
        raise ValueError(f"'num_canaries' must be at least 1 (got {num_canaries})")
    if unit not in UNITS:
        raise ValueError(f"'unit' must be one of {UNITS} (got '{unit}')")
    rng = torch.Generator().manual_seed(seed)
    add = _add_edges if unit == 'edge' else _add_nodes
    every, which = add(source, num_canaries, shape, unit, rng)
    coin = torch.rand(num_canaries, generator=rng) < 0.5
    return Canaries(every, unit, which, coin)


def _add_nodes(
    source: Source, num_canaries: int, shape: TreeShape, unit: str, rng: torch.Generator
) -> tuple[Source, Tensor]:
    num_nodes = int(source.data.num_nodes or 0)
    strange = rare_rows(source.data.x, num_canaries)
    label = torch.randint(source.num_classes, (num_canaries,), generator=rng)
    num_edges = min(shape.num_neighbors[0], num_nodes)
    neighbor = torch.stack(
        [torch.randperm(num_nodes, generator=rng)[:num_edges] for _ in range(num_canaries)]
    )
    split = source.split
    if split is not None:
        alike = source.root[torch.randint(len(source.root), label.shape, generator=rng)]
        split = torch.cat([split, split[alike]])
    node = torch.arange(num_nodes, num_nodes + num_canaries)
    edges = torch.stack([neighbor.flatten(), node.repeat_interleave(num_edges)])
    if unit != 'frozen_record':
        edges = torch.cat([edges, edges.flip(0)], dim=1)
    data = Data(
        x=append_rows(source.data.x, strange),
        edge_index=torch.cat([source.data.edge_index, edges], dim=1),
        y=torch.cat([source.data.y, label]),
        **_edge_values(source.data, edges.size(1), rng),
    )
    return replace(source, data=data, split=split), node


def _add_edges(
    source: Source, num_canaries: int, shape: TreeShape, unit: str, rng: torch.Generator
) -> tuple[Source, Tensor]:
    data, num_nodes = source.data, int(source.data.num_nodes or 0)
    low, high = data.edge_index.sort(dim=0).values
    taken = low * num_nodes + high
    found: list[Tensor] = []
    for _ in range(100):  # each node is in one pair per round
        pair = torch.randperm(num_nodes, generator=rng)[: num_nodes // 2 * 2].view(-1, 2)
        pair = pair.sort(dim=1).values
        key = pair[:, 0] * num_nodes + pair[:, 1]
        other = data.y[pair[:, 0]] != data.y[pair[:, 1]]
        fresh = ~torch.isin(key, taken)
        chosen = pair[fresh & other] if bool((fresh & other).any()) else pair[fresh]
        taken = torch.cat([taken, chosen[:, 0] * num_nodes + chosen[:, 1]])
        found.append(chosen)
        if sum(map(len, found)) >= num_canaries:
            break
    which = torch.cat(found)[:num_canaries]
    if len(which) < num_canaries:
        raise ValueError(
            f'The source has only {len(which)} pairs of nodes that are not connected: use fewer '
            f'canaries (got {num_canaries})'
        )
    edges = torch.cat([which, which.flip(1)]).t()
    edge_index = torch.cat([data.edge_index, edges], dim=1)
    values = _edge_values(data, edges.size(1), rng)
    return replace(source, data=Data(x=data.x, edge_index=edge_index, y=data.y, **values)), which


def _edge_values(data: Data, num_added: int, rng: torch.Generator) -> dict[str, Tensor]:
    r"""The edge values of a graph with further edges, which get those of random edges."""
    num_edges = data.num_edges
    if not any(name in data for name in EDGE_KEYS) or num_edges == 0:
        return {}
    added = torch.randint(num_edges, (num_added,), generator=rng)
    return values_at(data, torch.cat([torch.arange(num_edges), added]))


def enough_canaries(limit: Limit, num_nodes: int, confidence: float = 0.95) -> int:
    r"""The number of canaries that can refute a claim if all guesses are right: 100,
    200, 400 and so on, but not more than one per two nodes of the source. If that
    is not enough, or if there is no claim, 100.

    Args:
        limit (Limit): The claim.
        num_nodes (int): The number of nodes of the source.
        confidence (float, optional): The confidence of the audit.
            (default: :obj:`0.95`)
    """
    family, parameter = limit.family()
    each = 1 - (1 - confidence) / MANY_BOUNDS
    size = FEWEST
    while limit.is_claim and size <= max(FEWEST, num_nodes // 2):
        if one_run_bound(size, size, size, family, each) > parameter:
            return size
        size *= 2
    return FEWEST


def rare_rows(x: Tensor, num_rows: int) -> Tensor:
    r"""Rows with one non-zero feature each and a typical norm, ``[num_rows, F]``.
    The features that the fewest nodes have come first. After the last feature,
    the first one follows again.

    Args:
        x (torch.Tensor): The features of all nodes, ``[N, F]``, dense or sparse.
        num_rows (int): The number of rows.
    """
    x = x if x.layout == torch.strided else x.to_sparse_coo()
    usage = (x != 0).sum(dim=0) if x.layout == torch.strided else _count_columns(x)
    length = x.float().pow(2).sum().div(x.size(0)).sqrt()
    column = usage.argsort(stable=True)[torch.arange(num_rows) % x.size(1)]
    rows = torch.zeros(num_rows, x.size(1))
    rows[torch.arange(num_rows), column] = length
    return rows


def _count_columns(x: Tensor) -> Tensor:
    return torch.bincount(x.coalesce().indices()[1], minlength=x.size(1))


def append_rows(x: Tensor, rows: Tensor) -> Tensor:
    r"""A dense or sparse matrix with dense rows appended, in its layout."""
    rows = rows.to(x.dtype)
    if x.layout == torch.strided:
        return torch.cat([x, rows])
    both = torch.cat([x.to_sparse_coo(), rows.to_sparse_coo()]).coalesce()
    return both.to_sparse_csr() if x.layout == torch.sparse_csr else both


def canary_audit(
    coin: Tensor,
    scores: dict[str, Tensor],
    family: Family | None = None,
    confidence: float = 0.95,
    guesses: Sequence[tuple[float, float]] = GUESSES,
    unit: str = 'node',
) -> CanaryAudit:
    r"""Guesses coins by scores, and bounds epsilon by the number of correct guesses.

    Args:
        coin (torch.Tensor): Which canaries are included, ``[m]``.
        scores (dict[str, torch.Tensor]): The scores of attackers who do not
            know the coins, ``[m]`` each; high for included canaries.
        family (GaussianFamily or ClaimFamily, optional): The form of the
            claim. By default, pure differential privacy.
            (default: :obj:`None`)
        confidence (float, optional): The probability that all bounds hold
            together. (default: :obj:`0.95`)
        guesses (list[tuple[float, float]], optional): The share of canaries
            with the highest scores that are guessed to be included, and the
            share with the lowest scores that are guessed not to be.
            (default: :obj:`GUESSES`)
        unit (str, optional): The unit of the canaries. (default: :obj:`"node"`)
    """
    family = ClaimFamily() if family is None else family
    num_canaries = coin.numel()
    each = 1 - (1 - confidence) / (len(scores) * len(guesses))

    def bound(num_guesses: int, num_correct: int) -> float:
        return family.epsilon(one_run_bound(num_canaries, num_guesses, num_correct, family, each))

    found = []
    for name, score in scores.items():
        order = score.argsort(descending=True, stable=True)
        for top, bottom in guesses:
            first, last = int(top * num_canaries), num_canaries - int(bottom * num_canaries)
            right = int(coin[order[:first]].sum()) + int((~coin[order[last:]]).sum())
            num_guesses = first + num_canaries - last
            found.append(Guesses(name, num_guesses, right, bound(num_guesses, right)))
    most = max(bound(number, number) for number in {guess.num_guesses for guess in found})
    num_inside = int(coin.sum())
    return CanaryAudit(unit, num_canaries, num_inside, found, family.delta, confidence, most)
