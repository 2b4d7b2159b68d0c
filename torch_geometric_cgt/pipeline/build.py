r"""The function that builds a source graph with the pipeline of its promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.pipeline.config import BuildConfig
from torch_geometric_cgt.pipeline.k_anonymous import KAnonymousPipeline
from torch_geometric_cgt.pipeline.pipeline import Build, Pipeline
from torch_geometric_cgt.pipeline.private import PrivatePipeline
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.privacy import Ledger
from torch_geometric_cgt.utils.distributed import World
from torch_geometric_cgt.utils.run_limits import Limits


def build(
    source: Source,
    config: BuildConfig,
    work: Path,
    device: torch.device | None = None,
    log: bool = True,
    world: World | None = None,
    belongs_to: str = '',
    register: Callable[[Ledger | None], None] | None = None,
    limits: Limits | None = None,
) -> Build | None:
    r"""Runs all stages of a build. The arguments are those of
    :class:`~torch_geometric_cgt.pipeline.pipeline.Pipeline`.

    Returns:
        The build in the first process, :obj:`None` in the others.
    """
    kind: type[Pipeline] = KAnonymousPipeline if config.private is None else PrivatePipeline
    source = with_declared_labels(source, config)
    return kind(source, config, work, device, log, world, belongs_to, register, limits).run()


def with_declared_labels(source: Source, config: BuildConfig) -> Source:
    r"""The source with the declared number of labels, if the promise declares one.
    Edge values that a private promise does not declare are left out.

    Args:
        source (Source): The checked source graph.
        config (BuildConfig): All parameters of the build.
    """
    source = with_declared_edges(source, config)
    declared = None if config.private is None else config.private.num_classes
    if declared is None or declared == source.num_classes:
        return source
    if declared < source.num_classes:
        raise SourceError(
            f"'num_classes' must be larger than the largest label of the source, "
            f'{source.num_classes - 1} (got {declared})'
        )
    return replace(source, num_classes=declared)


def with_declared_edges(source: Source, config: BuildConfig) -> Source:
    r"""The source with its edge values, if the promise allows to read them. A private
    build needs declared bounds, because the smallest and the largest value would be
    a leak. Without bounds, edge values are not carried over.

    Args:
        source (Source): The checked source graph.
        config (BuildConfig): All parameters of the build.
    """
    values = source.edge_values()
    grid = None if config.private is None else config.private.edge_grid
    if grid is not None and values is None:
        raise SourceError(f"The source has no edge values (got 'edge_bounds' = {grid.bounds})")
    if grid is not None and values is not None:
        grid.check(values.form)
    if config.private is None or grid is not None or values is None:
        return source
    bare = replace(source.bare(), split=source.split)
    return replace(bare, not_carried=(*source.not_carried, *values.form.names))
