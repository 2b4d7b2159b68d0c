"""Links of a forest: a tree by hand, leaks inside a tree, and negative links."""

import pytest
import torch
import torch_geometric.transforms as T
from torch_geometric.data import Data

from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.transforms import TreeLinkSplit
from torch_geometric_cgt.transforms.tree_link_split import links_of

SHAPE = TreeShape((2, 2))
NULL = 9


def forest(tokens) -> Data:
    tokens = torch.tensor(tokens)
    zeros = torch.zeros(len(tokens), dtype=torch.long)
    return TokenTrees(tokens, zeros, zeros, NULL, 1, SHAPE).to_data(torch.eye(NULL))


@pytest.fixture
def trees() -> Data:
    """Every tree walks back: its root's token is a grandchild."""
    rng = torch.Generator().manual_seed(0)
    rows = []
    for _ in range(60):
        a, b, c, d = torch.randperm(NULL, generator=rng)[:4].tolist()
        rows.append([a, b, c, a, d, a, NULL])  # a-b and a-c occur twice
    return forest(rows)


def test_links_by_hand():
    # Root 0 with children 1 and 2; below 1 the root again and 3; below 2 nothing.
    data = forest([[0, 1, 2, 0, 3, NULL, NULL]])
    assert data.edge_index.tolist() == [[1, 2, 3, 4], [0, 0, 1, 1]]
    tree, link, example = links_of(data)
    assert tree.tolist() == [0] * 5
    assert link.tolist() == [0, 1, 0, 2]  # the walk back is link 0; the edge to 3 is no link
    assert example.tolist() == [0, 1]


def pairs(data: Data, edges: torch.Tensor) -> set:
    """The (tree, tokens) of edges."""
    tree = data.root_mask.cumsum(0) - 1
    a, b = data.cluster[edges]
    return set(zip(tree[edges[1]].tolist(), (a * b).tolist(), (a + b).tolist(), strict=True))


@pytest.mark.parametrize('undirected', [False, True])
def test_message_passing_sees_no_copy_of_a_held_out_link(trees, undirected):
    data = T.ToUndirected()(trees) if undirected else trees
    train, val, test = TreeLinkSplit(0.1, 0.2, seed=0)(data)
    assert test.edge_label.sum() == 24 and val.edge_label.sum() == 12  # of 120 links
    for part, unseen in [(train, (val, test)), (val, (val, test)), (test, (test,))]:
        seen = pairs(data, part.edge_index)
        for other in unseen:
            held_out = other.edge_label_index[:, other.edge_label == 1]
            assert not seen & pairs(data, held_out)
    assert pairs(data, val.edge_label_index[:, val.edge_label == 1]) <= pairs(data, test.edge_index)
    assert train.edge_index.size(1) == val.edge_index.size(1) < test.edge_index.size(1)


def test_negative_links_join_roots_and_children_of_positive_ones(trees):
    for part in TreeLinkSplit(0.2, 0.2, neg_sampling_ratio=2.0, seed=1)(trees):
        positive = part.edge_label_index[:, part.edge_label == 1]
        negative = part.edge_label_index[:, part.edge_label == 0]
        assert negative.size(1) == 2 * positive.size(1)
        tree = trees.root_mask.cumsum(0) - 1
        assert (tree[negative[0]] != tree[negative[1]]).all()
        for end in (0, 1):  # the same nodes at the same depth
            assert set(negative[end].tolist()) <= set(positive[end].tolist())
        assert (trees.depth[negative] == torch.tensor([[1], [0]])).all()


def test_a_seed_repeats_the_split_and_the_state_of_torch_chooses_without_one(trees):
    one, same, other = (TreeLinkSplit(seed=s)(trees)[2].edge_label_index for s in (0, 0, 1))
    assert torch.equal(one, same) and not torch.equal(one, other)
    found = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        found.append(TreeLinkSplit()(trees)[2].edge_label_index)
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


def test_disjoint_links_are_labelled_and_not_seen(trees):
    train, _, _ = TreeLinkSplit(0.1, 0.1, disjoint_train_ratio=0.5, split_labels=True, seed=0)(
        trees
    )
    assert train.pos_edge_label.numel() == 48 and train.neg_edge_label.eq(0).all()
    assert not pairs(trees, train.edge_index) & pairs(trees, train.pos_edge_label_index)
    no_negatives = TreeLinkSplit(add_negative_train_samples=False, seed=0)(trees)
    assert no_negatives[0].edge_label.eq(1).all() and no_negatives[1].edge_label.eq(0).any()


def test_edge_attributes_follow_their_edges(trees):
    trees.edge_weight = torch.arange(trees.num_edges).float()
    train, _, _ = TreeLinkSplit(seed=0)(trees)
    assert torch.equal(trees.edge_index[:, train.edge_weight.long()], train.edge_index)


def test_other_graphs_are_split_by_pyg():
    edges = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0, 0, 2], [1, 0, 2, 1, 3, 2, 0, 3, 2, 0]])
    data = Data(x=torch.eye(4), edge_index=edges)
    torch.manual_seed(0)
    expected = T.RandomLinkSplit(1, 1, is_undirected=True)(data)
    torch.manual_seed(0)
    ours = TreeLinkSplit(1, 1, is_undirected=True)(data)
    for a, b in zip(ours, expected, strict=True):
        assert torch.equal(a.edge_label_index, b.edge_label_index)


def test_too_many_links_are_refused(trees):
    with pytest.raises(ValueError, match=r'120 links.*choose smaller'):
        TreeLinkSplit(60, 60)(trees)
    with pytest.raises(ValueError, match='in one tree'):
        TreeLinkSplit(1, 1)(trees)
