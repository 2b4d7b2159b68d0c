import pytest

from tests.helpers.release_facts import audit, evaluation, k_card, private_card
from torch_geometric_cgt.report.release_sentences import (
    EXIT_CODES,
    OPEN,
    READY,
    REFUSED,
    accuracy_sentence,
    attack_sentence,
    guarantee_sentence,
    verdict_of,
)

FINE, FOUND = 'nothing found', 'found, within the limit'
ABOVE, UNCHECKED = 'above the limit', 'not checked'


@pytest.mark.parametrize(
    'card, words',
    [
        (k_card(), ['computed from at least 31 nodes', 'k = 30', 'no guarantee']),
        (k_card(k=5, k_reached=7), ['computed from at least 7 nodes', 'k = 5']),
        (k_card(k=1, k_reached=1), ['Nothing is guaranteed to anyone', 'k = 1']),
        (private_card(), ['Every node, with its features', 'epsilon = 4,', 'factor of 54.6']),
        (private_card(epsilon=1.0), ['epsilon = 1,', 'factor of 2.72']),
        (private_card(epsilon=900.0), ['factor of e^epsilon']),
        (private_card(protects='edge'), ['Every single edge, but no feature and no label']),
        (private_card(protects='attributes'), ['features and the label', 'but not its edges']),
        (private_card(protects='frozen_record'), ['No person is protected', 'one node']),
        (private_card(max_degree=9), ['Every node with at most 9 edges into it, with']),
        (private_card(seeded_noise=True), ['Nothing is guaranteed to anyone', 'seed']),
        (k_card(mechanism='private clusters', guaranteed=['Only vectors.']), ['Only vectors.']),
    ],
)
def test_the_guarantee_follows_from_the_card(card, words):
    says = guarantee_sentence(card)
    assert all(word in says for word in words) and says.count('. ') == 0


@pytest.mark.parametrize(
    'verdicts, verdict, words, absent',
    [
        ((FINE, FOUND), READY, 'No check is above its limit.', 'Not checked'),
        ((FINE, UNCHECKED), OPEN, 'Not checked: check 1.', 'No check'),
        ((ABOVE, UNCHECKED), REFUSED, 'Above the limit: check 0.', 'No check'),
        ((ABOVE,) * 6, REFUSED, 'check 3 and 2 more.', 'check 4'),
        ((), READY, 'wrongly accusing 0.9 %.', 'No check'),
    ],
)
def test_the_verdict_and_the_attack_follow_from_the_audit(verdicts, verdict, words, absent):
    found = audit(*verdicts)
    says = attack_sentence(found)
    assert says.startswith('The best attack finds 4.5 % of members while wrongly accusing 0.9 %.')
    assert says.endswith(words) or words in says
    assert absent not in says
    assert verdict_of(found) == verdict


def test_missing_checks_can_be_allowed_but_not_a_leak():
    assert verdict_of(audit(FINE, UNCHECKED), allow_unchecked=True) == READY
    assert verdict_of(audit(ABOVE, UNCHECKED), allow_unchecked=True) == REFUSED
    assert [EXIT_CODES[v] for v in (READY, REFUSED, OPEN)] == [0, 1, 3]


def test_accuracy_is_lost_by_the_numbers_of_the_evaluation():
    says = accuracy_sentence(evaluation())
    assert says.startswith('3 GNNs have a mean accuracy of 0.723 on the release and of 0.733 on')
    assert '(1.0 points lost)' in says and '0.683 (5.0 points lost)' in says
    assert says.endswith('the original with another split and seed, 0.733 (ceiling).')
    higher = accuracy_sentence(evaluation(generated=[0.6, 0.9, 1.0], transfer=[0.6, 0.9, 0.8]))
    assert '(10.0 points too high)' in higher and '(3.3 points gained)' in higher
    assert '(nothing lost)' in accuracy_sentence(evaluation(generated=[0.5, 0.8, 0.9]))
    assert 'ceiling' not in accuracy_sentence(evaluation(ceiling=None))
    assert 'not known' in accuracy_sentence(evaluation(original=None))


@pytest.mark.parametrize(
    'num_test, words', [(8, '8 test nodes, a score can be off by 0.31'), (900, '')]
)
def test_few_test_nodes_are_told(num_test, words):
    says = accuracy_sentence({**evaluation(), 'num_test': num_test})
    assert words in says and ('test nodes' in says) == bool(words)
