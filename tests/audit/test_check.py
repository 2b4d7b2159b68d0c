"""Verdicts, the strongest attack, and exit codes."""

import math

import pytest

from torch_geometric_cgt.audit.check import (
    ABOVE,
    NOTHING,
    UNCHECKED,
    WITHIN,
    Accusation,
    Audit,
    Check,
    strongest,
    verdict,
)
from torch_geometric_cgt.audit.estimates import Estimate, proportion


def accusation(found, accused, total=1000, attack='a', group='all', whom='members'):
    shares = (proportion(hits, total) for hits in (found, accused))
    return Accusation(attack, group, *shares, whom)


def audit(*verdicts, accusations=()):
    checks = [
        Check.unchecked('c', 'why') if v == UNCHECKED else Check('c', v, 1.0, 'says')
        for v in verdicts
    ]
    return Audit({}, checks, {}, {}, accusations)


def test_the_three_verdicts_of_a_check_that_was_made():
    assert verdict(False, False) == NOTHING
    assert verdict(True, False) == WITHIN
    assert verdict(True, True) == verdict(False, True) == ABOVE


@pytest.mark.parametrize(
    'verdicts, code, allowed, worst',
    [
        ((), 0, 0, NOTHING),
        ((NOTHING, NOTHING), 0, 0, NOTHING),
        ((NOTHING, WITHIN), 0, 0, WITHIN),
        ((WITHIN, UNCHECKED), 3, 0, UNCHECKED),
        ((ABOVE, UNCHECKED, NOTHING), 1, 1, ABOVE),
    ],
)
def test_exit_codes(verdicts, code, allowed, worst):
    found = audit(*verdicts)
    assert (found.exit_code(), found.exit_code(allow_unchecked=True)) == (code, allowed)
    assert found.verdict == found.to_dict()['verdict'] == worst


def test_the_headline_speaks_of_people():
    found = audit(WITHIN, accusations=[accusation(45, 9)])
    assert found.headline == (
        'The best attack finds 4.5 % of members while wrongly accusing 0.9 %.'
    )
    assert found.to_dict()['headline'] == found.headline
    assert found.summary == '1 check: 1 found, within the limit.'
    assert audit().headline == 'No attack on members was run.'
    edges = audit(accusations=[accusation(45, 9, whom='edges')])
    assert '4.5 % of edges' in edges.headline


def test_chance_is_called_by_its_name():
    found = audit(NOTHING, accusations=[accusation(12, 10), accusation(5, 10)])
    assert found.headline == (
        'The best attack finds 1.2 % of members while wrongly accusing 1 %, '
        'which chance can explain.'
    )


def test_an_average_that_is_found_is_not_called_chance_alone():
    area = Check('Membership inference: area under the curve', WITHIN, 0.58, 'says')
    found = Audit({}, [area], {}, {}, [accusation(12, 10)])
    assert found.headline.endswith(
        'which chance can explain; on average, attacks do better than chance '
        '(an area of 0.58, not 0.50).'
    )


def test_the_strongest_attack_has_the_largest_ratio_beyond_chance():
    """Not the largest share, nor the largest distance: 60 % against 50 % is little."""
    wide, sharp, lucky = accusation(600, 500), accusation(45, 9), accusation(1, 0, total=20)
    assert strongest([wide, sharp, lucky]) is sharp
    assert sharp.epsilon == pytest.approx(math.log(sharp.found.low / sharp.accused.high))
    assert lucky.epsilon == 0 and not lucky.is_found
    assert strongest([]) is None


def test_a_verdict_has_a_value_or_a_reason():
    with pytest.raises(ValueError, match='must be one of'):
        Check('a', 'passed', 1.0, '')
    with pytest.raises(ValueError, match='must give the reason'):
        Check.unchecked('a', '')
    with pytest.raises(ValueError, match='but no value'):
        Check('a', NOTHING, None, 'says')
    with pytest.raises(ValueError, match='failed'):
        audit().of('failed')


def test_an_estimate_of_nobody_is_no_ratio():
    nobody = Accusation('a', 'all', Estimate(0, 0, 0.1), Estimate(0, 0, 0.1))
    assert nobody.ratio == nobody.epsilon == 0 and '0 % of members' in nobody.sentence()
