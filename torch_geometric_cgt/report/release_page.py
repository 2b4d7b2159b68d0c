r"""The page of a release for the owner of the data: first sentences and verdict, evidence, what to
publish and sign.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch_geometric_cgt.audit import CHECKS
from torch_geometric_cgt.audit.check import ABOVE, UNCHECKED
from torch_geometric_cgt.release.card import DP, K_ANONYMITY
from torch_geometric_cgt.report.report_files import has_extra
from torch_geometric_cgt.report.substitute_answers import RULES, Accuracy, answers_of
from torch_geometric_cgt.report.zoo_tables import METRIC_NAMES
from torch_geometric_cgt.utils.files import write_text

FORMAT = 1  # of the JSON file
NOTICE = (
    "Keep this page. It contains exact statistics of the source, which the release's guarantee "
    'does not cover. Publish the folder of the release only.'
)
READY = 'ready to be signed'
OPEN = 'not decided: checks are missing'
REFUSED = 'do not publish'
CLASSES = {READY: 'nothing', OPEN: 'unchecked', REFUSED: 'above'}
# What the files of a release are.
CONTENTS = {
    'card.json': 'what is guaranteed, parameters, sizes, checksums',
    'README.md': 'the card for readers',
    'release.safetensors': 'tokens, labels, splits, feature vectors, and degrees in groups',
    'card.json.minisig': 'the signature',
}
# What each check is, for those that were left out.
LEFT_OUT = {
    'groups': 'the size of groups',
    'support': 'how many source nodes have each path',
    'copies': 'copies of source trees',
    'closest': 'distances to the closest source tree',
    'noise': 'the noise of every answer of a private build',
    'sensitivity': 'the sensitivity of every answer of a private build',
    'membership': 'attacks on who is in the source',
    'edges': 'attacks on edges',
    'risks': 'singling out, linkability and inference',
    'canary': 'made-up nodes that a second build from the whole source must not reveal',
    'shadows': 'the membership attack that compares several shadow builds',
}
EXIT_CODES = {READY: 0, REFUSED: 1, OPEN: 3}  # as those of 'cgt audit'
ROUGH = 0.06  # an uncertainty of scores that the reader must know of
# Who is protected by each unit of differential privacy.
PROTECTED = {
    'node': 'Every node{scope}, with its features, its label and all its edges, is protected',
    'attributes': 'The features and the label of every node, but not its edges, are protected',
    'edge': 'Every single edge, but no feature and no label, is protected',
}


@dataclass(frozen=True)
class ReleasePage:
    r"""What is known about a release when it is made.

    Args:
        card (dict): The card of the release.
        evaluation (dict): The output of
            :meth:`~torch_geometric_cgt.benchmark.Evaluation.to_dict`.
        audit (dict): The output of :meth:`Audit.to_dict`.
        seconds (dict): The seconds of each step.
        published (dict): The size of each file of the release, by its path.
        kept (dict): What stays with the owner: what each path holds.
        links (dict): The pages with details, by their title.
        commands (dict): Commands for the next steps, by what they do.
        allow_unchecked (bool, optional): Whether checks may be missing.
            (default: :obj:`False`)
    """

    card: Mapping[str, Any]
    evaluation: Mapping[str, Any]
    audit: Mapping[str, Any]
    seconds: Mapping[str, float]
    published: Mapping[str, int]
    kept: Mapping[str, str]
    links: Mapping[str, str]
    commands: Mapping[str, str] = field(default_factory=dict)
    allow_unchecked: bool = False

    @property
    def verdict(self) -> str:
        r"""One of :obj:`READY`, :obj:`OPEN` and :obj:`REFUSED`."""
        return verdict_of(self.audit, self.allow_unchecked)

    @property
    def exit_code(self) -> int:
        r"""The exit code of the command, as that of ``cgt audit``."""
        return EXIT_CODES[self.verdict]

    @property
    def sentences(self) -> dict[str, str]:
        r"""What is guaranteed, what the best attack achieved, and how much accuracy
        is lost.
        """
        return {
            'guarantee': guarantee_sentence(self.card),
            'attack': attack_sentence(self.audit),
            'accuracy': accuracy_sentence(self.evaluation),
        }

    @property
    def left_out(self) -> dict[str, str]:
        r"""The checks that the audit was not asked for, and what they are."""
        settings = self.audit['settings']
        names = [name for name in CHECKS if name not in settings['checks']]
        if 'membership' not in names and not settings['num_shadows']:
            names.append('shadows')
        return {name: LEFT_OUT[name] for name in names}

    @property
    def next_steps(self) -> list[str]:
        r"""What the owner does now."""
        checks = self.audit['checks']
        names = {v: [c['name'] for c in checks if c['verdict'] == v] for v in (ABOVE, UNCHECKED)}
        is_private = self.card['privacy'].get('epsilon') is not None
        stronger = 'a smaller epsilon' if is_private else 'a larger k or --epsilon'
        if self.verdict == REFUSED:
            steps = [
                f'Read in the audit why this is above the limit: {", ".join(names[ABOVE])}.',
                f'Build again with {stronger}, in a new folder.',
            ]
        elif self.verdict == OPEN:
            steps = [
                f'Read in the audit why this was not checked: {", ".join(names[UNCHECKED])}.',
                'Decide whether you can do without it (--allow-unchecked), or use a larger graph.',
            ]
        else:
            steps = ['Read the details, sign below, and publish the folder of the release.']
        if self.left_out:
            steps.append('Run the checks that were left out, if the data are sensitive (below).')
        return steps

    def to_dict(self) -> dict[str, Any]:
        r"""The content of a JSON file."""
        accuracy = Accuracy.of(self.evaluation)
        return {
            'format': FORMAT,
            'notice': NOTICE,
            'source': self.card['source']['name'],
            'verdict': self.verdict,
            'exit_code': self.exit_code,
            'sentences': self.sentences,
            'next_steps': self.next_steps,
            'accuracy': None if accuracy is None else vars(accuracy),
            'answers': [answer.to_dict() for answer in answers_of(self.evaluation)],
            'strongest_attack': self.audit['strongest'],
            'left_out': self.left_out,
            'commands': dict(self.commands),
            'published': dict(self.published),
            'kept': dict(self.kept),
            'seconds': {name: round(value, 1) for name, value in self.seconds.items()},
        }

    def render(self) -> str:
        r"""The page."""
        from torch_geometric_cgt.report.html_pages import VERDICT_CLASSES, render_template

        return render_template(
            'release.html',
            page=self.to_dict(),
            card=self.card,
            audit=self.audit,
            answers=answers_of(self.evaluation),
            rules=RULES,
            links=self.links,
            contents=CONTENTS,
            verdict_class=CLASSES[self.verdict],
            classes=VERDICT_CLASSES,
        )

    def write(self, folder: Path) -> list[Path]:
        r"""Writes :obj:`release.json` and, with the :obj:`report` extra,
        :obj:`release.html`.

        Args:
            folder (Path): Where to write.
        """
        paths = [folder / 'release.json']
        write_text(paths[0], json.dumps(self.to_dict(), indent=2) + '\n')
        if has_extra('release.html'):
            paths.append(folder / 'release.html')
            write_text(paths[1], self.render())
        return paths


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
