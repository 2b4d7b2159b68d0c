"""Feature spaces to cluster in."""

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import TfidfTransformer

from torch_geometric_cgt.quantizer.feature_space import (
    center_and_scale,
    is_bag_of_words,
    multiply_rows,
    out_of_fold_probabilities,
    random_projection,
    task_space,
    tf_idf,
    unit_rows,
)
from torch_geometric_cgt.utils import rows, scratch


def words(seed=0):
    return (torch.rand(60, 40, generator=torch.Generator().manual_seed(seed)) > 0.95).float()


@pytest.mark.parametrize('layout', ['dense', 'coo', 'csr'])
def test_tf_idf_equals_scikit_learn(layout):
    x = words()
    expected = TfidfTransformer().fit_transform(x.numpy()).toarray()
    given = {'dense': x, 'coo': x.to_sparse(), 'csr': x.to_sparse_csr()}[layout]
    assert torch.allclose(tf_idf(given).to_dense(), torch.from_numpy(expected).float(), atol=1e-6)


def test_rows_without_words_stay_zero():
    x = words()
    x[3] = 0
    assert (tf_idf(x).to_dense()[3] == 0).all()


def test_what_counts_as_a_bag_of_words():
    assert is_bag_of_words(words()) and is_bag_of_words(words().to_sparse())
    assert not is_bag_of_words(-words())
    assert not is_bag_of_words(torch.rand(10, 10))


def test_directions_are_orthogonal_and_keep_lengths_on_average():
    projection = random_projection(300, 40, seed=3)
    gram = projection.t() @ projection
    assert torch.allclose(gram, 300 / 40 * torch.eye(40), atol=1e-4)
    x = unit_rows(torch.randn(500, 300, generator=torch.Generator().manual_seed(0)))
    assert abs(float((x @ projection).square().sum(dim=1).mean()) - 1) < 0.05


def test_the_seed_decides_and_nothing_else():
    assert torch.equal(random_projection(20, 5, 1), random_projection(20, 5, 1))
    assert not torch.equal(random_projection(20, 5, 1), random_projection(20, 5, 2))
    assert torch.equal(random_projection(4, 9), torch.eye(4))


@pytest.mark.parametrize('sparse', [False, True])
def test_rows(sparse):
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, -0.5]])
    rows = unit_rows(x.to_sparse() if sparse else x)
    expected = torch.tensor([[0.6, 0.8], [0.0, 0.0], [0.0, -1.0]])
    assert torch.allclose(rows.to_dense() if sparse else rows, expected)
    assert torch.allclose(
        multiply_rows(rows, torch.tensor([[1.0], [2.0]])), expected @ torch.tensor([[1.0], [2.0]])
    )


def blobs(n=300, seed=0):
    rng = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (n,), generator=rng)
    return 3 * torch.eye(3)[y] + torch.randn(n, 3, generator=rng), y


def test_probabilities_predict_labels_they_did_not_see():
    z, y = blobs()
    prob = out_of_fold_probabilities(z, y)
    assert np.allclose(prob.sum(axis=1), 1)
    assert (prob.argmax(axis=1) == y.numpy()).mean() > 0.8


def test_no_label_decides_its_own_row():
    """Labels are noise here, so a model that saw them would still look better than chance."""
    rng = torch.Generator().manual_seed(0)
    z, y = torch.randn(200, 60, generator=rng), torch.randint(2, (200,), generator=rng)
    prob = out_of_fold_probabilities(z, y)
    assert abs((prob.argmax(axis=1) == y.numpy()).mean() - 0.5) < 0.15
    changed = y.clone()
    changed[7] = 1 - changed[7]
    assert np.allclose(out_of_fold_probabilities(z, changed)[7], prob[7])


def test_labels_of_unlabelled_nodes_are_not_needed():
    z, y = blobs()
    y[:100] = -1
    prob = out_of_fold_probabilities(z, y)
    assert prob.shape == (300, 3) and np.allclose(prob.sum(axis=1), 1)


def test_a_label_that_occurs_once():
    z, y = blobs()
    y[:] = 0
    y[5] = 9
    assert out_of_fold_probabilities(z, y).shape == (300, 2)


def test_space_does_not_depend_on_the_scale_of_features():
    z, y = blobs()
    prob = out_of_fold_probabilities(z, y)
    small, large = task_space(z, prob, 0.5), task_space(1000 * z, prob, 0.5)
    assert torch.allclose(small, large, atol=1e-4) and small.shape == (300, 6)
    assert task_space(z, prob, 0.0) is z


def test_the_task_space_is_the_same_in_one_block_and_in_many(tmp_path, monkeypatch):
    rng = torch.Generator().manual_seed(0)
    z = torch.randn(101, 6, generator=rng)
    probabilities = torch.rand(101, 3, generator=rng, dtype=torch.double)
    mean, scale = center_and_scale(z)
    expected = torch.cat([(z - mean) / scale, 0.7 * probabilities.float()], dim=1)
    assert torch.equal(task_space(z, probabilities.numpy(), 0.7), expected)
    monkeypatch.setattr(rows, 'BLOCK_ELEMENTS', 50)
    monkeypatch.setattr(scratch, 'MAP_FROM', 1)
    for place in (None, scratch.Scratch(tmp_path)):
        found = task_space(z, probabilities.numpy(), 0.7, (mean, scale), place)
        assert torch.equal(found, expected)
