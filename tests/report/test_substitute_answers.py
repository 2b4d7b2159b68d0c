from dataclasses import replace

import pytest

from tests.helpers.release_facts import evaluation
from torch_geometric_cgt.report.substitute_answers import Accuracy, Loss, answers_of, worst_of


def test_the_numbers_of_the_answers():
    choice, scores, training = answers_of(evaluation())
    assert worst_of([choice, training, scores]) is training and training.colour == 'within'
    assert [a.verdict for a in (choice, scores, training)] == ['yes', 'yes', 'partly']
    assert choice.says == 'The GNN that is best on it is best on the original, too.'
    assert vars(choice.loss) == pytest.approx({'substitute': 0, 'ceiling': 0, 'control': 0.25})
    assert scores.loss.substitute == pytest.approx(0.01)
    assert scores.loss.ceiling == pytest.approx(0.02 / 3)
    assert scores.loss.control == pytest.approx(0.8 / 3)
    assert training.loss.substitute == pytest.approx(0.05)
    assert training.loss.control == pytest.approx(1 / 3)
    assert 'score 0.683 on the original' in training.says


@pytest.mark.parametrize(
    'generated, verdict',
    [([0.52, 0.82, 0.92], 'yes'), ([0.55, 0.85, 0.95], 'partly'), ([0.2, 0.5, 0.6], 'no')],
)
def test_scores_that_are_far_off_are_no_scores(generated, verdict):
    assert answers_of(evaluation(generated=generated))[1].verdict == verdict


@pytest.mark.parametrize(
    'substitute, ceiling, verdict',
    [
        (-0.3, None, 'yes'),  # better than the original
        (0.02, None, 'yes'),
        (0.92 - 0.9, None, 'yes'),  # 0.02 and a rounding error
        (0.0204, None, 'yes'),  # shown as 0.020
        (0.0206, None, 'partly'),  # shown as 0.021
        (0.1, None, 'partly'),
        (0.1004, None, 'partly'),
        (0.101, None, 'no'),
        (0.02, -0.05, 'yes'),  # a ceiling that gains does not ask for more
        (0.021, -0.05, 'partly'),
        (0.06, 0.03, 'yes'),
        (0.061, 0.03, 'partly'),
        (0.1, 0.05, 'yes'),
        (0.1, 0.1, 'yes'),
        (0.101, 0.05, 'no'),
        (0.101, 0.06, 'partly'),  # twice the ceiling, but not close
        (0.12, 0.06, 'partly'),
        (0.121, 0.06, 'no'),
        (0.2, 0.1, 'partly'),
        (0.01, 0.101, 'not known'),  # the original does not agree with itself
        (0.01, -0.101, 'not known'),
        (0.202, 0.101, 'not known'),
        (0.203, 0.101, 'no'),
        (0.203, -0.101, 'no'),
    ],
)
def test_the_borders_of_the_answers(substitute, ceiling, verdict):
    loss = Loss(substitute, ceiling, None)
    assert loss.verdict == verdict
    assert loss.verdict != 'not known' or loss.is_noise


@pytest.mark.parametrize(
    'order',
    [['yes', 'yes'], ['not known', 'yes'], ['partly', 'not known', 'yes'], ['no', 'partly', 'yes']],
)
def test_the_worst_answer_is_first_no_then_partly_then_not_known(order):
    answers = answers_of(evaluation())
    found = [replace(a, verdict=v) for a, v in zip(answers, reversed(order), strict=False)]
    assert worst_of(found).verdict == order[0]


def test_why_nothing_is_known_is_said():
    noisy = evaluation(ceiling=[0.3, 0.6, 0.7])
    for answer in answers_of(noisy)[1:]:
        assert answer.verdict == 'not known' and answer.colour == 'unchecked'
        assert answer.says.endswith('the original itself is off by 0.200.')


def test_what_the_original_itself_does_not_reach_is_not_asked_for():
    unstable = evaluation(generated=[0.55, 0.85, 0.95], ceiling=[0.53, 0.77, 0.87])
    assert answers_of(unstable)[1].verdict == 'yes'  # 0.05, below twice 0.03


def test_a_wrong_choice_costs_its_loss():
    choice = answers_of(evaluation(generated=[0.9, 0.8, 0.7]))[0]
    assert choice.verdict == 'no' and choice.loss.substitute == pytest.approx(0.4)
    assert 'scores 0.400 less' in choice.says


def test_no_choice_where_models_do_not_differ():
    alike = {**evaluation(), 'no_correlations': 'models differ by less than noise'}
    choice = answers_of(alike)[0]
    assert choice.verdict == 'not known' and 'models differ by less than noise' in choice.says


def test_the_floor_does_not_count():
    found = {**evaluation(), 'floor': ['MLP']}
    accuracy = Accuracy.of(found)
    assert accuracy.num_models == 2 and accuracy.original == pytest.approx(0.85)


def test_without_the_source_there_is_no_answer():
    assert answers_of(evaluation(original=None)) == []
    assert Accuracy.of(evaluation(transfer=None)) is None
