r"""``cgt synthesize``: builds a synthetic graph and writes a release of it."""

from __future__ import annotations

import argparse
from pathlib import Path

from torch_geometric_cgt.cli.arguments import (
    add_build_arguments,
    add_class_names_argument,
    add_terms_arguments,
    build_dataset,
    class_names_of,
    leave_process_group,
    secrets_notice,
    terms_of,
)

HELP = 'make a synthetic substitute of a graph and write a release of it'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds the arguments of the command."""
    add_build_arguments(parser)
    add_terms_arguments(parser)
    add_class_names_argument(parser)
    parser.add_argument('--out', type=Path, required=True, help='folder of the release (new)')


def run(args: argparse.Namespace) -> None:
    r"""Runs the command."""
    if args.out.exists():
        raise FileExistsError(f"'{args.out}' exists already; choose a new folder")

    from torch_geometric_cgt.utils.files import require_writable

    require_writable(args.out.absolute().parent)
    terms, names = terms_of(args), class_names_of(args)  # wrong ones are refused before the build
    dataset = build_dataset(args, args.seed)
    if not leave_process_group(args):
        return
    dataset.save(args.out, terms=terms, class_names=names)
    print(f'{dataset}: {len(dataset.trees):,} computation graphs')
    print('Guaranteed:', *dataset.privacy.guaranteed, sep='\n  - ')
    print('Not guaranteed:', *dataset.privacy.not_guaranteed, sep='\n  - ')
    print(f'Release written to {args.out}')
    print(secrets_notice(dataset))
