r"""Names and defaults that the options of ``cgt`` show.

The modules that own these values import PyTorch and PyG, which takes seconds. The parser
reads the copies below instead, so that ``--help`` and wrong options answer at once. A test
compares every copy with the value of its owner.
"""

from __future__ import annotations

SOURCES = (
    'Digits',
    'Cora',
    'CiteSeer',
    'PubMed',
    'Computers',
    'Photo',
    'CS',
    'Physics',
    'OgbnArxiv',
    'OgbnProducts',
)
MODELS = ('GCN', 'SGC', 'GIN', 'GAT')
EXPERIMENTS = {  # the number of each experiment in the paper
    'aggregation': '1',
    'sampling': '2',
    'number': '3',
    'shift': '4',
    'link': None,
    'ablation': None,
    'exchange': None,
    'statistics': None,
    'control': None,
    'privacy': None,
    'baselines': None,
}
CHECKS = ('groups', 'support', 'copies', 'closest', 'membership', 'attribute', 'canary')
AUDIT_UNITS = ('node', 'record')
UNITS = ('record', 'edge', 'node')
FORMS = ('auto', 'histograms', 'dp_sgd')
PRECISIONS = ('float32', 'bfloat16')

# Defaults of FitConfig and of DifferentialPrivacy.
BATCH_SIZE = 128
PRECISION = 'float32'
ACCUMULATE = 1
CHECKPOINT_MINUTES = 5.0
MAX_PARENTS = 2
