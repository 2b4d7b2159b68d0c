import pytest
import torch

from torch_geometric_cgt.errors import NotEnoughMemoryError
from torch_geometric_cgt.utils import linear as module
from torch_geometric_cgt.utils.linear import reduce_features


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
    monkeypatch.setattr('torch_geometric_cgt.utils.checks.available_memory', lambda _: 10)
    with pytest.raises(NotEnoughMemoryError, match="'n_components'"):
        reduce_features(make())
