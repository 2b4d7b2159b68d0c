import torch

from tests.privacy.audit.made_up import SHAPE
from torch_geometric_cgt.privacy.audit.limit import Limit
from torch_geometric_cgt.privacy.audit.membership import groups_of, membership_inference
from torch_geometric_cgt.privacy.audit.records import Records


def some_records(num, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return Records(
        torch.zeros(1, num, SHAPE.num_slots, dtype=torch.long),
        torch.randint(4, (num,), generator=rng),
        torch.rand(num, generator=rng),
        torch.randint(50, (num,), generator=rng),
        3,
        SHAPE,
    )


def inferred(num, shift, seed=0):
    """Scores of which one tells members by some amount and one tells nothing."""
    records, rng = some_records(num, seed), torch.Generator().manual_seed(seed + 1000)
    is_member = torch.arange(num) < num // 2
    expected = torch.randn(num, generator=rng, dtype=torch.double)
    noise = torch.randn(2, num, generator=rng, dtype=torch.double)
    scores = {'good': noise[0] + shift * is_member, 'bad': noise[1]}
    return membership_inference(records, is_member, scores, expected)


def verdicts(found, epsilon):
    return [check.verdict for check in found.checks(Limit(epsilon, 0.0, 'here'))]


def test_groups_by_hand():
    records = Records(
        torch.zeros(1, 40, SHAPE.num_slots, dtype=torch.long),
        torch.tensor([2] + [0] * 20 + [1] * 19),
        torch.zeros(40),
        torch.arange(40),
        3,
        SHAPE,
    )
    groups = groups_of(records, torch.arange(40).double())
    assert groups['hubs'].nonzero().view(-1).tolist() == [38, 39]
    assert groups['outliers'].nonzero().view(-1).tolist() == [0, 1]
    # a twentieth is two records: label 2 has one, label 1 has 19 more
    assert groups['rare labels'].tolist() == (records.y != 0).tolist()


def test_ties_do_not_favour_those_who_come_first():
    records = Records(
        torch.zeros(1, 2000, SHAPE.num_slots, dtype=torch.long),
        torch.zeros(2000).long(),
        torch.zeros(2000),
        torch.full((2000,), 4),
        3,
        SHAPE,
    )
    hubs = groups_of(records, torch.zeros(2000))['hubs'].nonzero().view(-1)
    assert len(hubs) == 100 and 35 <= int((hubs < 1000).sum()) <= 65


def test_a_leak_fails_and_is_named():
    found = inferred(2000, 4.0)
    checks = found.checks(Limit(1.0, 0.0, 'here'))
    assert [check.verdict for check in checks] == ['failed'] * 3
    assert checks[0].threshold < checks[0].low <= checks[0].value <= checks[0].high
    assert "'good'" in checks[0].says or "'combined'" in checks[0].says
    assert checks[0].origin == 'here'


def test_a_small_leak_fails_a_small_claim_only():
    found = inferred(4000, 0.5)  # an area of 0.64
    assert verdicts(found, 0.1)[0] == 'failed' and verdicts(found, 1.0)[0] == 'passed'


def test_nothing_to_see_passes_even_at_epsilon_zero():
    passed = [set(verdicts(inferred(400, 0.0, seed), 0.0)) == {'passed'} for seed in range(12)]
    assert sum(passed) >= 11


def test_the_combined_score_finds_what_single_ones_hide():
    """Members have a high sum of two scores that are opposed for everybody."""
    rng, num = torch.Generator().manual_seed(0), 1000
    records, is_member = some_records(num), torch.arange(num) % 2 == 0
    hidden = 5 * torch.randn(num, generator=rng, dtype=torch.double)
    noise = torch.randn(2, num, generator=rng, dtype=torch.double)
    scores = {'a': hidden + noise[0] + is_member, 'b': noise[1] - hidden + is_member}
    found = membership_inference(records, is_member, scores, noise[0] * 0)
    area = {a.score: a.area.value for a in found.attacks if a.group == 'all'}
    assert area['combined'] > 0.78 and max(area['a'], area['b']) < 0.65


def test_rates_need_enough_others():
    found = inferred(400, 1.0)
    rates = next(a for a in found.attacks if a.group == 'all').true_positives
    assert rates[0.01] is not None and rates[0.001] is None
    assert len(found.checks(Limit(1.0, 0.0, ''))) == 2
    groups = {attack.group for attack in found.attacks}
    assert 'all' in groups and 'hubs' not in groups  # of which there are twenty in all
