r"""Audits of a release: checks of its card, and attacks on the way it was made.

:meth:`run_audit` runs all checks. :mod:`.anonymity` and :mod:`.similarity`
measure the release itself; :mod:`.membership`, :mod:`.attribute` and
:mod:`.canaries` evaluate attacks, which :mod:`.attacks` runs on new builds;
:mod:`.attack_limit` says what a claim allows them to show.
"""

from torch_geometric_cgt.audit.attack_limit import Limit, sharpest
from torch_geometric_cgt.audit.attacks import Attacks, attack, audit_build, audit_canaries
from torch_geometric_cgt.audit.canaries import canary_audit, insert_canaries
from torch_geometric_cgt.audit.check import Audit, Check
from torch_geometric_cgt.audit.epsilon_bounds import (
    largest_bound,
    one_run_epsilon,
    one_run_p_value,
)
from torch_geometric_cgt.audit.rebuild import claim_of, find_build, mechanism_on
from torch_geometric_cgt.audit.release_audit import CHECKS, run_audit

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
