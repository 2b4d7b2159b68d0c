r"""The arguments that name a source graph and say how to read it, and the graph that they name.

As in :mod:`torch_geometric_cgt.cli.arguments`, the parser reads copies of names and defaults.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch_geometric.data import Dataset

SOURCES = (
    'Digits',
    'DigitQuarters',
    'Cora',
    'CiteSeer',
    'PubMed',
    'Computers',
    'Photo',
    'CS',
    'Physics',
    'Actor',
    'SquirrelFiltered',
    'Minesweeper',
    'Tolokers',
    'OgbnArxiv',
    'OgbnProducts',
)
MISSING = ('error', 'mean')
MAX_VALUES = 100  # distinct values of a one-hot column


def add_source_arguments(
    parser: argparse.ArgumentParser, default: str | None = None, more: str = ''
) -> None:
    r"""Adds the arguments that name the source graph and say how to read it.

    Args:
        parser (argparse.ArgumentParser): The parser.
        default (str, optional): The source without an argument.
            (default: :obj:`None`)
        more (str, optional): What else :obj:`--source` takes, for its help.
            (default: :obj:`""`)
    """
    group = parser.add_argument_group('source', 'the graph; docs/sources.md describes its files')
    add = group.add_argument
    stated = '' if default is None else f' (default: {default})'
    add(
        '--source',
        default=default,
        help=f'one of {", ".join(SOURCES)}; a folder with the tables nodes and edges, or with '
        f'x.npy, y.npy and edge_index.npy; a file .npz or .pt; or '
        f'package.module:function{more}{stated}',
    )
    add('--nodes', type=Path, metavar='FILE', help='table of nodes, .csv or .parquet')
    add('--edges', type=Path, metavar='FILE', help='table of edges, .csv or .parquet')
    add('--name', help='name on cards and pages (default: that of the file or folder)')
    add('--label', metavar='COLUMN', help='column of labels (default: y or label)')
    add('--id', metavar='COLUMN', help='column of ids (default: id, node or node_id)')
    add('--drop', metavar='COLUMN', nargs='+', action='extend', help='columns to leave out')
    add(
        '--categorical',
        metavar='COLUMN',
        nargs='+',
        action='extend',
        help='columns of numbers to encode one-hot',
    )
    add('--missing', choices=MISSING, help=f'for missing numbers (default: {MISSING[0]})')
    add('--standardize', action='store_true', help='numbers to mean 0 and standard deviation 1')
    add(
        '--max-values',
        type=int,
        metavar='N',
        help=f'distinct values of a one-hot column (default: {MAX_VALUES})',
    )
    both = group.add_mutually_exclusive_group()
    both.add_argument(
        '--undirected',
        dest='directed',
        action='store_false',
        default=None,
        help='edges in both directions (default for tables)',
    )
    both.add_argument(
        '--directed', action='store_true', default=None, help='edges from source to target only'
    )
    add('--largest-component', action='store_true', help='drop all other components')
    add('--random-split', action='store_true', help="split 50/10/40, ignore the source's masks")


def has_source(args: argparse.Namespace) -> bool:
    r"""Whether the arguments name a source."""
    return args.source is not None or args.nodes is not None or args.edges is not None


def source_of(args: argparse.Namespace) -> Dataset:
    r"""Loads the source graph, and says on stderr how its files were read. A second
    call returns the same dataset.
    """
    if (loaded := getattr(args, 'loaded_source', None)) is not None:
        return loaded
    source = _named_source(args)
    _check_private_reading(args)

    from torch_geometric_cgt.datasets import TableOptions, load_source

    names = ('label', 'id', 'drop', 'categorical', 'missing', 'max_values')
    given = {name: v for name in names if (v := getattr(args, name)) is not None}
    options = TableOptions(standardize=args.standardize, **given)
    dataset = load_source(
        source, args.largest_component, args.random_split, args.name, options, args.directed
    )
    reading = getattr(dataset, 'reading', None)
    if reading is not None and os.environ.get('RANK', '0') == '0':
        print(reading.text(), file=sys.stderr)
    args.loaded_source = dataset
    return dataset


def require_test_nodes(source: Dataset) -> None:
    r"""Raises an error if the splits of a source leave nothing to evaluate GNNs on.

    Args:
        source (Dataset): The source.
    """
    from torch_geometric_cgt.data import masks_of
    from torch_geometric_cgt.pipeline import check_source

    checked = check_source(source)
    if checked.split is None:
        return
    masks = masks_of(checked.split)
    for name in ('train_mask', 'test_mask'):
        if not bool(masks[name][checked.root].any()):
            raise ValueError(
                f"No labelled node of '{checked.name}' is in '{name}', so that GNNs cannot be "
                f"compared: name other splits, or use '--random-split'"
            )


def _named_source(args: argparse.Namespace) -> str | tuple[Path, Path]:
    r"""What the arguments name as the source."""
    if args.nodes is None and args.edges is None:
        if args.source is None:
            raise ValueError("Give '--source', or '--nodes' and '--edges'")
        return str(args.source)
    if args.nodes is None or args.edges is None:
        missing = '--nodes' if args.nodes is None else '--edges'
        raise ValueError(f"'{missing}' is missing: a graph needs a table of nodes and one of edges")
    if args.source not in (None, SOURCES[0]):
        raise ValueError(
            f"Give '--source' or '--nodes' and '--edges', not both (got '{args.source}')"
        )
    return args.nodes, args.edges


def _check_private_reading(args: argparse.Namespace) -> None:
    r"""Raises an error if a private build would read statistics of the data without noise."""
    if getattr(args, 'epsilon', None) is None:
        return
    used = ['--standardize'] if args.standardize else []
    used += ['--missing mean'] if args.missing == 'mean' else []
    if used:
        raise ValueError(
            f"'{used[0]}' computes means of the source without noise, which no ledger of "
            f"'--epsilon' pays for: scale and fill in columns with public numbers before"
        )
