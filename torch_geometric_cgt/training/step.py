r"""One step of the optimiser, over the parts of a batch."""

from __future__ import annotations

from contextlib import ExitStack

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from torch_geometric_cgt.training.batches import Batch
from torch_geometric_cgt.training.config import FitConfig
from torch_geometric_cgt.training.device import seed_global
from torch_geometric_cgt.training.distributed import World
from torch_geometric_cgt.training.loss import batch_loss
from torch_geometric_cgt.utils.seeds import derive_seed


def train_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    parts: list[Batch],
    config: FitConfig,
    dropout_seed: int,
    world: World,
    device: torch.device,
) -> Tensor:
    r"""Follows the gradient of the mean over all counted tokens of a batch,
    however they are spread over processes and micro-batches.

    Args:
        model (torch.nn.Module): The generator, wrapped where several
            processes train it.
        optimizer (torch.optim.Optimizer): The optimiser of its weights.
        parts (list[Batch]): The micro-batches of this process.
        config (FitConfig): How to train.
        dropout_seed (int): The seed of dropout in this step and process.
        world (World): The processes.
        device (torch.device): Where to train.

    Returns:
        The summed loss of this process, and the norm of the gradient.
    """
    share: Tensor | float = sum(part.count for part in parts)
    if world.size > 1:  # gradients are averaged over processes
        share = world.sum(torch.tensor(share, device=device)) / world.size
    nll = torch.zeros((), device=device)
    optimizer.zero_grad()
    for i, part in enumerate(parts):
        seed_global(derive_seed(dropout_seed, i), device)
        with ExitStack() as stack:
            if isinstance(model, DistributedDataParallel) and i + 1 < len(parts):
                stack.enter_context(model.no_sync())  # one exchange of gradients per step
            with torch.autocast(
                device.type, torch.bfloat16, enabled=config.precision == 'bfloat16'
            ):
                loss = batch_loss(model, part.to(device))
            (loss * (part.count / share)).backward()
        nll += loss.detach() * part.count
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
    optimizer.step()
    return torch.stack([nll, norm])
