import math
from dataclasses import replace

import pytest
import torch

from tests.helpers.attacked import source
from tests.helpers.builds import drawn_trees
from torch_geometric_cgt.audit import Limit, canary_audit, insert_canaries
from torch_geometric_cgt.audit.canaries import zero_out_records
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.pipeline import DifferentialPrivacy, PrivatePipeline
from torch_geometric_cgt.pipeline.config import BuildConfig
from torch_geometric_cgt.sampler import InNeighbors, sample_trees

SHAPE = TreeShape((3, 2))


def test_a_canary_is_one_record():
    before = source(80)
    canaries = insert_canaries(before, 20, SHAPE, seed=0)
    inside, every = canaries.inside, canaries.every
    assert 0 < int(canaries.coin.sum()) < 20
    assert canaries.node.tolist() == list(range(80, 100))
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
            inside.data[name][80:][canaries.coin], every.data[name][canaries.node[canaries.coin]]
        )
    assert not bool(inside.data.x[80:][~canaries.coin].any())
    assert set(inside.data.y[80:][~canaries.coin].tolist()) == {-1}
    assert inside.num_roots == every.num_roots == 100
    assert inside.data.num_nodes == every.data.num_nodes == 100
    assert torch.equal(inside.data.edge_index, every.data.edge_index)
    assert new.degree(canaries.node).tolist() == [3] * 20


@pytest.mark.parametrize('unit', ['record', 'node'])
@pytest.mark.parametrize('form', ['histograms', 'dp_sgd'])
def test_a_coin_changes_the_rows_of_its_own_canary_and_nothing_else(unit, form, tmp_path):
    """Both tables of a private build, and all that is planned from public numbers."""
    canaries = insert_canaries(source(400), 40, SHAPE, seed=0)
    chosen = 7
    flipped = canaries.coin.clone()
    flipped[chosen] = ~flipped[chosen]
    tables, plans = [], []
    for coin in (canaries.coin, flipped):
        inside = replace(canaries, coin=coin).inside
        private = DifferentialPrivacy(8.0, unit=unit, form=form)
        config = BuildConfig(num_neighbors=SHAPE.num_neighbors, privacy=private)
        work = tmp_path / str(len(tables))
        run = PrivatePipeline(inside, config, work, log=False)
        tree = torch.full((440, SHAPE.num_slots), -2)  # where there is none
        tree[inside.root] = drawn_trees(run)
        tables.append((inside.data.x, inside.data.y, tree))
        plans.append((run.plan.numbers, [entry.to_dict() for entry in run.ledger.entries]))
    assert plans[0] == plans[1] and plans[0][0].num_roots == 440
    other = torch.arange(440) != canaries.node[chosen]
    for one, two in zip(*tables, strict=True):
        assert torch.equal(one[other], two[other]) and not torch.equal(one[~other], two[~other])


@pytest.mark.parametrize('layout', ['dense', 'coo', 'csr'])
def test_zeroed_out_rows(layout):
    before = source(30)
    x = before.data.x.clone()
    before.data.x = {'dense': x, 'coo': x.to_sparse_coo(), 'csr': x.to_sparse_csr()}[layout]
    after = zero_out_records(before, torch.tensor([3, 29]))
    x[[3, 29]] = 0
    assert after.data.x.layout == before.data.x.layout
    assert torch.equal(after.data.x.to_dense(), x)
    assert (after.root.numel(), after.num_roots) == (28, 30)
    assert (before.data.y >= 0).all() and after.fingerprint() != before.fingerprint()
    again = zero_out_records(after, torch.tensor([3, 4]))  # 3 is gone already
    assert (again.root.numel(), again.num_roots) == (27, 30)


def test_coins_do_not_show_in_the_canaries():
    """The same canaries are made whatever the coins are: nothing but the build depends on them."""
    halves = [insert_canaries(source(80), 200, SHAPE, seed).coin.double().mean() for seed in (0, 1)]
    assert all(0.35 < float(half) < 0.65 for half in halves)
    with pytest.raises(ValueError, match='got 0'):
        insert_canaries(source(80), 0, SHAPE, seed=0)


@pytest.mark.parametrize('epsilon', [0.25, 0.5, 1.0, 2.0, 3.0])
def test_randomised_response_stays_below_its_claim(epsilon):
    """A mechanism that shows every coin through randomised response, seen through three scores:
    the answers, the answers in disguise, and noise."""
    rng, held, bounds = torch.Generator().manual_seed(0), 0, []
    for _ in range(100):
        coin = torch.rand(200, generator=rng) < 0.5
        lie = torch.rand(200, generator=rng) > 1 / (1 + math.exp(-epsilon))
        noise = torch.rand(3, 200, generator=rng)
        answer = (coin ^ lie).double()
        scores = {'answer': answer + 0.5 * noise[0], 'other': answer + noise[1], 'no': noise[2]}
        found = canary_audit(coin, scores)
        assert found.most > epsilon
        held += found.check(Limit(epsilon, 0.0, '')).verdict == 'passed'
        bounds.append(found.best.epsilon)
    assert held >= 95
    if epsilon >= 2:
        assert torch.tensor(bounds).median() > 0.4 * epsilon


def test_half_of_the_noise_is_found_out():
    """Answers at epsilon 4 that are claimed to be at 1."""
    rng = torch.Generator().manual_seed(0)
    coin = torch.rand(300, generator=rng) < 0.5
    lie = torch.rand(300, generator=rng) > 1 / (1 + math.exp(-4.0))
    found = canary_audit(coin, {'answer': (coin ^ lie).double()})
    check = found.check(Limit(1.0, 0.0, 'the claim'))
    assert check.verdict == 'failed' and check.value > 1.0 == check.threshold


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
    assert found.most == pytest.approx(math.log(q / (1 - q))) == found.best.epsilon
    check = found.check(Limit(0.5, 0.0, 'here'))
    assert check.verdict == 'failed' and 'cannot fail' not in check.says
    check = found.check(Limit(1.0, 0.0, 'here'))  # above what eight of them can show
    assert (check.verdict, check.threshold, check.origin) == ('descriptive', None, 'here')
    assert (
        f'cannot fail: if all guesses were right, the bound would be {found.most:.2f}' in check.says
    )
