import torch_geometric.transforms as T

from torch_geometric_cgt.transforms import RootNodeSplit, TreeLinkSplit, forest_aware


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
