r"""The ``cgt`` command: the parser of all commands, warnings and exit codes.

Modules of commands import PyTorch and PyG inside of :meth:`run` only. ``cgt --help``,
``cgt --version`` and wrong options answer before that.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

from torch_geometric_cgt.cli import (
    audit,
    benchmark,
    budget,
    cache,
    evaluate,
    export,
    price,
    release,
    report,
    sign,
    synthesize,
    verify,
)
from torch_geometric_cgt.errors import CGTError
from torch_geometric_cgt.version import __version__

__all__ = ['main']

COMMANDS = {
    'release': release,
    'synthesize': synthesize,
    'evaluate': evaluate,
    'benchmark': benchmark,
    'price': price,
    'budget': budget,
    'cache': cache,
    'audit': audit,
    'report': report,
    'sign': sign,
    'verify': verify,
    'export': export,
}


def main(argv: Sequence[str] | None = None) -> int:
    r"""Runs one command and returns its exit code."""
    args = make_parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code = args.run(args)
    except (CGTError, ValueError, OSError) as error:
        print(f'cgt: error: {error}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            'cgt: interrupted; the same command resumes from the last checkpoint', file=sys.stderr
        )
        return 130
    return int(code or 0)


def make_parser() -> argparse.ArgumentParser:
    r"""Returns the parser of all commands."""
    parser = _Parser(
        prog='cgt', description='Synthetic, privacy-controlled substitutes of graphs for PyG.'
    )
    parser.add_argument('--version', action='version', version=f'%(prog)s {__version__}')
    commands = parser.add_subparsers(required=True, metavar='command')
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, help=module.HELP)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


class _Parser(argparse.ArgumentParser):
    r"""A parser whose errors are one line, without the usage, which is a page for some commands."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} ('{self.prog} --help' lists the arguments)\n")


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f'cgt: warning: {message}', file=sys.stderr)
