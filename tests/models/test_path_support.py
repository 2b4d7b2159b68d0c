"""Support of paths: how many roots show each, and the rule that asks for several."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.builds import promised
from tests.helpers.trees import random_trees
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.models.path_support import PathIndex, PathSupport, SupportRule

SHAPE = TreeShape((2, 1))

NULL = 3

# label 0: 0 -> (1 -> 2), (2 -> null); the same with children swapped; a leaf
# label 1: the first tree once more
TOKENS = torch.tensor([[0, 1, 2, 2, 3], [0, 2, 1, 3, 2], [0, 3, 3, 3, 3], [0, 1, 2, 2, 3]])

Y = torch.tensor([0, 0, 0, 1])


def enforce(tokens, y, source, source_y, min_support, shape=SHAPE, root=None):
    rule = SupportRule(torch.tensor(source), torch.tensor(source_y), min_support, NULL, shape, root)
    return rule(torch.tensor(tokens), torch.tensor(y), torch.Generator().manual_seed(0))


SOURCE = [[0, 1, 3, 2, 3], [0, 1, 3, 2, 3], [0, 1, 2, 2, 3], [2, 3, 3, 3, 3]]


def test_what_has_support_stays_and_the_rest_is_redrawn_or_cut():
    trees = [[0, 1, 3, 2, 3], [0, 2, 1, 3, 0], [2, 1, 3, 2, 3]]
    out = enforce(trees, [0, 0, 0], SOURCE, [0] * 4, 2)
    # Two roots or more: 0, 0 1, 0 1 2. The child 2 becomes 1, the only one that can stand
    # there, and has no child still; the grandchild 0 becomes 2. The root 2 becomes 0.
    assert out.tolist() == [[0, 1, 3, 2, 3], [0, 1, 1, 3, 2], [0, 1, 3, 2, 3]]


def test_a_slot_without_any_supported_token_becomes_null_with_all_below():
    shape = TreeShape((1, 1))
    source = [[0, 0, 0], [0, 1, 1], [0, 2, 2]]
    out = enforce([[0, 1, 1]], [0], source, [0] * 3, 2, shape=shape)
    assert out.tolist() == [[0, 3, 3]]


def test_tokens_are_redrawn_with_their_weight_below_label_and_parent():
    shape = TreeShape((1,))
    # Below (label 0, token 0): 1 from three roots, 2 from nine. Label 1 must not matter.
    source = [[0, 1]] * 3 + [[0, 2]] * 9 + [[0, 1]] * 50
    y = [0] * 12 + [1] * 50
    out = enforce([[0, 0]] * 4000, [0] * 4000, source, y, 2, shape=shape)
    share = (out[:, 1] == 2).double().mean()
    assert set(out[:, 1].tolist()) == {1, 2} and abs(float(share) - 0.75) < 0.03


def test_many_trees_of_one_root_are_no_support():
    shape = TreeShape((1,))
    source = [[0, 1]] * 5 + [[0, 2]] * 2
    root = torch.tensor([0, 0, 0, 0, 0, 1, 2])
    out = enforce([[0, 1]], [0], source, [0] * 7, 2, shape, root)
    assert out.tolist() == [[0, 2]]


def test_bad_input():
    with pytest.raises(ValueError, match='got 0'):
        enforce([[0, 1, 3, 2, 3]], [0], SOURCE, [0] * 4, 0)
    # label 0 has the root 0 three times, label 4 has no root twice
    with pytest.raises(ValueError, match=r'labels \[4\] without a root.* use at most 1'):
        enforce([[0, 1, 3, 2, 3]], [0], [*SOURCE, [0, 3, 3, 3, 3]], [0, 0, 0, 0, 4], 2)
    with pytest.raises(ValueError, match=r'labels \[0\] without a root.* use at most 3'):
        enforce([[0, 1, 3, 2, 3]], [0], SOURCE, [0] * 4, 4)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([(1,), (3,), (2, 2), (2, 1, 2)]),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 2**31),
)
def test_every_path_has_the_support_and_null_stays_null(fan_outs, num_tokens, min_support, seed):
    shape, rng = TreeShape(fan_outs), torch.Generator().manual_seed(seed)
    source, y = random_trees(60, num_tokens, shape, rng)
    trees, labels = random_trees(40, num_tokens, shape, rng)
    try:
        rule = SupportRule(source, y, min_support, num_tokens, shape)
    except ValueError as error:
        assert 'labels' in str(error)
        return
    out = rule(trees, labels, rng)
    real = out != num_tokens
    support = PathSupport.of(source, y, num_tokens, shape)
    assert bool((support.count(out, labels)[real] >= min_support).all())
    assert shape.check_nulls(real) and not bool((real & (trees == num_tokens)).any())
    fine = ((support.count(trees, labels) >= min_support) | (trees == num_tokens)).all(dim=1)
    assert torch.equal(out[fine], trees[fine])
    assert torch.equal(rule(out, labels, rng), out)


def test_a_build_with_the_rule(graph, cached):
    free = SyntheticCGTDataset(graph, **cached)
    ruled = SyntheticCGTDataset(graph, **promised(cached, min_support=3))
    assert ruled.card['parameters']['min_support'] == ruled.privacy.min_support == 3
    assert sum('At least 3 source nodes' in text for text in ruled.privacy.guaranteed) == 1
    assert sum('at least 3 source nodes' in text for text in ruled.privacy.not_guaranteed) == 1
    assert not any('3 source nodes' in text for text in free.privacy.guaranteed)
    # Nobody has to look at draws: whoever shows a path has such nodes around.
    data, cluster = graph, ruled.cluster
    parents = [data.edge_index[0][data.edge_index[1] == node] for node in range(data.num_nodes)]
    shown = {}
    for root in range(data.num_nodes):
        y, c = int(data.y[root]), cluster.tolist()
        for child in parents[root].tolist():
            shown.setdefault((y, c[root], c[child]), set()).add(root)
            for last in parents[child].tolist():
                shown.setdefault((y, c[root], c[child], c[last]), set()).add(root)
    trees = ruled.trees
    num_paths = 0
    for tree, y in zip(trees.tokens.tolist(), trees.y.tolist(), strict=True):
        for slot, parent in enumerate(trees.shape.parent.tolist()):
            if slot == 0 or tree[slot] == trees.num_tokens:
                continue
            path = (
                [tree[parent], tree[slot]] if parent == 0 else [tree[0], tree[parent], tree[slot]]
            )
            num_paths += 1
            assert len(shown[(y, *path)]) >= 3
    assert num_paths > 100
    # Without the rule there are others, and nothing of it in names and cards.
    assert free.privacy.min_support is None and 'min_support' not in free.card['privacy']
    assert 'min_support' not in free.card['parameters']
    assert not torch.equal(free.tokens, ruled.tokens)
    with pytest.raises(ValueError, match='leaves the labels'):
        SyntheticCGTDataset(graph, **promised(cached, min_support=100))


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
