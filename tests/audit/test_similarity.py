import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.attacked import SHAPE, records, trees
from tests.helpers.trees import random_trees
from torch_geometric_cgt.audit.check import ABOVE, NOTHING
from torch_geometric_cgt.audit.similarity import (
    closest_distances,
    count_copies,
    layer_means,
    tree_ids,
)
from torch_geometric_cgt.data import TreeShape

CODEBOOK = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])


def test_siblings_have_no_order():
    tokens = torch.tensor([[0, 1, 2, 2, 3], [0, 2, 1, 3, 2], [0, 1, 2, 3, 2], [0, 1, 2, 2, 3]])
    ids = tree_ids(trees(tokens, [0, 0, 0, 1])).tolist()
    assert ids[0] == ids[1] and len(set(ids)) == 3


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([(3,), (2, 2), (2, 2, 2)]), st.integers(0, 2**31))
def test_equal_numbers_are_equal_trees(fan_outs, seed):
    shape, rng = TreeShape(fan_outs), torch.Generator().manual_seed(seed)
    tokens, y = random_trees(60, 2, shape, rng)

    def form(row, slot=0):
        first, end = (int(x[slot]) for x in shape.children)
        return int(row[slot]), tuple(sorted(form(row, child) for child in range(first, end)))

    forms = [(int(label), form(row)) for row, label in zip(tokens, y, strict=True)]
    ids = tree_ids(trees(tokens, y, 2, shape)).tolist()
    assert len(set(ids)) == len(set(forms)) == len(set(zip(ids, forms, strict=True)))


def test_copies_by_hand():
    common, rare, new = [0, 3, 3, 3, 3], [0, 1, 2, 2, 3], [1, 1, 1, 0, 0]
    source = records([common, common, common, rare, [2, 1, 3, 3, 3]], [0] * 5)
    found = count_copies(trees([common, rare, rare, new], [0] * 4), source, k=3)
    assert found.copies == 3 and found.rare == 2 and found.share.value == 0.5
    assert found.has_rare_copy == [1, 2]
    # of the source roots, three have the tree of two others, which is rare below k = 3
    assert found.expected.value == 3 / 5


def test_one_root_that_is_drawn_twice_is_one_root():
    tree = [0, 1, 2, 2, 3]
    source = records([[tree, [1, 3, 3, 3, 3]], [tree, tree]], [0, 0])
    found = count_copies(trees([tree], [0]), source, k=3)
    assert found.rare == 1 and found.expected.value == 0.5  # the second root has another first tree


def test_a_release_of_copies_fails_and_one_of_new_trees_does_not():
    rng = torch.Generator().manual_seed(0)
    tokens, y = random_trees(300, 8, SHAPE, rng)
    others, labels = random_trees(300, 8, SHAPE, rng)
    source = records(tokens, y, num_tokens=8)

    def check(tokens, y):
        generated = trees(tokens, y, num_tokens=8)
        return count_copies(generated, source, k=5).check()

    assert check(tokens, y).verdict == ABOVE
    assert check(others, labels).verdict == NOTHING


def test_means_of_layers_by_hand():
    found = layer_means(trees([[1, 1, 2, 3, 0], [2, 3, 3, 3, 3]], [0, 0]), CODEBOOK)
    # children 1 and 2, of the grandchildren one is null and one is zero
    assert found.tolist() == [[3, 0, 1.5, 2, 0, 0], [0, 4, 0, 0, 0, 0]]


def test_distances_by_hand():
    leaf = [[token, 3, 3, 3, 3] for token in (0, 1, 2)]
    source = records([leaf[0], leaf[1], leaf[2], leaf[0]], [0, 0, 0, 1])
    found = closest_distances(trees([leaf[1], leaf[2]], [0, 1]), source, CODEBOOK)
    # the first is a copy; the second has one source tree of its label, 4 away
    assert found.generated['0.5'] == pytest.approx(2.0)
    # 0 to 1: 3, 1 to 0: 3, 2 to 0: 4; the tree of label 1 has no other
    assert found.source['0.5'] == pytest.approx(3.0)
    # 0 is closer than 3, 3 and 4; 4 is as close as one of them
    assert found.closer == pytest.approx(3.5 / 6)
    assert not hasattr(found, 'check')  # distances do not measure privacy


def test_trees_that_are_all_alike_are_as_close():
    leaf = [1, 3, 3, 3, 3]
    found = closest_distances(trees([leaf, leaf], [0, 0]), records([leaf] * 3, [0] * 3), CODEBOOK)
    assert found.closer == 0.5
