import pytest
import torch

from tests.helpers.generators import TINY, make, random_tokens
from torch_geometric_cgt import CGTGenerator
from torch_geometric_cgt.nn.two_stream import dropout


def test_one_context_and_one_query_per_internal_slot():
    for fan_outs, positions in [([5, 5], 7), ([20, 20], 22), ([2, 3, 4], 1 + 1 + 2 + 6)]:
        model = CGTGenerator(5, 2, fan_outs, evaluation='trees', **TINY)
        layout = model.streams.layout(len(fan_outs), torch.device('cpu'))
        assert layout.num_contexts == layout.query_position.numel() == positions


@torch.no_grad()
def test_contexts_depend_on_the_path_alone():
    model = make([2, 2, 2])
    tokens, y = random_tokens(model, 1, nulls=False)
    before = model.contexts(tokens, y)[0, 1:]
    for changed in range(model.shape.num_slots):
        other = tokens.clone()
        other[0, changed] = (other[0, changed] + 1) % model.num_tokens
        after = model.contexts(other, y)[0, 1:]
        for slot in range(model.shape.num_internal):
            moved = not torch.equal(before[slot], after[slot])
            assert moved == bool(model.shape.is_ancestor[slot, changed])


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
