"""Constant sparse matrices: their products and gradients are those of dense ones."""

import pytest
import torch

from torch_geometric_cgt.nn.constant_matrix import ConstantMatrix


@pytest.mark.parametrize('shape', [(4, 3), (3, 5), (1, 1), (4, 0), (0, 3)])
def test_product_and_gradient_are_those_of_a_dense_matrix(shape):
    """Rows and columns without entries, the last ones as well; the entries in any order."""
    rng = torch.Generator().manual_seed(0)
    dense = torch.randn(shape, generator=rng) * (torch.rand(shape, generator=rng) < 0.4)
    dense[-1:] = 0.0
    row, column = dense.nonzero().flip(0).unbind(dim=1)
    matrix = ConstantMatrix(row, column, dense[row, column], shape)
    x = torch.randn(shape[1], 2, generator=rng).requires_grad_()
    assert torch.allclose(matrix @ x, dense @ x)
    target = torch.randn(shape[0], 2, generator=rng)
    (found,) = torch.autograd.grad(((matrix @ x) * target).sum(), x)
    assert torch.allclose(found, dense.t() @ target)


def test_entries_at_the_same_place_are_added_up():
    row, column = torch.tensor([1, 0, 1]), torch.tensor([0, 1, 0])
    matrix = ConstantMatrix(row, column, torch.tensor([1.0, 2.0, 4.0]), (2, 2))
    assert (matrix @ torch.eye(2)).tolist() == [[0.0, 2.0], [5.0, 0.0]]
    assert matrix.rows.index.numel() == 2
