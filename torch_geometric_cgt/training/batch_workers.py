r"""Worker processes that sample and plan the next batches of a fit."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from torch_geometric_cgt.training.batches import Batch, Batches


class _Steps(Dataset):
    r"""The batches of the steps of an epoch. A batch travels as bytes: as tensors in shared
    memory, its parts would need dozens of open files.
    """

    def __init__(self, batches: Batches, order: Tensor, epoch: int) -> None:
        self.batches, self.order, self.epoch = batches, order, epoch

    def __getitem__(self, step: int) -> bytes:
        parts = self.batches.parts(self.order, self.epoch, step)
        return pickle.dumps([part.map(Tensor, Tensor.numpy) for part in parts], protocol=5)


def planned_steps(
    batches: Batches, order: Tensor, epoch: int, first: int = 0
) -> Iterator[list[Batch]]:
    r"""The micro-batches of this process in each step of an epoch. With
    :obj:`FitConfig(num_workers=...)`, worker processes make them in advance.
    Batches are a pure function of seed, epoch and step, so that they are the same
    for any number of workers.

    Args:
        batches (Batches): The batches of the fit.
        order (torch.Tensor): What :meth:`Batches.order` returned for the epoch.
        epoch (int): The epoch.
        first (int, optional): The first step. (default: :obj:`0`)
    """
    steps = range(first, batches.num_steps)
    workers = min(batches.config.num_workers, len(steps))
    if workers == 0:
        for step in steps:
            yield batches.parts(order, epoch, step)
        return
    loader = DataLoader(
        _Steps(batches, order, epoch),
        batch_size=None,
        sampler=steps,
        num_workers=workers,
        multiprocessing_context='fork',
        generator=torch.Generator(),  # leaves the global state of randomness alone
    )
    for content in loader:
        parts = pickle.loads(content)  # by a worker of this process
        yield [part.map(np.ndarray, torch.from_numpy) for part in parts]
