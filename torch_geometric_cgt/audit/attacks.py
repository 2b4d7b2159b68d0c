r"""Attacks on a build: who was in its source, which edges, and what it reveals about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from torch_geometric_cgt.audit.attack_scores import (
    codebook_score,
    draw_more,
    expected_log_prob,
    model_scores,
    release_scores,
    sums_score,
)
from torch_geometric_cgt.audit.canaries import Canaries, CanaryAudit, canary_audit, insert_canaries
from torch_geometric_cgt.audit.codebook_attack import SCORES as CODEBOOK_SCORES
from torch_geometric_cgt.audit.codebook_attack import codebook_scores
from torch_geometric_cgt.audit.epsilon_bounds import Family
from torch_geometric_cgt.audit.membership import (
    MIN_GROUP,
    Membership,
    edge_inference,
    membership_inference,
    pair_scores,
)
from torch_geometric_cgt.audit.neighbours import (
    MemberSplit,
    hold_out_edges,
    random_members,
    split_members,
    undirected_pairs,
)
from torch_geometric_cgt.audit.rebuild import (
    NUM_SHADOWS,
    Mechanism,
    record_scores,
    scaled_to,
    shadow_score,
)
from torch_geometric_cgt.audit.records import (
    Records,
    nearest_codeword,
    projected,
    records_of,
    take_rows,
)
from torch_geometric_cgt.audit.risks import Risk, measure_risks
from torch_geometric_cgt.pipeline import Build, BuildConfig, Source
from torch_geometric_cgt.utils.seeds import derive_seed

NUM_DRAWS = 4  # trees of each record
MAX_RECORDS = 2000  # members, and as many others
HELD_OUT = 0.1  # share of the connections between members that a build does not see
CANARY_SCORES = (
    'sums',
    'codebook',
    'calibrated',
    'closest',
    'neighbours',
    'calibrated loss',
    'calibrated draws',
)


@dataclass(frozen=True)
class Attacks:
    r"""The results of all attacks on one build.

    Args:
        unit (str): The unit of membership.
        membership (Membership): Attacks that tell members from others.
        edges (Membership or str): Attacks that tell edges of the build from
            edges that were removed, or why there are none.
        risks (list[Risk]): Singling out, linkability and inference.
    """

    unit: str
    membership: Membership
    edges: Membership | str
    risks: list[Risk]


def audit_build(
    source: Source,
    config: BuildConfig,
    mechanism: Mechanism,
    unit: str = 'node',
    seed: int = 0,
    confidence: float = 0.95,
    max_records: int = MAX_RECORDS,
    num_shadows: int = NUM_SHADOWS,
) -> Attacks:
    r"""Builds from a random half of a source with the same parameters, and
    attacks that build. A tenth of the edges of this half are left out, too.

    Args:
        source (Source): The checked source graph.
        config (BuildConfig): The parameters of the build in question.
        mechanism (callable): Makes a build from a source and parameters.
        unit (str, optional): Whether to split by :obj:`"node"` or by
            :obj:`"frozen_record"`, see
            :meth:`~torch_geometric_cgt.audit.neighbours.split_members`.
            (default: :obj:`"node"`)
        seed (int, optional): The seed of the split and of all draws.
            (default: :obj:`0`)
        confidence (float, optional): The probability that intervals hold.
            (default: :obj:`0.95`)
        max_records (int, optional): The largest number of members, and of
            others, to attack. (default: :obj:`2000`)
        num_shadows (int, optional): The number of shadow builds, zero for none.
            (default: :obj:`4`)
    """
    split = split_members(source, random_members(source, unit, derive_seed(seed, 'halves')), unit)
    split = hold_out_edges(split, HELD_OUT, derive_seed(seed, 'edges'))
    built = mechanism(split.members, scaled_to(config, split.members, source))

    def shadows(node: Tensor) -> dict[str, Tensor]:
        if num_shadows < 1:
            return {}
        target = record_scores(split, built, node, seed)
        more = (source, config, mechanism, unit, node, target, num_shadows, seed)
        return {'shadows': shadow_score(*more)}

    return attack(split, built, seed, confidence, max_records, shadows)


def attack(
    split: MemberSplit,
    built: Build,
    seed: int = 0,
    confidence: float = 0.95,
    max_records: int = MAX_RECORDS,
    further: Callable[[Tensor], dict[str, Tensor]] | None = None,
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
        further (callable, optional): Returns further scores by name for some
            nodes of the whole source. (default: :obj:`None`)
    """
    membership, records, is_member = attack_members(
        split, built, seed, confidence, max_records, further
    )
    risks = measure_risks(built.trees, built.codebook, records, is_member, confidence, seed)
    edges = _attack_edges(split, built, confidence, max_records, seed)
    return Attacks(split.unit, membership, edges, risks)


def attack_members(
    split: MemberSplit,
    built: Build,
    seed: int = 0,
    confidence: float = 0.95,
    max_records: int = MAX_RECORDS,
    further: Callable[[Tensor], dict[str, Tensor]] | None = None,
) -> tuple[Membership, Records, Tensor]:
    r"""Membership inference alone, with the records and the mask of the members. The
    arguments are those of :meth:`attack`.
    """
    rng = torch.Generator().manual_seed(derive_seed(seed, 'attack'))
    drawn, nodes, rows = [], [], []
    for side, mask in ((split.members, split.is_member), (split.others, ~split.is_member)):
        order = torch.randperm(side.root.numel(), generator=rng)[:max_records]
        root = side.root[order.sort().values]
        shape = built.trees.shape
        graph = projected(side, built.projection)
        drawn.append(records_of(graph, root, built.codebook, shape, NUM_DRAWS, rng))
        nodes.append(mask.nonzero().view(-1)[root] if split.unit == 'node' else root)
        features = take_rows(graph.data.x, root)
        rows.append(features if features.layout == torch.strided else features.to_sparse_coo())
    records = Records.cat(drawn)
    is_member = torch.arange(len(records)) < len(drawn[0])
    expected = expected_log_prob(records)
    scores = _scores(built, records, expected, rng)
    for name in CODEBOOK_SCORES:  # the population is members and others alike
        known = torch.cat(rows)
        scores[f'codebook {name}'] = codebook_scores(built.codebook, known, known, name)
    scores |= further(torch.cat(nodes)) if further is not None else {}
    membership = membership_inference(records, is_member, scores, expected, confidence, seed)
    return membership, records, is_member


def _attack_edges(
    split: MemberSplit, built: Build, confidence: float, max_pairs: int, seed: int
) -> Membership | str:
    if split.held_out is None:
        return (
            'Edges of the source that the release was made without are needed, and none are '
            'known: leave --members out, so that a new build is made without some edges.'
        )
    inside = undirected_pairs(split.members.data)
    if min(len(inside), len(split.held_out)) < MIN_GROUP:
        return (
            f'The half of the source has too few edges: {len(inside)} were kept and '
            f'{len(split.held_out)} removed, and {MIN_GROUP} of each are needed.'
        )
    graph = projected(split.members, built.projection).data
    token = built.cluster
    if token is None:
        token = nearest_codeword(graph.x, built.codebook)[0]
    return edge_inference(
        built.trees,
        token.long(),
        graph.y,
        inside,
        split.held_out,
        confidence,
        max_pairs,
        derive_seed(seed, 'pairs'),
    )


def audit_canaries(
    source: Source,
    config: BuildConfig,
    mechanism: Mechanism,
    num_canaries: int = 100,
    family: Family | None = None,
    seed: int = 0,
    confidence: float = 0.95,
    unit: str = 'node',
) -> CanaryAudit:
    r"""Builds from the source with about half of some canaries, and guesses
    from the result which ones they were.

    Args:
        source (Source): The checked source graph.
        config (BuildConfig): The parameters of the build in question.
        mechanism (callable): Makes a build from a source and parameters.
        num_canaries (int, optional): The number of canaries.
            (default: :obj:`100`)
        family (GaussianFamily or ClaimFamily, optional): The form of the
            claim, see :meth:`Limit.family`. (default: :obj:`None`)
        seed (int, optional): The seed of canaries, coins and draws.
            (default: :obj:`0`)
        confidence (float, optional): The probability that the bound holds.
            (default: :obj:`0.95`)
        unit (str, optional): The unit of the canaries, see
            :meth:`insert_canaries`. (default: :obj:`"node"`)
    """
    made_from = derive_seed(seed, 'canaries')
    canaries = insert_canaries(source, num_canaries, config.shape, made_from, unit)
    built = mechanism(canaries.inside, config)
    rng = torch.Generator().manual_seed(derive_seed(seed, 'canary trees'))
    find = _edge_canary_scores if unit == 'edge' else _node_canary_scores
    scores = find(source, canaries, built, rng)
    return canary_audit(canaries.coin, scores, family, confidence, unit=unit)


def _edge_canary_scores(
    _: Source, canaries: Canaries, built: Build, rng: torch.Generator
) -> dict[str, Tensor]:
    every = projected(canaries.every, built.projection).data
    token = nearest_codeword(every.x, built.codebook)[0]
    scores = pair_scores(built.trees, token, every.y, canaries.which)
    if built.model is not None:
        more = draw_more(built.model, built.trees, rng)
        if more is not None:
            drawn = pair_scores(more, token, every.y, canaries.which)
            scores |= {f'{name}, more trees': score for name, score in drawn.items()}
    return scores


def _node_canary_scores(
    source: Source, canaries: Canaries, built: Build, rng: torch.Generator
) -> dict[str, Tensor]:
    shape, every = built.trees.shape, projected(canaries.every, built.projection)
    x, y, node = every.data.x, every.data.y, canaries.which
    records = records_of(every, node, built.codebook, shape, NUM_DRAWS, rng)
    known = projected(source, built.projection)
    population = records_of(known, source.root, built.codebook, shape, 1, rng)
    scores = _scores(built, records, expected_log_prob(records, population), rng)
    if built.seen:
        del scores['codebook']
        scores['sums'] = sums_score(built.seen, x, y, node)
    else:
        scores['codebook'] = codebook_score(built.codebook, x, node)
    if canaries.unit != 'frozen_record':  # canaries are in the trees of their neighbours
        child, parent = every.data.edge_index
        pairs = torch.stack([parent, child], dim=1)[torch.isin(child, node)]
        token = nearest_codeword(x, built.codebook)[0]
        lift = pair_scores(built.trees, token, y, pairs)['pairs with label']
        total = torch.zeros(y.numel(), dtype=lift.dtype).index_add_(0, pairs[:, 1], lift)
        scores['neighbours'] = total[node]
    return {name: scores[name] for name in CANARY_SCORES if name in scores}


def _scores(
    built: Build, records: Records, expected: Tensor, rng: torch.Generator
) -> dict[str, Tensor]:
    found = release_scores(built.trees, records, expected)
    if built.model is not None:
        found |= model_scores(built.model, built.trees, records, expected, rng)
    return found
