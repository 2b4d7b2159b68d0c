r"""``cgt budget``: lists what all builds of a source cost together, and limits it."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_geometric_cgt.cli.arguments import (
    UNITS,
)
from torch_geometric_cgt.cli.source_arguments import add_source_arguments, has_source, source_of
from torch_geometric_cgt.errors import SourceError

if TYPE_CHECKING:
    from torch_geometric_cgt.pipeline import Odometer

HELP = 'what all builds of a source cost together, and the limit of its owner'


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
    from torch_geometric_cgt.report.budget_table import budget_record, budget_text

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
