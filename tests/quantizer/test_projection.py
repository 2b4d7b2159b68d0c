import pytest
import torch

from torch_geometric_cgt.quantizer.projection import multiply_rows, random_projection, unit_rows


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
