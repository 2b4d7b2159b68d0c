r"""Looking at losses and the clock without holding up the device."""

from __future__ import annotations

import math
import time

import torch
from torch import Tensor

from torch_geometric_cgt.training.config import FitConfig
from torch_geometric_cgt.training.distributed import World

CHECK_EVERY = 25  # steps between two looks


class Watch:
    r"""Keeps losses where they are until it is time to look at them.

    Reading a loss waits for the device, and agreeing on it waits for the
    other processes. So both happen every few steps, and before a checkpoint.

    Args:
        config (FitConfig): How to train.
        world (World): The processes.
        device (torch.device): Where the losses are.
    """

    def __init__(self, config: FitConfig, world: World, device: torch.device) -> None:
        alone = device.type == 'cpu' and world.size == 1
        self.every = 1 if alone or config.checkpoint_minutes == 0 else CHECK_EVERY
        self.seconds = 60 * config.checkpoint_minutes
        self.world = world
        self.pending: list[Tensor] = []  # [loss, norm of the gradient] of each step
        self.saved_at = time.monotonic()

    def look(self) -> tuple[float, int | None]:
        r"""The sum of the losses of this process since the last look, and how
        many steps ago any process had one that is not finite.
        """
        values = torch.stack(self.pending).tolist() if self.pending else []
        self.pending.clear()
        age = max(
            (len(values) - i for i, pair in enumerate(values) if not all(map(math.isfinite, pair))),
            default=0,
        )
        age = max(self.world.gather(age))
        return sum(loss for loss, _ in values), age or None

    def is_due(self) -> bool:
        r"""Whether it is time for a checkpoint, by the clock of the first process."""
        return self.world.first(time.monotonic() - self.saved_at >= self.seconds)

    def saved(self) -> None:
        r"""Starts the time until the next checkpoint."""
        self.saved_at = time.monotonic()
