r"""Canaries: artificial records that a fair coin includes in a build or excludes from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_geometric_cgt.audit.attack_limit import Limit
from torch_geometric_cgt.audit.check import Check, verdict
from torch_geometric_cgt.audit.epsilon_bounds import one_run_epsilon
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.pipeline.source import Source

# (share of canaries with the highest scores, guessed included; share with the lowest, guessed not)
GUESSES = ((0.5, 0.5), (0.25, 0.25), (0.25, 0.0), (0.1, 0.0))


@dataclass(frozen=True)
class Canaries:
    r"""A source with canaries.

    Args:
        every (Source): The source with all canaries, which the attacker knows.
        node (torch.Tensor): The nodes of the canaries in :obj:`every`, ``[m]``.
        coin (torch.Tensor): Which of them are included, ``[m]``.
    """

    every: Source
    node: Tensor
    coin: Tensor

    @property
    def inside(self) -> Source:
        r"""The source of the build: the records of excluded canaries are zeroed
        out. Nothing else depends on the coins.
        """
        return zero_out_records(self.every, self.node[~self.coin])


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
        num_canaries (int): The number of canaries.
        num_inside (int): The number of included canaries.
        guesses (list[Guesses]): One entry per score and number of guesses.
        delta (float): The failure probability of the bounds.
        confidence (float): The probability that all bounds hold together.
        most (float): The bound if all guesses were correct. A larger claim
            cannot be refuted with so few canaries.
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
        r"""Fails if the bound exceeds the claim. There is no verdict without a
        claim, since a cluster mean does show whether it contains an outlier,
        and none if no number of correct guesses could have refuted the claim.

        Args:
            limit (Limit): The claim.
        """
        best, limit = self.best, limit.at(self.delta)
        can_fail = limit.is_claim and self.most > limit.epsilon
        reach = f'If all guesses were right, the bound would be {self.most:.2f}.'
        if limit.is_claim and not can_fail:
            reach = (
                f'This check cannot fail: if all guesses were right, the bound would be '
                f'{self.most:.2f}, which does not exceed the claim of {limit.epsilon:.2f} at this '
                f'delta. Only more canaries could refute the claim.'
            )
        return Check(
            'Canaries: lower bound on epsilon',
            verdict(best.epsilon <= limit.epsilon) if can_fail else 'descriptive',
            best.epsilon,
            f'{self.num_inside} of {self.num_canaries} artificial records (canaries) were included '
            f"in a build. An attacker guessed from the result, by the score '{best.score}', which "
            f'ones: {best.num_correct} of {best.num_guesses} guesses were right. At '
            f'{self.confidence:.0%} confidence, the build is not ({best.epsilon:.2f}, '
            f'{self.delta:.2g})-differentially private for a record. A bound of zero does not '
            f'prove privacy: another attack may find more. {reach}',
            limit.epsilon if can_fail else None,
            limit.origin if limit.is_claim else 'The card claims no differential privacy.',
        )

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        return asdict(self)


def insert_canaries(source: Source, num_canaries: int, shape: TreeShape, seed: int) -> Canaries:
    r"""Adds canaries to a source.

    A canary is a new node with one non-zero feature, one of the features that
    the fewest nodes have, with a random label, and with edges from as many
    random nodes as a root has child slots. No edge leaves it, so it occurs in
    its own computation graph only: one canary is one record. It is an outlier
    in features, label and neighbours, and leaves its own trace in any mean.
    A fair coin decides which canaries are zeroed out
    (:meth:`zero_out_records`).

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


def zero_out_records(source: Source, node: Tensor) -> Source:
    r"""Zeroes out the records of some roots, as in the neighbouring data sets of
    a ledger.

    The features of these nodes become zero. Their labels are removed, and with
    them their computation graphs. The number of rows and all edges stay, so
    the sample of neighbours and the rows of all other nodes do not change.

    Args:
        source (Source): The checked source graph.
        node (torch.Tensor): The roots in question, ``[z]``.
    """
    data, gone = source.data, torch.zeros(int(source.data.num_nodes or 0), dtype=torch.bool)
    gone[node] = True
    num_zeroed = source.num_zeroed + int((gone & (data.y >= 0)).sum())
    zeroed = Data(
        x=_zero_rows(data.x, gone), edge_index=data.edge_index, y=data.y.masked_fill(gone, -1)
    )
    split = None if source.split is None else source.split.masked_fill(gone, 0)
    return replace(source, data=zeroed, split=split, num_zeroed=num_zeroed)


def _zero_rows(x: Tensor, gone: Tensor) -> Tensor:
    r"""A dense or sparse matrix with some rows set to zero, in its layout."""
    if x.layout == torch.strided:
        return x.masked_fill(gone[:, None], 0)
    rows = x.to_sparse_coo().coalesce()
    stays = ~gone[rows.indices()[0]]
    kept = torch.sparse_coo_tensor(
        rows.indices()[:, stays],
        rows.values()[stays],
        x.shape,
        is_coalesced=True,
        check_invariants=False,
    )
    return kept.to_sparse_csr() if x.layout == torch.sparse_csr else kept


def canary_audit(
    coin: Tensor,
    scores: dict[str, Tensor],
    delta: float = 0.0,
    confidence: float = 0.95,
    guesses: Sequence[tuple[float, float]] = GUESSES,
) -> CanaryAudit:
    r"""Guesses coins by scores, and bounds epsilon by the number of correct guesses.

    Args:
        coin (torch.Tensor): Which canaries are included, ``[m]``.
        scores (dict[str, torch.Tensor]): The scores of attackers who do not
            know the coins, ``[m]`` each; high for included canaries.
        delta (float, optional): The claimed failure probability.
            (default: :obj:`0.0`)
        confidence (float, optional): The probability that all bounds hold
            together. (default: :obj:`0.95`)
        guesses (list[tuple[float, float]], optional): The share of canaries
            with the highest scores that are guessed to be included, and the
            share with the lowest scores that are guessed not to be.
            (default: :obj:`GUESSES`)
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
