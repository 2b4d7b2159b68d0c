"""A build that may not write files of more than some size, and then may."""

import resource
import sys
from pathlib import Path

import torch

from tests.helpers.graphs import random_graph
from tests.helpers.several import arguments
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.errors import CGTError
from torch_geometric_cgt.pipeline import KAnonymousPipeline


def main(root: Path) -> None:
    torch.set_num_threads(1)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        SyntheticCGTDataset(random_graph(), **arguments(root), log=False)
    except CGTError as error:
        sys.stdout.write(f'{type(error).__name__}: {error}\n')
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    KAnonymousPipeline.quantize = None  # is not called again
    SyntheticCGTDataset(random_graph(), **arguments(root), log=False)
    sys.stdout.write('built\n')


if __name__ == '__main__':
    main(Path(sys.argv[1]))
