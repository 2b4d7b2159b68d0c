r"""``cgt budget``: lists what all builds of a source cost together, and limits it."""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_geometric_cgt.cli.promise_arguments import UNITS
from torch_geometric_cgt.cli.source_arguments import add_source_arguments, has_source, source_of
from torch_geometric_cgt.errors import SourceError

if TYPE_CHECKING:
    from torch_geometric_cgt.pipeline import Account, CountedBuild, Odometer

HELP = 'what all builds of a source cost together, and the limit of its owner'
BUILDS = ('build', 'counted', 'unit', 'epsilon', 'delta', 'note')
TOTALS = ('together', 'builds', 'epsilon', 'delta', 'limit', 'left')
SEEDED = 'noise from a seed: not counted, not to be released'
K_ANONYMOUS = 'k-anonymous: no epsilon'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds the arguments of the command."""
    add = parser.add_argument
    add_source_arguments(
        parser,
        more='; or the first digits of a listed fingerprint (default: all sources that were built)',
    )
    add('--root', type=Path, help="where fitted models are kept (default: the user's cache)")
    add('--limit', type=float, help='largest epsilon of all private builds of the source together')
    add('--no-limit', action='store_true', help='remove the limit')
    add('--unit', choices=UNITS, help='unit of the limit (default: that of a private build)')
    add('--delta', type=float, help='delta of the limit (default: n to the power of -1.1)')
    add('--json', action='store_true', help='print JSON')


def run(args: argparse.Namespace) -> None:
    r"""Runs the command."""
    changes = args.limit is not None or args.no_limit
    if changes and not has_source(args):
        raise ValueError("A limit needs '--source': the source that it holds for")
    if args.limit is not None and args.no_limit:
        raise ValueError("Give one of '--limit' and '--no-limit'")
    if args.delta is not None and args.limit is None:
        raise ValueError("'--delta' belongs to '--limit'")

    from torch_geometric_cgt.datasets.sources import build_folder
    from torch_geometric_cgt.pipeline import DifferentialPrivacy, Odometer

    odometer = Odometer(build_folder(args.root))
    if not has_source(args):
        accounts = odometer.accounts()
    else:
        accounts = [odometer.account(_source(args, odometer))]
    if changes:
        unit = args.unit or DifferentialPrivacy.unit
        accounts = [odometer.set_limit(accounts[0], args.limit, unit, args.delta)]
    records = [budget_record(odometer, account) for account in accounts]
    if args.json:
        print(json.dumps({'root': str(odometer.root), 'sources': records}, indent=2))
        return
    print('\n\n'.join(map(budget_text, records)) or f"No builds are counted in '{odometer.root}'")


def _source(args: argparse.Namespace, odometer: Odometer) -> Any:
    r"""The source by its name, or its account by the digits of a fingerprint."""
    if args.source is not None and re.fullmatch('[0-9a-f]+', args.source):
        return odometer.account(args.source)
    try:
        return source_of(args)
    except SourceError:
        raise
    except ValueError as error:  # the source has an unknown name
        raise ValueError(
            f'{error}, or the first digits of the fingerprint of a source that was built'
        ) from error


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
    from torch_geometric_cgt.report.text_tables import align_columns

    return align_columns(rows, ['left'] * len(rows[0]))
