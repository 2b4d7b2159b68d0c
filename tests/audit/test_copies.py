import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.attacked import SHAPE, records, trees
from tests.models.test_min_support import random_trees
from torch_geometric_cgt.audit.copies import count_copies, tree_ids
from torch_geometric_cgt.data import TreeShape


def test_siblings_have_no_order():
    tokens = torch.tensor([[0, 1, 2, 2, 3], [0, 2, 1, 3, 2], [0, 1, 2, 3, 2], [0, 1, 2, 2, 3]])
    ids = tree_ids(tokens, torch.tensor([0, 0, 0, 1]), SHAPE).tolist()
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
    ids = tree_ids(tokens, y, shape).tolist()
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
    source = records(tokens.tolist(), y.tolist(), num_tokens=8)

    def check(tokens, y):
        generated = trees(tokens.tolist(), y.tolist(), num_tokens=8)
        return count_copies(generated, source, k=5).check()

    assert check(tokens, y).verdict == 'failed'
    assert check(others, labels).verdict == 'passed'
