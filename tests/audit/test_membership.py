from dataclasses import replace

import pytest
import torch

from tests.helpers.attacked import SHAPE, records, trees
from torch_geometric_cgt.audit import Limit
from torch_geometric_cgt.audit.check import ABOVE, NOTHING, WITHIN, strongest
from torch_geometric_cgt.audit.membership import (
    edge_inference,
    groups_of,
    membership_inference,
    pair_scores,
    tell_apart,
)
from torch_geometric_cgt.data import TreeShape


def equal_records(y, degree):
    """Records that differ by label and degree alone."""
    return records(torch.zeros(len(y), SHAPE.num_slots, dtype=torch.long), y, degree=degree)


def some_records(num, seed=0):
    rng = torch.Generator().manual_seed(seed)
    y, degree = (torch.randint(high, (num,), generator=rng) for high in (4, 50))
    return equal_records(y, degree)


def inferred(num, shift, seed=0):
    """Scores of which one tells members by some amount and one tells nothing."""
    known, rng = some_records(num, seed), torch.Generator().manual_seed(seed + 1000)
    is_member = torch.arange(num) < num // 2
    expected = torch.randn(num, generator=rng, dtype=torch.double)
    noise = torch.randn(2, num, generator=rng, dtype=torch.double)
    scores = {'good': noise[0] + shift * is_member, 'bad': noise[1]}
    return membership_inference(known, is_member, scores, expected)


def verdicts(found, epsilon):
    return [check.verdict for check in found.checks(Limit(epsilon, 0.0, 'here'))]


def test_groups_by_hand():
    y = torch.tensor([2] + [0] * 20 + [1] * 19)
    groups = groups_of(equal_records(y, torch.arange(40)), torch.arange(40).double())
    assert groups['hubs'].nonzero().view(-1).tolist() == [38, 39]
    assert groups['outliers'].nonzero().view(-1).tolist() == [0, 1]
    # a twentieth is two records: label 2 has one, label 1 has 19 more
    assert groups['rare labels'].tolist() == (y != 0).tolist()


def test_ties_do_not_favour_those_who_come_first():
    alike = equal_records(torch.zeros(2000).long(), torch.full((2000,), 4))
    hubs = groups_of(alike, torch.zeros(2000))['hubs'].nonzero().view(-1)
    assert len(hubs) == 100 and 35 <= int((hubs < 1000).sum()) <= 65


def test_a_leak_fails_and_is_named():
    found = inferred(2000, 4.0)
    checks = found.checks(Limit(1.0, 0.0, 'here'))
    assert [check.verdict for check in checks] == [ABOVE] * 2
    assert checks[0].threshold < checks[0].low <= checks[0].value <= checks[0].high
    assert "'good'" in checks[0].says or "'combined'" in checks[0].says
    assert checks[0].origin == 'here'


def test_a_small_leak_fails_a_small_claim_only():
    found = inferred(4000, 0.5)  # an area of 0.64
    assert verdicts(found, 0.1)[0] == ABOVE and verdicts(found, 1.0)[0] == WITHIN


def test_nothing_to_see_passes_even_at_epsilon_zero():
    passed = [set(verdicts(inferred(400, 0.0, seed), 0.0)) == {NOTHING} for seed in range(12)]
    assert sum(passed) >= 11


def test_the_combined_score_finds_what_single_ones_hide():
    """Members have a high sum of two scores that are opposed for everybody."""
    rng, num = torch.Generator().manual_seed(0), 1000
    known, is_member = some_records(num), torch.arange(num) % 2 == 0
    hidden = 5 * torch.randn(num, generator=rng, dtype=torch.double)
    noise = torch.randn(2, num, generator=rng, dtype=torch.double)
    scores = {'a': hidden + noise[0] + is_member, 'b': noise[1] - hidden + is_member}
    found = membership_inference(known, is_member, scores, noise[0] * 0)
    area = {a.score: a.area.value for a in found.attacks if a.group == 'all'}
    assert area['combined'] > 0.78 and max(area['a'], area['b']) < 0.65


def test_rates_need_enough_others():
    found = inferred(400, 1.0)
    rates = next(a for a in found.attacks if a.group == 'all').true_positives
    assert rates[0.01] is not None and rates[0.001] is None
    assert len(found.checks(Limit(1.0, 0.0, ''))) == 2
    groups = {attack.group for attack in found.attacks}
    assert 'all' in groups and 'hubs' not in groups  # of which there are twenty in all


def by_hand():
    """1,200 members and 1,200 others; 60 of each are hubs. The scores of all others are 0 to
    1199, those of members the same, but for 30 hubs among them, who are above everybody."""
    num = 1200
    degree = torch.zeros(2 * num, dtype=torch.long)
    degree[:60] = degree[num : num + 60] = 9
    score = torch.cat([torch.arange(num), torch.arange(num)]).double()
    score[:30] = 5000.0
    score[num : num + 2] = torch.tensor([1198.5, 1199.5])  # two hubs who are not members
    known = replace(some_records(2 * num), degree=degree)
    is_member = torch.arange(2 * num) < num
    expected = torch.rand(2 * num, generator=torch.Generator().manual_seed(1)).double()
    return membership_inference(known, is_member, {'score': score}, expected)


def test_the_threshold_of_all_others_is_that_of_every_group():
    """12 of 1,200 others may be above the threshold of 1 %, one above that of 0.1 %."""
    found = {a.group: a.true_positives for a in by_hand().attacks if a.score == 'score'}
    assert set(found) >= {'all', 'hubs', 'outliers'}
    values = {
        (group, rate): (found[group][rate].share.value, found[group][rate].others.value)
        for group in ('all', 'hubs')
        for rate in (0.01, 0.001)
    }
    # Above 1 %: 1190 and more, and 1198.5 and 1199.5 with them; above 0.1 %: 1199.5 alone.
    assert values['all', 0.01] == (40 / 1200, 12 / 1200)
    assert values['all', 0.001] == (30 / 1200, 1 / 1200)
    assert values['hubs', 0.01] == (30 / 60, 2 / 60)
    assert values['hubs', 0.001] == (30 / 60, 1 / 60)
    assert all(rate is not None for rates in found.values() for rate in rates.values())


def test_a_group_is_held_to_its_own_false_alarms():
    """Half of the hubs are found, which epsilon = 0.8 does not allow; that hubs are accused more
    often than all others, members or not, is allowed for."""
    found = by_hand()
    checks = {check.name: check for check in found.checks(Limit(0.8, 0.0, 'here'))}
    check = checks['Membership inference: members found']
    assert check.verdict == ABOVE and 'on hubs (60 members, 60 others)' in check.says
    hubs = [a for a in found.attacks if a.group == 'hubs']
    named = next(a for a in hubs if f"'{a.score}'" in check.says)
    rate = named.true_positives[0.001]
    assert check.threshold == Limit(0.8, 0.0, '').highest(rate.others.high)
    assert rate.others.value <= 1 / 60 < rate.others.high < 0.15  # not 0.001 of all others
    assert check.value == 0.5 and check.low == rate.share.low > check.threshold


def test_the_strongest_attack_is_chosen_by_what_it_proves():
    """Half of the hubs, of whom 1 in 60 others is accused, before 3 % of all."""
    found = by_hand()
    best = strongest(found.accusations())
    assert best.group == 'hubs' and best.found.value == 0.5
    assert best.epsilon == max(a.epsilon for a in found.accusations()) > 0.9
    assert best.sentence().startswith('It finds 50 % of members while wrongly accusing ')


def test_too_few_members_are_no_attack():
    is_member = torch.arange(30) < 15
    with pytest.raises(ValueError, match=r'20 edges and 20 others \(got 15 and 15\)'):
        tell_apart({'s': torch.rand(30)}, is_member, {'all': is_member | True}, whom='edges')


ONE = TreeShape((2,))


def test_scores_by_hand():
    """Five pairs of parent and child: 0 above 1 three times, 1 above 0 and 2 once each."""
    released = trees([[0, 1, 1], [0, 1, 3], [1, 0, 2]], [0, 0, 1], shape=ONE)
    token, y = torch.tensor([0, 1, 2]), torch.tensor([0, 1, -1])
    found = pair_scores(released, token, y, torch.tensor([[0, 1], [1, 2]]))
    # 0 and 1: 3 + 1 times; 3 parents times 3 children, 2 times 1, of five; half a pair each
    expected = [(4 + 0.5) / (9 / 5 + 2 / 5 + 0.5), (1 + 0.5) / (2 / 5 + 0.5)]
    assert found['pairs of tokens'].exp().tolist() == pytest.approx(expected)
    # With the label of the root: (0, 0) above 1 three times, (1, 1) above 0 and 2 once each;
    # node 2 has no label and is no root.
    assert found['pairs with label'].exp().tolist() == pytest.approx(expected)


def graph(num_nodes=300, seed=0):
    """Random pairs, of which a release may show the first half; each node is its own token."""
    rng = torch.Generator().manual_seed(seed)
    pair = torch.randint(num_nodes, (600, 2), generator=rng)
    pair = pair[pair[:, 0] != pair[:, 1]].sort(dim=1).values.unique(dim=0)
    pair = pair[torch.randperm(len(pair), generator=rng)]
    return pair[:250], pair[250:500], torch.arange(num_nodes)


def released(pairs, num_nodes=300):
    tokens = torch.cat([pairs, torch.full((len(pairs), 1), num_nodes)], dim=1)
    return trees(tokens, torch.zeros(len(pairs), dtype=torch.long), num_nodes, ONE)


def test_a_release_of_edges_is_above_the_limit_and_another_one_is_not():
    inside, held_out, token = graph()
    y = torch.zeros_like(token)
    shown = edge_inference(released(inside), token, y, inside, held_out)
    for check in shown.checks(Limit(1.0, 0.0, '')):
        assert check.verdict == ABOVE and check.name.startswith('Edge inference')
    assert max(a.epsilon for a in shown.accusations()) > 1
    assert 'of edges' in shown.accusations()[0].sentence()
    rest = graph(seed=1)[0]
    other = edge_inference(released(rest), token, y, inside, held_out)
    assert {check.verdict for check in other.checks(Limit(0.0, 0.0, ''))} == {NOTHING}


def test_few_edges_are_an_error():
    inside, held_out, token = graph()
    with pytest.raises(ValueError, match='got 250 and 3'):
        edge_inference(released(inside), token, token * 0, inside, held_out[:3])
