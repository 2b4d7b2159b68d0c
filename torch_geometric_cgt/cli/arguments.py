r"""Arguments that several ``cgt`` commands share, and the source and dataset that they describe.

The modules that own the names and defaults import PyTorch and PyG, which takes seconds. The parser
reads the copies below instead, so that ``--help`` and wrong options answer at once. A test compares
every copy with the value of its owner. Functions that build import these modules when they run.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_geometric_cgt.utils import limits

if TYPE_CHECKING:
    from torch_geometric.data import Dataset

    from torch_geometric_cgt.datasets import SyntheticCGTDataset
    from torch_geometric_cgt.pipeline import Promise
    from torch_geometric_cgt.release import Terms

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
UNITS = ('node', 'attributes', 'edge', 'frozen_record')
FORMS = ('auto', 'mixing', 'histograms', 'dp_sgd', 'rows')
EXPORT_FORMATS = ('pyg', 'parquet', 'npz', 'dgl', 'networkx', 'huggingface')
PRECISIONS = ('float32', 'bfloat16')
MISSING = ('error', 'mean')
MAX_VALUES = 100  # distinct values of a one-hot column

# Defaults of FitConfig and of DifferentialPrivacy.
BATCH_SIZE = 128
PRECISION = 'float32'
ACCUMULATE = 1
CHECKPOINT_MINUTES = 5.0
MAX_PARENTS = 2


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
        help=f'one of {", ".join(SOURCES)}; a folder with the tables nodes and edges; a file .npz '
        f'or .pt; or package.module:function{more}{stated}',
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


def add_build_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds the arguments of commands that build a synthetic graph."""
    add_source_arguments(parser, 'Digits')
    add = parser.add_argument
    add('--k', type=int, help='minimum nodes per feature vector (default: 30)')
    add('--num-neighbors', type=int, nargs='+', default=[5, 5], metavar='S', help='(default: 5 5)')
    add('--num-samples', type=int, help="computation graphs (default: the source's nodes)")
    add('--num-clusters', type=int, help='distinct feature vectors (default: as many as k allows)')
    add('--l', type=int, help='minimum distinct labels per feature vector')
    add(
        '--task-weight',
        type=lambda text: text if text == 'auto' else float(text),
        default='auto',
        help="weight of class probabilities in the clustering, 0 for none (default: 'auto')",
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
        '--checkpoint-minutes',
        type=float,
        default=CHECKPOINT_MINUTES,
        help='minutes between checkpoints (default: %(default)s)',
    )
    add('--no-resume', action='store_true', help='ignore the checkpoints of a killed run')
    add('--seed', type=int, default=0, help='(default: %(default)s)')
    add('--device', default='auto', help='(default: %(default)s)')
    add('--root', type=Path, help="where fitted models are kept (default: the user's cache)")
    add('--force', action='store_true', help='fit again even if a fitted model is kept')
    add('--quiet', action='store_true', help='no progress bars')


def add_protection_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds the arguments that protect the means of groups, and the words of consent."""
    add = parser.add_argument
    add(
        '--min-value-support',
        type=lambda text: text if text == 'auto' else int(text),
        help='nodes of a group that must have a value, 0 to leave nothing out (default: a third '
        'of k, 5 to 10)',
    )
    add(
        '--rounding',
        type=lambda text: text if text == 'auto' else float(text),
        help='grid of means in scales of their feature, 0 for exact means, from which it can be '
        'read who is in the source (default: --min-value-support / k, at most 0.5)',
    )
    add('--accept-no-anonymity', action='store_true', help='allow k = 1')
    add('--accept-one-group', action='store_true', help='allow a k that leaves one group')


def add_private_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds the arguments of differentially private builds."""
    add = parser.add_argument
    add('--epsilon', type=float, help='budget of differential privacy, instead of k')
    add('--delta', type=float, help='failure probability (default: n to the power of -1.1)')
    add(
        '--unit',
        default='node',
        choices=UNITS,
        help='what is protected: a node with its edges, the features and the label of a node, or '
        'an edge; frozen_record protects no person (default: %(default)s)',
    )
    add(
        '--max-parents',
        type=int,
        default=MAX_PARENTS,
        help='for models of computation graphs: neighbourhoods that a node may be in (default: '
        '%(default)s)',
    )
    add(
        '--max-degree',
        type=int,
        help='for models of computation graphs and the unit node: edges of a protected node',
    )
    add(
        '--form',
        default='auto',
        choices=FORMS,
        help='model of trees (default: %(default)s)',
    )
    add('--accept-large-delta', action='store_true', help='allow a delta above 1/n')
    add('--public', help='public graph that the generator starts from (with --form dp_sgd)')


def add_terms_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds what the owner states about the use of a release."""
    add = parser.add_argument
    add('--license', help='licence of the release, such as CC-BY-4.0 (default: none is stated)')
    add('--contact', help='whom to ask about the release (default: nobody is stated)')
    add('--intended-use', help='what the release is meant for (default: not stated)')


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


def split_names(text: str | None) -> tuple[str, ...] | None:
    r"""Splits comma-separated names; :obj:`None` stays :obj:`None`."""
    return None if text is None else tuple(name.strip() for name in text.split(','))


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
        generator={} if args.num_scenes is None else {'num_scenes': args.num_scenes},
        fit=FitConfig(
            epochs=args.epochs,
            batch_size=args.batch_size,
            precision=args.precision,
            accumulate=args.accumulate,
            compile=args.compile,
            checkpoint_minutes=args.checkpoint_minutes,
            resume=not args.no_resume,
        ),
    )


def secrets_notice(dataset: SyntheticCGTDataset) -> str:
    r"""Where the parts of a build are kept that must not be published.

    Args:
        dataset (SyntheticCGTDataset): The dataset.
    """
    return (
        f'What must not be published (the fitted model, the cluster of each source node) is kept '
        f"in '{dataset.root}': 'cgt cache list' shows it, and 'cgt cache remove' removes it"
    )


def promise_of(args: argparse.Namespace) -> Promise:
    r"""Returns what the release will promise, or says which arguments contradict."""
    from torch_geometric_cgt.datasets.options import make_promise

    options = {
        'l': args.l,
        'min_support': args.min_support,
        'num_clusters': args.num_clusters,
        'task_weight': args.task_weight,
        'private_args': None if args.epsilon is None else private_args(args),
    }
    for name in ('min_value_support', 'rounding'):
        if (value := getattr(args, name)) is not None:
            options[name] = value or None  # zero switches it off
    for name in ('accept_no_anonymity', 'accept_one_group'):
        if getattr(args, name):
            options[name] = True
    return make_promise(args.k, args.epsilon, args.delta, options)


def private_args(args: argparse.Namespace) -> dict[str, Any]:
    r"""Returns the arguments of a differentially private build."""
    from torch_geometric_cgt.datasets import load_source

    return {
        'unit': args.unit,
        'max_parents': args.max_parents,
        'max_degree': args.max_degree,
        'form': args.form,
        'accept_large_delta': args.accept_large_delta,
        'public': None if args.public is None else load_source(args.public),
    }


def leave_process_group(args: argparse.Namespace) -> bool:
    r"""Leaves the process group of a build. Returns whether this process is
    the first one, which writes and prints the result; the others are done.
    """
    from torch_geometric_cgt.training import join_world, leave_world, resolve_device

    is_first = join_world(resolve_device(args.device)).is_first
    leave_world()
    return is_first
