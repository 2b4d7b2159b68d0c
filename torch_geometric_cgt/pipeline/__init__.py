r"""From a source graph to a build: promises, configuration, stages and the runner."""

from torch_geometric_cgt.pipeline.accounts import Account, CountedBuild
from torch_geometric_cgt.pipeline.build import build, with_declared_labels
from torch_geometric_cgt.pipeline.config import BuildConfig, cache_name
from torch_geometric_cgt.pipeline.k_anonymous import KAnonymousPipeline
from torch_geometric_cgt.pipeline.odometer import Odometer, Spending
from torch_geometric_cgt.pipeline.pipeline import Build, Pipeline, Stage
from torch_geometric_cgt.pipeline.private import PrivatePipeline
from torch_geometric_cgt.pipeline.promise import (
    DifferentialPrivacy,
    KAnonymity,
    PrivateClusters,
    Promise,
)
from torch_geometric_cgt.pipeline.source import Source, check_source
from torch_geometric_cgt.utils.run_limits import Limits

__all__ = [
    'Account',
    'Build',
    'BuildConfig',
    'CountedBuild',
    'DifferentialPrivacy',
    'KAnonymity',
    'KAnonymousPipeline',
    'Limits',
    'Odometer',
    'Pipeline',
    'PrivateClusters',
    'PrivatePipeline',
    'Promise',
    'Source',
    'Spending',
    'Stage',
    'build',
    'cache_name',
    'check_source',
    'with_declared_labels',
]
