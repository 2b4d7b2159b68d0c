import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from torch_geometric_cgt.nn.tree_convs import csr_matmul, weighted_sum


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8), st.integers(0, 1000))
def test_sums_and_gradients_equal_a_dense_product(sizes, seed):
    rng = torch.Generator().manual_seed(seed)
    nnz = sum(sizes)
    table = torch.randn(3, 5, dtype=torch.double, generator=rng)[:, ::2].requires_grad_()
    value = torch.randn(nnz, dtype=torch.double, generator=rng).requires_grad_()
    column = torch.randint(3, (nnz,), generator=rng)
    ptr = F.pad(torch.tensor(sizes).cumsum(0), (1, 0))
    row = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    dense = torch.zeros(len(sizes), 3, dtype=torch.double)
    dense = dense.index_put((row, column), value, accumulate=True) @ table
    out = csr_matmul(ptr, column, value, table)
    assert torch.allclose(out, dense)
    grad = torch.randn(dense.shape, dtype=torch.double, generator=rng)
    for ours, reference in zip(
        torch.autograd.grad(out, [table, value], grad),
        torch.autograd.grad(dense, [table, value], grad),
        strict=True,
    ):
        assert torch.allclose(ours, reference)


def test_weighted_sum_by_hand():
    table = torch.tensor([[1.0, 10.0], [2.0, 20.0], [0.0, 0.0]])
    index = torch.tensor([[[0, 1], [1, 2]]])
    out = weighted_sum(table, index, torch.tensor([[[1.0, 0.5], [3.0, 7.0]]]))
    assert out.tolist() == [[[2.0, 20.0], [6.0, 60.0]]]
