"""Runs modules of the tests in other processes."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, 'PYTHONPATH': str(ROOT), 'OMP_NUM_THREADS': '1'}


def in_a_process(module, *arguments, timeout=120, launch=()) -> subprocess.CompletedProcess:
    """Runs a module in one process."""
    return subprocess.run(
        [sys.executable, *launch, '-m', module, *map(str, arguments)],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def torchrun(module, *arguments, processes=2) -> subprocess.CompletedProcess:
    """Runs a module in several processes that form one world."""
    launch = ['-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', str(processes)]
    return in_a_process(module, *arguments, launch=launch)
