r"""``cgt audit``: attacks a release and checks what its card promises."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from torch_geometric_cgt.cli.arguments import (
    AUDIT_UNITS,
    CHECKS,
    require_report_folder,
    split_names,
)
from torch_geometric_cgt.cli.source_arguments import add_source_arguments, has_source, source_of

if TYPE_CHECKING:
    from torch import Tensor

    from torch_geometric_cgt.audit import Check

HELP = 'attack a release, check its promises, and exit with 1 if one is broken'

EXIT_CODES = """exit codes:
  0    all checks were made, and none is above its limit
  1    a check is above the limit: an attack shows more than is claimed, noise or
       a sensitivity is not what the ledger states, or a cluster is below k
  2    there was nothing to audit: wrong arguments, a damaged release, an edited
       card, or a source that the release was not made from
  3    no check is above its limit, but one could not be made (0 with
       --allow-unchecked; --checks leaves checks out)
  130  interrupted
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds the arguments of the command."""
    parser.epilog = EXIT_CODES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add('release', type=Path, help='folder of the release')
    add_source_arguments(parser)
    add('--root', type=Path, help="where fitted models are kept (default: the user's cache)")
    add('--checks', default=','.join(CHECKS), help='comma-separated (default: %(default)s)')
    add(
        '--max-epsilon',
        type=float,
        help="largest epsilon that attacks may show (default: the card's claim, or 1)",
    )
    add('--min-support', type=int, help="roots that must show every path (default: the card's)")
    add(
        '--members',
        type=Path,
        help='.npy mask of the nodes the release was made from (default: build from a random half)',
    )
    add('--unit', choices=AUDIT_UNITS, help='of membership (default: by the claim of the card)')
    add('--canaries', type=int, help='made-up units (default: as many as can refute the claim)')
    add('--records', type=int, default=2000, help='members to attack (default: %(default)s)')
    add('--shadows', type=int, default=4, help='shadow builds, 0 for none (default: %(default)s)')
    add(
        '--neighbours',
        type=int,
        default=40,
        help='real nodes or edges to remove, one at a time (default: %(default)s)',
    )
    add('--allow-unchecked', action='store_true', help='exit with 0 if a check cannot be made')
    add('--seed', type=int, default=0, help='(default: %(default)s)')
    add('--device', default='auto', help='(default: %(default)s)')
    add('--out', type=Path, help='folder of the report (default: show it only)')
    add('--quiet', action='store_true', help='no progress bars')


def run(args: argparse.Namespace) -> int:
    r"""Runs the command."""
    if not has_source(args):
        raise ValueError("Give '--source', or '--nodes' and '--edges': what the release is made of")

    from torch_geometric_cgt.audit import find_build, run_audit
    from torch_geometric_cgt.datasets.sources import build_folder
    from torch_geometric_cgt.pipeline import check_source
    from torch_geometric_cgt.release import read_release
    from torch_geometric_cgt.report.report_files import write_audit

    release = read_release(args.release)
    source = source_of(args)
    members = None if args.members is None else _read_mask(args.members)
    if args.out is not None:
        require_report_folder(args.out)
    built = None
    if members is None:  # otherwise the build used a part of the source
        root = build_folder(args.root)
        built = find_build(release, check_source(source), root)
    result = run_audit(
        release,
        source,
        build=built,
        checks=split_names(args.checks) or (),
        max_epsilon=args.max_epsilon,
        min_support=args.min_support,
        members=members,
        unit=args.unit,
        num_canaries=args.canaries,
        max_records=args.records,
        num_shadows=args.shadows,
        num_neighbours=args.neighbours,
        seed=args.seed,
        device=args.device,
        log=not args.quiet,
    )
    print(result.headline)
    for check in result.checks:
        print(_line(check))
    for path in write_audit(args.out, result) if args.out is not None else []:
        print(f'Wrote {path}, which is not to be published')
    print(result.summary)
    return result.exit_code(args.allow_unchecked)


def _line(check: Check) -> str:
    r"""A check on one line."""
    if check.value is None:
        return f'{check.verdict:>23}  {check.name}: {check.says}'
    limit = '' if check.threshold is None else f' (limit {check.threshold:.4g})'
    return f'{check.verdict:>23}  {check.name}: {check.value:.4g}{limit}'


def _read_mask(path: Path) -> Tensor:
    import numpy as np
    import torch

    try:
        mask = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"'{path}' is not a readable .npy file: {error}") from error
    return torch.from_numpy(mask)
