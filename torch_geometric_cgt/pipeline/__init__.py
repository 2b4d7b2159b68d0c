r"""From a source graph to a build: promises, configuration, stages and the runner."""

from torch_geometric_cgt.pipeline.build import build, with_declared_labels
from torch_geometric_cgt.pipeline.config import BuildConfig
from torch_geometric_cgt.pipeline.k_anonymous import KAnonymousPipeline
from torch_geometric_cgt.pipeline.pipeline import Build, Pipeline, Stage
from torch_geometric_cgt.pipeline.private import PrivatePipeline
from torch_geometric_cgt.pipeline.promise import (
    DifferentialPrivacy,
    KAnonymity,
    PrivateClusters,
    Promise,
)
from torch_geometric_cgt.pipeline.source import Source, check_source

__all__ = [
    'Build',
    'BuildConfig',
    'DifferentialPrivacy',
    'KAnonymity',
    'KAnonymousPipeline',
    'Pipeline',
    'PrivateClusters',
    'PrivatePipeline',
    'Promise',
    'Source',
    'Stage',
    'build',
    'check_source',
    'with_declared_labels',
]
