"""Splits of the roots and of the links of a forest, and in the place of PyG's splits."""

import pytest
import torch
import torch_geometric.transforms as T
from torch_geometric.data import Data

from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.transforms import RootNodeSplit, TreeLinkSplit, forest_aware
from torch_geometric_cgt.transforms.forest_splits import links_of

Y = torch.arange(40) % 4
SHAPE = TreeShape((2, 2))
NULL = 9


@pytest.fixture
def data():
    trees = TokenTrees(torch.zeros(40, 3, dtype=torch.long), Y, Y * 0, 2, 4, TreeShape((2,)))
    return trees.to_data(torch.eye(2))


def test_only_roots_are_chosen(data):
    out = RootNodeSplit(num_val=0.25, num_test=10)(data)
    sizes = [int(out[f'{name}_mask'].sum()) for name in ('train', 'val', 'test')]
    assert sizes == [20, 10, 10]  # shares of the 40 roots, not of the 120 nodes
    assert torch.equal(out.train_mask | out.val_mask | out.test_mask, out.root_mask)


def test_training_roots_per_class_and_several_splits(data):
    split = RootNodeSplit('random', num_splits=3, num_train_per_class=2, num_val=8, num_test=8)
    out = split(data)
    assert out.train_mask.shape == (120, 3)
    for mask in out.train_mask.t():
        assert out.y[mask].bincount().tolist() == [2] * 4


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


def test_splits_are_replaced_with_their_arguments():
    link = forest_aware(T.RandomLinkSplit(0.3, 7, True, key='z', neg_sampling_ratio=2.0))
    assert type(link) is TreeLinkSplit
    assert (link.num_val, link.num_test, link.key, link.neg_sampling_ratio) == (0.3, 7, 'z', 2.0)
    node = forest_aware(T.RandomNodeSplit('random', num_val=3, num_train_per_class=5))
    assert type(node) is RootNodeSplit
    assert (node.split, node.num_val, node.num_train_per_class) == ('random', 3, 5)


def test_others_stay_also_inside_of_compose():
    norm, own = T.NormalizeFeatures(), TreeLinkSplit(seed=3)
    assert forest_aware(norm) is norm and forest_aware(own) is own
    given = T.Compose([norm, T.RandomLinkSplit()])
    out = forest_aware(given)
    assert out.transforms[0] is norm and type(out.transforms[1]) is TreeLinkSplit
    assert type(given.transforms[1]) is T.RandomLinkSplit  # what the user gave is not changed
