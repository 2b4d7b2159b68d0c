r"""The odometer for a reader: builds, costs, limits and what is left, as text and for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from torch_geometric_cgt.pipeline import Account, CountedBuild, Odometer
from torch_geometric_cgt.report.text_tables import align_columns

BUILDS = ('build', 'counted', 'unit', 'epsilon', 'delta', 'note')
TOTALS = ('together', 'builds', 'epsilon', 'delta', 'limit', 'left')
SEEDED = 'noise from a seed: not counted, not to be released'
K_ANONYMOUS = 'k-anonymous: no epsilon'


def budget_record(odometer: Odometer, account: Account) -> dict[str, Any]:
    r"""What was spent of a source, for a JSON file. It holds no sketch.

    Args:
        odometer (Odometer): The odometer.
        account (Account): The account of the source.
    """
    return {
        'source': account.name,
        'fingerprint': account.fingerprint,
        'num_nodes': account.sketch.num_nodes,
        'builds': [_build_record(build) for build in account.builds],
        'nearly_equal': [other.fingerprint for other in odometer.near(account)],
        'spending': [asdict(spending) for spending in odometer.spending(account)],
        'limits': {unit: asdict(limit) for unit, limit in account.limits.items()},
    }


def budget_text(record: dict[str, Any]) -> str:
    r"""What was spent of a source, as plain text.

    Args:
        record (dict): The result of :meth:`budget_record`.
    """
    title = f'{record["source"]} ({record["fingerprint"][:12]}), {record["num_nodes"]:,} nodes'
    rows = [BUILDS, *(_build_row(build) for build in record['builds'])]
    parts = [title, _aligned(rows) if record['builds'] else 'no builds']
    if record['nearly_equal']:
        near = ', '.join(name[:12] for name in record['nearly_equal'])
        parts.append(f'nearly equal sources, whose builds are included below: {near}')
    totals: list[tuple[str, ...]] = [TOTALS]
    for spent in record['spending']:
        limit, rest = ('none' if v is None else f'{v:.4g}' for v in (spent['limit'], spent['left']))
        own = (f'{spent["epsilon"]:.4g}', f'{spent["delta"]:.3g}', limit, rest)
        totals.append((f'per {spent["unit"]}', str(spent['num_builds']), *own))
    if record['spending']:
        parts.append(_aligned(totals))
    return '\n'.join(parts)


def _build_record(build: CountedBuild) -> dict[str, Any]:
    cost = build.cost
    return {
        'cache': build.cache,
        'time': build.time,
        'mechanism': 'k-anonymity' if cost is None else 'differential privacy',
        'unit': None if cost is None else cost.unit,
        'epsilon': None if cost is None else cost.epsilon,
        'delta': None if cost is None else cost.delta,
        'is_counted': build.is_private,
        'seeded_noise': build.seeded_noise,
    }


def _build_row(build: dict[str, Any]) -> tuple[str, ...]:
    note = SEEDED if build['seeded_noise'] else '' if build['is_counted'] else K_ANONYMOUS
    if build['epsilon'] is None:
        return build['cache'], build['time'], '', '', '', note
    cost = f'{build["epsilon"]:.4g}', f'{build["delta"]:.3g}'
    return build['cache'], build['time'], build['unit'], *cost, note


def _aligned(rows: list[tuple[str, ...]]) -> str:
    return align_columns(rows, ['left'] * len(rows[0]))
