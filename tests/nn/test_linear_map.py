"""Linear layers by oneDNN: values and gradients are those of PyTorch's layers."""

import pytest
import torch
from torch import nn

from torch_geometric_cgt.nn import linear_map as module
from torch_geometric_cgt.nn.linear_map import linear_map

HAS_ONE_DNN = torch.backends.mkldnn.is_available()


@pytest.mark.parametrize('shape', [(0, 5), (1, 5), (32, 5), (63, 5), (64, 5), (65, 5), (9, 16, 5)])
def test_values_and_gradients_are_those_of_the_layer(shape):
    """Also where rows are filled up, which are more than a multiple of 64 by one or less."""
    rng = torch.Generator().manual_seed(0)
    layer = nn.Linear(5, 7)
    x = torch.randn(shape, generator=rng).requires_grad_()
    target = torch.randn(*shape[:-1], 7, generator=rng)
    inputs = [x, layer.weight, layer.bias]
    found, expected = linear_map(layer, x), layer(x)
    assert torch.allclose(found, expected, atol=1e-5)
    for own, right in zip(
        torch.autograd.grad((found * target).sum(), inputs),
        torch.autograd.grad((expected * target).sum(), inputs),
        strict=True,
    ):
        assert own.shape == right.shape and torch.allclose(own, right, atol=1e-4)


@pytest.mark.skipif(not HAS_ONE_DNN, reason='PyTorch was built without oneDNN')
def test_one_dnn_computes_large_products_in_single_precision_only(monkeypatch):
    used = []
    product = module._product
    monkeypatch.setattr(module, '_product', lambda *args: used.append(1) or product(*args))
    layer, x = nn.Linear(5, 7), torch.ones(64, 5)
    with torch.no_grad():
        linear_map(layer, x)
        assert len(used) == 1
        linear_map(layer, x[:8])
        linear_map(layer.double(), x.double())
        layer.float()
        with torch.autocast('cpu', torch.bfloat16):
            assert linear_map(layer, x).dtype == torch.bfloat16
        with torch.backends.mkldnn.flags(enabled=False):
            linear_map(layer, x)
        layer.register_forward_hook(lambda *args: None)
        linear_map(layer, x)
    assert len(used) == 1


def test_a_build_of_pytorch_without_the_product_takes_its_own(monkeypatch):
    monkeypatch.setattr(module, '_has_product', lambda: False)
    monkeypatch.setattr(module, '_product', None)
    layer, x = nn.Linear(5, 7), torch.ones(64, 5)
    assert torch.equal(linear_map(layer, x), layer(x))


def test_few_sizes_are_compiled():
    """Rows are filled up by less than an eighth, or to a multiple of 64."""
    sizes = [module._filled_up(torch.zeros(n, 1)).size(0) for n in range(1, 5000)]
    assert len(set(sizes)) < 60
    assert all(n <= size <= max(n + 63, 1.13 * n) for n, size in enumerate(sizes, start=1))
