"""Quantizers are scikit-learn estimators, and they check what they are given."""

import inspect

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClusterMixin, clone, is_clusterer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from torch_geometric_cgt.errors import AnonymityError
from torch_geometric_cgt.quantizer import ConstrainedKMeans, FlowKMeans, PrivateKMeans, Quantizer
from torch_geometric_cgt.quantizer.base import KAnonymousQuantizer, check_counts, verify_sizes

SMALL = {
    FlowKMeans: {'n_clusters': 3, 'size_min': 10, 'callback': print},
    ConstrainedKMeans: {'n_clusters': 3, 'size_min': 10, 'random_state': 4},
    PrivateKMeans: {'epsilon': 20.0, 'delta': 1e-3, 'n_clusters': 3, 'per_label': True},
}
X = np.arange(20.0).reshape(10, 2)


def heaps(num_rows=90):
    """Three heaps of rows far apart, one per axis, and their labels."""
    rng = np.random.default_rng(0)
    y = np.arange(num_rows) % 3
    return np.eye(3, 6)[y] + 0.01 * rng.random((num_rows, 6)), y


def make(estimator):
    quantizer = estimator(**SMALL[estimator])
    if estimator is PrivateKMeans:
        quantizer.set_params(generator=torch.Generator().manual_seed(0))
    return quantizer


@pytest.mark.parametrize('estimator', SMALL)
def test_parameters_are_those_of_the_constructor(estimator):
    quantizer = make(estimator)
    for base in (Quantizer, BaseEstimator, ClusterMixin):
        assert isinstance(quantizer, base)
    assert is_clusterer(quantizer)
    names = list(inspect.signature(estimator).parameters)
    parameters = quantizer.get_params()
    assert set(parameters) == set(names)
    for name, value in SMALL[estimator].items():
        assert parameters[name] is value
    assert quantizer.set_params(n_clusters=2) is quantizer and quantizer.n_clusters == 2
    with pytest.raises(ValueError, match='num_clusters'):
        quantizer.set_params(num_clusters=2)
    values = ', '.join(f'{name}={getattr(quantizer, name)!r}' for name in names)
    assert repr(quantizer) == f'{estimator.__name__}({values})'


@pytest.mark.parametrize('estimator', SMALL)
def test_clone_is_unfitted_and_has_the_same_parameters(estimator):
    x, y = heaps()
    quantizer = make(estimator).fit(x, y)
    copy = clone(quantizer)
    assert type(copy) is estimator and copy is not quantizer
    for name, value in quantizer.get_params().items():
        assert getattr(copy, name) is value
    assert not hasattr(copy, 'labels_')
    with pytest.raises(NotFittedError):
        copy.predict(x)
    assert clone([quantizer])[0].get_params() == quantizer.get_params()
    assert np.array_equal(copy.fit_predict(x, y), copy.labels_)
    if isinstance(quantizer, KAnonymousQuantizer):
        assert np.array_equal(copy.labels_, quantizer.labels_)


def test_a_clone_draws_new_noise_from_the_same_generator():
    x, y = heaps()
    first = make(PrivateKMeans)
    second = clone(first)
    assert second.generator is first.generator
    sums = [found.fit(x, y).noisy_sums_['sums'] for found in (first, second)]
    assert not torch.equal(*sums)


@pytest.mark.parametrize('estimator', SMALL)
@pytest.mark.parametrize('dtype', [torch.float32, torch.float64])
def test_predict_on_well_separated_clusters(estimator, dtype):
    x, y = heaps()
    x = torch.from_numpy(x).to(dtype)
    quantizer = make(estimator).fit(x, y)
    assert len(quantizer.cluster_centers_) == 3 and quantizer.n_features_in_ == 6
    for rows in (x, x.numpy(), x.to_sparse(), x.to_sparse_csr()):
        labels = quantizer.predict(rows)
        assert labels.dtype == np.int64
        assert np.array_equal(labels, quantizer.labels_)
    # New rows, of either layout.
    new = torch.eye(3, 6, dtype=dtype)[[2, 0, 1, 1]]
    expected = quantizer.labels_[[2, 0, 1, 1]]
    assert np.array_equal(quantizer.predict(new), expected)
    assert np.array_equal(quantizer.predict(new.to_sparse()), expected)


@pytest.mark.parametrize('estimator', SMALL)
def test_predict_on_sparse_rows_equals_dense_rows(estimator):
    x, y = heaps()
    quantizer = make(estimator).fit(x, y)
    rng = np.random.default_rng(1)
    new = rng.random((500, 6)) * (rng.random((500, 6)) < 0.4)
    new[:, 5] += 0.01  # no empty row
    new = torch.from_numpy(new)
    dense = quantizer.predict(new)
    assert len(np.unique(dense)) == 3
    assert np.array_equal(quantizer.predict(new.to_sparse()), dense)
    assert np.array_equal(quantizer.predict(new.to_sparse_csr()), dense)


def test_predict_on_training_rows_can_break_the_minimum_size():
    # A heap of 2 had to take in a row of the heap of 6, which is nearer to the other centre.
    x = np.array([[0.0], [0.1], [7.0], [9.0], [9.1], [9.2], [9.3], [9.4]])
    quantizer = FlowKMeans(2, 3).fit(x)
    assert quantizer.sizes_.min() == 3
    assert np.bincount(quantizer.predict(x)).min() == 2


@pytest.mark.parametrize('estimator', SMALL)
def test_predict_refuses_other_columns(estimator):
    x, y = heaps()
    quantizer = make(estimator).fit(x, y)
    with pytest.raises(ValueError, match=r'must have 6 columns.*got shape .90, 5.'):
        quantizer.predict(x[:, :5])
    with pytest.raises(ValueError, match='must be finite'):
        quantizer.predict(np.full((2, 6), np.nan))


@pytest.mark.parametrize('estimator', SMALL)
def test_wrong_arguments_are_stored_and_refused_by_fit(estimator):
    x, y = heaps()
    quantizer = clone(make(estimator).set_params(n_clusters=0))
    assert quantizer.n_clusters == 0
    with pytest.raises(ValueError, match=r"'n_clusters' must be a positive integer .got 0"):
        quantizer.fit(x, y)


def test_in_a_pipeline_of_scikit_learn():
    x, _ = heaps()
    pipeline = clone(make_pipeline(StandardScaler(), FlowKMeans(3, 10)))
    pipeline.set_params(flowkmeans__size_min=30)
    assert np.bincount(pipeline.fit_predict(x)).tolist() == [30, 30, 30]
    assert 'size_min=30' in repr(pipeline)
    pipeline._repr_html_()


@pytest.mark.parametrize('estimator', [ConstrainedKMeans, FlowKMeans])
@pytest.mark.parametrize(
    'm, k, message',
    [
        (1, 11, r"'size_min' must not exceed the number of rows, 10 \(got 11\)"),
        (4, 3, r'\(got 4 \* 3 = 12\): use at most 3 clusters'),
        (0, 3, r"'n_clusters' must be a positive integer \(got 0\)"),
        (2, 0, r"'size_min' must be a positive integer \(got 0\)"),
        (2, 2.5, r"'size_min' must be a positive integer \(got 2.5\)"),
        (True, 2, r"'n_clusters' must be a positive integer \(got True\)"),
    ],
)
def test_bad_sizes(estimator, m, k, message):
    with pytest.raises(ValueError, match=message):
        estimator(m, k).fit(X)


@pytest.mark.parametrize('estimator', [ConstrainedKMeans, FlowKMeans])
@pytest.mark.parametrize(
    'x, message',
    [
        (np.zeros((0, 3)), r'at least one row and one column \(got shape \[0, 3\]\)'),
        (np.zeros((3, 0)), r'at least one row and one column \(got shape \[3, 0\]\)'),
        (np.zeros(5), r'two dimensions.*\(got shape \[5\]\)'),
        (np.zeros((5, 2, 2)), r'two dimensions.*\(got shape \[5, 2, 2\]\)'),
        (np.array([[1.0], [np.nan], [2.0]]), r'must be finite \(got NaN'),
        (np.array([[1.0], [-np.inf], [2.0]]), r'must be finite \(got NaN'),
        (np.array([[1.0], [1e200], [2.0]]), r'below 1e\+140 in magnitude.*\(got 1e\+200\)'),
        (np.full((3, 1), 1e20, dtype=np.float32), r'below 1e\+15 in magnitude.*\(got 1e\+20\)'),
        (np.array([['a'], ['b']]), r'must hold numbers'),
        (torch.eye(4).to_sparse(), r"must be dense.*'reduce_features\(x\)'"),
    ],
)
def test_bad_rows(estimator, x, message):
    with pytest.raises(ValueError, match=message):
        estimator(1, 1).fit(x)


@pytest.mark.parametrize(
    'args, message',
    [
        (dict(max_iter=0), r"'max_iter' must be a positive integer \(got 0\)"),
        (dict(random_state=None), r"'random_state' must be a non-negative integer \(got None\)"),
        (dict(n_candidates=0), r"'n_candidates' must be a positive integer \(got 0\)"),
        (dict(cell_size=-1), r"'cell_size' must be a positive integer \(got -1\)"),
    ],
)
def test_bad_options(args, message):
    with pytest.raises(ValueError, match=message):
        FlowKMeans(2, 3, **args).fit(X)


@pytest.mark.parametrize(
    'y, min_labels, message',
    [
        (None, 2, r'got min_labels=2 and y=None'),
        (np.zeros(10, dtype=int), 2, r"distinct labels in 'y', 1 \(got 2\)"),
        (np.full(10, -1), 1, r"distinct labels in 'y', 0 \(got 1\)"),
        (np.zeros(9, dtype=int), 1, r'10 rows \(got shape \[9\]\)'),
        (np.zeros((10, 1), dtype=int), 1, r'got shape \[10, 1\]'),
        (np.zeros(10), 1, r"must hold integers \(got dtype 'torch.float64'\)"),
        (np.full(10, -2), 1, r'below -1 \(got -2\)'),
        (np.arange(10), 0, r"'min_labels' must be a positive integer \(got 0\)"),
    ],
)
def test_bad_labels(y, min_labels, message):
    with pytest.raises(ValueError, match=message):
        FlowKMeans(2, 3, min_labels=min_labels).fit(X, y)


@pytest.mark.parametrize(
    'x',
    [
        X.astype('>f8'),
        X.astype(np.longdouble),
        X.astype(np.int32),
        X.astype(np.uint8),
        X > 5,
        np.asfortranarray(X),
        X[::-1],
        X.tolist(),
        np.broadcast_to(X[:1], (10, 2)),
        torch.from_numpy(X).requires_grad_(),
    ],
)
@pytest.mark.filterwarnings('error')
def test_any_array_of_numbers(x):
    assert FlowKMeans(3, 3).fit(x).sizes_.min() >= 3


def test_sizes_over_all_processes_are_checked():
    check_counts(torch.tensor([5, 6]), 11, 5)
    with pytest.raises(AnonymityError, match=r'1 of 2 clusters have fewer than 6.*smallest has 5'):
        check_counts(torch.tensor([5, 6]), 11, 6)
    with pytest.raises(AnonymityError, match=r'not all of 12 rows have a cluster \(11 have one\)'):
        check_counts(torch.tensor([5, 6]), 12, 5)


def test_a_clustering_below_k_is_never_released():
    with pytest.raises(AnonymityError, match='1 of 2 clusters have fewer than 3'):
        verify_sizes(torch.tensor([0, 0, 0, 1, 1]), 2, 3)
    with pytest.raises(AnonymityError):
        verify_sizes(torch.tensor([0, 0, 2]), 2, 1)
