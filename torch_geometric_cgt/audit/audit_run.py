r"""The checks of one audit, each of which is a method with its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.audit.anonymity import (
    SUPPORT,
    check_edge_values,
    check_groups,
    check_profile,
    path_support,
)
from torch_geometric_cgt.audit.attack_limit import RECORD, Limit
from torch_geometric_cgt.audit.attacks import Attacks, attack, audit_build, audit_canaries
from torch_geometric_cgt.audit.canaries import enough_canaries
from torch_geometric_cgt.audit.check import Accusation, Check, TooFewError
from torch_geometric_cgt.audit.gradient_steps import StepAudit
from torch_geometric_cgt.audit.neighbours import MemberSplit
from torch_geometric_cgt.audit.rebuild import Mechanism, config_of
from torch_geometric_cgt.audit.records import Records, projected, records_of
from torch_geometric_cgt.audit.replay import Replay, Replayed
from torch_geometric_cgt.audit.residuals import audit_noise
from torch_geometric_cgt.audit.sensitivity import audit_sensitivity
from torch_geometric_cgt.audit.similarity import closest_distances, count_copies
from torch_geometric_cgt.models import PrivateGenerator, TreeModel
from torch_geometric_cgt.models.path_support import NUM_DRAWS
from torch_geometric_cgt.models.transformer import DP_SGD
from torch_geometric_cgt.pipeline import Build, BuildConfig
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.privacy import Ledger, SampledGaussian
from torch_geometric_cgt.release import Release
from torch_geometric_cgt.release.card import K_ANONYMITY
from torch_geometric_cgt.training.kept_steps import KeptSteps
from torch_geometric_cgt.utils.seeds import derive_seed

COMMON = 30  # source roots that make a tree common, if the card has no k
FROZEN = (
    'The card protects frozen records, the rows of a table. No real graph differs from the source '
    'in one row only: without a node, the computation graphs of its neighbours change as well, '
    'which the card does not cover.'
)
NO_ANSWERS = (
    'The answers of the build are not available. Run the audit where the release was built, or '
    'give the folder of the build with --root.'
)


class AuditRun:
    r"""The checks of one audit. Each check is a method with its name in
    :obj:`CHECKS`.

    Args:
        release (Release): The release.
        source (Source): The source that it was built from.
        split (MemberSplit, optional): The source and the nodes that were left
            out, if they are known.
        mechanism (callable): Makes a build from a source and parameters.
        cluster (torch.Tensor, optional): The cluster of each source node.
        model (TreeModel, optional): The fitted model.
        replay (callable, optional): Computes the answers of the build again.
        settings (dict): The further arguments of :meth:`run_audit`.
        kept (KeptSteps, optional): The steps of DP-SGD that the build has kept.
            (default: :obj:`None`)
        edge_cluster (torch.Tensor, optional): The edge token of each source edge.
            (default: :obj:`None`)
    """

    def __init__(
        self,
        release: Release,
        source: Source,
        split: MemberSplit | None,
        mechanism: Mechanism,
        cluster: Tensor | None,
        model: TreeModel | None,
        replay: Replay | None,
        settings: dict[str, Any],
        kept: KeptSteps | None = None,
        edge_cluster: Tensor | None = None,
    ) -> None:
        self.release = release
        self.source = source
        self.split = split
        self.mechanism = mechanism
        self.cluster = cluster
        self.model = model
        self.replay = replay
        self.settings = settings
        self.kept = kept
        self.edge_cluster = edge_cluster
        self.seed: int = settings['seed']
        self.confidence: float = settings['confidence']
        self.details: dict[str, Any] = {}
        self.accusations: list[Accusation] = []

    def checks_of(self, name: str) -> list[Check]:
        r"""Runs one of :obj:`CHECKS`. It is not made if there are too few records."""
        run: Callable[[], list[Check]] = getattr(self, name)
        try:
            return run()
        except TooFewError as error:
            return [Check.unchecked(name.capitalize(), f'{error}.')]

    def limit(self, attacked: str) -> Limit:
        r"""The limit of attacks on a unit."""
        return Limit.of(self.release.privacy, self.settings['max_epsilon'], attacked)

    @cached_property
    def config(self) -> BuildConfig:
        r"""The parameters of the release. A private build from a source of
        another size keeps the delta of the release.
        """
        config = config_of(self.release.card)
        if config.private is None:
            return config
        delta = self.release.privacy.delta
        private = replace(config.private, delta=delta, accept_large_delta=True)
        return replace(config, privacy=private)

    @cached_property
    def records(self) -> Records:
        r"""The trees of all source roots, sampled with the seed of the support
        rule of the build.
        """
        return records_of(
            projected(self.source, self.release.projection),
            self.source.root,
            self.release.codebook,
            self.release.trees.shape,
            NUM_DRAWS,
            torch.Generator().manual_seed(derive_seed(self.config.seed, 'support')),
            self.cluster,
        )

    @cached_property
    def attacks(self) -> Attacks:
        r"""Attacks on the release, or on a build from half of the source."""
        settings = self.settings
        how = (self.seed, self.confidence, settings['max_records'])
        if self.split is not None:
            trees, codebook = self.release.trees, self.release.codebook
            built = Build(trees, codebook, self.model, projection=self.release.projection)
            return attack(self.split, built, *how)
        more = (settings['unit'], *how, settings['num_shadows'])
        return audit_build(self.source, self.config, self.mechanism, *more)

    @cached_property
    def replayed(self) -> Replayed:
        r"""The answers of the build on its source."""
        assert self.replay is not None
        return self.replay(self.source)

    @cached_property
    def steps(self) -> StepAudit | None:
        r"""The kept steps of DP-SGD, computed again; :obj:`None` if there are none."""
        rows, ledger = self.replayed.rows, self.release.privacy.ledger
        if self.kept is None or not rows or not isinstance(self.model, PrivateGenerator):
            return None
        assert ledger is not None  # of a card that was verified
        entries = Ledger.from_dict(ledger, verify=False).entries
        noise = next(e.noise for e in entries if e.name == DP_SGD)
        assert isinstance(noise, SampledGaussian)
        return StepAudit(self.model, self.kept, rows, noise)

    @property
    def k(self) -> int | None:
        r"""The group size that the card promises, if it promises one."""
        return self.release.privacy.k

    def groups(self) -> list[Check]:
        r"""The size of groups, if the release is k-anonymous."""
        card = self.release.privacy
        if card.mechanism != K_ANONYMITY:
            return []
        found = check_groups(card, self.release.codebook, self.source.data, self.cluster)
        values = self.release.trees.edge_values
        if values is not None:
            found += check_edge_values(card, values, self.source, self.edge_cluster)
        if self.release.profile is not None:
            found.append(check_profile(card, self.release.profile, self.source))
        return found

    def support(self) -> list[Check]:
        r"""The support of paths."""
        asked: int | None = self.settings['min_support']
        promised = self.release.privacy.min_support
        found = path_support(
            self.release.trees, self.records, max(asked or 0, promised or 0) or self.k or COMMON
        )
        self.details['support'] = found.to_dict()
        if promised is not None and self.cluster is not None and promised >= (asked or 0):
            return [found.check(promised, f'the promise of the card: min_support = {promised}')]
        if asked is not None:
            return [found.check(asked, f'asked for: min_support = {asked}')]
        if promised is None:
            return [found.check(None, 'no limit: the card makes no promise about paths')]
        return [
            Check.unchecked(
                SUPPORT,
                f'The card promises that at least {promised} source nodes have each path. The '
                f'cluster assignment (the group of each source node) is not available, so that '
                f'the nodes behind a path cannot be counted.',
            )
        ]

    def copies(self) -> list[Check]:
        r"""Copies of source trees."""
        trees, common = self.release.trees, self.k or COMMON
        found = count_copies(trees, self.records, common, self.confidence)
        self.details['copies'] = found.to_dict()
        return [found.check()]

    def closest(self) -> list[Check]:
        r"""Distances to the closest record."""
        release = self.release
        found = closest_distances(release.trees, self.records, release.codebook, seed=self.seed)
        self.details['closest'] = found.to_dict()
        return []

    def noise(self) -> list[Check]:
        r"""The noise of every answer of a private build."""
        if self.release.privacy.epsilon is None:
            return []
        if self.replay is None:
            return [Check.unchecked('Noise of every answer', NO_ANSWERS)]
        answers, steps = list(self.replayed.answers), self.steps
        if steps is None:
            found = audit_noise(answers)
        else:
            found = audit_noise([*answers, *steps.answers()], more=steps.noise_tests())
            self.details['steps'] = steps.to_dict()
        self.details['noise'] = found.to_dict()
        batches = [] if steps is None else [steps.check_batches()]
        return [found.check(), *batches, *self._without_answers('Noise')]

    def sensitivity(self) -> list[Check]:
        r"""The sensitivity of every answer of a private build."""
        if self.release.privacy.epsilon is None:
            return []
        if self.replay is None:
            return [Check.unchecked('Sensitivity of every answer', NO_ANSWERS)]
        steps = self.steps
        of_steps = [] if steps is None else [steps.check_clipping(), steps.check_updates()]
        if self.protected == 'frozen_record':
            return [Check.unchecked('Sensitivity of every answer', FROZEN), *of_steps]
        private = self.config.private
        found = audit_sensitivity(
            self.source,
            self.replay,
            self.protected,
            self.settings['num_neighbours'],
            self.seed,
            None if private is None else private.max_degree,
        )
        self.details['sensitivity'] = found.to_dict()
        return [*found.checks(), *of_steps, *self._without_answers('Sensitivity')]

    def _without_answers(self, what: str) -> list[Check]:
        r"""The entries of the ledger that have noise, but no answers that were kept."""
        ledger = self.release.privacy.ledger or {}
        known = {answer.name for answer in self.replayed.answers}
        known |= set() if self.steps is None else {DP_SGD}
        noisy = [e['name'] for e in ledger.get('entries', []) if e['noise'] is not None]
        why = (
            'The build has kept no steps of DP-SGD, whose noise is added to gradients: it was made '
            'by an older version.'
        )
        return [Check.unchecked(f'{what} of {name}', why) for name in noisy if name not in known]

    def membership(self) -> list[Check]:
        r"""Membership inference."""
        found = self.attacks.membership
        self.details['membership'] = found.to_dict()
        self.accusations += found.accusations()
        return self._scoped(found.checks, self.attacks.unit)

    def edges(self) -> list[Check]:
        r"""Edge inference."""
        found = self.attacks.edges
        if isinstance(found, str):
            return [Check.unchecked('Edge inference', found)]
        self.details['edges'] = found.to_dict()
        self.accusations += found.accusations()
        return self._scoped(found.checks, 'edge')

    def risks(self) -> list[Check]:
        r"""Singling out, linkability and inference."""
        found = self.attacks.risks
        self.details['risks'] = [risk.to_dict() for risk in found]
        return self._scoped(lambda limit: [r.check(limit) for r in found], self.attacks.unit)

    def canary(self) -> list[Check]:
        r"""The canary audit, for the unit that the card protects."""
        limit = self.limit(self.protected)
        family, parameter = limit.family()
        num_nodes = int(self.source.data.num_nodes or 0)
        asked: int | None = self.settings['num_canaries']
        found = audit_canaries(
            self.source,
            self.config,
            self.mechanism,
            asked or enough_canaries(limit, num_nodes, self.confidence),
            family,
            self.seed,
            self.confidence,
            self.protected,
        )
        claim = family.epsilon(parameter) if limit.is_claim else None
        self.details['canary'] = {**found.to_dict(), 'claim': claim}
        return [found.check(limit)]

    @property
    def protected(self) -> str:
        r"""The unit of a claim of differential privacy, or a node if there is none."""
        card = self.release.privacy
        unit = (card.epsilon is not None and card.protects) or 'node'
        return 'frozen_record' if unit in RECORD else unit

    def _scoped(self, checks: Callable[[Limit], list[Check]], attacked: str) -> list[Check]:
        r"""Checks against the limit of a unit, with what the attack leaves out of
        the claim.
        """
        limit = self.limit(attacked)
        scope = limit.scope(attacked)
        return [replace(check, says=f'{check.says} {scope}'.rstrip()) for check in checks(limit)]
