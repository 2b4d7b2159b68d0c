import numpy as np
import pytest
import torch

from torch_geometric_cgt.quantizer import ConstrainedKMeans, FlowKMeans

X = np.arange(20.0).reshape(10, 2)


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
