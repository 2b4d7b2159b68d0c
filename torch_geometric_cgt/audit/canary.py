r"""Canaries: records made up for the audit, each put in or left out by a fair coin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_geometric_cgt.audit.check import Check, verdict
from torch_geometric_cgt.audit.limit import Limit
from torch_geometric_cgt.audit.one_run import one_run_epsilon
from torch_geometric_cgt.audit.zero_out import zero_out
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.pipeline.source import Source

# Shares of all canaries with the highest scores, guessed to be in, and with the lowest, to be out.
GUESSES = ((0.5, 0.5), (0.25, 0.25), (0.25, 0.0), (0.1, 0.0))


@dataclass(frozen=True)
class Canaries:
    r"""A source with canaries.

    Args:
        every (Source): The source with all canaries; where an attacker looks
            them up.
        node (torch.Tensor): The canaries in :obj:`every`, ``[m]``.
        coin (torch.Tensor): Which of them are inside, ``[m]``.
    """

    every: Source
    node: Tensor
    coin: Tensor

    @property
    def inside(self) -> Source:
        r"""What is built from: the records of all other canaries are zeroed
        out, and nothing else depends on the coins.
        """
        return zero_out(self.every, self.node[~self.coin])


@dataclass(frozen=True)
class Guesses:
    r"""What one attacker guessed, and what follows from it."""

    score: str
    num_guesses: int
    num_correct: int
    epsilon: float


@dataclass(frozen=True)
class CanaryAudit:
    r"""The lower bound on epsilon from one build.

    Args:
        num_canaries (int): The number of canaries.
        num_inside (int): The number of those that were put in.
        guesses (list[Guesses]): By score and by number of guesses; their
            bounds hold all together.
        delta (float): The failure probability that the bounds allow for.
        confidence (float): The probability that they hold.
        most (float): The bound if all guesses were right: no claim above it
            can be refuted with so few canaries.
    """

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
        r"""Fails if the bound exceeds what was claimed. Means of groups show
        whether an outlier is among them: without a claim, there is a number
        and no verdict. Nor is there one if no number of right guesses could
        have refuted the claim.
        """
        best, limit = self.best, limit.at(self.delta)
        can_fail = limit.is_claim and self.most > limit.epsilon
        reach = f'If all guesses were right, the bound would be {self.most:.2f}.'
        if limit.is_claim and not can_fail:
            reach = (
                f'This check cannot fail: if all guesses were right, the bound would be '
                f'{self.most:.2f}, which does not exceed the claim of {limit.epsilon:.2f} at this '
                f'delta. Only more canaries could refute that.'
            )
        return Check(
            'Canaries: lower bound on epsilon',
            verdict(best.epsilon <= limit.epsilon) if can_fail else 'descriptive',
            best.epsilon,
            f'{self.num_inside} of {self.num_canaries} made-up records were built in; from the '
            f"result, by the score '{best.score}', {best.num_correct} of {best.num_guesses} "
            f'guesses of which ones are right. At {self.confidence:.0%} confidence, the build is '
            f'not ({best.epsilon:.2f}, {self.delta:.2g})-differentially private for a record. A '
            f'bound of zero is no proof of privacy: another attack may see more. {reach}',
            limit.epsilon if can_fail else None,
            limit.origin if limit.is_claim else 'The card claims no differential privacy.',
        )

    def to_dict(self) -> dict[str, Any]:
        r"""All of it, for a JSON file."""
        return asdict(self)


def insert_canaries(source: Source, num_canaries: int, shape: TreeShape, seed: int) -> Canaries:
    r"""Adds canaries to a source.

    A canary is a new node with a single feature, one of those that the fewest
    nodes have, a label drawn among all labels, and edges from as many random
    nodes as a root has child slots. No edge leaves it, so that it is in no
    computation graph but its own: one canary is one record. It is an outlier
    in features, label and neighbours, and has a trace of its own in any mean.
    Those whose coin says so are zeroed out (:meth:`zero_out`).

    Args:
        source (Source): The checked source graph.
        num_canaries (int): The number of canaries.
        shape (TreeShape): The geometry of the trees.
        seed (int): The seed of canaries and coins.
    """
    if num_canaries < 1:
        raise ValueError(f"'num_canaries' must be at least 1 (got {num_canaries})")
    rng, num_nodes = torch.Generator().manual_seed(seed), int(source.data.num_nodes or 0)
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
    data = Data(
        x=append_rows(source.data.x, strange),
        edge_index=torch.cat([source.data.edge_index, edges], dim=1),
        y=torch.cat([source.data.y, label]),
    )
    coin = torch.rand(num_canaries, generator=rng) < 0.5
    return Canaries(replace(source, data=data, split=split), node, coin)


def rare_rows(x: Tensor, num_rows: int) -> Tensor:
    r"""Rows of one feature each, as long as a typical row, ``[num_rows, F]``.
    The features that the fewest others have come first; each is used again when
    there is no other one left.

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
    r"""A dense or sparse matrix with dense rows behind its own."""
    rows = rows.to(x.dtype)
    if x.layout == torch.strided:
        return torch.cat([x, rows])
    both = torch.cat([x.to_sparse_coo(), rows.to_sparse_coo()]).coalesce()
    return both.to_sparse_csr() if x.layout == torch.sparse_csr else both


def canary_audit(
    coin: Tensor,
    scores: dict[str, Tensor],
    delta: float = 0.0,
    confidence: float = 0.95,
    guesses: Sequence[tuple[float, float]] = GUESSES,
) -> CanaryAudit:
    r"""Guesses coins by scores, and bounds epsilon by how many are right.

    Args:
        coin (torch.Tensor): Which canaries are in, ``[m]``.
        scores (dict[str, torch.Tensor]): What attackers compute from the
            result without the coins, ``[m]`` each; high for those that are in.
        delta (float, optional): The failure probability that is claimed.
            (default: :obj:`0.0`)
        confidence (float, optional): The probability that all bounds hold
            together. (default: :obj:`0.95`)
        guesses (list[tuple[float, float]], optional): Which shares of the
            canaries, from the top and from the bottom, are guessed to be in
            and out. (default: :obj:`GUESSES`)
    """
    num_canaries = coin.numel()
    each = 1 - (1 - confidence) / (len(scores) * len(guesses))
    found = []
    for name, score in scores.items():
        order = score.argsort(descending=True, stable=True)
        for top, bottom in guesses:
            first, last = int(top * num_canaries), num_canaries - int(bottom * num_canaries)
            right = int(coin[order[:first]].sum()) + int((~coin[order[last:]]).sum())
            num_guesses = first + num_canaries - last
            epsilon = one_run_epsilon(num_canaries, num_guesses, right, delta, each)
            found.append(Guesses(name, num_guesses, right, epsilon))
    largest = max(guess.num_guesses for guess in found)
    most = one_run_epsilon(num_canaries, largest, largest, delta, each)
    return CanaryAudit(num_canaries, int(coin.sum()), found, delta, confidence, most)
