"""Builds: what their folder holds, their arguments, and what they learn from."""

from dataclasses import replace
from pathlib import Path

import torch

from torch_geometric_cgt import KAnonymity
from torch_geometric_cgt.pipeline import PrivatePipeline


def builds(root: Path) -> list[Path]:
    """All builds and working folders, but not the folder of locks."""
    return sorted(path for path in Path(root).iterdir() if path.name != '.locks')


def promised(arguments: dict, **promise) -> dict:
    """Arguments of a dataset with further parameters of k-anonymity."""
    rest = {name: value for name, value in arguments.items() if name != 'k'}
    return {**rest, 'privacy': KAnonymity(arguments['k'], **promise)}


def drawn_trees(pipeline: PrivatePipeline) -> torch.Tensor:
    """The computation graphs that a private pipeline learns from."""
    drawn = []
    pipeline.prepare()
    fit = next(stage for stage in pipeline.stages() if stage.name == 'fit')
    look = replace(fit, run=lambda: drawn.append(pipeline.draw_trees()), take=None)
    pipeline.run_stage(look)
    return drawn[0]


def damage(path: Path, how: str) -> None:
    """Truncates or removes a file, or flips a bit of it."""
    content = path.read_bytes()
    middle = len(content) // 2
    if how == 'remove':
        path.unlink()
    elif how == 'truncate':
        path.write_bytes(content[:middle])
    else:
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
