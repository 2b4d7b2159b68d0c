r"""Sampling any number of token trees, by one process or several."""

from __future__ import annotations

import torch
from torch import Tensor
from tqdm import tqdm

from torch_geometric_cgt.errors import DistributedError
from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.training.distributed import World
from torch_geometric_cgt.training.seeds import seeded


def sample(
    generator: CGTGenerator,
    y: Tensor,
    seed: int = 0,
    batch_size: int = 4096,
    device: torch.device | str = 'cpu',
    log: bool = True,
    scene: Tensor | None = None,
    world: World | None = None,
) -> Tensor:
    r"""Draws one token tree per label.

    Each batch has a seed of its own, so that the trees do not depend on the
    number of processes that share the batches.

    Args:
        generator (CGTGenerator): The fitted model.
        y (torch.Tensor): The labels of the roots, ``[n]``.
        seed (int, optional): The seed of the draws. (default: :obj:`0`)
        batch_size (int, optional): Trees per batch. (default: :obj:`4096`)
        device (torch.device or str, optional): Where to sample.
            (default: :obj:`"cpu"`)
        log (bool, optional): Whether to show a progress bar.
            (default: :obj:`True`)
        scene (torch.Tensor, optional): The scenes of the roots, ``[n]``;
            needed by models that are conditioned on them.
            (default: :obj:`None`)
        world (World, optional): The processes that share the work. By
            default, this process alone. (default: :obj:`None`)

    Returns:
        Token trees ``[n, T]`` of type int32, on the CPU of the first process;
        the other processes get none, ``[0, T]``.
    """
    world = world or World()
    scene = torch.zeros_like(y) if scene is None else scene
    generator.to(device)
    blocks = torch.arange(y.numel()).split(batch_size)
    own = list(range(len(blocks)))[world.rank :: world.size]
    drawn = [torch.empty(0, generator.shape.num_slots, dtype=torch.int32)]
    hide = not (log and world.is_first)
    total = sum(blocks[block].numel() for block in own)
    with tqdm(total=total, desc='sample', unit='graph', disable=hide) as bar:
        for block in own:
            rows, rng = blocks[block], seeded(seed, 'sample', block, device=device)
            tokens = generator.sample(y[rows].to(device), rng, scene[rows].to(device))
            drawn.append(tokens.int().cpu())
            bar.update(rows.numel())
    return _bring_together(torch.cat(drawn), own, blocks, world)


def _bring_together(
    tokens: Tensor, own: list[int], blocks: tuple[Tensor, ...], world: World
) -> Tensor:
    r"""All rows in the order of their blocks on the first process, if every
    block was drawn once, and whole.
    """
    if world.size == 1:
        return tokens
    shards = world.gather((own, tokens.size(0)))
    drawn = [block for shard, _ in shards for block in shard]
    expected = [sum(blocks[block].numel() for block in shard) for shard, _ in shards]
    if sorted(drawn) != list(range(len(blocks))) or expected != [size for _, size in shards]:
        raise DistributedError(
            f'{world.size} processes drew blocks {[shard for shard, _ in shards]} of '
            f'{len(blocks)}, {[size for _, size in shards]} trees: some are missing or there twice'
        )
    parts = world.collect(tokens, expected)
    if not world.is_first:
        return tokens[:0]
    rows = torch.cat([blocks[block] for block in drawn])
    return torch.cat(parts)[rows.argsort()]
