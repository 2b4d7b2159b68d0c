r"""Arguments that several ``cgt`` commands share, and the names and defaults that they show.

The modules that own these names and defaults import PyTorch and PyG, which takes seconds. The
parser reads the copies below instead, so that ``--help`` and wrong options answer at once. A test
compares every copy with the value of its owner.
"""

from __future__ import annotations

import argparse
from pathlib import Path

SOURCES = (
    'Digits',
    'Cora',
    'CiteSeer',
    'PubMed',
    'Computers',
    'Photo',
    'CS',
    'Physics',
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
CHECKS = ('groups', 'support', 'copies', 'closest', 'membership', 'attribute', 'canary')
AUDIT_UNITS = ('node', 'record')
UNITS = ('record', 'edge', 'node')
FORMS = ('auto', 'histograms', 'dp_sgd')
PRECISIONS = ('float32', 'bfloat16')

# Defaults of FitConfig and of DifferentialPrivacy.
BATCH_SIZE = 128
PRECISION = 'float32'
ACCUMULATE = 1
CHECKPOINT_MINUTES = 5.0
MAX_PARENTS = 2


def add_build_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds the arguments of commands that build a synthetic graph."""
    add = parser.add_argument
    add(
        '--source',
        default='Digits',
        help=f'one of {", ".join(SOURCES)} (default: %(default)s)',
    )
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
    add('--largest-component', action='store_true', help='drop all other components')
    add('--random-split', action='store_true', help="split 50/10/40, ignore the source's masks")
    add('--force', action='store_true', help='fit again even if a fitted model is kept')
    add('--quiet', action='store_true', help='no progress bars')


def add_private_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Adds the arguments of differentially private builds."""
    add = parser.add_argument
    add('--epsilon', type=float, help='budget of differential privacy, instead of k')
    add('--delta', type=float, help='failure probability (default: n to the power of -1.1)')
    add(
        '--unit',
        default='record',
        choices=UNITS,
        help='what is protected (default: %(default)s)',
    )
    add(
        '--max-parents',
        type=int,
        default=MAX_PARENTS,
        help='for edges and nodes: neighbourhoods that a node may be in (default: %(default)s)',
    )
    add(
        '--form',
        default='auto',
        choices=FORMS,
        help='model of trees (default: %(default)s)',
    )
    add('--accept-large-delta', action='store_true', help='allow a delta above 1/n')
    add('--public', help='public graph that the generator starts from (with --form dp_sgd)')


def split_names(text: str | None) -> tuple[str, ...] | None:
    r"""Splits comma-separated names; :obj:`None` stays :obj:`None`."""
    return None if text is None else tuple(name.strip() for name in text.split(','))
