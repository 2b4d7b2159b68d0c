r"""The loss of a batch, and the mean loss of any number of trees."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.training.batches import Batch, make_batch
from torch_geometric_cgt.training.distributed import World


def batch_loss(model: nn.Module, batch: Batch) -> Tensor:
    r"""The mean negative log-likelihood per counted token of a batch.

    Args:
        model (torch.nn.Module): The generator, or a compiled or distributed
            wrapper of it.
        batch (Batch): Token trees, on the device of the model.
    """
    return model(batch.tokens, batch.y, batch.scene, batch.plan)


@torch.no_grad()
def evaluate(
    generator: CGTGenerator,
    tokens: Tensor,
    y: Tensor,
    scene: Tensor | None = None,
    batch_size: int = 512,
    world: World | None = None,
) -> float:
    r"""The mean negative log-likelihood per counted token of some trees.

    Args:
        generator (CGTGenerator): The model; it is left in evaluation mode.
        tokens (torch.Tensor): Token trees, ``[n, T]``.
        y (torch.Tensor): The labels of the roots, ``[n]``.
        scene (torch.Tensor, optional): The scenes of the roots, ``[n]``.
            (default: :obj:`None`)
        batch_size (int, optional): Trees per batch. (default: :obj:`512`)
        world (World, optional): Processes that share the work; all of them
            must pass all trees. (default: :obj:`None`)
    """
    world = world or World()
    generator.eval()
    device = next(generator.parameters()).device
    if scene is None:
        scene = torch.zeros_like(y)
    log_prob = torch.zeros(y.numel(), device=device)
    for rows in torch.arange(y.numel()).split(batch_size)[world.rank :: world.size]:
        part = make_batch(generator, tokens[rows], y[rows], scene[rows]).to(device)
        values = generator.log_prob(part.tokens, part.y, part.scene, part.plan)
        log_prob[rows.to(device)] = values.float()
    # The order of the sum does not depend on the number of processes.
    total = world.sum(log_prob).cpu().double().sum()
    return -float(total) / int(generator.counted_slots(tokens).sum())
