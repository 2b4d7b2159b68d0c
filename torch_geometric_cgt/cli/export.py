r"""``cgt export``: writes a release in the format of another program."""

from __future__ import annotations

import argparse
from pathlib import Path

from torch_geometric_cgt.cli.arguments import (
    EXPORT_FORMATS,
    add_max_bytes,
    add_terms_arguments,
    terms_of,
)

HELP = 'write a release in the format of another program'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds the arguments of the command."""
    add = parser.add_argument
    add('release', type=Path, help='folder of the release')
    add('--format', required=True, choices=EXPORT_FORMATS, help='format to write')
    add('--out', type=Path, required=True, help='folder of the export (new)')
    add('--public-key', help='public key of the sender, or its file')
    add_terms_arguments(parser)
    add_max_bytes(parser)


def run(args: argparse.Namespace) -> None:
    r"""Runs the command."""
    from torch_geometric_cgt.release import export_release

    origin = export_release(
        args.release,
        args.out,
        args.format,
        terms_of(args),
        args.public_key,
        args.max_bytes,
    )
    for name, value in origin.terms.to_dict().items():
        print(f'{name}: {value}')
    if origin.terms.license is None:
        print('license: none is stated (see --license)')
    print(origin.signature)
    print('Not exported: the fitted model and the cluster of each source node. Do not share them.')
    print(f'Export written to {args.out}')
