r"""The function that builds a source graph with the pipeline of its promise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.pipeline.config import BuildConfig
from torch_geometric_cgt.pipeline.k_anonymous import KAnonymousPipeline
from torch_geometric_cgt.pipeline.pipeline import Build, Pipeline
from torch_geometric_cgt.pipeline.private import PrivatePipeline
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.training import World


def build(
    source: Source,
    config: BuildConfig,
    work: Path,
    device: torch.device | None = None,
    log: bool = True,
    world: World | None = None,
    belongs_to: str = '',
) -> Build | None:
    r"""Runs all stages of a build. The arguments are those of
    :class:`~torch_geometric_cgt.pipeline.pipeline.Pipeline`.

    Returns:
        The build in the first process, :obj:`None` in the others.
    """
    kind: type[Pipeline] = KAnonymousPipeline if config.private is None else PrivatePipeline
    source = with_declared_labels(source, config)
    return kind(source, config, work, device, log, world, belongs_to).run()


def with_declared_labels(source: Source, config: BuildConfig) -> Source:
    r"""The source with the declared number of labels, if the promise declares one.

    Args:
        source (Source): The checked source graph.
        config (BuildConfig): All parameters of the build.
    """
    declared = None if config.private is None else config.private.num_classes
    if declared is None or declared == source.num_classes:
        return source
    if declared < source.num_classes:
        raise SourceError(
            f"'num_classes' must be larger than the largest label of the source, "
            f'{source.num_classes - 1} (got {declared})'
        )
    return replace(source, num_classes=declared)
