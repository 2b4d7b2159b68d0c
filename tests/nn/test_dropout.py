import pytest
import torch

from torch_geometric_cgt.nn.dropout import dropout


@pytest.mark.parametrize('p', [0.1, 0.5, 0.9])
@pytest.mark.parametrize('size', [(1_000, 301), (300_007,)])
def test_dropout_keeps_expectation_and_share(p, size):
    torch.manual_seed(0)
    out = dropout(torch.ones(size), p)
    assert out.shape == size
    assert out.mean().item() == pytest.approx(1, abs=0.02)
    assert (out == 0).float().mean().item() == pytest.approx(p, abs=0.005)
    assert out.unique().numel() == 2


def test_dropout_edges():
    x = torch.rand(7, 3)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0) is x
    assert torch.equal(dropout(x, 1.0), torch.zeros_like(x))
    assert dropout(torch.empty(0, 4), 0.5).shape == (0, 4)
    assert dropout(torch.empty(3, 4, device='meta'), 0.5).device.type == 'meta'


def test_dropout_repeats_with_the_seed_and_passes_gradients_where_kept():
    x = torch.ones(1_000, requires_grad=True)
    torch.manual_seed(3)
    first = dropout(x, 0.5)
    torch.manual_seed(3)
    assert torch.equal(first, dropout(x, 0.5))
    first.sum().backward()
    assert torch.equal(x.grad, first.detach())


@pytest.mark.parametrize('dtype', [torch.float64, torch.bfloat16])
def test_dropout_keeps_the_type(dtype):
    assert dropout(torch.ones(100, dtype=dtype), 0.1).dtype == dtype
