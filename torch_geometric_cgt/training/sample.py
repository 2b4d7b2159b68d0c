r"""Samples any number of token trees from a fitted model, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.utils.devices import to_device
from torch_geometric_cgt.utils.progress import Log, progress_bar
from torch_geometric_cgt.utils.seeds import seeded

BLOCK = 4096  # trees per block; another size gives other trees for the same seed


class SamplesTrees(Protocol):
    r"""A model that samples token trees, given labels and scenes."""

    shape: TreeShape

    def sample(
        self, y: Tensor, generator: torch.Generator | None, scene: Tensor | None
    ) -> Tensor: ...

    def to(self, device: Any) -> Any: ...


def sample(
    generator: SamplesTrees,
    y: Tensor,
    seed: int = 0,
    batch_size: int = BLOCK,
    device: torch.device | str = 'cpu',
    log: Log = True,
    scene: Tensor | None = None,
) -> Tensor:
    r"""Samples one token tree per label.

    Args:
        generator (SamplesTrees): The fitted model.
        y (torch.Tensor): The labels of the roots, ``[n]``.
        seed (int, optional): The seed of all samples. (default: :obj:`0`)
        batch_size (int, optional): Trees per block; a part of what
            :obj:`seed` determines. (default: :obj:`4096`)
        device (torch.device or str, optional): Where to sample.
            (default: :obj:`"cpu"`)
        log (bool, optional): Whether to show a progress bar.
            (default: :obj:`True`)
        scene (torch.Tensor, optional): The scenes of the roots, ``[n]``;
            needed by models that are conditioned on them.
            (default: :obj:`None`)

    Returns:
        Token trees ``[n, T]`` of type int32, on the CPU.
    """
    blocks = range(-(-y.numel() // batch_size))
    drawn = [torch.empty(0, generator.shape.num_slots, dtype=torch.int32)]
    for _, tokens in sample_blocks(generator, y, blocks, seed, batch_size, device, log, scene):
        drawn.append(tokens)
    return torch.cat(drawn)


def sample_blocks(
    generator: SamplesTrees,
    y: Tensor,
    blocks: Sequence[int],
    seed: int = 0,
    batch_size: int = BLOCK,
    device: torch.device | str = 'cpu',
    log: Log = True,
    scene: Tensor | None = None,
) -> Iterator[tuple[int, Tensor]]:
    r"""Samples some blocks of the trees that :meth:`sample` returns.

    Each block has its own seed, so the trees of a block do not depend on
    which process samples it, nor on the order of the blocks.

    Args:
        generator (SamplesTrees): The fitted model.
        y (torch.Tensor): The labels of the roots of all blocks, ``[n]``.
        blocks (list[int]): The indices of the blocks.
        seed (int, optional): The seed of all samples. (default: :obj:`0`)
        batch_size (int, optional): Trees per block, see :meth:`sample`.
            (default: :obj:`4096`)
        device (torch.device or str, optional): Where to sample.
            (default: :obj:`"cpu"`)
        log (bool, optional): Whether to show a progress bar.
            (default: :obj:`True`)
        scene (torch.Tensor, optional): The scenes of the roots, ``[n]``.
            (default: :obj:`None`)

    Returns:
        An iterator over the index and the trees of each block.
    """
    scene = torch.zeros_like(y) if scene is None else scene
    generator.to(device)
    rows = [slice(block * batch_size, (block + 1) * batch_size) for block in blocks]
    total = sum(y[part].numel() for part in rows)
    with progress_bar(log, total, 'sample', 'graphs') as bar:
        for block, part in zip(blocks, rows, strict=True):
            rng = seeded(seed, 'sample', block, device=device)
            given = [to_device(value[part], device) for value in (y, scene)]
            tokens = generator.sample(given[0], rng, given[1])
            yield block, tokens.int().cpu()
            bar.update(tokens.size(0))
