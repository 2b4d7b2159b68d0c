import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_geometric_cgt.quantizer import ConstrainedKMeans, FlowKMeans, label_homogeneity
from torch_geometric_cgt.quantizer.label_diversity import diversify


def check(model, x, y, size_min, min_labels):
    for cluster in range(len(model.sizes_)):
        member = model.labels_ == cluster
        assert member.sum() == model.sizes_[cluster] >= size_min
        assert len(set(y[member]) - {-1}) >= min_labels
        np.testing.assert_allclose(
            model.cluster_centers_[cluster], x[member].mean(axis=0), atol=1e-6
        )


@settings(max_examples=120, deadline=None, derandomize=True)
@given(st.data())
def test_every_cluster_has_enough_labels(data):
    seed = data.draw(st.integers(0, 999))
    rng = np.random.default_rng(seed)
    size_min = data.draw(st.integers(1, 8))
    n = data.draw(st.integers(max(size_min, 10), 120))
    m = data.draw(st.integers(1, n // size_min))
    num_classes = data.draw(st.integers(1, 6))
    x = rng.normal(size=(n, 2))
    # Labels that follow the features, so that clusters are homogeneous unless repaired.
    y = np.minimum(
        (num_classes * (x[:, 0].argsort().argsort() / n)).astype(np.int64), num_classes - 1
    )
    y[rng.random(n) < data.draw(st.sampled_from([0.0, 0.3, 0.8]))] = -1
    y[0] = 0
    min_labels = data.draw(st.integers(1, len(set(y) - {-1})))
    model = FlowKMeans(m, size_min, min_labels=min_labels, random_state=seed, max_iter=4)
    check(model.fit(x, y), x, y, size_min, min_labels)
    assert len(model.sizes_) <= m
    again = FlowKMeans(m, size_min, min_labels=min_labels, random_state=seed, max_iter=4)
    assert np.array_equal(
        again.fit(torch.from_numpy(x), torch.from_numpy(y)).labels_, model.labels_
    )


def test_exchanging_rows_keeps_the_number_of_clusters():
    # Two heaps, each of one label: with l = 2 one row must change sides in each direction.
    x = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    y = np.array([0, 0, 0, 1, 1, 1])
    model = FlowKMeans(2, 3, min_labels=2).fit(x, y)
    assert model.sizes_.tolist() == [3, 3]
    check(model, x, y, 3, 2)
    assert model.labels_[2] == model.labels_[4] and model.labels_[3] == model.labels_[0]


def test_a_giver_stays_diverse():
    # The first cluster lacks a label. The second is near but has one such row only; the third is
    # far but has three, and lacks a label itself: they exchange rows and no cluster is lost.
    x = torch.tensor([0.0, 0.1, 0.2, 1.0, 1.1, 1.2, 9.0, 9.1, 9.2]).view(-1, 1)
    y = torch.tensor([0, 0, 0, 0, 0, 1, 1, 1, 1])
    labels = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2])
    out, num_clusters = diversify(x, labels, y, 3, size_min=3, min_labels=2)
    assert num_clusters == 3
    assert out.tolist() == [0, 0, 2, 1, 1, 1, 0, 2, 2]


def test_clusters_are_merged_where_exchanging_does_not_suffice():
    x = np.arange(8.0).reshape(8, 1)
    y = np.array([0, 0, 0, 0, 0, 0, 0, 1])  # One row of label 1: a single cluster can have it.
    model = FlowKMeans(4, 2, min_labels=2).fit(x, y)
    assert model.sizes_.tolist() == [8]


def test_nothing_changes_where_there_are_enough_labels():
    x = np.random.default_rng(0).normal(size=(60, 2))
    y = np.arange(60)
    plain, diverse = FlowKMeans(6, 10).fit(x), FlowKMeans(6, 10, min_labels=3).fit(x, y)
    assert np.array_equal(plain.labels_, diverse.labels_)


def test_the_exact_quantizer_has_it_too():
    x = np.random.default_rng(0).normal(size=(60, 2))
    y = (x[:, 0] > 0).astype(np.int64)
    check(ConstrainedKMeans(6, 10, min_labels=2).fit(x, y), x, y, 10, 2)


def test_homogeneity_by_hand():
    labels = [0, 0, 0, 0, 1, 1, 2, 2]
    y = [0, 0, 1, 1, 1, -1, -1, -1]
    out = label_homogeneity(np.array(labels), torch.tensor(y))
    assert out.distinct.tolist() == [2, 1, 0]
    # All rows: 2/5 and 3/5. First cluster 1/2 and 1/2, second 0 and 1, third has no label.
    assert torch.allclose(out.t_closeness, torch.tensor([0.1, 0.4, 0.0]))
    assert out.num_homogeneous == 1
    assert label_homogeneity(labels, y, 5).distinct.tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    'labels, y, num_classes, message',
    [
        ([0, 1], [0, 3], 2, r"below 'num_classes' = 2 \(got 3\)"),
        ([0, 1], [0], 2, r'got shape \[1\]'),
        ([-1, 1], [0, 1], 2, r'below 0 \(got -1\)'),
        ([0, 1], [0, 1], 0, r"'num_classes' must be a positive integer \(got 0\)"),
    ],
)
def test_homogeneity_bad_input(labels, y, num_classes, message):
    with pytest.raises(ValueError, match=message):
        label_homogeneity(labels, y, num_classes)
