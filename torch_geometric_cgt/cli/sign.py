r"""``cgt sign``: signs a release, or creates the keys to sign with."""

from __future__ import annotations

import argparse
from pathlib import Path

from torch_geometric_cgt.cli.arguments import add_max_bytes

HELP = 'sign a release with a secret key, or create a pair of keys'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds the arguments of the command."""
    add = parser.add_argument
    add('release', type=Path, nargs='?', help='folder of the release to sign')
    add('--key', type=Path, help='file of the secret key')
    add(
        '--new-key',
        type=Path,
        metavar='KEY',
        help='create a secret key in this file, and the public key in KEY.pub',
    )
    add_max_bytes(parser)


def run(args: argparse.Namespace) -> None:
    r"""Runs the command."""
    if (args.release is None) == (args.new_key is None) or (
        (args.release is None) != (args.key is None)
    ):
        raise ValueError("Give a release and '--key' to sign it, or '--new-key' to create keys")

    from torch_geometric_cgt.release import new_key, sign_release

    if args.new_key is not None:
        key = new_key(args.new_key)
        print(f'Wrote {args.new_key}, which is secret and has no password: keep it to yourself')
        print(f'Wrote {args.new_key}.pub. Publish this key: {key}')
        return
    key = sign_release(args.release, args.key, args.max_bytes)
    print(f'Signed {args.release}. Verify it with: cgt verify {args.release} --public-key {key}')
