"""Builds that are killed at random moments, each then built to its end."""

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import torch

from tests.helpers.builds import promised
from tests.helpers.graphs import random_graph
from tests.helpers.several import arguments
from torch_geometric_cgt import SyntheticCGTDataset


def construct(root: Path) -> None:
    quick = promised(arguments(root), task_weight=0.0)  # all stages, without trials
    SyntheticCGTDataset(random_graph(), **quick, log=False)


def content(root: Path) -> dict[str, bytes]:
    files = [p for p in root.rglob('*') if p.is_file() and p.parent.name != 'odometer']
    return {str(p.relative_to(root)): p.read_bytes() for p in files}


def in_a_child(root: Path) -> int:
    child = os.fork()
    if child == 0:
        construct(root)
        os._exit(0)
    return child


def main(folder: Path, num_kills: int, seed: int) -> None:
    torch.set_num_threads(1)
    started = time.monotonic()
    construct(folder / 'whole')
    seconds = time.monotonic() - started
    whole, chance, cut = content(folder / 'whole'), random.Random(seed), 0
    for i in range(num_kills):
        root = folder / f'{i}'
        child = in_a_child(root)
        time.sleep(chance.uniform(0, 1.1 * seconds))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        cut += os.WIFSIGNALED(status)
        child = in_a_child(root)
        assert os.waitpid(child, 0)[1] == 0, f'kill {i}: the next construction failed'
        assert content(root) == whole, f'kill {i}: other bytes'
        shutil.rmtree(root)
    sys.stdout.write(f'{cut} of {num_kills} were killed in time\n')


if __name__ == '__main__':
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
