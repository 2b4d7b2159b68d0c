r"""The privacy card of a differentially private release."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from importlib.util import find_spec
from typing import Any, ClassVar

from torch_geometric_cgt.errors import LedgerError
from torch_geometric_cgt.privacy.ledger import Ledger
from torch_geometric_cgt.privacy.units import CappedSample

UNITS = {
    'record': 'one computation graph: that of one root, with the features and the label of the '
    'root',
    'edge': 'one edge: all computation graphs that it is in',
    'node': 'one node: its features, its label, and all computation graphs that it is in',
}

GUARANTEED = (
    'This release is ({epsilon:.3g}, {delta:.2g})-differentially private. Unit: {unit_words}. Two '
    'tables were learned from: the features and the label of each node, and one computation graph '
    'of each root, sampled once. Whatever somebody could conclude from this release, they could '
    'have concluded had the rows of the unit been zeroed out in both; the probabilities of that '
    'differ by a factor of at most {factor}, but for cases of probability {delta:.2g}.',
    'This holds against somebody who knows all other data and has any computing power, and for '
    'everything that is done with this release later. The noise is secret: it was made of random '
    'bits of the operating system, which are taken to be random.',
    'Every stage that looks at the data is in the ledger of this card with its noise; the budget '
    'is the cost of all of them together.',
)

CAPPED = (
    'A node occurs in at most {trees_per_node} computation graphs, an edge in at most '
    '{trees_per_edge}: the sample that the model learned from has at most {max_parents} parents '
    'per node.'
)

NOTHING = (
    'Nothing is guaranteed: the noise was drawn from a seed, and whoever knows or guesses that '
    'seed can take the noise away.'
)

SEEDED = (
    'With noise that nobody can draw again, the same build would be ({epsilon:.3g}, {delta:.2g})-'
    'differentially private. Unit: {unit_words}. This one is for tests.'
)

NOT_GUARANTEED = (
    'The numbers of nodes, of labelled nodes, of features and of labels of the source are taken to '
    'be known, and are stated as they are; so is whether it had splits.',
    'The sample of neighbours is drawn once and is a part of the data: it is not drawn again '
    'without the unit.',
    'Another release from the same source costs again: budgets add up.',
    'What is true of a whole group of nodes can be learned, also about members who are not in the '
    'data.',
    'Shares of the budget and sizes were fixed while looking at results on Cora and PubMed. For '
    'these two graphs, that choice is not in the ledger.',
)

RECORD = (
    'A node also occurs in the computation graphs of its neighbours. Those are other records: what '
    'they say of it is not covered by the unit "record".'
)

EDGE = (
    'Features and labels are not covered by the unit "edge": the budget bounds what is learned '
    'about one edge, and says nothing about what a node is or has.'
)

LARGE_DELTA = (
    'delta is larger than one in the number of nodes, which was accepted when this was made: a '
    'mechanism that publishes one random row as it is would meet it.'
)

GRADIENTS = (
    'The noise of gradients is made of floating-point numbers, which are not quite Gaussian in '
    'their last digits.'
)

PROJECTED = (
    'Feature vectors are not in the space of the features: they have {size} coordinates, those of '
    'a public random projection of all {num_features} features, which this release holds. What a '
    'single feature is cannot be read from them.'
)

PRETRAINED = (
    "The model of trees started from weights that were learned without noise from '{name}' "
    '(fingerprint {fingerprint}). That graph is taken to be public: nothing about it is protected, '
    'and nobody who is in it as well is protected from what it says.'
)


@dataclass(frozen=True)
class DPCard:
    r"""What a differentially private release guarantees.

    Args:
        epsilon (float): What was spent, for one unit.
        delta (float): The failure probability.
        protects (str): The unit: :obj:`"record"`, :obj:`"edge"` or
            :obj:`"node"`.
        form (str): The model of trees.
        num_clusters (int): The number of distinct feature vectors.
        seeded_noise (bool): Whether the noise came from a seed.
        ledger (dict): All mechanisms with their noise and cost.
        large_delta (bool, optional): Whether delta is above one in the number
            of nodes. (default: :obj:`False`)
        projected (list[int], optional): The numbers of features and of
            coordinates, where vectors are released in the space of a public
            projection. (default: :obj:`None`)
        public (dict, optional): Name and fingerprint of the public graph that
            the model started from. (default: :obj:`None`)
    """

    epsilon: float
    delta: float
    protects: str
    form: str
    num_clusters: int
    seeded_noise: bool
    ledger: dict[str, Any]
    large_delta: bool = False
    projected: list[int] | None = None
    public: dict[str, str] | None = None
    k: None = None  # there are no groups of a least size

    mechanism: ClassVar[str] = 'differential privacy'

    @classmethod
    def of(
        cls,
        ledger: dict[str, Any],
        form: str,
        num_clusters: int,
        seeded_noise: bool = False,
        large_delta: bool = False,
        projected: list[int] | None = None,
        public: dict[str, str] | None = None,
    ) -> DPCard:
        r"""The card of a build.

        Args:
            ledger (dict): What :meth:`Ledger.to_dict` gave for the unit, before
                the build ran.
            form (str): The model of trees.
            num_clusters (int): The number of feature vectors.
            seeded_noise (bool, optional): See :class:`DPCard`, as those below.
                (default: :obj:`False`)
            large_delta (bool, optional): (default: :obj:`False`)
            projected (list[int], optional): (default: :obj:`None`)
            public (dict, optional): (default: :obj:`None`)
        """
        (total,) = ledger['totals']
        promise = (total['epsilon'], total['delta'], total['unit'])
        declared = (large_delta, projected, public)
        return cls(*promise, form, num_clusters, seeded_noise, ledger, *declared)

    @property
    def unit(self) -> str:
        r"""What the guarantee speaks of."""
        return UNITS[self.protects]

    @property
    def guaranteed(self) -> list[str]:
        r"""What holds, in sentences; with noise from a seed, nothing does."""
        if self.seeded_noise:
            return [NOTHING]
        factor = math.exp(min(self.epsilon, 700.0))
        words = f'{factor:,.3g}' if factor < 1e6 else f'e^{self.epsilon:.3g}'
        sentences = [sentence.format(**self._facts, factor=words) for sentence in GUARANTEED]
        if self.ledger['sample'] is not None:
            sample = CappedSample(**self.ledger['sample'])
            sentences.append(
                CAPPED.format(
                    trees_per_node=sample.trees_per_node,
                    trees_per_edge=sample.trees_per_edge,
                    max_parents=sample.max_parents,
                )
            )
        return sentences

    @property
    def not_guaranteed(self) -> list[str]:
        r"""What does not hold, and what is declared, in sentences."""
        sentences = [SEEDED.format(**self._facts)] if self.seeded_noise else []
        sentences += {'record': [RECORD], 'edge': [EDGE]}.get(self.protects, [])
        sentences += NOT_GUARANTEED
        if self.large_delta:
            sentences.append(LARGE_DELTA)
        if self.form == 'dp_sgd':
            sentences.append(GRADIENTS)
        if self.projected is not None:
            num_features, size = self.projected
            sentences.append(PROJECTED.format(num_features=num_features, size=size))
        if self.public is not None:
            sentences.append(PRETRAINED.format(**self.public))
        return sentences

    @property
    def _facts(self) -> dict[str, Any]:
        return {'epsilon': self.epsilon, 'delta': self.delta, 'unit_words': self.unit}

    @property
    def summary(self) -> str:
        r"""The promise in one line."""
        promise = (
            f'epsilon = {self.epsilon:.3g}, delta = {self.delta:.2g} per {self.protects} '
            f'({self.form}), {self.num_clusters} feature vectors'
        )
        return (
            f'no guarantee, the noise has a seed; else {promise}' if self.seeded_noise else promise
        )

    def to_dict(self) -> dict[str, Any]:
        r"""All of it, for a JSON file."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            'mechanism': self.mechanism,
            'unit': self.unit,
            **own,
            'guaranteed': self.guaranteed,
            'not_guaranteed': self.not_guaranteed,
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> DPCard:
        r"""The inverse of :meth:`to_dict`; refuses a card that contradicts itself."""
        card = cls(**{f.name: content[f.name] for f in fields(cls)})
        Ledger.from_dict(card.ledger, verify=False)
        totals = {total['unit']: total for total in card.ledger['totals']}
        stated = totals.get(card.protects)
        if stated is None or (stated['epsilon'], stated['delta']) != (card.epsilon, card.delta):
            raise LedgerError(
                f'The card claims epsilon = {card.epsilon:g}, delta = {card.delta:g} per '
                f"'{card.protects}', but its ledger says {stated}: it was altered"
            )
        for name in ('unit', 'guaranteed', 'not_guaranteed'):
            if getattr(card, name) != content[name]:
                raise LedgerError(
                    f"'{name}' of the card has other words than its numbers: it was altered"
                )
        return card

    def verify(self) -> None:
        r"""Computes again what the entries of the ledger cost, where
        :obj:`dp-accounting` is installed, and refuses a card that claims less.
        Whether these are the entries of such a build is for
        :meth:`~torch_geometric_cgt.datasets.card_check.check_private_card`.
        """
        if find_spec('dp_accounting') is not None:
            Ledger.from_dict(self.ledger)
