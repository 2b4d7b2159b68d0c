import pytest
import torch

from tests.helpers.graphs import random_graph
from torch_geometric_cgt.benchmark.link_prediction import EdgeTrees, child_slots, score_links
from torch_geometric_cgt.benchmark.metrics import encode_source
from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.pipeline.source import check_source


def test_slots_below_a_child_by_hand() -> None:
    shape = TreeShape((2, 2, 2))  # 0 | 1 2 | 3 4, 5 6 | 7 8, 9 10, 11 12, 13 14
    slots = child_slots(shape, torch.tensor([0, 1]))
    assert slots.tolist() == [[1, 3, 4, 7, 8, 9, 10], [2, 5, 6, 11, 12, 13, 14]]


def _trees(
    tokens: torch.Tensor, fan_outs: tuple[int, ...], num_tokens: int, child_split=None
) -> TokenTrees:
    n = tokens.size(0)
    split = torch.tensor([1, 2, 4])[torch.arange(n) % 3]
    y, shape, x = torch.zeros(n).long(), TreeShape(fan_outs), torch.eye(num_tokens)
    return TokenTrees(tokens, y, split, num_tokens, 1, shape, x, child_split)


def test_an_edge_is_cut_out_of_the_trees_of_both_ends() -> None:
    # 9 is null. Of child 2, the second neighbour is the root.
    tokens = torch.tensor([[0, 9, 2, 9, 9, 3, 0], [5, 9, 9, 9, 9, 9, 9]])
    split = torch.tensor([[0, 1], [0, 0]])
    edges = EdgeTrees.of(_trees(tokens, (2, 2), 9, split), seed=0)
    assert edges.ends.tokens.tolist() == [[0, 9, 9], [2, 3, 9]]
    assert edges.root.tolist() == [0]  # the second root has no neighbour


def test_what_is_below_the_root_is_cut_out_with_it() -> None:
    shape = TreeShape((2, 2, 2))
    tokens = torch.arange(shape.num_slots)[None].clone()
    tokens[0, 4] = 0  # the second neighbour of the first child is the root
    split = torch.tensor([[1, 2]])  # the root is in training, the second child is not
    edges = EdgeTrees.of(_trees(tokens, (2, 2, 2), 99, split), seed=0)
    assert edges.ends.tokens.tolist() == [
        [0, 99, 2, 99, 99, 5, 6],
        [0, 1, 99, 3, 0, 99, 99],
        [1, 3, 99, 7, 8, 99, 99],
        [2, 5, 6, 11, 12, 13, 14],
    ]
    assert edges.rows('train').tolist() == [0]
    assert edges.rows('val').tolist() == [1]


def test_an_edge_of_a_source_is_in_one_split_from_both_ends() -> None:
    graph = random_graph(num_nodes=300, num_edges=900)
    trees = encode_source(check_source(graph), TreeShape((3, 3)), seed=0, run=0)
    edges = EdgeTrees.of(trees, seed=0)
    nodes = edges.ends.tokens[:, 0].view(2, -1)  # tokens are nodes here
    splits: dict[frozenset[int], set[str]] = {}
    for split in ('train', 'val', 'test'):
        for row in edges.rows(split).tolist():
            splits.setdefault(frozenset(nodes[:, row].tolist()), set()).add(split)
    assert len(splits) > 100
    assert all(len(found) == 1 for found in splits.values())
    assert set.union(*splits.values()) == {'train', 'val', 'test'}


def test_children_of_generated_trees_draw_a_split() -> None:
    rng = torch.Generator().manual_seed(0)
    tokens = torch.randint(10, (3000, 7), generator=rng)  # 9 is null
    tokens[:, 0] = 0
    edges = EdgeTrees.of(_trees(tokens, (2, 2), 9), seed=1)
    num_edges = int((tokens[:, 1:3] != 9).sum())
    assert edges.root.numel() == num_edges
    assert bool((edges.ends.tokens[:, 0] != 9).all())
    shares = [edges.rows(split).numel() / num_edges for split in ('train', 'val', 'test')]
    for share, expected in zip(shares, (1 / 9, 3 / 9, 5 / 9), strict=True):  # of three thirds
        assert abs(share - expected) < 0.03


@pytest.mark.parametrize('predictor', ['Dot', 'MLP'])
def test_neighbours_that_are_alike_are_found_and_others_are_not(predictor: str) -> None:
    rng = torch.Generator().manual_seed(0)
    group = torch.randint(2, (900,), generator=rng)
    alike = group[:, None] * 4 + torch.randint(4, (900, 7), generator=rng)
    chance = torch.randint(8, (900, 7), generator=rng)
    scores = [
        score_links('SGC', predictor, _trees(tokens, (2, 2), 8), seed=0)['auc']
        for tokens in (alike, chance)
    ]
    # Two pairs of three are of one group where chance decides: 0.75 is what can be reached.
    assert scores[0] > 0.7
    assert abs(scores[1] - 0.5) < 0.1


def test_trees_that_are_too_flat_are_refused() -> None:
    with pytest.raises(ValueError, match=r'\[2\]'):
        EdgeTrees.of(_trees(torch.zeros(1, 3).long(), (2,), 1), seed=0)
