import pytest
import torch
from sklearn.feature_extraction.text import TfidfTransformer

from torch_geometric_cgt.errors import NotEnoughMemoryError
from torch_geometric_cgt.quantizer import feature_space as module
from torch_geometric_cgt.quantizer.feature_space import (
    is_bag_of_words,
    multiply_rows,
    random_projection,
    reduce_features,
    tf_idf,
    unit_rows,
)


def make(n=300, f=120):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 10, generator=generator, dtype=torch.float64)
    x = x @ torch.randn(10, f, generator=generator, dtype=torch.float64) + 5
    x += 0.01 * torch.randn(n, f, generator=generator, dtype=torch.float64)
    return x * (torch.rand(n, f, generator=generator) < 0.8)


@pytest.mark.parametrize('dtype', [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize('layout', ['dense', 'coo', 'csr'])
def test_matches_the_full_decomposition(dtype, layout, monkeypatch):
    x = make().to(dtype)
    full = x.double() - x.double().mean(dim=0)
    _, s, _ = torch.linalg.svd(full, full_matrices=False)
    x = {'dense': x, 'coo': x.to_sparse(), 'csr': x.to_sparse_csr()}[layout]
    monkeypatch.setattr(module, '_block_rows', lambda *_: 77)
    out = reduce_features(x, 5)
    assert out.shape == (300, 5)
    assert out.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert float(out.double().mean(dim=0).abs().max()) < 1e-3
    explained = out.double().square().sum() / s[:5].square().sum()
    assert 0.999 < float(explained) < 1.0001
    assert torch.equal(out, reduce_features(x, 5))


def test_keeps_distances_when_nothing_is_dropped():
    x = make(50, 8)
    for columns in (8, 20):
        out = reduce_features(x, columns)
        assert out.shape == (50, 8)
        assert torch.allclose(torch.cdist(out, out), torch.cdist(x, x), atol=1e-6)


def test_dense_and_sparse_agree():
    x = make()
    a, b = reduce_features(x, 5), reduce_features(x.to_sparse_csr(), 5)
    assert torch.allclose(a, b, atol=1e-8)


@pytest.mark.parametrize('x', [torch.zeros(20, 100), torch.ones(20, 100), torch.ones(1, 100)])
def test_constant_features(x):
    assert torch.allclose(reduce_features(x, 4), torch.zeros(x.size(0), 4), atol=1e-5)


@pytest.mark.parametrize(
    'x, columns, message',
    [
        (torch.ones(3), 2, r'got shape \[3\]'),
        (torch.ones(0, 3), 2, r'got shape \[0, 3\]'),
        (torch.ones(3, 3), 0, r"'n_components' must be a positive integer \(got 0\)"),
        (torch.tensor([[1.0, float('nan')]]), 1, 'must be finite'),
        (torch.tensor([[1.0, float('inf')]]).to_sparse(), 1, 'must be finite'),
    ],
)
def test_bad_input(x, columns, message):
    with pytest.raises(ValueError, match=message):
        reduce_features(x, columns)


def test_refuses_more_memory_than_there_is(monkeypatch):
    monkeypatch.setattr('torch_geometric_cgt.utils.memory.available_memory', lambda _: 10)
    with pytest.raises(NotEnoughMemoryError, match="'n_components'"):
        reduce_features(make())


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
