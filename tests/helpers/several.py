"""A build by the processes of torchrun: first one that fails in one of them, then a whole one."""

import sys
from pathlib import Path

import torch

from tests.helpers.graphs import random_graph
from torch_geometric_cgt import FitConfig, SyntheticCGTDataset
from torch_geometric_cgt.pipeline import KAnonymousPipeline
from torch_geometric_cgt.training import join_world, leave_world


def arguments(root) -> dict:
    return {
        'k': 10,
        'num_neighbors': [3, 2],
        'num_samples': 9000,  # three blocks
        'root': root,
        'device': 'cpu',
        'generator': {
            'hidden_channels': 16,
            'num_layers': 1,
            'num_heads': 2,
            'dropout': 0.0,
        },
        'fit': FitConfig(epochs=3, batch_size=32, checkpoint_minutes=0),
    }


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    world, quantize = join_world(), KAnonymousPipeline.quantize

    def fail(*_):
        raise RuntimeError('out of ideas')

    KAnonymousPipeline.quantize = fail
    try:
        SyntheticCGTDataset(random_graph(), **arguments(folder / 'root'), log=False)
        error = 'none'
    except Exception as caught:
        error = f'{type(caught).__name__}: {caught}'
    KAnonymousPipeline.quantize = quantize

    dataset = SyntheticCGTDataset(random_graph(), **arguments(folder / 'root'))
    again = SyntheticCGTDataset(random_graph(), **arguments(folder / 'root'))
    assert torch.equal(dataset.tokens, again.tokens)
    facts = {'error': error, 'y': dataset.trees.y, 'tokens': dataset.tokens}
    torch.save(facts, folder / f'{world.rank}.pt')
    leave_world()


if __name__ == '__main__':
    main(Path(sys.argv[1]))
