r"""Arguments that several ``cgt`` commands share, and the source and dataset that they describe.

The modules that own the names and defaults import PyTorch and PyG, which takes seconds. The parser
reads the copies below instead, so that ``--help`` and wrong options answer at once. A test compares
every copy with the value of its owner. Functions that build import these modules when they run.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_geometric_cgt.cli.promise_arguments import (
    add_edge_arguments,
    add_private_arguments,
    add_protection_arguments,
    promise_of,
)
from torch_geometric_cgt.cli.source_arguments import add_source_arguments, source_of
from torch_geometric_cgt.utils import limits

if TYPE_CHECKING:
    from torch_geometric_cgt.datasets import SyntheticCGTDataset
    from torch_geometric_cgt.release import Terms

MODELS = ('GCN', 'SGC', 'GIN', 'GAT')
EXPERIMENTS = {  # the number of each experiment in the paper
    'aggregation': '1',
    'sampling': '2',
    'number': '3',
    'shift': '4',
    'link': None,
    'ablation': None,
    'exchange': None,
    'statistics': None,
    'control': None,
    'privacy': None,
    'baselines': None,
}
CHECKS = (
    'groups',
    'support',
    'copies',
    'closest',
    'noise',
    'sensitivity',
    'membership',
    'edges',
    'risks',
    'canary',
)
AUDIT_UNITS = ('node', 'frozen_record')
EXPORT_FORMATS = ('pyg', 'parquet', 'npz', 'dgl', 'networkx', 'huggingface')
PRECISIONS = ('float32', 'bfloat16')

# Defaults of FitConfig.
BATCH_SIZE = 128
PRECISION = 'float32'
ACCUMULATE = 1
CHECKPOINT_MINUTES = 5.0


def add_build_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds the arguments of commands that build a synthetic graph."""
    add_source_arguments(parser, 'Digits')
    add = parser.add_argument
    add('--k', type=int, help='minimum nodes per feature vector (default: 30)')
    add('--num-neighbors', type=int, nargs='+', default=[5, 5], metavar='S', help='(default: 5 5)')
    add('--num-samples', type=int, help='computation graphs (default: labelled nodes)')
    add('--num-clusters', type=int, help='distinct feature vectors (default: as many as k allows)')
    add('--l', type=int, help='minimum distinct labels per feature vector')
    add(
        '--task-weight',
        type=lambda text: text if text == 'auto' else float(text),
        default='auto',
        help="weight of class probabilities in the clustering, 0 for none (default: 'auto')",
    )
    add(
        '--generator',
        metavar='NAME',
        help='model of trees: CGT, or another one of docs/generators.md, such as NGram; NGram+tilt '
        'selects its trees by views (default: CGT)',
    )
    add(
        '--num-scenes',
        type=int,
        help="clusters of neighbourhoods that the generator is conditioned on, 0 for the paper's "
        'model (default: by the labels)',
    )
    add('--min-support', type=int, help='source nodes that must show each path (default: no rule)')
    add_protection_arguments(parser)
    add_private_arguments(parser)
    add_edge_arguments(parser)
    add_fit_arguments(parser)
    add('--seed', type=int, default=0, help='(default: %(default)s)')
    add('--device', default='auto', help='(default: %(default)s)')
    add('--root', type=Path, help="where fitted models are kept (default: the user's cache)")
    add('--force', action='store_true', help='fit again even if a fitted model is kept')
    add('--quiet', action='store_true', help='no progress bars')


def add_fit_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds the arguments of the fit."""
    add = parser.add_argument
    add('--epochs', type=int, help='(default: 1 to 25, fewer for larger graphs)')
    add(
        '--batch-size',
        type=int,
        default=BATCH_SIZE,
        help='computation graphs per step, over all processes (default: %(default)s)',
    )
    add(
        '--precision',
        default=PRECISION,
        choices=PRECISIONS,
        help='(default: %(default)s)',
    )
    add(
        '--accumulate',
        type=int,
        default=ACCUMULATE,
        help='parts in which a process works through its share of a batch (default: %(default)s)',
    )
    add('--compile', action='store_true', help='compile the model')
    add(
        '--num-workers',
        type=int,
        default=0,
        help='processes that prepare batches while the model trains (default: %(default)s)',
    )
    add(
        '--checkpoint-minutes',
        type=float,
        default=CHECKPOINT_MINUTES,
        help='minutes between checkpoints (default: %(default)s)',
    )
    add('--no-resume', action='store_true', help='ignore the checkpoints of a killed run')


def add_terms_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds what the owner states about the use of a release."""
    add = parser.add_argument
    add('--license', help='licence of the release, such as CC-BY-4.0 (default: none is stated)')
    add('--contact', help='whom to ask about the release (default: nobody is stated)')
    add('--intended-use', help='what the release is meant for (default: not stated)')


def add_class_names_argument(parser: argparse.ArgumentParser) -> None:
    r"""Adds the consent to publish names of labels."""
    parser.add_argument(
        '--publish-class-names',
        action='store_true',
        help='publish the names of labels, which no promise covers (default: numbers only)',
    )


def add_max_bytes(parser: argparse.ArgumentParser) -> None:
    r"""Adds the largest allowed size of a release."""
    parser.add_argument(
        '--max-bytes',
        type=int,
        default=limits.MAX_RELEASE_BYTES,
        metavar='N',
        help='largest allowed size of the tensors (default: %(default)s)',
    )


def terms_of(args: argparse.Namespace) -> Terms:
    r"""Returns what the owner states about the use of a release."""
    from torch_geometric_cgt.release import Terms

    return Terms(args.license, args.contact, args.intended_use)


def class_names_of(args: argparse.Namespace) -> tuple[str, ...] | None:
    r"""Returns the names of labels if the owner publishes them, and checks them."""
    if not args.publish_class_names:
        return None

    from torch_geometric_cgt.release.checks import check_class_names

    source = source_of(args)
    names = getattr(getattr(source, 'reading', None), 'classes', ())
    if not names:
        raise ValueError(
            f"'--publish-class-names' is for tables, whose labels have names (got "
            f"'{getattr(source, 'name', type(source).__name__)}')"
        )
    check_class_names(list(names), len(names))
    return tuple(names)


def require_report_folder(folder: Path) -> None:
    r"""Creates the folder of a report. Raises an error if it is in the folder of a
    release, where statistics of the source would be published.

    Args:
        folder (Path): The folder.
    """
    from torch_geometric_cgt.release.release import CARD, TENSORS
    from torch_geometric_cgt.utils.files import require_writable

    for parent in (folder.absolute(), *folder.absolute().parents):
        if (parent / CARD).is_file() and (parent / TENSORS).is_file():
            raise ValueError(
                f"'{folder}' is in the release '{parent}', which may be published, and a report "
                f"has statistics of the source: choose another folder for '--out'"
            )
    require_writable(folder)


def split_names(text: str | None) -> tuple[str, ...] | None:
    r"""Splits comma-separated names; :obj:`None` stays :obj:`None`."""
    return None if text is None else tuple(name.strip() for name in text.split(','))


def build_dataset(args: argparse.Namespace, seed: int) -> SyntheticCGTDataset:
    r"""Builds the synthetic dataset, or loads it from the cache."""
    from torch_geometric_cgt.datasets import SyntheticCGTDataset
    from torch_geometric_cgt.training import FitConfig

    return SyntheticCGTDataset(
        source_of(args),
        num_neighbors=args.num_neighbors,
        num_samples=args.num_samples,
        root=args.root,
        seed=seed,
        device=args.device,
        force_reload=args.force,
        log=not args.quiet,
        privacy=promise_of(args),
        generator=generator_of(args),
        fit=FitConfig(
            epochs=args.epochs,
            batch_size=args.batch_size,
            precision=args.precision,
            accumulate=args.accumulate,
            compile=args.compile,
            num_workers=args.num_workers,
            checkpoint_minutes=args.checkpoint_minutes,
            resume=not args.no_resume,
        ),
    )


def generator_of(args: argparse.Namespace) -> dict[str, Any]:
    r"""The argument :obj:`generator` of a dataset."""
    found: dict[str, Any] = {}
    if args.generator is not None:
        name, plus, tilt = args.generator.partition('+')
        if plus and tilt != 'tilt':
            raise ValueError(f"'--generator' is a name or NAME+tilt (got '{args.generator}')")
        if name.lower() != 'cgt' or plus:
            found = {'model': name, **({'tilt': True} if plus else {})}
    if args.num_scenes is not None:
        found['num_scenes'] = args.num_scenes
    return found


def secrets_notice(dataset: SyntheticCGTDataset) -> str:
    r"""Where the parts of a build are kept that must not be published.

    Args:
        dataset (SyntheticCGTDataset): The dataset.
    """
    return (
        f'What must not be published (the fitted model, the cluster of each source node) is kept '
        f"in '{dataset.root}': 'cgt cache list' shows it, and 'cgt cache remove' removes it"
    )


def leave_process_group(args: argparse.Namespace) -> bool:
    r"""Leaves the process group of a build. Returns whether this process is
    the first one, which writes and prints the result; the others are done.
    """
    from torch_geometric_cgt.training import join_world, leave_world, resolve_device

    is_first = join_world(resolve_device(args.device)).is_first
    leave_world()
    return is_first
