"""Queries on the data: answers, the entries that pay for them, and sums of rows on a grid."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.neighbouring_runs import epsilon_lower_bound
from torch_geometric_cgt.errors import LedgerError
from torch_geometric_cgt.privacy import (
    Answer,
    DiscreteGaussian,
    Entry,
    Gaussian,
    Laplace,
    Queries,
    SampledGaussian,
)
from torch_geometric_cgt.privacy import queries as queries_module
from torch_geometric_cgt.privacy.accounting import Loss, epsilon_of
from torch_geometric_cgt.privacy.queries import (
    check_index,
    from_tensors,
    noisy_means,
    sums_on_grid,
    to_tensors,
)
from torch_geometric_cgt.utils.rows import row_norms

DELTA, DRAWS = 0.01, 40_000
values = st.floats(-1e6, 1e6, width=32)
FINE = 2.0**-30
rows = st.lists(st.lists(values, min_size=3, max_size=3), min_size=1, max_size=6)
bounds = st.floats(0.01, 10)
grids = st.sampled_from([2.0**-40, 2.0**-20, 1e-3, 0.3])


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def entry(sigma=1.0, count=1, name='counts'):
    return Entry('stage', name, {'node': 1.0}, Gaussian(sigma), count)


def ask(sigma=1.0, count=1, seed=0, replay=None):
    return Queries([entry(sigma, count)], rng(seed), replay)


def counts_on_neighbours(sigma):
    """Noise on bins is independent: each bin is one draw. Five rows in it, or four."""
    bins = torch.arange(DRAWS)
    rows = [bins.repeat(5), bins.repeat(4)]
    return [
        ask(sigma, seed=seed).histogram('counts', index, DRAWS) for seed, index in enumerate(rows)
    ]


def sums_on_neighbours(sigma, length=7.0, bound=1.5):
    """Two rows of a bin, one of them too long, or only the other one."""
    bins = torch.arange(DRAWS)
    x = torch.tensor([[0.3, 0.1], [length, 0.0]])
    both = x.repeat_interleave(DRAWS, dim=0)
    full = ask(sigma).sums('counts', both, bins.repeat(2), DRAWS, bound)
    less = ask(sigma, seed=1).sums('counts', x[:1].expand(DRAWS, 2), bins, DRAWS, bound)
    return full[:, 0], less[:, 0]  # the direction in which the rows that differ point


@pytest.mark.parametrize('sigma', [1.0, 2.5])
def test_counts_keep_their_claim_and_half_the_noise_does_not(sigma):
    claim = epsilon_of([Loss(Gaussian(sigma), 1.0)], DELTA)[0]
    found = epsilon_lower_bound(*counts_on_neighbours(sigma), DELTA)
    assert 0.5 * claim < found <= claim  # close to it: the test could fail
    assert epsilon_lower_bound(*counts_on_neighbours(sigma / 2), DELTA) > claim


@pytest.mark.parametrize('sigma', [1.5, 4.0])
def test_sums_keep_their_claim_and_half_the_noise_does_not(sigma):
    claim = epsilon_of([Loss(Gaussian(sigma), 1.5)], DELTA)[0]
    found = epsilon_lower_bound(*sums_on_neighbours(sigma), DELTA)
    assert 0.5 * claim < found <= claim
    assert epsilon_lower_bound(*sums_on_neighbours(sigma / 2), DELTA) > claim


def test_sums_without_clipping_would_be_found_out():
    claim = epsilon_of([Loss(Gaussian(4.0), 1.5)], DELTA)[0]
    assert epsilon_lower_bound(*sums_on_neighbours(4.0, bound=7.0), DELTA) > claim


def test_histogram_by_hand():
    index = torch.tensor([0, 2, 2, -1, 2])
    counts = ask(1e-4).histogram('counts', index, 4)
    assert counts.dtype == torch.double
    assert torch.allclose(counts, torch.tensor([1.0, 0.0, 3.0, 0.0]).double(), atol=1e-3)
    assert not torch.allclose(ask(50.0).histogram('counts', index, 4), counts, atol=0.1)


@pytest.mark.parametrize('layout', [torch.strided, torch.sparse_coo, torch.sparse_csr])
def test_sums_by_hand(layout):
    x = torch.tensor([[3.0, 4.0], [0.6, 0.0], [0.0, 0.0], [9.0, 9.0]])
    x = x if layout == torch.strided else x.to_sparse(layout=layout)
    sums = ask(1e-7).sums('counts', x, torch.tensor([0, 0, 1, -1]), 2)
    assert torch.allclose(sums, torch.tensor([[1.2, 0.8], [0.0, 0.0]]).double(), atol=1e-6)


@pytest.mark.parametrize('sigma', [0.03, 2.5, 700.0])
@pytest.mark.parametrize('kind', ['histogram', 'counts', 'sums'])
def test_the_noise_is_as_wide_as_the_ledger_says(kind, sigma):
    asked = ask(sigma)
    empty = torch.tensor([], dtype=torch.long)
    if kind == 'histogram':
        noise = asked.histogram('counts', empty, 20_000)
    elif kind == 'counts':
        noise = asked.counts('counts', torch.full((20_000,), 3), 0.5) - 1.5
    else:
        noise = asked.sums('counts', torch.zeros(0, 50), empty, 400)
    assert asked.sigma('counts') == sigma and noise.numel() == 20_000
    assert float(noise.std()) == pytest.approx(sigma, rel=0.02)
    assert abs(float(noise.mean())) < 0.03 * sigma
    assert float((noise.abs() < 0.01 * sigma).double().mean()) < 0.02  # on a fine grid


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_row_moves_an_answer_by_more_than_its_bound(data):
    """The same noise twice: the rest is the effect of the row."""
    rows = data.draw(st.lists(st.lists(values, min_size=3, max_size=3), min_size=1, max_size=6))
    bound = data.draw(st.floats(0.01, 10))
    x, index = torch.tensor(rows), torch.arange(len(rows)) % 2
    without = index.clone()
    without[data.draw(st.integers(0, len(rows) - 1))] = -1
    full, less = (ask(2.0).sums('counts', x, i, 2, bound) for i in (index, without))
    assert float((full - less).norm()) <= bound * (1 + 1e-12)
    full, less = (ask(2.0).histogram('counts', i, 2) for i in (index, without))
    assert float((full - less).norm()) <= 1


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-3, 1e5), st.floats(1e-3, 10), st.integers(1, 1000))
def test_a_step_weighs_no_more_than_its_unit(sigma, unit, steps):
    """The grid does not divide a unit, and is rounded in favour of privacy."""
    asked = ask(sigma, count=2, replay=[Answer('counts', 0.0, torch.zeros(1).long())] * 2)
    for number in (steps, 0):
        asked.counts('counts', torch.tensor([number]), unit)
    more, less = asked.answers
    moved = int(more.exact - less.exact) * more.grid
    assert moved <= steps * unit * (1 + 1e-12)
    assert moved >= steps * (unit - more.grid) * (1 - 1e-12)


def test_noise_that_is_too_small_for_the_grid_is_refused():
    with pytest.raises(ValueError, match=r"noise of 'counts' is too small"):
        ask(1e-12).counts('counts', torch.tensor([1 << 30]))
    with pytest.raises(ValueError, match=r"'grid' is too small"):
        ask(1e-14).sums('counts', torch.zeros(2, 2), torch.tensor([0, 0]), 1)


def median(sigma, seed=0, low=-20, high=20, steps=8):
    values = torch.linspace(0, 10, 1001)
    return ask(sigma, steps, seed).median('counts', values, low, high, steps)


def test_median_by_bisection():
    assert abs(median(0.01, steps=12) - 5) < 0.05
    found = [median(30.0, seed) for seed in range(20)]
    assert max(abs(m - 5) for m in found) < 2 and len(set(found)) > 1
    assert median(1.0, low=20, high=40) < 20.1


def test_each_step_of_a_median_is_one_run():
    asked = ask(count=3)
    asked.median('counts', torch.arange(9.0), 0, 10, 3)
    assert [answer.released.shape for answer in asked.answers] == 3 * [(1,)]
    with pytest.raises(LedgerError, match=r"pays for 3 runs of 'counts', and one more"):
        ask(count=3).median('counts', torch.arange(9.0), 0, 10, 4)


def all_kinds(asked, name='counts'):
    """The same query in all forms, as functions."""
    index = torch.tensor([0, 1])
    return [
        lambda: asked.sums(name, torch.ones(2, 2), index, 2),
        lambda: asked.counts(name, index),
        lambda: asked.histogram(name, index, 2),
        lambda: asked.median(name, index.double(), 0, 1, 1),
    ]


def no_noise(*args):
    raise AssertionError('noise was drawn')


@pytest.mark.parametrize('kind', range(4))
def test_a_query_without_an_entry_is_not_answered(kind, monkeypatch):
    monkeypatch.setattr(queries_module, 'discrete_gaussian', no_noise)
    asked = ask()
    with pytest.raises(LedgerError, match=r"no entry 'degrees' .it has counts.*must not be read"):
        all_kinds(asked, 'degrees')[kind]()
    assert asked.answers == []


@pytest.mark.parametrize('kind', range(4))
def test_one_run_too_many_is_not_answered(kind, monkeypatch):
    asked = ask(count=2)
    for _ in range(2):
        all_kinds(asked)[kind]()
    monkeypatch.setattr(queries_module, 'discrete_gaussian', no_noise)
    with pytest.raises(LedgerError, match=r"pays for 2 runs of 'counts', and one more"):
        all_kinds(asked)[kind]()
    assert len(asked.answers) == 2


@pytest.mark.parametrize('noise', [DiscreteGaussian(2.0), Laplace(1.0), None])
@pytest.mark.parametrize('kind', range(4))
def test_other_noise_than_gaussian_is_refused(kind, noise):
    asked = Queries([Entry('stage', 'counts', {'node': 1.0}, noise, note='why')])
    with pytest.raises(LedgerError, match=r"'counts' must have Gaussian noise .got"):
        all_kinds(asked)[kind]()
    assert asked.answers == []


def test_the_noise_of_gradients_is_no_noise_of_queries():
    asked = Queries([Entry('stage', 'steps', {'node': 1.0}, SampledGaussian(1.0, 0.1, 5))])
    with pytest.raises(LedgerError, match=r"'steps' must have Gaussian noise"):
        asked.sigma('steps')


def test_two_queries_have_independent_noise():
    asked = Queries([entry(3.0, 2), entry(3.0, name='others')], rng())
    zeros = torch.zeros(20_000).long()
    noise = torch.stack([asked.counts(name, zeros) for name in ('counts', 'counts', 'others')])
    together = torch.corrcoef(noise) - torch.eye(3)
    assert float(together.abs().max()) < 0.03
    fresh = [Queries([entry(3.0)]).counts('counts', zeros[:50]) for _ in range(2)]
    assert not torch.equal(*fresh)  # of the operating system
    seeded = [ask(3.0).counts('counts', zeros[:50]) for _ in range(2)]
    assert torch.equal(*seeded)


def test_a_replay_returns_what_was_released_and_keeps_what_is_exact():
    entries = [entry(2.0, 2), entry(0.5, name='sums')]

    def run(asked, x, index):
        first = asked.histogram('counts', index, 3)
        return first, asked.sums('sums', x, index, 3), asked.histogram('counts', index.flip(0), 3)

    x, index = torch.rand(5, 2, generator=rng()), torch.tensor([0, 2, 2, 1, -1])
    made = Queries(entries, rng())
    released = run(made, x, index)
    assert all(answer.exact is None for answer in made.answers)
    other = index.clone()
    other[1] = -1
    again = Queries(entries, None, made.answers)
    assert all(map(torch.equal, run(again, x, other), released))
    assert [answer.name for answer in again.answers] == ['counts', 'sums', 'counts']
    counts, sums, _ = again.answers
    for before, after in zip(made.answers, again.answers, strict=True):
        assert torch.equal(before.released, after.released) and before.grid == after.grid
    assert torch.allclose(counts.exact.double() * counts.grid, torch.ones(3).double())
    rows = torch.stack([x[0], x[3], x[2]]).double()  # each alone in its bin
    rows = rows / rows.norm(dim=1, keepdim=True).clamp(min=1)
    assert torch.allclose(sums.exact.double() * sums.grid, rows, atol=1e-5)


@pytest.mark.parametrize(
    'answers',
    [
        [],
        [Answer('others', 1.0, torch.zeros(3).long())],
        [Answer('counts', 1.0, torch.zeros(4).long())],
        [Answer('counts', 1.0, torch.zeros(1, 3).long())],
    ],
)
def test_a_replay_of_another_build_is_refused(answers):
    asked = ask(replay=answers)
    with pytest.raises(LedgerError, match=r"Query 0, 'counts' with \[3\] values.*another build"):
        asked.histogram('counts', torch.tensor([0, 1]), 3)
    assert asked.answers == []


def test_a_replay_pays_as_well():
    given = [Answer('counts', 1.0, torch.zeros(2).long())] * 2
    asked = ask(replay=given)
    asked.histogram('counts', torch.tensor([0]), 2)
    with pytest.raises(LedgerError, match=r'one more was asked for'):
        asked.histogram('counts', torch.tensor([0]), 2)


def test_answers_survive_files():
    asked = Queries([entry(2.0, 2), entry(0.5, name='sums')], rng())
    asked.histogram('counts', torch.tensor([0, 1]), 2)
    asked.sums('sums', torch.rand(2, 3), torch.tensor([0, 1]), 2)
    asked.histogram('counts', torch.tensor([1, 1, 0]), 4)
    tensors, facts = to_tensors(asked.answers, 'answer')
    assert list(tensors) == ['answer.0', 'answer.1', 'answer.2']
    again = from_tensors({**tensors, 'other': torch.zeros(1)}, facts, 'answer')
    for before, after in zip(asked.answers, again, strict=True):
        assert (before.name, before.grid, after.exact) == (after.name, after.grid, None)
        assert torch.equal(before.released, after.released)
    assert to_tensors([], 'answer') == ({}, []) and from_tensors({}, [], 'answer') == []


def test_exact_results_are_not_written():
    exact = Answer('counts', 1.0, torch.tensor([5]), torch.tensor([4]))
    tensors, facts = to_tensors([exact], 'a')
    assert list(tensors) == ['a.0'] and tensors['a.0'].tolist() == [5]
    assert facts == [{'name': 'counts', 'grid': 1.0}]


def lengths(steps, grid):
    """The length of each row of integer steps, with exact sums of squares."""
    return [math.sqrt(sum(int(v) ** 2 for v in row)) * grid for row in steps.tolist()]


@pytest.mark.parametrize('layout', [torch.strided, torch.sparse_coo, torch.sparse_csr])
def test_sums_on_a_grid_by_hand(layout):
    x = torch.tensor([[3.0, 4.0], [0.6, 0.0], [0.0, 0.0], [9.0, 9.0]])
    x = x if layout == torch.strided else x.to_sparse(layout=layout)
    sums = sums_on_grid(x, torch.tensor([0, 0, 1, -1]), 2, 1.0, FINE)
    assert sums.dtype == torch.long
    expected = torch.tensor([[1.2, 0.8], [0.0, 0.0]]).double()
    assert torch.allclose(sums.double() * FINE, expected, atol=1e-6)


def test_rows_are_rounded_towards_zero():
    x = torch.tensor([[0.3, -0.3], [0.3, -0.3], [-0.26, 0.24]])
    sums = sums_on_grid(x, torch.tensor([0, 0, 0]), 1, 1.0, 0.25)
    assert sums.tolist() == [[1, -2]]


@settings(max_examples=100, deadline=None)
@given(rows, bounds, grids)
def test_rounding_makes_no_row_longer(rows, bound, grid):
    x = torch.tensor(rows)
    each = sums_on_grid(x, torch.arange(len(rows)), len(rows), bound, grid)
    for found, norm in zip(lengths(each, grid), row_norms(x).tolist(), strict=True):
        assert found <= min(bound, norm * (1 + 1e-12))


@settings(max_examples=100, deadline=None)
@given(rows, bounds, grids, st.data())
def test_no_row_moves_a_sum_by_more_than_the_bound(rows, bound, grid, data):
    x, index = torch.tensor(rows), torch.arange(len(rows)) % 2
    index_without = index.clone()
    index_without[data.draw(st.integers(0, len(rows) - 1))] = -1
    full, less = (sums_on_grid(x, i, 2, bound, grid) for i in (index, index_without))
    (moved,) = lengths((full - less).view(1, -1), grid)
    assert moved <= bound


@pytest.mark.parametrize('layout', [torch.strided, torch.sparse_coo])
def test_the_longest_row_reaches_the_bound(layout):
    """So that the tests above could fail."""
    x = torch.tensor([[30.0, 40.0]])
    x = x if layout == torch.strided else x.to_sparse()
    (found,) = lengths(sums_on_grid(x, torch.tensor([0]), 1, 2.5, FINE), FINE)
    assert 2.5 * (1 - 1e-8) < found <= 2.5


def test_means_survive_counts_below_one():
    sums = torch.tensor([[4.0, 0.0], [0.5, 0.0], [-3.0, 4.0]])
    means = noisy_means(sums, torch.tensor([8, -2, 0]), 1.0)
    assert torch.allclose(means, torch.tensor([[0.5, 0.0], [0.5, 0.0], [-0.6, 0.8]]))


@pytest.mark.parametrize(
    'make, message',
    [
        (lambda: check_index(torch.tensor([3]), 3), r"below 'num_bins' = 3 .got 3"),
        (lambda: check_index(torch.tensor([0.5]), 3), r'vector of integers'),
        (lambda: check_index(torch.tensor([0]), 0), r"'num_bins' must be at least 1"),
        (lambda: _sums(torch.zeros(3, 2)), r'for each of the 2 bins .got \[3, 2\]'),
        (lambda: _sums(torch.tensor([[0.0], [math.nan]])), r"'x' must be finite"),
        (lambda: _sums(torch.zeros(2, 2), bound=0.0), r"'bound' must be positive"),
        (lambda: _sums(torch.zeros(2, 2), grid=math.inf), r"'grid' must be positive"),
        (lambda: _sums(torch.zeros(2, 2), grid=1e-20), r"'grid' is too small"),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def _sums(x, bound=1.0, grid=1.0):
    return sums_on_grid(x, torch.tensor([0, 0]), 1, bound, grid)
