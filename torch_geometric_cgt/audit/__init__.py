r"""Audits of a release that can fail.

What is measured sees tensors alone; :mod:`.attacks`, :mod:`.run` and
:mod:`.audit` join it with sources, builds and releases. Nothing else of this
package imports audits.
"""

from torch_geometric_cgt.audit.attacks import Attacks, attack, audit_build, audit_canaries
from torch_geometric_cgt.audit.audit import CHECKS, run_audit
from torch_geometric_cgt.audit.canary import canary_audit, insert_canaries
from torch_geometric_cgt.audit.check import Audit, Check
from torch_geometric_cgt.audit.limit import Limit
from torch_geometric_cgt.audit.one_run import one_run_epsilon, one_run_p_value
from torch_geometric_cgt.audit.power import largest_bound, sharpest
from torch_geometric_cgt.audit.rebuild import claim_of, find_build, mechanism_on

__all__ = [
    'CHECKS',
    'Attacks',
    'Audit',
    'Check',
    'Limit',
    'attack',
    'audit_build',
    'audit_canaries',
    'canary_audit',
    'claim_of',
    'find_build',
    'insert_canaries',
    'largest_bound',
    'mechanism_on',
    'one_run_epsilon',
    'one_run_p_value',
    'run_audit',
    'sharpest',
]
