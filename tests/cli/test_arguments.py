"""The parser's copies of names and defaults agree with the modules that own them."""

import pytest

from torch_geometric_cgt import DifferentialPrivacy, FitConfig
from torch_geometric_cgt.audit import CHECKS, neighbours
from torch_geometric_cgt.benchmark import MODELS
from torch_geometric_cgt.benchmark.experiments import EXPERIMENTS
from torch_geometric_cgt.cli import arguments, promise_arguments, source_arguments
from torch_geometric_cgt.datasets import SOURCES, column_encoding
from torch_geometric_cgt.pipeline.promise import FORMS
from torch_geometric_cgt.privacy import UNITS
from torch_geometric_cgt.release import EXPORT_FORMATS
from torch_geometric_cgt.training.config import PRECISIONS
from torch_geometric_cgt.utils import limits

OWNED = {
    'SOURCES': tuple(SOURCES),
    'MODELS': MODELS,
    'EXPERIMENTS': {e.name: e.scenario for e in EXPERIMENTS.values()},
    'CHECKS': CHECKS,
    'AUDIT_UNITS': neighbours.SPLIT_UNITS,
    'UNITS': UNITS,
    'FORMS': FORMS,
    'PRECISIONS': PRECISIONS,
    'MISSING': column_encoding.MISSING_RULES,
    'MAX_VALUES': column_encoding.MAX_VALUES,
    'EXPORT_FORMATS': EXPORT_FORMATS,
    'BATCH_SIZE': FitConfig.batch_size,
    'PRECISION': FitConfig.precision,
    'ACCUMULATE': FitConfig.accumulate,
    'CHECKPOINT_MINUTES': FitConfig.checkpoint_minutes,
    'MAX_RELEASE_BYTES': limits.MAX_RELEASE_BYTES,
    'MAX_PARENTS': DifferentialPrivacy.max_parents,
    'EDGE_BINS': DifferentialPrivacy.edge_bins,
}
COPIES = [
    (module, name)
    for module in (arguments, promise_arguments, source_arguments)
    for name in vars(module)
    if name.isupper() and name != 'TYPE_CHECKING'
]


@pytest.mark.parametrize('module, name', COPIES, ids=[name for _, name in COPIES])
def test_a_copy_agrees_with_its_owner(module, name):
    assert repr(getattr(module, name)) == repr(OWNED[name])  # in the same order
