r"""The answers of a private build, computed again by the owner of the source."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.models.transformer import DP_SGD
from torch_geometric_cgt.pipeline import BuildConfig, PrivatePipeline
from torch_geometric_cgt.pipeline.build import with_declared_labels
from torch_geometric_cgt.pipeline.plan import PrivatePlan
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.privacy import Gaussian, Ledger
from torch_geometric_cgt.privacy.queries import Answer


@dataclass(frozen=True)
class LedgerAnswer:
    r"""One answer of a private build beside its exact value, which only the owner of
    the source can compute.

    Args:
        name (str): The ledger entry that paid for the answer.
        sigma (float): The standard deviation of the noise, by the entry.
        bound (float): The largest :math:`L_2` norm of the change of the exact
            values by one unit, by the entry.
        exact (torch.Tensor): The values without noise, in any shape.
        released (torch.Tensor): The values with noise, in the same shape.
    """

    name: str
    sigma: float
    bound: float
    exact: Tensor
    released: Tensor


@dataclass(frozen=True)
class LedgerTrees:
    r"""The computation graphs behind an entry that is priced by the number of graphs
    that one unit changes.

    Args:
        name (str): The ledger entry.
        bound (float): The largest number of graphs that one unit changes, by the
            entry.
        table (torch.Tensor): The tokens and the label of the graph of each node,
            and -1 for nodes without one, ``[N, T + 1]``.
    """

    name: str
    bound: float
    table: Tensor

    def num_changed(self, other: LedgerTrees) -> int:
        r"""The number of graphs that differ."""
        return int((self.table != other.table).any(dim=1).sum())


@dataclass(frozen=True)
class Replayed:
    r"""What a private build computes from a graph if its queries get given answers.

    Args:
        answers (list[LedgerAnswer]): The answers, in the order of the queries.
        results (dict[str, torch.Tensor], optional): What is computed from the
            answers and released. It must not depend on the graph in any other
            way. (default: none)
        rows (tuple[torch.Tensor, ...], optional): The tokens, labels and scenes of
            the trees that DP-SGD learns from. (default: none)
        trees (LedgerTrees, optional): The same trees by node, if DP-SGD learns from
            them. (default: :obj:`None`)
    """

    answers: Sequence[LedgerAnswer]
    results: dict[str, Tensor] = field(default_factory=dict)
    rows: tuple[Tensor, ...] = ()
    trees: LedgerTrees | None = None


# Computes all answers on a graph, which may lack a node or an edge of the source. Every query that
# depends on earlier answers gets the released ones of the audited build.
Replay = Callable[[Source], Replayed]


def replay_of(
    source: Source,
    config: BuildConfig,
    answers: dict[str, list[Answer]],
    facts: dict[str, Any],
) -> Replay:
    r"""Runs the queries of a private build again.

    Args:
        source (Source): The source of the build.
        config (BuildConfig): The parameters of the build.
        answers (dict[str, list[Answer]]): The answers of its stages, which are
            kept with the build.
        facts (dict): The privacy facts of its card.
    """
    source = with_declared_labels(source, config)
    unit, ledger = facts['protects'], Ledger.from_dict(facts['ledger'])
    entries = {entry.name: entry for entry in ledger.entries}

    def known(answer: Answer) -> LedgerAnswer:
        entry = entries[answer.name]
        assert isinstance(entry.noise, Gaussian) and answer.exact is not None
        exact, released = (x.double() * answer.grid for x in (answer.exact, answer.released))
        return LedgerAnswer(answer.name, entry.noise.sigma, entry.changes[unit], exact, released)

    def trees(graph: Source, rows: tuple[Tensor, ...]) -> LedgerTrees | None:
        if not rows:
            return None
        tokens, y, _ = rows
        table = torch.full((int(graph.data.num_nodes or 0), tokens.size(1) + 1), -1)
        table[graph.root] = torch.cat([tokens, y[:, None]], dim=1).long()
        return LedgerTrees(DP_SGD, entries[DP_SGD].changes[unit], table)

    def run(graph: Source) -> Replayed:
        with tempfile.TemporaryDirectory(prefix='cgt-replay-') as folder:
            cpu = torch.device('cpu')
            pipeline = PrivatePipeline(source, config, Path(folder), cpu, log=False)
            plan = PrivatePlan(pipeline.numbers, pipeline.promise)
            pipeline.ledger = ledger
            pipeline.plan = replace(plan, config=replace(pipeline.promise, form=facts['form']))
            found = pipeline.replay(with_declared_labels(graph, config), answers)
        known_answers = [known(answer) for answer in found.answers]
        return Replayed(known_answers, found.results, found.rows, trees(graph, found.rows))

    return run
