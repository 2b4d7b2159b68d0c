r"""The function that builds a source graph with the pipeline of its promise, and build names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.pipeline.k_anonymous import KAnonymousPipeline
from torch_geometric_cgt.pipeline.pipeline import Build, BuildConfig, Pipeline
from torch_geometric_cgt.pipeline.private import PrivatePipeline
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.privacy import Ledger
from torch_geometric_cgt.utils.distributed import World
from torch_geometric_cgt.version import __version__


def build(
    source: Source,
    config: BuildConfig,
    work: Path,
    device: torch.device | None = None,
    log: bool = True,
    world: World | None = None,
    belongs_to: str = '',
    register: Callable[[Ledger | None], None] | None = None,
) -> Build | None:
    r"""Runs all stages of a build. The arguments are those of
    :class:`~torch_geometric_cgt.pipeline.pipeline.Pipeline`.

    Returns:
        The build in the first process, :obj:`None` in the others.
    """
    kind: type[Pipeline] = KAnonymousPipeline if config.private is None else PrivatePipeline
    source = with_declared_labels(source, config)
    return kind(source, config, work, device, log, world, belongs_to, register).run()


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


def cache_name(source: Source, config: BuildConfig) -> str:
    r"""The folder name of a build. It contains a digest of the source, of all
    parameters and of the version of this package, but not of the device.

    Args:
        source (Source): The checked source graph.
        config (BuildConfig): All parameters of the build.
    """
    recipe: dict[str, Any] = {
        'source': source.fingerprint(),
        'config': config.to_dict(),
        'version': __version__,
    }
    if source.not_carried:  # the card names them
        recipe['not_carried'] = list(source.not_carried)
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:16]
    fan_outs = 'x'.join(map(str, config.num_neighbors))
    safe_name = ''.join(c if c.isalnum() else '_' for c in source.name)
    private = config.private
    if private is None:
        promise = f'k{config.k_anonymity.k}'
    else:
        promise = f'e{private.epsilon:g}-{private.unit}'
    return f'{safe_name}-{promise}-s{fan_outs}-{digest}'
