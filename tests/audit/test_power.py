import pytest

from torch_geometric_cgt.audit import Limit, largest_bound, one_run_epsilon, sharpest
from torch_geometric_cgt.privacy import Entry, Gaussian, Ledger

LEDGER = Ledger(['counts'], [Entry('counts', 'histogram', noise=Gaussian(3.0))])


def claim(delta=1e-4):
    epsilon = LEDGER.total('record', delta).epsilon
    return Limit(epsilon, delta, 'the card', ledger=LEDGER)


def test_the_claim_at_another_delta_is_that_of_the_ledger():
    limit = claim().at(1e-6)
    assert limit.epsilon == LEDGER.total('record', 1e-6).epsilon > claim().epsilon
    assert limit.delta == 1e-6 and 'the card. At delta = 1e-06' in limit.origin
    assert claim().at(1e-4) == claim()


def test_a_claim_without_a_ledger_says_nothing_of_a_smaller_delta():
    alone = Limit(1.0, 1e-4, '')
    assert alone.at(1e-3) == alone  # which allows for more
    with pytest.raises(ValueError, match='says nothing of delta = 1e-06'):
        alone.at(1e-6)
    assert sharpest(alone, 1000) == alone


def test_all_guesses_right_is_the_largest_bound():
    assert largest_bound(100, 1e-5, 0.9, 2) == one_run_epsilon(100, 100, 100, 1e-5, 0.95)


def test_the_sharpest_delta_leaves_most_room_above_the_claim():
    chosen = sharpest(claim(), 1000)
    room = {d: largest_bound(1000, d) - claim().at(d).epsilon for d in (1e-4, 1e-5, 1e-6, 1e-8)}
    assert largest_bound(1000, chosen.delta) - chosen.epsilon == max(room.values())
    assert chosen.delta < 1e-4 and room[1e-4] < room[chosen.delta] - 1


@pytest.mark.parametrize('unit, attacked, says', [('record', 'record', ''), ('node', 'node', '')])
def test_an_attack_on_the_unit_leaves_nothing_out(unit, attacked, says):
    assert Limit(1.0, 0.0, '', unit=unit).scope(attacked) == says


def test_an_attack_on_a_record_says_what_it_leaves_out_of_a_claim_for_a_node():
    says = Limit(1.0, 0.0, '', unit='node').scope('record')
    assert 'attacked is one record' in says and 'The claim is for a node' in says
    assert Limit(1.0, 0.0, '', is_claim=False, unit='node').scope('record') == ''
