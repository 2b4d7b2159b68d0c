"""Edge ends: as many as the degree, each asks for a child of its tree."""

import torch

from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.data.edge_ends import make_edge_ends, token_groups


def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_ends_ask_for_each_child_before_they_repeat_one():
    # Null is 4. The first root has the children 1 and, with one neighbour, 2.
    tokens = torch.tensor([[0, 1, 2, 0, 3, 0, 4], [3, 4, 4, 4, 4, 4, 4]])
    zeros = torch.zeros(2, dtype=torch.long)
    trees = TokenTrees(tokens, zeros, zeros, 4, 1, TreeShape.of([2, 2]))
    ends = make_edge_ends(trees, torch.eye(4), torch.tensor([5, 0]), rng())
    assert len(ends) == 5 and ends.owner.tolist() == [0] * 5
    wished = ends.wish['token']  # there is one label, so that the code is the token
    assert set(wished[:2].tolist()) == {1, 2} and set(wished[2:4].tolist()) == {1, 2}
    size = ends.wish['token, size'] - wished * 3
    assert torch.equal(size, torch.where(wished == 1, 2, 1))
    assert ends.own['token, size'].tolist() == [0 * 3 + 2] * 5
    assert ends.own['any'].unique().tolist() == ends.wish['any'].unique().tolist() == [0]


def test_codes_of_labels_and_tokens_differ():
    tokens = torch.tensor([[0, 1], [0, 1], [1, 0], [1, 0]])
    y = torch.tensor([0, 1, 0, 1])
    trees = TokenTrees(tokens, y, torch.zeros_like(y), 2, 2, TreeShape.of([1]))
    ends = make_edge_ends(trees, torch.eye(2), torch.ones(4, dtype=torch.long), rng())
    assert ends.own['token'].unique().numel() == 4
    assert ends.own['label'].tolist() == [0, 1, 0, 1]
    assert torch.equal(ends.wish['token'] // 2, tokens[:, 1])


def test_alike_tokens_are_in_one_group():
    centre = torch.tensor([[0.0, 0], [9, 0], [0, 9], [9, 9]])
    codebook = centre.repeat_interleave(4, dim=0) + 0.1 * torch.rand(16, 2, generator=rng())
    group = token_groups(codebook, rng())
    assert group.unique().numel() == 4
    assert (group.view(4, 4) == group.view(4, 4)[:, :1]).all()
    assert token_groups(torch.ones(5, 3), rng()).tolist() == [0] * 5  # nothing to tell them by
