r"""Whether a substitute can be used instead of the original: answers from the scores of GNNs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch_geometric_cgt.benchmark.judge import CEILING, CONTROL, regret

YES, PARTLY, NO, UNKNOWN = 'yes', 'partly', 'no', 'not known'
# From the best to the worst.
COLOURS = {YES: 'nothing', UNKNOWN: 'unchecked', PARTLY: 'within', NO: 'above'}
CLOSE = 0.02  # a loss that counts as none
FAR = 0.1  # a loss that is too much for any use
DIGITS = 3  # of a loss on a page; answers follow from what the reader sees
RULES = (
    f'Yes: at most {CLOSE} or twice the ceiling. No: more than {FAR} and than twice the ceiling. '
    f'Not known: the ceiling itself is more than {FAR}.'
)


@dataclass(frozen=True)
class Loss:
    r"""The score that is lost in one use of a graph instead of the original.

    Args:
        substitute (float): The loss with the generated graph.
        ceiling (float, optional): The loss with the original again, with another
            split and seed.
        control (float, optional): The loss with shuffled neighbours.
    """

    substitute: float
    ceiling: float | None
    control: float | None

    @property
    def verdict(self) -> str:
        r"""Yes if the loss is at most :obj:`CLOSE` or twice that of the ceiling, no
        if it exceeds :obj:`FAR` and twice that of the ceiling. If the ceiling
        itself is off by more than :obj:`FAR`, there is no answer but no.
        """
        loss, noise = round(self.substitute, DIGITS), round(self.ceiling or 0.0, DIGITS)
        if loss > max(FAR, 2 * abs(noise)):
            return NO
        if self.is_noise:
            return UNKNOWN
        return YES if loss <= max(CLOSE, min(FAR, 2 * noise)) else PARTLY

    @property
    def is_noise(self) -> bool:
        r"""Whether the original itself loses or gains more than :obj:`FAR` with
        another split and seed.
        """
        return abs(round(self.ceiling or 0.0, DIGITS)) > FAR


@dataclass(frozen=True)
class Answer:
    r"""The answer to one question about a substitute.

    Args:
        use (str): The use that it asks for, in short.
        question (str): The question.
        verdict (str): :obj:`"yes"`, :obj:`"partly"`, :obj:`"no"` or
            :obj:`"not known"`.
        says (str): The reason, as a sentence.
        measure (str): What the numbers are.
        loss (Loss): The numbers.
    """

    use: str
    question: str
    verdict: str
    says: str
    measure: str
    loss: Loss

    @property
    def colour(self) -> str:
        r"""The class of the verdict in a page, as those of audits."""
        return COLOURS[self.verdict]

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        return asdict(self)


@dataclass(frozen=True)
class Accuracy:
    r"""Mean scores over models, without the floor.

    Args:
        metric (str): What a score is.
        num_models (int): The number of models.
        original (float): Trained and tested on the original.
        generated (float): Trained and tested on the substitute.
        transfer (float): Trained on the substitute, tested on the original.
        ceiling (float, optional): The original with another split and seed.
        control (float, optional): The substitute with shuffled neighbours.
        num_test (int, optional): The number of test nodes, if it is known.
    """

    metric: str
    num_models: int
    original: float
    generated: float
    transfer: float
    ceiling: float | None = None
    control: float | None = None
    num_test: int | None = None

    @property
    def uncertainty(self) -> float | None:
        r"""Two standard errors of the accuracy of one GNN, if the number of test nodes
        is known.
        """
        if not self.num_test:
            return None
        return 2 * math.sqrt(max(0.0, self.original * (1 - self.original)) / self.num_test)

    @classmethod
    def of(cls, evaluation: Mapping[str, Any]) -> Accuracy | None:
        r"""The mean scores of an evaluation, or :obj:`None` if it did not read the
        source.

        Args:
            evaluation (dict): The output of
                :meth:`~torch_geometric_cgt.benchmark.Evaluation.to_dict`.
        """
        mean = evaluation['mean']
        if 'original' not in mean or 'transfer' not in mean:
            return None
        counted = _counted(evaluation)
        names = ('original', 'generated', 'transfer', CEILING, CONTROL)
        found = {name: _pick(mean[name], counted) for name in names if name in mean}
        means = {name: statistics.fmean(scores) for name, scores in found.items()}
        metric, num_test = evaluation.get('metric', 'accuracy'), evaluation.get('num_test')
        return cls(metric, len(counted), **means, num_test=num_test)


def answers_of(evaluation: Mapping[str, Any]) -> list[Answer]:
    r"""What a substitute can be used for. The list is empty if the evaluation did
    not read the source.

    Args:
        evaluation (dict): The output of
            :meth:`~torch_geometric_cgt.benchmark.Evaluation.to_dict`.
    """
    accuracy = Accuracy.of(evaluation)
    if accuracy is None:
        return []
    mean, counted = evaluation['mean'], _counted(evaluation)
    scores = {name: _pick(column, counted) for name, column in mean.items()}
    original = scores['original']

    def loss(of: Callable[[list[float]], float], own: str, control: str = CONTROL) -> Loss:
        ceiling = of(scores[CEILING]) if CEILING in scores else None
        return Loss(of(scores[own]), ceiling, of(scores[control]) if control in scores else None)

    distances = loss(lambda other: _distance(original, other), 'generated')
    regrets = loss(lambda other: regret(original, other), 'generated')
    lost = loss(lambda other: _lost(original, other), 'transfer', 'control transfer')
    return [
        _of_choice(evaluation, regrets, len(counted)),
        Answer(
            'To read off the scores of GNNs',
            'Do GNNs score as on the original?',
            distances.verdict,
            f'The score of a GNN differs by {distances.substitute:.3f} on average.'
            f'{_doubt(distances)}',
            'mean difference of the scores of a GNN',
            distances,
        ),
        Answer(
            'To train a GNN for the original graph',
            'Can I train a GNN on it for the original graph?',
            lost.verdict,
            f'GNNs that are trained on it score {accuracy.transfer:.3f} on the original; those '
            f'that are trained on the original score {accuracy.original:.3f}.{_doubt(lost)}',
            'score on the original that is lost by training elsewhere',
            lost,
        ),
    ]


def worst_of(answers: Sequence[Answer]) -> Answer:
    r"""The answer with the worst verdict.

    Args:
        answers (list[Answer]): At least one answer.
    """
    return max(answers, key=lambda answer: list(COLOURS).index(answer.verdict))


def _doubt(loss: Loss) -> str:
    r"""Why there is no answer, if scores are noise."""
    if not loss.is_noise:
        return ''
    return (
        f' With another split and seed, the original itself is off by {abs(loss.ceiling or 0):.3f}.'
    )


def _of_choice(evaluation: Mapping[str, Any], regrets: Loss, num_models: int) -> Answer:
    r"""Whether the best model on the substitute is a good choice. There is no answer
    if models differ by less than the noise.
    """
    verdict = regrets.verdict
    reason = evaluation.get('no_correlations')
    if num_models < 2:
        verdict, says = UNKNOWN, 'There is one GNN only.'
    elif reason:
        verdict, says = UNKNOWN, f'There is nothing to choose: {reason}.'
    elif regrets.substitute == 0:
        says = 'The GNN that is best on it is best on the original, too.'
    else:
        says = f'The GNN that is best on it scores {regrets.substitute:.3f} less than the best one.'
        says += _doubt(regrets)
    return Answer(
        'To choose among GNNs',
        'Can I choose a GNN on it?',
        verdict,
        says,
        'score on the original that is lost by the choice',
        regrets,
    )


def _counted(evaluation: Mapping[str, Any]) -> list[int]:
    r"""The models that are not the floor; all, if there are no others."""
    models, floor = evaluation['models'], evaluation.get('floor', [])
    return [i for i, name in enumerate(models) if name not in floor] or list(range(len(models)))


def _pick(column: Sequence[float], rows: Sequence[int]) -> list[float]:
    return [column[i] for i in rows]


def _distance(original: Sequence[float], other: Sequence[float]) -> float:
    return statistics.fmean(abs(a - b) for a, b in zip(original, other, strict=True))


def _lost(original: Sequence[float], other: Sequence[float]) -> float:
    return statistics.fmean(original) - statistics.fmean(other)
