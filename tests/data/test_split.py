import torch
from torch_geometric.data import Data

from torch_geometric_cgt.data import masks_of, random_split
from torch_geometric_cgt.data.split import split_of


def test_random_split_is_50_10_40_of_the_candidates():
    candidates = torch.ones(1000, dtype=torch.bool)
    candidates[:200] = False
    masks = masks_of(random_split(candidates, seed=3))
    assert [int(mask.sum()) for mask in masks.values()] == [400, 80, 320]
    assert not any(mask[:200].any() for mask in masks.values())
    assert torch.equal(random_split(candidates, 3), random_split(candidates, 3))
    assert not torch.equal(random_split(candidates, 3), random_split(candidates, 4))


def test_codes_and_masks_are_inverse():
    masks = {
        'train_mask': torch.tensor([True, False, True, False]),
        'test_mask': torch.tensor([False, True, True, False]),
    }
    code = split_of(Data(num_nodes=4, **masks))
    assert code.tolist() == [1, 4, 5, 0]  # the third node is in both
    found = masks_of(code)
    assert all(torch.equal(found[name], mask) for name, mask in masks.items())
    assert found['val_mask'].tolist() == [False] * 4
    assert split_of(Data(num_nodes=4)) is None
