import torch

from torch_geometric_cgt.quantizer.shrink import shrink_means


def test_without_noise_nothing_moves():
    means = torch.tensor([[0.5, -0.2, 0.0], [1.0, 0.0, 0.0]])
    assert torch.equal(shrink_means(means, torch.zeros(2)), means)
    assert torch.equal(shrink_means(means, torch.zeros(2), nonnegative=True), means.clamp(min=0))


def test_few_large_coordinates_are_kept_and_the_others_lose_their_noise():
    rng = torch.Generator().manual_seed(0)
    true = torch.zeros(5, 1000)
    true[:, :20] = 1.0
    noisy = true + 0.1 * torch.randn(5, 1000, generator=rng)
    shrunk = shrink_means(noisy, torch.full((5,), 0.1))
    assert float((shrunk - true).square().sum()) < 0.3 * float((noisy - true).square().sum())
    assert float(shrunk[:, :20].min()) > 0.3
    known = shrink_means(noisy, torch.full((5,), 0.1), nonnegative=True)
    assert float((known - true).square().sum()) < float((shrunk - true).square().sum())


def test_each_row_has_a_threshold_of_its_own():
    rng = torch.Generator().manual_seed(0)
    noise = torch.tensor([1e-3, 10.0])
    true = torch.randn(2, 500, generator=rng)
    noisy = true + noise[:, None] * torch.randn(2, 500, generator=rng)
    shrunk = shrink_means(noisy, noise)
    assert torch.allclose(shrunk[0], noisy[0], atol=5e-3)
    assert float(shrunk[1].abs().mean()) < 0.1 * float(noisy[1].abs().mean())
