"""Several forced builds of one dataset at once, each in a process of its own."""

import os
import sys
from pathlib import Path

import torch

from tests.helpers.builds import plain
from tests.helpers.graphs import random_graph
from tests.helpers.several import arguments
from torch_geometric_cgt import FitConfig, SyntheticCGTDataset

QUICK = {'num_samples': 120, 'fit': FitConfig(epochs=1, batch_size=32)}


def main(root: Path, num_builds: int) -> None:
    torch.set_num_threads(1)
    ready, start = os.pipe()
    children = []
    for i in range(num_builds):
        child = os.fork()
        if child == 0:
            os.close(start)
            os.read(ready, 1)  # returns in all of them when the parent closes its end
            options = {**plain(arguments(root)), **QUICK, 'force_reload': True, 'log': False}
            dataset = SyntheticCGTDataset(random_graph(), **options)
            torch.save(dataset.tokens, root.parent / f'{i}.pt')
            os._exit(0)
        children.append(child)
    os.close(start)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.stdout.write(f'{codes}')


if __name__ == '__main__':
    main(Path(sys.argv[1]), int(sys.argv[2]))
