r"""The arguments of the ``cgt`` commands."""

from __future__ import annotations

import argparse
from pathlib import Path

from torch_geometric_cgt.audit import CHECKS
from torch_geometric_cgt.audit.membership import UNITS as AUDITED
from torch_geometric_cgt.benchmark.experiments import EXPERIMENTS
from torch_geometric_cgt.datasets import SOURCES
from torch_geometric_cgt.pipeline.private_config import CHOICES, PrivateConfig
from torch_geometric_cgt.privacy import UNITS
from torch_geometric_cgt.training import FitConfig
from torch_geometric_cgt.training.config import PRECISIONS

AUDIT_CODES = """exit codes:
  0    no check failed
  1    a check failed: an attack shows more than is claimed, the lower bound on
       epsilon exceeds the claim, or a cluster is below k
  2    there was nothing to audit: wrong arguments, a damaged release, an edited
       card, or a source that the release was not made from
  130  interrupted
"""


def add_build_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Of commands that build a synthetic graph."""
    add = parser.add_argument
    add('--source', default='Digits', help=f'one of {", ".join(SOURCES)} (default: %(default)s)')
    add('--k', type=int, help='minimum nodes per feature vector (default: 30)')
    add('--num-neighbors', type=int, nargs='+', default=[5, 5], metavar='S', help='(default: 5 5)')
    add('--num-samples', type=int, help="computation graphs (default: the source's nodes)")
    add('--num-clusters', type=int, help='distinct feature vectors (default: as many as k allows)')
    add('--l', type=int, help='minimum distinct labels per feature vector')
    add(
        '--task-weight',
        type=lambda text: text if text == 'auto' else float(text),
        default='auto',
        help="weight of class probabilities when clusters are sought, 0 for none (default: 'auto')",
    )
    add(
        '--num-scenes',
        type=int,
        help="classes of alike surroundings, 0 for the paper's model (default: by the labels)",
    )
    add('--min-support', type=int, help='source nodes that must show each path (default: no rule)')
    add_private_arguments(parser)
    add('--epochs', type=int, help='(default: 1 to 25, fewer for larger graphs)')
    add(
        '--batch-size',
        type=int,
        default=FitConfig.batch_size,
        help='computation graphs per step, over all processes (default: %(default)s)',
    )
    add('--precision', default=FitConfig.precision, choices=PRECISIONS, help='(default: float32)')
    add(
        '--accumulate',
        type=int,
        default=FitConfig.accumulate,
        help='parts in which a process works through its share of a batch (default: %(default)s)',
    )
    add('--compile', action='store_true', help='compile the model')
    add(
        '--checkpoint-minutes',
        type=float,
        default=FitConfig.checkpoint_minutes,
        help='minutes between checkpoints (default: %(default)s)',
    )
    add('--no-resume', action='store_true', help='ignore the checkpoints of a killed run')
    add('--seed', type=int, default=0, help='(default: %(default)s)')
    add('--device', default='auto', help='(default: %(default)s)')
    add('--root', type=Path, help="where fitted models are kept (default: the user's cache)")
    add('--largest-component', action='store_true', help='drop all other components')
    add('--random-split', action='store_true', help='split 50/10/40 instead of the own masks')
    add('--force', action='store_true', help='fit again even if a fitted model is kept')
    add('--quiet', action='store_true', help='no progress bars')


def add_private_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Of differentially private builds."""
    add = parser.add_argument
    add('--epsilon', type=float, help='budget of differential privacy, instead of k')
    add('--delta', type=float, help='failure probability (default: n to the power of -1.1)')
    add('--unit', default='record', choices=UNITS, help='what is protected (default: %(default)s)')
    add(
        '--max-parents',
        type=int,
        default=PrivateConfig.max_parents,
        help='for edges and nodes: neighbourhoods that a node may be in (default: %(default)s)',
    )
    add('--form', default='auto', choices=CHOICES, help='model of trees (default: %(default)s)')
    add('--accept-large-delta', action='store_true', help='a delta above 1/n is meant')
    add('--public', help='public graph that the generator starts from (with --form dp_sgd)')


def add_price_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Of ``cgt price``."""
    add = parser.add_argument
    add('--source', help=f'whose sizes to take, one of {", ".join(SOURCES)}')
    add('--num-nodes', type=int, help='instead of a source')
    add('--num-classes', type=int, help='instead of a source')
    add('--num-neighbors', type=int, nargs='+', default=[5, 5], metavar='S', help='(default: 5 5)')
    add('--largest-component', action='store_true', help='of the source')
    add_private_arguments(parser)
    add(
        '--noise',
        type=float,
        help='what noise of this many sensitivities costs; an epsilon then sets the sizes alone',
    )
    add('--json', action='store_true', help='print the ledger as JSON')


def add_benchmark_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Of ``cgt benchmark``."""
    add = parser.add_argument
    names = ', '.join(
        f'{e.scenario} ({e.name})' if e.scenario else e.name for e in EXPERIMENTS.values()
    )
    add('--scenario', required=True, help=f'comma-separated, of {names}')
    add('--datasets', help='comma-separated names (default: those of the paper)')
    add('--levels', help='comma-separated levels of the scenario (default: all)')
    add('--models', help='comma-separated names (default: those of the scenario)')
    add('--variants', help="comma-separated variants of the generator; '' is the default one")
    add('--seeds', type=int, default=1, help='number of seeds (default: %(default)s)')
    add('--k', type=int, default=30, help='minimum nodes per feature vector (default: %(default)s)')
    add('--epochs', type=int, help='of the generator (default: 1 to 25, by the size of the graph)')
    add('--jobs', type=int, default=1, help='processes (default: %(default)s)')
    add('--root', type=Path, help="where fitted models are kept (default: the user's cache)")
    add('--cells', type=Path, default=Path('cells.jsonl'), help='(default: %(default)s)')
    add('--quiet', action='store_true', help='no progress bar')


def add_audit_arguments(parser: argparse.ArgumentParser) -> None:
    r"""Of ``cgt audit``."""
    add = parser.add_argument
    add('release', type=Path, help='folder of the release')
    add('--source', required=True, help=f'what it was made from, one of {", ".join(SOURCES)}')
    add('--largest-component', action='store_true', help='drop all other components')
    add('--random-split', action='store_true', help='split 50/10/40 instead of the own masks')
    add('--root', type=Path, help="where fitted models are kept (default: the user's cache)")
    add('--checks', default=','.join(CHECKS), help='comma-separated (default: %(default)s)')
    add('--max-epsilon', type=float, help="held against attacks (default: the card's claim, or 1)")
    add('--min-support', type=int, help="roots that must show every path (default: the card's)")
    add(
        '--members',
        type=Path,
        help='.npy mask of the nodes the release was made from (default: build from a random half)',
    )
    add('--unit', choices=AUDITED, help='of membership (default: by the claim of the card)')
    add('--canaries', type=int, default=100, help='made-up records (default: %(default)s)')
    add('--records', type=int, default=2000, help='members to attack (default: %(default)s)')
    add('--seed', type=int, default=0, help='(default: %(default)s)')
    add('--device', default='auto', help='(default: %(default)s)')
    add('--out', type=Path, help='folder of the report (default: show it only)')
    add('--quiet', action='store_true', help='no progress bars')
