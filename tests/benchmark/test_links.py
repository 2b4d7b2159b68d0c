import pytest
import torch

from torch_geometric_cgt.benchmark.links import Pairs, child_slots, score_links
from torch_geometric_cgt.benchmark.training import TreeSet
from torch_geometric_cgt.data import TreeShape


def test_slots_below_a_child_by_hand() -> None:
    shape = TreeShape((2, 2, 2))  # 0 | 1 2 | 3 4, 5 6 | 7 8, 9 10, 11 12, 13 14
    slots = child_slots(shape, torch.tensor([0, 1]))
    assert slots.tolist() == [[1, 3, 4, 7, 8, 9, 10], [2, 5, 6, 11, 12, 13, 14]]


def _trees(index: torch.Tensor, fan_outs: tuple[int, ...], num_rows: int) -> TreeSet:
    n = index.size(0)
    split = torch.tensor([1, 2, 4])[torch.arange(n) % 3]
    return TreeSet(torch.eye(num_rows), index, torch.zeros(n).long(), split, 1, TreeShape(fan_outs))


def test_an_edge_is_cut_out_of_the_tree_of_its_root() -> None:
    index = torch.tensor([[0, 9, 2, 9, 9, 3, 4], [5, 9, 9, 9, 9, 9, 9]])  # 9 is null
    pairs = Pairs.of(_trees(index, (2, 2), 9), seed=0)
    assert pairs.root.index.tolist() == [[0, 9, 9]]  # the second root has no neighbour
    assert pairs.child.index.tolist() == [[2, 3, 4]]


def test_only_real_children_are_chosen() -> None:
    rng = torch.Generator().manual_seed(0)
    index = torch.randint(10, (300, 7), generator=rng)
    index[:, 1] = torch.where(index[:, 2] == 9, index[:, 1].clamp(max=8), index[:, 1])
    pairs = Pairs.of(_trees(index, (2, 2), 9), seed=1)
    assert int((pairs.child.index[:, 0] == 9).sum()) == 0
    assert pairs.child.index.size(0) == int((index[:, 1:3] != 9).any(dim=1).sum())


@pytest.mark.parametrize('predictor', ['Dot', 'MLP'])
def test_neighbours_that_are_alike_are_found_and_others_are_not(predictor: str) -> None:
    rng = torch.Generator().manual_seed(0)
    group = torch.randint(2, (600,), generator=rng)
    alike = group[:, None] * 4 + torch.randint(4, (600, 7), generator=rng)
    chance = torch.randint(8, (600, 7), generator=rng)
    scores = [
        score_links('SGC', predictor, _trees(index, (2, 2), 8), seed=0)['auc']
        for index in (alike, chance)
    ]
    # Two pairs of three are of one group where chance decides: 0.75 is what can be reached.
    assert scores[0] > 0.7
    assert abs(scores[1] - 0.5) < 0.1


def test_trees_that_are_too_flat_are_refused() -> None:
    with pytest.raises(ValueError, match=r'\[2\]'):
        Pairs.of(_trees(torch.zeros(1, 3).long(), (2,), 1), seed=0)
