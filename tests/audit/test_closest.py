import pytest
import torch

from tests.helpers.attacked import SHAPE, records, trees
from torch_geometric_cgt.audit.closest import closest_records, layer_means

CODEBOOK = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])


def test_means_of_layers_by_hand():
    found = layer_means(torch.tensor([[1, 1, 2, 3, 0], [2, 3, 3, 3, 3]]), CODEBOOK, SHAPE)
    # children 1 and 2, of the grandchildren one is null and one is zero
    assert found.tolist() == [[3, 0, 1.5, 2, 0, 0], [0, 4, 0, 0, 0, 0]]


def test_distances_by_hand_and_no_verdict():
    leaf = [[token, 3, 3, 3, 3] for token in (0, 1, 2)]
    source = records([leaf[0], leaf[1], leaf[2], leaf[0]], [0, 0, 0, 1])
    found = closest_records(trees([leaf[1], leaf[2]], [0, 1]), source, CODEBOOK)
    # the first is a copy; the second has one source tree of its label, 4 away
    assert found.generated['0.5'] == pytest.approx(2.0)
    # 0 to 1: 3, 1 to 0: 3, 2 to 0: 4; the tree of label 1 has no other
    assert found.source['0.5'] == pytest.approx(3.0)
    # 0 is closer than 3, 3 and 4; 4 is as close as one of them
    assert found.closer == pytest.approx(3.5 / 6)
    assert found.check().verdict == 'descriptive' and 'do not measure' in found.check().says


def test_trees_that_are_all_alike_are_as_close():
    leaf = [1, 3, 3, 3, 3]
    found = closest_records(trees([leaf, leaf], [0, 0]), records([leaf] * 3, [0] * 3), CODEBOOK)
    assert found.check().value == 0.5
