import math

import pytest
import torch

from tests.helpers.attacked import source
from torch_geometric_cgt.audit import Limit, canary_audit, insert_canaries
from torch_geometric_cgt.audit.canaries import enough_canaries
from torch_geometric_cgt.audit.check import ABOVE, NOTHING, UNCHECKED, WITHIN
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.sampler import InNeighbors, sample_trees

SHAPE = TreeShape((3, 2))


def test_a_frozen_canary_is_one_record():
    before = source(80)
    canaries = insert_canaries(before, 20, SHAPE, 0, 'frozen_record')
    inside, every = canaries.inside, canaries.every
    assert 0 < int(canaries.coin.sum()) < 20
    assert canaries.which.tolist() == list(range(80, 100))
    for graph in (inside, every):
        assert torch.equal(graph.data.x[:80], before.data.x)
        assert torch.equal(graph.data.y[:80], before.data.y)
        assert int(graph.data.edge_index[0].max()) < 80  # nobody has a canary as neighbour
        assert not bool(graph.data.edge_index[1, : before.data.num_edges].ge(80).any())
    # The trees of all others are what they were.
    old, new = (
        InNeighbors.from_edge_index(g.data.edge_index, g.data.num_nodes) for g in (before, every)
    )
    root = torch.arange(80)
    drawn = [sample_trees(g, root, SHAPE, torch.Generator().manual_seed(0)) for g in (old, new)]
    assert torch.equal(*drawn)
    # Those inside are those of the coin; of the others there is nothing but their number.
    for name in ('x', 'y'):
        assert torch.equal(
            inside.data[name][80:][canaries.coin], every.data[name][canaries.which[canaries.coin]]
        )
    assert not bool(inside.data.x[80:][~canaries.coin].any())
    assert set(inside.data.y[80:][~canaries.coin].tolist()) == {-1}
    assert inside.num_roots == every.num_roots == 100
    assert inside.data.num_nodes == every.data.num_nodes == 100
    assert torch.equal(inside.data.edge_index, every.data.edge_index)
    assert new.degree(canaries.which).tolist() == [3] * 20


def test_a_canary_node_is_a_neighbour_of_others_and_goes_with_its_edges():
    before = source(80)
    canaries = insert_canaries(before, 20, SHAPE, 0, 'node')
    inside, every = canaries.inside.data, canaries.every.data
    new = every.edge_index[:, before.data.num_edges :]
    assert new.size(1) == 2 * 20 * 3  # both directions
    assert {tuple(e) for e in new.t().tolist()} == {tuple(e) for e in new.flip(0).t().tolist()}
    gone = canaries.which[~canaries.coin]
    assert (
        torch.isin(every.edge_index, gone).any() and not torch.isin(inside.edge_index, gone).any()
    )
    assert int(inside.num_edges) == before.data.num_edges + 6 * int(canaries.coin.sum())
    assert not bool(inside.x[gone].any()) and set(inside.y[gone].tolist()) == {-1}
    assert canaries.inside.num_roots == 100


def test_a_canary_of_attributes_keeps_its_edges_and_has_a_label():
    canaries = insert_canaries(source(80), 20, SHAPE, 0, 'attributes')
    inside, every = canaries.inside.data, canaries.every.data
    assert torch.equal(inside.edge_index, every.edge_index)
    gone = canaries.which[~canaries.coin]
    assert not bool(inside.x[gone].any()) and bool((inside.y >= 0).all())
    assert bool((inside.y[gone] != every.y[gone]).all())


def test_a_canary_edge_connects_real_nodes_that_were_not():
    before = source(80)
    canaries = insert_canaries(before, 30, SHAPE, 0, 'edge')
    pairs = {tuple(pair) for pair in canaries.which.tolist()}
    known = {tuple(sorted(edge)) for edge in before.data.edge_index.t().tolist()}
    assert len(pairs) == 30 and not pairs & known and all(a < b < 80 for a, b in pairs)
    y = before.data.y[canaries.which]
    assert bool((y[:, 0] != y[:, 1]).all())
    inside = {tuple(edge) for edge in canaries.inside.data.edge_index.t().tolist()}
    for (a, b), coin in zip(canaries.which.tolist(), canaries.coin.tolist(), strict=True):
        assert ((a, b) in inside) == ((b, a) in inside) == coin
    with pytest.raises(ValueError, match='use fewer canaries'):
        insert_canaries(before, 4000, SHAPE, 0, 'edge')


def test_coins_do_not_show_in_the_canaries():
    """The same canaries are made whatever the coins are: nothing but the build depends on them."""
    halves = [insert_canaries(source(80), 200, SHAPE, seed).coin.double().mean() for seed in (0, 1)]
    assert all(0.35 < float(half) < 0.65 for half in halves)
    with pytest.raises(ValueError, match='got 0'):
        insert_canaries(source(80), 0, SHAPE, seed=0)
    with pytest.raises(ValueError, match="got 'star'"):
        insert_canaries(source(80), 5, SHAPE, 0, 'star')


@pytest.mark.parametrize('epsilon', [0.25, 0.5, 1.0, 2.0, 3.0])
def test_randomised_response_stays_below_its_claim(epsilon):
    """A mechanism that shows every coin through randomised response, seen through three scores:
    the answers, the answers in disguise, and noise."""
    rng, held, bounds = torch.Generator().manual_seed(0), 0, []
    for _ in range(40):
        coin = torch.rand(200, generator=rng) < 0.5
        lie = torch.rand(200, generator=rng) > 1 / (1 + math.exp(-epsilon))
        noise = torch.rand(3, 200, generator=rng)
        answer = (coin ^ lie).double()
        scores = {'answer': answer + 0.5 * noise[0], 'other': answer + noise[1], 'no': noise[2]}
        found = canary_audit(coin, scores)
        assert found.most > epsilon
        held += found.check(Limit(epsilon, 0.0, '')).verdict in (NOTHING, WITHIN)
        bounds.append(found.best.epsilon)
    assert held >= 38
    if epsilon >= 2:
        assert torch.tensor(bounds).median() > 0.4 * epsilon


def test_half_of_the_noise_is_found_out():
    """Answers at epsilon 4 that are claimed to be at 1."""
    rng = torch.Generator().manual_seed(0)
    coin = torch.rand(300, generator=rng) < 0.5
    lie = torch.rand(300, generator=rng) > 1 / (1 + math.exp(-4.0))
    found = canary_audit(coin, {'answer': (coin ^ lie).double()})
    check = found.check(Limit(1.0, 0.0, 'the claim'))
    assert check.verdict == ABOVE and check.value > 1.0 == check.threshold


def test_guesses_are_counted_from_both_ends():
    coin = torch.tensor([True, True, False, True, False, False, False, True])
    score = torch.tensor([9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0])
    found = canary_audit(coin, {'s': score}, guesses=((0.5, 0.5), (0.25, 0.0)))
    assert [(g.num_guesses, g.num_correct) for g in found.guesses] == [(8, 6), (2, 2)]


def test_few_canaries_cannot_show_much():
    """Eight right guesses, for two bounds: q ** 8 = 0.025, and the bound is the logit of q."""
    coin = torch.tensor([True, True, True, True, False, False, False, False])
    found = canary_audit(coin, {'s': coin.double()}, guesses=((0.5, 0.5), (0.25, 0.0)))
    q = 0.025 ** (1 / 8)
    assert found.most == pytest.approx(math.log(q / (1 - q)), rel=1e-3) == found.best.epsilon
    check = found.check(Limit(0.5, 0.0, 'here'))
    assert check.verdict == ABOVE and 'cannot fail' not in check.says
    check = found.check(Limit(1.0, 0.0, 'here'))  # above what eight of them can show
    assert (check.verdict, check.value, check.threshold) == (UNCHECKED, None, None)
    assert (
        'cannot fail: if all guesses about 8 canaries were right, the bound would be' in check.says
    )
    check = found.check(Limit(1.0, 0.0, 'here', is_claim=False))
    assert (check.verdict, check.threshold) == (WITHIN, None) and 'no limit' in check.origin


def test_as_many_canaries_as_can_refute_the_claim():
    assert enough_canaries(Limit(1.0, 1e-5, ''), 10_000) == 100
    assert enough_canaries(Limit(3.5, 0.0, ''), 10_000) == 400  # by the table of all right guesses
    assert enough_canaries(Limit(3.5, 0.0, ''), 300) == 100  # at most one per two nodes
    assert enough_canaries(Limit(30.0, 0.0, ''), 10_000) == 100
    assert enough_canaries(Limit(3.5, 0.0, '', is_claim=False), 10_000) == 100
