"""The gradients that are written by hand are those that PyTorch finds."""

import pytest
import torch

from tests.helpers.view_trees import FEW_SHAPE, few_trees
from torch_geometric_cgt.data.views import slot_weights
from torch_geometric_cgt.nn.view_batch import OutputLayers, ViewBatch, linear_maps


def slot_by_slot(trees, x, weight, width):
    """The hidden values from the features of every slot."""
    features = torch.cat([x, torch.zeros(1, x.size(1))])[trees.tokens]  # [B, T, F]
    maps = weight.split(width, dim=1)
    sums = slot_weights(trees.tokens < trees.num_tokens, FEW_SHAPE)
    hidden = [torch.zeros(len(trees), width) for _ in range(7)]
    for (view, network), own in zip(linear_maps(FEW_SHAPE), maps, strict=False):
        slots, share = sums[view]
        hidden[network] = hidden[network] + (share[..., None] * (features[:, slots] @ own)).sum(1)
    child = trees.tokens[:, 1:4]
    values = features[:, 1:4] @ maps[-1]
    values = values.masked_fill((child == trees.num_tokens)[..., None], -torch.inf).amax(dim=1)
    return torch.stack(hidden, dim=1), values.masked_fill(values.isneginf(), 0.0)


@pytest.mark.parametrize('sparse', [False, True])
@pytest.mark.parametrize('num_features', [4, 9])  # fewer and more than tokens
def test_hidden_values_and_their_gradient(num_features, sparse):
    rng, trees, width = torch.Generator().manual_seed(0), few_trees(), 5
    x = torch.randn(6, num_features, generator=rng)
    weight = torch.randn(num_features, 10 * width, generator=rng).requires_grad_()
    found = ViewBatch(trees, x.to_sparse_coo() if sparse else x).hidden(weight)
    expected = slot_by_slot(trees, x, weight, width)
    target = [torch.randn(part.shape, generator=rng) for part in expected]
    gradients = []
    for parts in (found, expected):
        loss = sum((part * aim).sum() for part, aim in zip(parts, target, strict=True))
        gradients += torch.autograd.grad(loss, weight)
    for own, right in zip(found, expected, strict=True):
        assert torch.allclose(own, right, atol=1e-5)
    assert torch.allclose(*gradients, atol=1e-5)


@pytest.mark.parametrize('with_dropout', [False, True])
def test_output_layers(with_dropout):
    rng = torch.Generator().manual_seed(0)
    sizes = [(4, 7, 5), (4, 5), (7, 5), (7, 5, 3), (7, 3, 1)]
    inputs = [torch.randn(size, generator=rng).double().requires_grad_() for size in sizes]
    factor = 2.0 * torch.randint(2, (4, 7, 5), generator=rng) if with_dropout else None
    assert torch.autograd.gradcheck(lambda *own: OutputLayers.apply(*own, factor), inputs)
    hidden, of_child, bias, weight, out_bias = inputs
    hidden = torch.cat([hidden[:, :5], (hidden[:, 5] + of_child)[:, None], hidden[:, 6:]], dim=1)
    active = (hidden + bias).relu() * (1.0 if factor is None else factor)
    logits = torch.einsum('bvh,vhc->vcb', active, weight) + out_bias
    assert torch.allclose(OutputLayers.apply(*inputs, factor), logits)
