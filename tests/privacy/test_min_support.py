import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.privacy.min_support import enforce_support
from torch_geometric_cgt.privacy.paths import PathSupport

SHAPE = TreeShape((2, 1))
NULL = 3


def enforce(tokens, y, source, source_y, min_support, seed=0, shape=SHAPE, null=NULL, **kwargs):
    return enforce_support(
        torch.tensor(tokens),
        torch.tensor(y),
        torch.as_tensor(source),
        torch.as_tensor(source_y),
        min_support,
        torch.Generator().manual_seed(seed),
        num_tokens=null,
        shape=shape,
        **kwargs,
    )


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
    out = enforce(
        [[0, 1]],
        [0],
        source,
        [0] * 7,
        2,
        shape=shape,
        source_root=torch.tensor([0, 0, 0, 0, 0, 1, 2]),
    )
    assert out.tolist() == [[0, 2]]


def test_bad_input():
    with pytest.raises(ValueError, match='got 0'):
        enforce([[0, 1, 3, 2, 3]], [0], SOURCE, [0] * 4, 0)
    with pytest.raises(ValueError, match=r'labels \[1\]'):
        enforce([[0, 1, 3, 2, 3]], [1], SOURCE, [0] * 4, 1)
    with pytest.raises(ValueError, match='lower it'):
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
        out = enforce_support(
            trees, labels, source, y, min_support, rng, num_tokens=num_tokens, shape=shape
        )
    except ValueError as error:
        assert 'labels' in str(error)
        return
    real = out != num_tokens
    support = PathSupport.of(source, y, num_tokens, shape)
    assert bool((support.count(out, labels)[real] >= min_support).all())
    assert shape.check_nulls(real) and not bool((real & (trees == num_tokens)).any())
    fine = ((support.count(trees, labels) >= min_support) | (trees == num_tokens)).all(dim=1)
    assert torch.equal(out[fine], trees[fine])
    again = enforce_support(
        out, labels, source, y, min_support, rng, num_tokens=num_tokens, shape=shape
    )
    assert torch.equal(again, out)


def random_trees(num, num_tokens, shape, rng):
    tokens = torch.randint(num_tokens + 1, (num, shape.num_slots), generator=rng)
    tokens[:, 0] = tokens[:, 0].clamp(max=num_tokens - 1)
    for slot in range(1, shape.num_slots):
        tokens[tokens[:, shape.parent[slot]] == num_tokens, slot] = num_tokens
    return tokens, torch.randint(2, (num,), generator=rng)
