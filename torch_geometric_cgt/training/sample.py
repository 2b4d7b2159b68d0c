r"""Sampling any number of token trees in batches."""

from __future__ import annotations

import torch
from torch import Tensor
from tqdm import tqdm

from torch_geometric_cgt.nn import CGTGenerator


def sample(
    generator: CGTGenerator,
    y: Tensor,
    seed: int = 0,
    batch_size: int = 4096,
    device: torch.device | str = 'cpu',
    log: bool = True,
    split: Tensor | None = None,
) -> Tensor:
    r"""Draws one token tree per label.

    Args:
        generator (CGTGenerator): The fitted model.
        y (torch.Tensor): The labels of the roots, ``[n]``.
        seed (int, optional): The seed of the draws. (default: :obj:`0`)
        batch_size (int, optional): Trees per batch. (default: :obj:`4096`)
        device (torch.device or str, optional): Where to sample.
            (default: :obj:`"cpu"`)
        log (bool, optional): Whether to show a progress bar.
            (default: :obj:`True`)
        split (torch.Tensor, optional): The split codes of the roots, ``[n]``;
            needed by models that are conditioned on them.
            (default: :obj:`None`)

    Returns:
        Token trees ``[n, T]`` of type int32, on the CPU.
    """
    if split is None:
        split = torch.zeros_like(y)
    generator.to(device)
    rng = torch.Generator(device).manual_seed(seed)
    tokens = torch.empty(y.numel(), generator.shape.num_slots, dtype=torch.int32)
    with tqdm(total=y.numel(), desc='sample', unit='graph', disable=not log) as bar:
        for rows in torch.arange(y.numel()).split(batch_size):
            drawn = generator.sample(y[rows].to(device), rng, split[rows].to(device))
            tokens[rows] = drawn.int().cpu()
            bar.update(rows.numel())
    return tokens
