from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.helpers.neighbouring_runs import epsilon_lower_bound
from torch_geometric_cgt.errors import LedgerError
from torch_geometric_cgt.privacy import Budget, Entry, Gaussian, Ledger, Queries
from torch_geometric_cgt.quantizer import PrivateKMeans
from torch_geometric_cgt.quantizer.private_kmeans_plan import STAGES

DELTA = 1e-4


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def words(num_rows=900, num_classes=3, seed=0):
    """Bags of words: each class has words of its own among those of all."""
    draw = rng(seed)
    y = torch.randint(num_classes, (num_rows,), generator=draw)
    often = 0.03 + 0.3 * (
        torch.arange(60)[None] % num_classes == torch.arange(num_classes)[:, None]
    )
    return (torch.rand(num_rows, 60, generator=draw) < often[y]).float(), y


def fitted(x, y, sigma=1.0, seed=0, **arguments):
    """All mechanisms with the same noise, without the time that a calibration takes."""
    arguments = {'per_label': True, 'epsilon': 4.0, **arguments}
    solver = PrivateKMeans(**arguments)
    entries = solver.plan(len(x), int(y.max()) + 1).entries(sigma)
    return solver.fit(x, y, Queries(entries, rng(seed)))


def purity(labels, y):
    table = np.zeros((labels.max() + 1, int(y.max()) + 1))
    np.add.at(table, (labels, y.numpy()), 1)
    return table.max(axis=1).sum() / len(labels)


@pytest.mark.parametrize('per_label', [False, True])
@pytest.mark.parametrize('space', ['features', 'projected'])
def test_classes_are_found(per_label, space):
    x, y = words()
    found = fitted(x, y, per_label=per_label, space=space)
    assert purity(found.labels_, y) > 0.85
    num_clusters = len(found.cluster_centers_)
    assert found.labels_.max() < num_clusters == len(found.counts_)
    assert found.cluster_centers_.shape[1] == 60
    assert abs(found.counts_.sum() - 900) < 200
    median = float(x.norm(dim=1).median())
    assert median / 1.5 < found.scale_ < 1.5 * median


def test_centres_are_close_to_the_means_of_their_rows():
    x, y = words(5000)
    found = fitted(x, y, 0.5, n_clusters=3)
    rows = torch.from_numpy(found.transform(x))
    for label in range(3):
        mean = rows[y == label].mean(dim=0)
        nearest = (torch.from_numpy(found.cluster_centers_) - mean).norm(dim=1).min()
        assert float(nearest) < 0.1 * float(mean.norm())


@pytest.mark.parametrize('per_label', [False, True])
@pytest.mark.parametrize('epsilon', [1.0, 10.0])
def test_entries_cost_the_budget(per_label, epsilon):
    x, y = words()
    found = PrivateKMeans(epsilon, DELTA, per_label=per_label, generator=rng()).fit(x, y)
    ledger = Ledger(STAGES, found.entries_)
    for unit in ('node', 'frozen_record'):
        assert 0.98 * epsilon < ledger.total(unit, DELTA).epsilon <= epsilon
    assert ledger.total('edge', DELTA).epsilon == 0
    assert ledger.total('attributes', DELTA).epsilon > 1.4 * epsilon


@pytest.mark.parametrize('per_label', [False, True])
def test_entries_cost_the_budget_of_attributes(per_label):
    x, y = words()
    solver = PrivateKMeans(9.0, DELTA, per_label=per_label, unit='attributes', generator=rng())
    ledger = Ledger(STAGES, solver.fit(x, y).entries_)
    assert 0.98 * 9 < ledger.total('attributes', DELTA).epsilon <= 9
    nodes = PrivateKMeans(9.0, DELTA, per_label=per_label).plan(len(x), 3)
    assert solver.plan(len(x), 3).num_clusters <= nodes.num_clusters  # more noise, fewer clusters


def test_a_ledger_of_more_stages_decides_on_the_noise():
    x, y = words()
    solver = PrivateKMeans(4.0, DELTA, per_label=True, generator=rng())
    ledger = Ledger([*STAGES, 'labels'], solver.plan(len(x), 3).entries())
    ledger.add(Entry('labels', 'histogram', {'node': 1.0}, Gaussian(1.0), share=1.0))
    ledger = ledger.calibrate(Budget(4.0, DELTA, 'node'))
    own = [entry for entry in ledger.entries if entry.stage != 'labels']
    found = solver.fit(x, y, Queries(own, rng()))
    assert found.entries_ == own
    rho = [e.count * e.noise.concentrated(1.0) for e in ledger.entries if e.noise]
    assert rho[-1] == pytest.approx(sum(rho) / 2, rel=0.02)  # half of the shares
    with pytest.raises(LedgerError, match="does not pay for 'median length'"):
        solver.fit(x, y, Queries(own[:1]))
    other = [replace(e, count=e.count + (e.name == 'prefix counts')) for e in own]
    with pytest.raises(LedgerError, match="does not pay for 'prefix counts'"):
        solver.fit(x, y, Queries(other))
    cheaper = [replace(e, changes={**e.changes, 'node': 0.5}) if e.noise else e for e in own]
    with pytest.raises(LedgerError, match=r"'median length'.*8 runs, change by one node 1.0"):
        solver.fit(x, y, Queries(cheaper))


@pytest.mark.parametrize('per_label', [False, True])
@pytest.mark.parametrize('space', ['features', 'projected'])
def test_every_query_is_paid_for_and_none_is_left_out(per_label, space):
    x, y = words(300)
    solver = PrivateKMeans(8.0, per_label=per_label, space=space)
    entries = solver.plan(300, 3).entries()
    queries = Queries(entries, rng())
    solver.fit(x, y, queries)
    asked = [answer.name for answer in queries.answers]
    assert set(asked) == {entry.name for entry in entries if entry.noise}
    for entry in entries:
        if entry.name == 'prefix counts':  # a tree may stop growing before its largest depth
            assert 1 <= asked.count(entry.name) <= entry.count
        elif entry.noise:
            assert asked.count(entry.name) == entry.count


@pytest.mark.parametrize('per_label', [False, True])
@pytest.mark.parametrize('space', ['features', 'projected'])
@pytest.mark.parametrize('unit', ['node', 'attributes'])
def test_no_row_moves_an_exact_result_by_more_than_its_entry(per_label, space, unit):
    """All queries are asked again, with the answers of the first run, about other rows."""
    x, y = words(60)
    x[0], x[1], x[2, 5] = 0.0, 1e4, -30.0  # nothing, far too long, one huge word
    solver = PrivateKMeans(30.0, per_label=per_label, space=space, unit=unit)
    entries = solver.plan(60, 3).entries(0.5)
    made = Queries(entries, rng())
    solver.fit(x, y, made)
    largest = {entry.name: entry.changes[unit] for entry in entries if entry.noise}

    def exact(x, y):
        again = Queries(entries, None, made.answers)
        solver.fit(x, y, again, num_labels=3)
        return [answer.exact.double() * answer.grid for answer in again.answers]

    before, reached = exact(x, y), dict.fromkeys(largest, 0.0)
    for row in range(0, 60, 3):
        other_x, other_y = x.clone(), y.clone()
        other_x[row], other_y[row] = 0.0, -1
        if unit == 'attributes':
            other_x[row] = -x[row] if row % 2 else x[(row + 7) % 60]
            other_y[row] = (y[row] + 1) % 3
        for answer, a, b in zip(made.answers, before, exact(other_x, other_y), strict=True):
            moved = float((a - b).norm())
            assert moved <= largest[answer.name] * (1 + 1e-9), answer.name
            reached[answer.name] = max(reached[answer.name], moved / largest[answer.name])
    assert min(reached.values()) > 0.5  # the bounds are not far away


def canary_scores(sigma, there, fits=250):
    """How far a centre leans towards a row that is unlike all others, or zeroed out."""
    x, y = words(60, 2)
    x = torch.cat([x[:, :20], torch.zeros(60, 1)], dim=1)
    x[0] = 0.0
    x[0, 20], y[0] = 5.0 * there, 0
    scores = []
    for seed in range(fits):
        found = fitted(x, y, sigma, seed + there * fits, n_clusters=2)
        scores.append(float(found._centers.means[0, 20]))
    return torch.tensor(scores)


@pytest.mark.slow
def test_a_canary_stays_below_the_claim_and_stands_out_where_noise_is_missing():
    plan = PrivateKMeans(3.0, per_label=True, n_clusters=2).plan(60, 2)
    claim = Ledger(STAGES, plan.entries(4.0)).total('node', 0.005).epsilon

    def bound(sigma):
        scores = [canary_scores(sigma, there) for there in (1, 0)]
        return epsilon_lower_bound(*scores, 0.005, 0.95)

    assert bound(4.0) <= claim < 2.5 < bound(0.125)


def test_assignment_takes_the_row_and_private_centres_only():
    x, y = words()
    found = fitted(x, y)
    assert (found.predict(x) == found.labels_).all()
    assert (found.predict(x[7:8]) == found.labels_[7:8]).all()


@pytest.mark.parametrize('per_label', [False, True])
def test_sparse_rows_give_what_dense_ones_give(per_label):
    x, y = words()
    dense, sparse = (fitted(rows, y, per_label=per_label) for rows in (x, x.to_sparse()))
    assert (dense.labels_ == sparse.labels_).mean() > 0.99
    assert np.allclose(dense.cluster_centers_, sparse.cluster_centers_, atol=1e-3)


def test_noise_is_fresh_unless_a_generator_is_given():
    x, y = words(300)
    solver = PrivateKMeans(4.0, DELTA, per_label=True)
    entries = solver.plan(300, 3).entries()
    fresh = [solver.fit(x, y, Queries(entries)).cluster_centers_ for _ in range(2)]
    assert fresh[0].shape != fresh[1].shape or not np.allclose(*fresh)
    assert np.array_equal(*(fitted(x, y, seed=5).cluster_centers_ for _ in range(2)))


def test_rows_without_label_are_assigned_but_move_no_centre():
    x, y = words(600)
    y = y.clone()
    y[300:] = -1
    other = x.clone()
    other[300:] = x[300:].roll(1, dims=1)  # words of another label; lengths stay
    first, second = (fitted(rows, y) for rows in (x, other))
    assert np.array_equal(first.cluster_centers_, second.cluster_centers_)
    assert len(first.labels_) == 600


def test_nonnegative_features_have_nonnegative_centres():
    x, y = words(300)
    centers = [fitted(x, y, nonnegative=known).cluster_centers_.min() for known in (False, True)]
    assert centers[0] < 0 <= centers[1]


@pytest.mark.parametrize(
    'arguments, message',
    [
        ({'epsilon': None}, r"'epsilon' must be given"),
        ({'epsilon': -1.0}, r"'epsilon' must be positive and finite .got -1.0"),
        ({'delta': 0.01}, r"'delta' must not exceed 1 / n"),
        ({'space': 'latent'}, r"'space' must be one of 'features', 'projected' .got 'latent'"),
        ({'n_clusters': 0}, r"'n_clusters' must be a positive integer"),
        ({'per_label': True, 'n_clusters': 2}, r'the number of labels, 3 .got 2'),
    ],
)
def test_wrong_arguments(arguments, message):
    x, y = words()
    with pytest.raises(ValueError, match=message):
        PrivateKMeans(**{'epsilon': 4.0, 'delta': DELTA, **arguments}).fit(x, y)


def test_clusters_per_label_need_labels():
    with pytest.raises(ValueError, match=r"'per_label=True' needs labels"):
        PrivateKMeans(4.0, DELTA, per_label=True).fit(words()[0])


def test_repr_names_every_parameter():
    assert repr(PrivateKMeans(2.0, per_label=True)) == (
        'PrivateKMeans(epsilon=2.0, delta=None, n_clusters=None, per_label=True, '
        "space='features', n_components=None, num_steps=3, nonnegative=False, "
        "accept_large_delta=False, unit='node', random_state=0, generator=None)"
    )
