import torch

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.models.path_support import PathIndex, PathSupport

SHAPE = TreeShape((2, 1))  # slots: root, two children, one grandchild below each
NULL = 3
# label 0: 0 -> (1 -> 2), (2 -> null); the same with children swapped; a leaf
# label 1: the first tree once more
TOKENS = torch.tensor([[0, 1, 2, 2, 3], [0, 2, 1, 3, 2], [0, 3, 3, 3, 3], [0, 1, 2, 2, 3]])
Y = torch.tensor([0, 0, 0, 1])


def test_support_by_hand():
    support = PathSupport.of(TOKENS, Y, NULL, SHAPE)
    assert support.num_roots == 4
    assert [roots.tolist() for roots in support.roots] == [[3, 1], [2, 2, 1, 1], [2, 1]]
    assert support.count(TOKENS, Y).tolist() == [
        [3, 2, 2, 2, 0],
        [3, 2, 2, 0, 2],
        [3, 0, 0, 0, 0],
        [1, 1, 1, 1, 0],
    ]


def test_paths_nobody_shows_have_no_support():
    support = PathSupport.of(TOKENS, Y, NULL, SHAPE)
    new = torch.tensor([[0, 1, 0, 1, 2], [1, 1, 2, 2, 3], [0, 1, 1, 2, 2]])
    counts = support.count(new, torch.tensor([0, 0, 7]))
    # below an unknown path nothing is known, whatever the token
    assert counts.tolist() == [[3, 2, 0, 0, 0], [0] * 5, [0] * 5]


def test_a_root_counts_once_however_many_trees_it_has():
    support = PathSupport.of(TOKENS[:3], Y[:3], NULL, SHAPE, root=torch.tensor([9, 9, 4]))
    assert support.num_roots == 2
    assert [roots.tolist() for roots in support.roots] == [[2], [1, 1], [1]]


def test_labels_and_tokens_of_paths():
    index = PathIndex.of(TOKENS, Y, NULL, SHAPE)
    assert index.labels(0).tolist() == [0, 1] and index.tokens(0).tolist() == [0, 0]
    assert index.labels(1).tolist() == [0, 0, 1, 1] and index.tokens(1).tolist() == [1, 2, 1, 2]
    assert index.labels(2).tolist() == [0, 1] and index.tokens(2).tolist() == [2, 2]


def test_a_layer_without_real_slots():
    tokens = torch.tensor([[0, 3, 3, 3, 3]])
    support = PathSupport.of(tokens, torch.tensor([0]), NULL, SHAPE)
    assert support.count(TOKENS, Y).tolist() == [[1, 0, 0, 0, 0]] * 3 + [[0] * 5]
