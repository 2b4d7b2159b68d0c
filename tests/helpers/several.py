"""A build by several processes: one that fails in the second process, or a whole one."""

import importlib
import sys
from pathlib import Path

import torch

from tests.helpers.graphs import random_graph
from torch_geometric_cgt import FitConfig, SyntheticCGTDataset
from torch_geometric_cgt.quantizer import FlowKMeans
from torch_geometric_cgt.training import join_world, leave_world

fit = importlib.import_module('torch_geometric_cgt.training.fit')


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


def fail_at(call: int, function):
    """A function whose call of this number fails in the second process."""
    calls = []

    def failing(*args, **kwargs):
        calls.append(1)
        if len(calls) == call and join_world().rank == 1:
            raise RuntimeError('out of ideas')
        return function(*args, **kwargs)

    return failing


def main(folder: Path, plan: str) -> None:
    torch.set_num_threads(1)
    world = join_world()
    if plan == 'quantize':  # in the second trial of this process, while the first one tries others
        FlowKMeans.fit = fail_at(2, FlowKMeans.fit)
    elif plan == 'fit':
        fit.train_step = fail_at(5, fit.train_step)
    dataset = SyntheticCGTDataset(random_graph(), **arguments(folder / 'root'))
    again = SyntheticCGTDataset(random_graph(), **arguments(folder / 'root'))
    assert torch.equal(dataset.tokens, again.tokens)
    facts = {'y': dataset.trees.y, 'tokens': dataset.tokens, 'codebook': dataset.codebook}
    torch.save(facts, folder / f'{world.rank}.pt')
    leave_world()


if __name__ == '__main__':
    main(Path(sys.argv[1]), sys.argv[2])
