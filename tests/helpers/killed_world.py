"""Builds by two processes. One of them is killed at a random moment, and the build resumed."""

import os
import random
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

import torch

from tests.helpers.graphs import random_graph
from tests.helpers.killed import content
from tests.helpers.several import arguments
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.training import join_world

K = 10


def construct(root: Path) -> None:
    torch.set_num_threads(1)
    dataset = SyntheticCGTDataset(random_graph(), **{**arguments(root), 'k': K}, log=False)
    assert dataset.privacy.k == K and dataset.card['privacy']['k_reached'] >= K
    assert len(dataset.trees) == 9000


def start(root: Path, size: int) -> list[int]:
    """The processes of a world, which are copies of this one."""
    with socket.socket() as free:
        free.bind(('localhost', 0))
        port = free.getsockname()[1]
    children = []
    for rank in range(size):
        child = os.fork()
        if child == 0:
            world = {'RANK': rank, 'LOCAL_RANK': rank, 'WORLD_SIZE': size}
            world |= {'MASTER_ADDR': 'localhost', 'MASTER_PORT': port}
            os.environ.update({name: str(value) for name, value in world.items()})
            code = 1
            try:
                join_world()
                root.with_name(f'{root.name}-joined-{rank}').touch()
                construct(root)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    return children


def codes(children: list[int]) -> list[int]:
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def main(folder: Path, others: list[int]) -> None:
    started = time.monotonic()
    assert codes(start(folder / 'whole', 2)) == [0, 0]
    seconds = time.monotonic() - started
    whole, chance = content(folder / 'whole'), random.Random(len(others))
    for i, size in enumerate(others):
        root = folder / f'{i}'
        children = start(root, 2)
        while not all((folder / f'{i}-joined-{rank}').exists() for rank in range(2)):
            time.sleep(0.05)
        time.sleep(chance.uniform(0, 0.7 * seconds))
        victim = chance.randrange(2)
        os.kill(children[victim], signal.SIGKILL)
        killed = time.monotonic()
        ended = codes(children)
        assert ended == [0, 0] or ended[victim] == -signal.SIGKILL, ended
        assert time.monotonic() - killed < 60
        assert codes(start(root, size)) == [0] * size, f'kill {i}: the next construction failed'
        assert size != 2 or content(root) == whole, f'kill {i}: other bytes'
        shutil.rmtree(root)
        if ended != [0, 0]:  # else it was done before
            sys.stdout.write(f'process {victim} killed, then {size} processes\n')


if __name__ == '__main__':
    main(Path(sys.argv[1]), [int(size) for size in sys.argv[2:]])
