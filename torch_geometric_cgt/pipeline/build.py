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
    Raises an error if the promise does not declare the bounds of edge values.

    Args:
        source (Source): The checked source graph.
        config (BuildConfig): All parameters of the build.
    """
    check_declared_edges(source, config)
    declared = None if config.private is None else config.private.num_classes
    if declared is None or declared == source.num_classes:
        return source
    if declared < source.num_classes:
        raise SourceError(
            f"'num_classes' must be larger than the largest label of the source, "
            f'{source.num_classes - 1} (got {declared})'
        )
    return replace(source, num_classes=declared)


def check_declared_edges(source: Source, config: BuildConfig) -> None:
    r"""Raises an error unless a private promise declares the bounds of the edge
    values that a source has. Their smallest and largest value would be a leak.

    Args:
        source (Source): The checked source graph.
        config (BuildConfig): All parameters of the build.
    """
    if config.private is None or config.private.form == 'rows':  # the form rows has no edges
        return
    values, grid = source.edge_values(), config.private.edge_grid
    if values is not None and grid is None:
        name = values.form.names[0]
        raise SourceError(
            f'The source has {" and ".join(values.form.names)}, and a private build must not read '
            f'their range from it: declare it, e.g. DifferentialPrivacy(..., edge_bounds='
            f"{{'{name}': (0, 1)}}), or remove them from the source, e.g. data.{name} = None"
        )
    if grid is not None and values is None:
        raise SourceError(f"The source has no edge values (got 'edge_bounds' = {grid.bounds})")
    if grid is not None and values is not None:
        grid.check(values.form)


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
