import pytest
import torch

from tests.helpers.generators import TINY, make
from torch_geometric_cgt import CGTGenerator
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.nn.vocabulary import sample_categorical


@torch.no_grad()
def test_marginals_are_those_of_the_data_before_any_training():
    shape = TreeShape.of([3, 2])
    rng = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    model = CGTGenerator(6, 2, [3, 2], repeats=False, **TINY).eval()
    teacher = make([3, 2], num_tokens=6, num_classes=2, siblings='typed', num_types=2)
    y = torch.arange(2).repeat(4000)
    data = teacher.sample(y, rng)
    model.set_marginals(data, y)
    drawn = model.sample(y, rng)
    for label in range(2):
        for layer in range(3):
            slots = shape.layer_slice(layer)
            real, made = (t[y == label][:, slots].flatten() for t in (data, drawn))
            shares = [torch.bincount(t, minlength=7) / t.numel() for t in (real, made)]
            assert torch.allclose(*shares, atol=0.04)


@torch.no_grad()
def test_marginals_of_scenes_differ_where_the_scenes_do():
    rng = torch.Generator().manual_seed(0)
    model = CGTGenerator(6, 2, [3, 2], repeats=False, num_scenes=3, **TINY).eval()
    teacher = make([3, 2], num_tokens=6, num_classes=2, siblings='typed', num_types=2)
    y = torch.arange(2).repeat(8000)
    scene = torch.randint(2, (16_000,), generator=rng)
    trees = teacher.sample(y, rng)

    def bases(tokens):
        model.set_marginals(tokens, y, scene)
        head = model.head
        return (
            head.root_base.weight.view(3, 2, 6),
            head.child_base.weight.view(3, 2, 6),
            head.token_base.weight.view(1, 3, 6),
            head.number_base.weight.view(2, 3, 4),
        )

    root, child, *below = bases(trees)  # scenes at random tell nothing, labels something
    for base in (root, child):
        assert torch.allclose(base[0].exp(), base[1].exp(), atol=0.03)
    for share in (base.exp() for base in below):
        assert torch.allclose(share[:, 0], share[:, 1], atol=0.03)
        assert torch.allclose(share[:, 0], share[:, 2], atol=0.03)  # a scene that was not seen
    assert not torch.allclose(root.exp()[:, 0], root.exp()[:, 1], atol=0.04)

    shifted = torch.where((scene == 1)[:, None] & (trees == 5), 0, trees)
    root, child, token, _ = bases(shifted)
    for base in (root, child):
        assert (base[1, :, 5] < base[0, :, 5] - 2).all()  # scene 1 has no token 5
    assert (token[:, 1, 5] < token[:, 0, 5] - 2).all()
    drawn = model.sample(y, rng, scene)
    for code in range(2):
        real, made = (t[scene == code].flatten() for t in (shifted, drawn))
        shares = [torch.bincount(t, minlength=7) / t.numel() for t in (real, made)]
        assert torch.allclose(*shares, atol=0.03)


@pytest.mark.parametrize('num_samples', [1, 4])
def test_samples_have_the_probabilities_and_zero_is_never_drawn(num_samples):
    prob = torch.tensor([[0.0, 0.2, 0.0, 0.7, 0.1, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]])
    rows = prob.log().repeat_interleave(40_000, dim=0)
    drawn = sample_categorical(rows, num_samples, torch.Generator().manual_seed(0))
    assert drawn.shape == (80_000, num_samples)
    for expected, part in zip(prob, drawn.view(2, -1), strict=True):
        share = torch.bincount(part, minlength=6) / part.numel()
        assert torch.allclose(share, expected, atol=0.01)
        assert (share[expected == 0] == 0).all()


def test_the_largest_random_number_draws_a_possible_entry(monkeypatch):
    monkeypatch.setattr(torch, 'rand', lambda shape, **_: torch.ones(shape))
    log_prob = torch.tensor([[0.3, 0.3, 0.1, 0.3, 0.0], [0.0, 1e-9, 0.0, 0.0, 0.0]]).log()
    assert sample_categorical(log_prob, 1, None).tolist() == [[3], [1]]


@pytest.mark.parametrize('repeats', [True, False])
def test_joined_products_are_those_of_the_layers(repeats):
    torch.manual_seed(0)
    head = CGTGenerator(50, 3, [2, 2], 16, 1, 2, vocabulary='cells', repeats=repeats).head
    h = torch.randn(4, 5, 16)
    layers = [head.number, head.vocabulary.cell, head.origin, head.urn][: 4 if repeats else 2]
    for layer in layers:
        torch.nn.init.normal_(layer.bias)
    for found, layer in zip(head._outputs(h), layers, strict=True):
        assert torch.allclose(found, layer(h), atol=1e-6)
