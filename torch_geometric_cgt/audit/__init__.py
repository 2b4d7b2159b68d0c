r"""Audits of a release: checks of its card, and attacks on the way it was made.

:meth:`run_audit` runs all checks. :mod:`.anonymity` and :mod:`.similarity`
measure the release itself. :mod:`.residuals` and :mod:`.sensitivity` test the
ledger of a private build on its answers. :mod:`.membership`, :mod:`.risks`,
:mod:`.rebuild` and :mod:`.canaries` evaluate attacks, which :mod:`.attacks`
runs on new builds.
:mod:`.codebook_attack` needs the codebook alone. :mod:`.attack_limit`
says what a claim allows them to show.
"""

from torch_geometric_cgt.audit.attack_limit import Limit
from torch_geometric_cgt.audit.attacks import Attacks, attack, audit_build, audit_canaries
from torch_geometric_cgt.audit.canaries import canary_audit, insert_canaries
from torch_geometric_cgt.audit.check import Accusation, Audit, Check
from torch_geometric_cgt.audit.codebook_attack import (
    CodebookAttack,
    attack_codebook,
    codebook_scores,
    feature_kind,
)
from torch_geometric_cgt.audit.epsilon_bounds import ClaimFamily, GaussianFamily, one_run_bound
from torch_geometric_cgt.audit.neighbours import neighbour_of
from torch_geometric_cgt.audit.rebuild import claim_of, find_build, mechanism_on
from torch_geometric_cgt.audit.release_audit import CHECKS, run_audit
from torch_geometric_cgt.audit.replay import LedgerAnswer
from torch_geometric_cgt.audit.residuals import audit_noise
from torch_geometric_cgt.audit.sensitivity import (
    audit_sensitivity,
    largest_changes,
    real_neighbours,
)

__all__ = [
    'CHECKS',
    'Accusation',
    'Attacks',
    'Audit',
    'Check',
    'ClaimFamily',
    'CodebookAttack',
    'GaussianFamily',
    'LedgerAnswer',
    'Limit',
    'attack',
    'attack_codebook',
    'audit_build',
    'audit_canaries',
    'audit_noise',
    'audit_sensitivity',
    'canary_audit',
    'claim_of',
    'codebook_scores',
    'feature_kind',
    'find_build',
    'insert_canaries',
    'largest_changes',
    'mechanism_on',
    'neighbour_of',
    'one_run_bound',
    'real_neighbours',
    'run_audit',
]
