import torch

from torch_geometric_cgt.data import masks_of, random_split


def test_random_split_is_50_10_40_of_the_candidates():
    candidates = torch.ones(1000, dtype=torch.bool)
    candidates[:200] = False
    masks = masks_of(random_split(candidates, seed=3))
    assert [int(mask.sum()) for mask in masks.values()] == [400, 80, 320]
    assert not any(mask[:200].any() for mask in masks.values())
    assert torch.equal(random_split(candidates, 3), random_split(candidates, 3))
    assert not torch.equal(random_split(candidates, 3), random_split(candidates, 4))
