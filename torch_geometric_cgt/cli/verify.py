r"""``cgt verify``: checks a release that somebody sent, and its signature."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from torch_geometric_cgt.cli.arguments import add_max_bytes

HELP = 'check a release and its signature'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds the arguments of the command."""
    add = parser.add_argument
    add('release', type=Path, help='folder of the release')
    add('--public-key', help='public key of the sender, or its file')
    add('--json', action='store_true', help='print the result as JSON')
    add_max_bytes(parser)


def run(args: argparse.Namespace) -> None:
    r"""Runs the command."""
    from torch_geometric_cgt.release import PublicKey, read_release

    release = read_release(args.release, public_key=args.public_key, max_bytes=args.max_bytes)
    card, privacy = release.card, release.privacy
    key = None if args.public_key is None else PublicKey.of(args.public_key).name
    if args.json:
        facts = {
            'release': str(args.release),
            'signed_by': key,
            'mechanism': privacy.mechanism,
            'summary': privacy.summary,
            'num_trees': card['num_trees'],
            'terms': card.get('terms', {}),
            'class_names': card.get('class_names'),
        }
        print(json.dumps(facts, indent=2))
        return
    print(f'{args.release}: files, card and tensors are consistent')
    print(f'  {card["num_trees"]:,} trees, {privacy.mechanism}: {privacy.summary}')
    for name, value in card.get('terms', {}).items():
        print(f'  {name}: {value}')
    if 'class_names' in card:
        labels = ', '.join(f'{i} = {name}' for i, name in enumerate(card['class_names']))
        print(f'  names of labels: {labels}')
    if key is None:
        print('  signature: not checked, so anybody may have written this (see --public-key)')
    else:
        print(f'  signature: valid, by key {key}')
