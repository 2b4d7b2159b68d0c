r"""Attacks on a build: half of the source in it, half held out, and canaries."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_geometric_cgt.audit.attribute import ATTRIBUTES, AttributeInference, attribute_inference
from torch_geometric_cgt.audit.canary import CanaryAudit, canary_audit, insert_canaries
from torch_geometric_cgt.audit.halves import Halves, halve, random_members
from torch_geometric_cgt.audit.membership import Membership, membership_inference
from torch_geometric_cgt.audit.rebuild import Mechanism, scaled_to
from torch_geometric_cgt.audit.records import Records, projected, records_of
from torch_geometric_cgt.audit.scores import (
    codebook_score,
    expected_log_prob,
    generator_scores,
    release_scores,
    sums_score,
)
from torch_geometric_cgt.pipeline import Build, BuildConfig
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.utils.seeds import derive_seed

NUM_DRAWS = 4  # trees of each record
MAX_RECORDS = 2000  # members, and as many others
CANARY_SCORES = ('sums', 'codebook', 'calibrated', 'closest', 'calibrated loss', 'calibrated draws')


@dataclass(frozen=True)
class Attacks:
    r"""What attacks on a build with known members found."""

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
    tries to tell that half from the other one.

    Args:
        source (Source): The checked source graph.
        config (BuildConfig): The parameters of the build in question.
        mechanism (callable): What makes a build of a source and parameters.
        unit (str, optional): Whether halves are of :obj:`"node"` or of
            :obj:`"record"`, see :meth:`halve`. (default: :obj:`"node"`)
        seed (int, optional): The seed of halves and draws.
            (default: :obj:`0`)
        confidence (float, optional): The probability that intervals hold.
            (default: :obj:`0.95`)
        max_records (int, optional): The largest number of members, and of
            others, that are attacked. (default: :obj:`2000`)
    """
    halves = halve(source, random_members(source, unit, derive_seed(seed, 'halves')), unit)
    built = mechanism(halves.inside, scaled_to(config, halves.inside, source))
    return attack(halves, built, seed, confidence, max_records)


def attack(
    halves: Halves,
    built: Build,
    seed: int = 0,
    confidence: float = 0.95,
    max_records: int = MAX_RECORDS,
) -> Attacks:
    r"""Attacks a build whose members are known.

    Args:
        halves (Halves): Who is in, and who is not.
        built (Build): What was built from those who are in.
        seed (int, optional): The seed of all draws. (default: :obj:`0`)
        confidence (float, optional): The probability that intervals hold.
            (default: :obj:`0.95`)
        max_records (int, optional): The largest number of members, and of
            others, that are attacked. (default: :obj:`2000`)
    """
    rng = torch.Generator().manual_seed(derive_seed(seed, 'attack'))
    trees = built.trees

    def draw(source: Source) -> Records:
        order = torch.randperm(source.root.numel(), generator=rng)[:max_records]
        root = source.root[order.sort().values]
        data = projected(source.data, built.projection)
        return records_of(data, root, built.codebook, trees.shape, NUM_DRAWS, rng)

    inside, outside = draw(halves.inside), draw(halves.outside)
    records = Records.cat([inside, outside])
    is_member = torch.arange(len(records)) < len(inside)
    expected = expected_log_prob(records)
    scores = _scores(built, records, expected, rng)
    membership = membership_inference(records, is_member, scores, expected, confidence, seed)
    each = 1 - (1 - confidence) / len(ATTRIBUTES)
    attributes = [attribute_inference(name, trees, records, is_member, each) for name in ATTRIBUTES]
    return Attacks(halves.unit, membership, attributes)


def audit_canaries(
    source: Source,
    config: BuildConfig,
    mechanism: Mechanism,
    num_canaries: int = 100,
    delta: float = 0.0,
    seed: int = 0,
    confidence: float = 0.95,
) -> CanaryAudit:
    r"""Builds from the source and about half of some canaries, and guesses
    from the result which ones.

    Args:
        source (Source): The checked source graph.
        config (BuildConfig): The parameters of the build in question.
        mechanism (callable): What makes a build of a source and parameters.
        num_canaries (int, optional): The number of canaries.
            (default: :obj:`100`)
        delta (float, optional): The failure probability that is claimed.
            (default: :obj:`0.0`)
        seed (int, optional): The seed of canaries, coins and draws.
            (default: :obj:`0`)
        confidence (float, optional): The probability that the bound holds.
            (default: :obj:`0.95`)
    """
    canaries = insert_canaries(source, num_canaries, config.shape, derive_seed(seed, 'canaries'))
    built = mechanism(canaries.inside, config)
    rng = torch.Generator().manual_seed(derive_seed(seed, 'canary trees'))
    shape, every = built.trees.shape, projected(canaries.every.data, built.projection)
    records = records_of(every, canaries.node, built.codebook, shape, NUM_DRAWS, rng)
    known = projected(source.data, built.projection)
    population = records_of(known, source.root, built.codebook, shape, 1, rng)
    expected = expected_log_prob(records, population)
    scores = _scores(built, records, expected, rng)
    if built.seen:
        del scores['codebook']
        scores['sums'] = sums_score(built.seen, every.x, every.y, canaries.node)
    else:
        scores['codebook'] = codebook_score(built.codebook, every.x, canaries.node)
    chosen = {name: scores[name] for name in CANARY_SCORES if name in scores}
    return canary_audit(canaries.coin, chosen, delta, confidence)


def _scores(
    built: Build, records: Records, expected: Tensor, rng: torch.Generator
) -> dict[str, Tensor]:
    found = release_scores(built.trees, records, expected)
    if built.model is not None:
        found |= generator_scores(built.model, built.trees, records, expected, rng)
    return found
