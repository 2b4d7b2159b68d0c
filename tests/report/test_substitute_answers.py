import pytest

from tests.helpers.release_facts import evaluation
from torch_geometric_cgt.report.substitute_answers import Accuracy, answers_of, worst_of


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
