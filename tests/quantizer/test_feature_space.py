import pytest
import torch
from sklearn.feature_extraction.text import TfidfTransformer

from torch_geometric_cgt.quantizer.feature_space import (
    is_bag_of_words,
    multiply_rows,
    random_projection,
    tf_idf,
    unit_rows,
)


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
