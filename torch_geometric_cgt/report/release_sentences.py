r"""The first sentences of the page of a release, and its verdict. All follow from facts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch_geometric_cgt.audit.check import ABOVE, UNCHECKED
from torch_geometric_cgt.release.card import DP, K_ANONYMITY
from torch_geometric_cgt.report.substitute_answers import Accuracy
from torch_geometric_cgt.report.zoo_tables import METRIC_NAMES

READY = 'ready to be signed'
OPEN = 'not decided: checks are missing'
REFUSED = 'do not publish'
EXIT_CODES = {READY: 0, REFUSED: 1, OPEN: 3}  # as those of 'cgt audit'
ROUGH = 0.06  # an uncertainty of scores that the reader must know of
# Who is protected by each unit of differential privacy.
PROTECTED = {
    'node': 'Every node{scope}, with its features, its label and all its edges, is protected',
    'attributes': 'The features and the label of every node, but not its edges, are protected',
    'edge': 'Every single edge, but no feature and no label, is protected',
}


def verdict_of(audit: Mapping[str, Any], allow_unchecked: bool = False) -> str:
    r"""Whether a release may be signed, is not to be published, or cannot be
    decided.

    Args:
        audit (dict): The output of :meth:`Audit.to_dict`.
        allow_unchecked (bool, optional): Whether checks may be missing.
            (default: :obj:`False`)
    """
    found = {check['verdict'] for check in audit['checks']}
    if ABOVE in found:
        return REFUSED
    return OPEN if UNCHECKED in found and not allow_unchecked else READY


def guarantee_sentence(card: Mapping[str, Any]) -> str:
    r"""What is guaranteed, and to whom.

    Args:
        card (dict): The card of the release.
    """
    privacy = card['privacy']
    if privacy['mechanism'] == K_ANONYMITY:
        return _groups(privacy)
    if privacy['mechanism'] == DP:
        return _private(privacy)
    return str(privacy['guaranteed'][0])


def _groups(privacy: Mapping[str, Any]) -> str:
    least = privacy['k_reached']
    if least == 1:
        return 'Nothing is guaranteed to anyone: k = 1 was accepted, so no node hides in a group.'
    return (
        f'No node of the source shows features of its own: every feature vector of the release is '
        f'computed from at least {least:,} nodes (asked for: k = {privacy["k"]}); who is in the '
        f'source, its edges and its labels have no guarantee.'
    )


def _private(privacy: Mapping[str, Any]) -> str:
    epsilon, delta, unit = privacy['epsilon'], privacy['delta'], privacy['protects']
    if privacy['seeded_noise']:
        return 'Nothing is guaranteed to anyone: the noise was drawn from a seed.'
    limit = privacy.get('max_degree')
    scope = '' if limit is None else f' with at most {limit} edges into it'
    factor = math.exp(min(epsilon, 700.0))
    times = f'{factor:,.3g}' if factor < 1000 else f'{factor:,.0f}' if factor < 1e6 else 'e^epsilon'
    bound = (
        f'epsilon = {epsilon:.3g}, delta = {delta:.2g}: a release without it is as likely up to a '
        f'factor of {times}'
    )
    if unit not in PROTECTED:
        return f'No person is protected: the guarantee is for {privacy["unit"]} ({bound}).'
    return f'{PROTECTED[unit].format(scope=scope)} by differential privacy ({bound}).'


def attack_sentence(audit: Mapping[str, Any]) -> str:
    r"""What the best attack achieved, and whether that is above the limit.

    Args:
        audit (dict): The output of :meth:`Audit.to_dict`.
    """
    above, missing = (_names(audit, verdict) for verdict in (ABOVE, UNCHECKED))
    parts = [audit['headline']]
    if above:
        parts.append(f'Above the limit: {_listed(above)}.')
    if missing:
        parts.append(f'Not checked: {_listed(missing)}.')
    if not above and not missing and audit['checks']:
        parts.append('No check is above its limit.')
    return ' '.join(parts)


def accuracy_sentence(evaluation: Mapping[str, Any]) -> str:
    r"""How much accuracy is lost, beside the original with another split and seed.

    Args:
        evaluation (dict): The output of
            :meth:`~torch_geometric_cgt.benchmark.Evaluation.to_dict`.
    """
    found = Accuracy.of(evaluation)
    if found is None:
        return 'How much accuracy is lost is not known: the source was not read.'
    models = 'One GNN has' if found.num_models == 1 else f'{found.num_models} GNNs have'
    name = METRIC_NAMES[found.metric]
    says = (
        f'{models} a mean {name} of {found.generated:.3f} on the release and of '
        f'{found.original:.3f} on the original ({_change(found.generated - found.original)}); '
        f'trained on the release and tested on the original, {found.transfer:.3f} '
        f'({_change(found.transfer - found.original, "gained")})'
    )
    if found.ceiling is not None:
        says += f'; the original with another split and seed, {found.ceiling:.3f} (ceiling)'
    if (doubt := found.uncertainty) is not None and doubt > ROUGH:
        says += f'; with {found.num_test} test nodes, a score can be off by {doubt:.2f}'
    return f'{says}.'


def _change(difference: float, more: str = 'too high') -> str:
    r"""A difference of scores in percentage points."""
    points = round(100 * difference, 1)
    if points == 0:
        return 'nothing lost'
    return f'{abs(points):.1f} points {"lost" if points < 0 else more}'


def _names(audit: Mapping[str, Any], verdict: str) -> list[str]:
    return [check['name'] for check in audit['checks'] if check['verdict'] == verdict]


def _listed(names: Sequence[str], most: int = 4) -> str:
    shown = ', '.join(name[:1].lower() + name[1:] for name in names[:most])
    rest = len(names) - most
    return f'{shown} and {rest} more' if rest > 0 else shown
