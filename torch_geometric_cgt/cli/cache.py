r"""``cgt cache``: lists the builds that are kept, which hold secrets, and removes them."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch_geometric_cgt.release.cache import KeptBuild

HELP = 'list or remove the builds that are kept; they hold secrets of their sources'
COLUMNS = ('build', 'source', 'promise', 'date', 'size', 'state', 'secrets')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds the arguments of the command."""
    actions = parser.add_subparsers(dest='action', required=True, metavar='action')
    show = actions.add_parser('list', help='list the builds')
    show.add_argument('--json', action='store_true', help='print JSON')
    remove = actions.add_parser('remove', help='remove builds')
    remove.add_argument('builds', nargs='*', metavar='build', help='their names, as listed')
    remove.add_argument('--all', action='store_true', help='remove all builds')
    remove.add_argument('--yes', action='store_true', help='remove without a question')
    for each in (parser, show, remove):
        each.add_argument(
            '--root',
            type=Path,
            default=None if each is parser else argparse.SUPPRESS,  # it may be on either side
            help="where fitted models are kept (default: the user's cache)",
        )


def run(args: argparse.Namespace) -> int:
    r"""Runs the command."""
    if args.action == 'remove' and bool(args.builds) == args.all:
        raise ValueError("'cgt cache remove' needs the names of builds, or '--all'")

    from torch_geometric_cgt.datasets.sources import build_folder
    from torch_geometric_cgt.release.cache import kept_builds

    root = build_folder(args.root)
    builds = kept_builds(root)
    if args.action == 'remove':
        return _remove(args, root, builds)
    if args.json:
        records = [build.to_dict() for build in builds]
        print(json.dumps({'root': str(root), 'builds': records}, indent=2))
        return 0
    print(_table(root, builds))
    return 0


def _table(root: Path, builds: list[KeptBuild]) -> str:
    from torch_geometric_cgt.report.text_tables import align_columns

    if not builds:
        return f"No builds are kept in '{root}'"
    rows: list[tuple[str, ...]] = [COLUMNS]
    for each in builds:
        secrets = 'yes' if each.has_secrets else 'no'
        size = f'{each.num_bytes / 1e6:,.1f} MB'
        head = (each.folder, each.source, each.promise, each.date)
        rows.append((*head, size, each.state, secrets))
    total = sum(each.num_bytes for each in builds) / 1e6
    table = align_columns(rows, ['left'] * 4 + ['right'] + ['left'] * 2)
    return (
        f"{table}\n{len(builds)} builds, {total:,.1f} MB, in '{root}'. Builds with secrets hold "
        f'what must not be published: the cluster of each source node, weights, noisy answers'
    )


def _remove(args: argparse.Namespace, root: Path, builds: list[KeptBuild]) -> int:
    from torch_geometric_cgt.release.cache import remove_build

    known = [build.folder for build in builds]
    names = known if args.all else list(dict.fromkeys(args.builds))
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"There is no build {unknown} in '{root}'; 'cgt cache list' shows them")
    if names and not args.yes and not _agreed(names, root):
        print('Nothing was removed')
        return 1
    for name in names:
        remove_build(root, name)
        print(f'Removed {name}')
    if not names:
        print(f"No builds are kept in '{root}'")
    print(
        f"The odometer in '{root / 'odometer'}' is kept: deleting a build does not take back what "
        f'was released, so that its cost still counts'
    )
    return 0


def _agreed(names: list[str], root: Path) -> bool:
    r"""Asks whether to remove builds. Without a terminal, '--yes' is needed."""
    if not sys.stdin.isatty():
        raise ValueError("Removing builds needs '--yes' if nobody can be asked")
    question = f"Remove {', '.join(names)} from '{root}'? They cannot be restored [y/N] "
    return input(question).strip().lower() in ('y', 'yes')
