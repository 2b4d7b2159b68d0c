import math

import torch

from torch_geometric_cgt.data import ForestStatistics, TokenTrees, TreeShape

NULL = 3


def test_statistics_by_hand():
    tokens = torch.tensor(
        [
            [0, 0, 1, 2, NULL, NULL, NULL],  # two children, one grandchild
            [1, 0, NULL, NULL, NULL, NULL, NULL],
            [0, NULL, NULL, NULL, NULL, NULL, NULL],
        ]
    )
    trees = TokenTrees(
        tokens, torch.tensor([0, 1, 1]), torch.tensor([1, 4, 0]), NULL, 2, TreeShape((2, 2))
    )
    found = ForestStatistics.of(trees)
    assert (found.num_trees, found.num_nodes, found.num_edges) == (3, 7, 4)
    assert found.trees_per_class == (1, 2)
    assert found.trees_per_split == {'train': 1, 'val': 0, 'test': 1, 'none': 1}
    assert found.nodes_per_depth == (1.0, 1.0, 1 / 3)
    assert (found.root_degree_mean, found.root_degree_max, found.isolated_roots) == (1.0, 2, 1)
    # Token 0 is at roots with labels 0 and 1, token 1 at a root with label 1. Children: token 0
    # below label 0 (1/2), token 1 below label 0 (0), token 0 below label 1 (1/2).
    assert math.isclose(found.root_homophily, (0.5 + 0 + 0.5) / 3)
    assert 'root_homophily' in str(found) and found.to_dict()['num_trees'] == 3


def test_edges_without_labels_are_no_agreement():
    tokens = torch.tensor([[0, 1, 1, 1, 1, 1, 1], [1, 0, 0, 0, 0, 0, 0]])
    trees = TokenTrees(tokens, torch.tensor([0, 1]), torch.tensor([1, 1]), 2, 2, TreeShape((2, 2)))
    assert ForestStatistics.of(trees).root_homophily == 0  # each child has the other label
    unknown = TokenTrees(tokens[:1], torch.tensor([0]), torch.tensor([1]), 2, 2, TreeShape((2, 2)))
    assert math.isnan(ForestStatistics.of(unknown).root_homophily)
