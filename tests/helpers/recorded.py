"""Builds whose bytes are recorded: the same seed must give the same bytes after a change.

Run ``python -m tests.helpers.recorded NAME ...`` to record builds on this machine. The file has a
part for each kind of processor and versions of packages, on which the last digits of floats depend.
A build that is recorded again is removed from all other parts, unless its bytes stayed the same.
"""

import hashlib
import importlib.metadata
import json
import platform
import sys
import tempfile
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits

from torch_geometric_cgt import DifferentialPrivacy, SyntheticCGTDataset
from torch_geometric_cgt.datasets import Cora, Digits
from torch_geometric_cgt.training import FitConfig
from torch_geometric_cgt.training.dp_sgd import DPSGDConfig

FILE = Path(__file__).parents[1] / 'recorded' / 'builds.json'
PACKAGES = ('torch', 'numpy', 'scikit-learn', 'k-means-constrained')
ONE_EPOCH = {'fit': FitConfig(epochs=1)}
FROZEN = {'unit': 'frozen_record'}
BUILDS = {  # source and arguments
    'digits, k=30, one epoch': (Digits, {'k': 30, **ONE_EPOCH}),
    'digits, epsilon=4, mixing': (
        Digits,
        {'privacy': DifferentialPrivacy(4.0, noise_seed=1)},
    ),
    'digits, epsilon=4, histograms': (
        Digits,
        {'privacy': DifferentialPrivacy(4.0, form='histograms', noise_seed=1, **FROZEN)},
    ),
    'digits, epsilon=4, dp_sgd, two epochs': (
        Digits,
        {
            'privacy': DifferentialPrivacy(
                4.0, form='dp_sgd', noise_seed=1, dp_sgd=DPSGDConfig(epochs=2), **FROZEN
            )
        },
    ),
    'cora, k=30, one epoch': (Cora, {'k': 30, **ONE_EPOCH}),
    'digits, k=30': (Digits, {'k': 30}),
    'digits, epsilon=4, dp_sgd': (
        Digits,
        {'privacy': DifferentialPrivacy(4.0, form='dp_sgd', noise_seed=1, **FROZEN)},
    ),
    'cora, k=30': (Cora, {'k': 30}),
}


def environment() -> dict[str, str]:
    """What the last digits of floating-point numbers depend on."""
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {'processor': _processor(), **versions}


def _processor() -> str:
    cpuinfo = Path('/proc/cpuinfo')
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith('model name'):
                return line.split(':', 1)[1].strip()
    return platform.processor() or platform.machine()


def digests(name: str, root: str | Path) -> dict:
    """Makes a build in one thread and returns what must not change."""
    source, arguments = BUILDS[name]
    torch.set_num_threads(1)
    with threadpool_limits(1):
        dataset = SyntheticCGTDataset(source(), root=root, log=False, device='cpu', **arguments)
    trees = dataset.trees
    tensors = {
        'tokens': trees.tokens.int(),
        'y': trees.y.long(),
        'split': trees.split.long(),
        'codebook': dataset.codebook.float(),
    }
    card = {k: v for k, v in dataset.card.items() if k not in ('created', 'versions')}
    return {**{k: digest(v) for k, v in tensors.items()}, 'card': json.loads(json.dumps(card))}


def digest(value: torch.Tensor) -> str:
    content = value.contiguous().view(-1).view(torch.uint8).numpy().tobytes()
    return hashlib.sha256(f'{list(value.shape)}'.encode() + content).hexdigest()[:32]


def recorded_builds() -> dict[str, dict]:
    """The builds that were recorded on machines like this one."""
    here = environment()
    parts = json.loads(FILE.read_text())
    return next((part['builds'] for part in parts if part['environment'] == here), {})


def main(names: list[str]) -> None:
    parts = json.loads(FILE.read_text()) if FILE.exists() else []
    here = environment()
    if not any(part['environment'] == here for part in parts):
        parts.append({'environment': here, 'builds': {}})
    (own,) = (part['builds'] for part in parts if part['environment'] == here)
    for name in names or BUILDS:
        with tempfile.TemporaryDirectory() as root:
            found = digests(name, root)
        if own.get(name) != found:
            for part in parts:
                part['builds'].pop(name, None)
        own[name] = found
        FILE.parent.mkdir(exist_ok=True)
        FILE.write_text(json.dumps(parts, indent=1, sort_keys=True) + '\n')
        print(name, 'recorded', file=sys.stderr)


if __name__ == '__main__':
    main(sys.argv[1:])
