import torch

from tests.helpers.private_models import rng
from torch_geometric_cgt.models.noisy_tables import back_off, couple, project_to_simplex, token_rows


def test_projection_by_hand():
    x = torch.tensor([[3.0, -1.0, 0.0]], dtype=torch.double)
    assert project_to_simplex(x, torch.tensor([2.0])).tolist() == [[2.0, 0.0, 0.0]]
    x = torch.tensor([[1.0, 1.0, -5.0]], dtype=torch.double)
    assert project_to_simplex(x, torch.tensor([1.0])).tolist() == [[0.5, 0.5, 0.0]]


def test_back_off_goes_from_counts_to_what_all_rows_have_in_common():
    counts = torch.tensor([[90.0, 10.0], [10.0, 90.0]], dtype=torch.double)
    clear = back_off(counts, 1e-3)
    assert torch.allclose(clear, counts / 100, atol=1e-3)
    vague = back_off(counts, 1e6)
    assert torch.allclose(vague, torch.full((2, 2), 0.5, dtype=torch.double), atol=0.01)
    assert torch.allclose(back_off(counts, 30.0).sum(dim=1), torch.ones(2, dtype=torch.double))


def test_a_coupling_has_the_margins_it_was_given():
    joint = torch.rand(3, 2, 4, generator=rng(), dtype=torch.double)
    joint /= joint.sum()
    a, b = couple(joint.sum(2), joint.sum(1), joint.sum(0))
    found = torch.stack([token_rows(a[y], b, torch.ones(4) / 4) for y in range(3)])
    found = found * joint.sum(2)[:, :, None]
    assert torch.allclose(found.sum(1), joint.sum(1), atol=1e-6)
    assert torch.allclose(found.sum(0), joint.sum(0), atol=1e-6)
