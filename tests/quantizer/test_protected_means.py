"""Protected means: rare values are left out, outliers clipped, and the rest is rounded."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_geometric_cgt.quantizer import cluster_means, protected_means, value_support
from torch_geometric_cgt.quantizer.protected_means import (
    NEIGHBORHOOD,
    REACH,
    feature_scales,
    neighborhood,
    unsupported,
)

WORDS = torch.tensor(
    [[1.0, 0, 0, 1], [1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1], [0, 1, 1, 0]]
)
CLUSTER = torch.tensor([0, 0, 0, 1, 1, 1])


def layouts(x):
    return {'dense': x, 'coo': x.to_sparse(), 'csr': x.to_sparse_csr()}


@pytest.mark.parametrize('layout', ['dense', 'coo', 'csr'])
def test_by_hand(layout):
    x = layouts(WORDS)[layout]
    assert value_support(x, CLUSTER, 2).tolist() == [[3, 1, 1, 1], [0, 1, 3, 1]]
    third = 1 / 3
    exact = [[1, third, third, third], [0, third, 1, third]]
    assert torch.allclose(protected_means(x, CLUSTER, 2), torch.tensor(exact))
    # Both clusters are one neighbourhood: two members of it have the second and fourth word.
    supported = protected_means(x, CLUSTER, 2, min_support=2)
    wide = [0.5, third, 2 / 3, third]
    expected = [[1, wide[1], wide[2], wide[3]], [wide[0], wide[1], 1, wide[3]]]
    assert torch.allclose(supported, torch.tensor(expected))
    strict = protected_means(x, CLUSTER, 2, min_support=3)
    assert torch.allclose(strict, torch.tensor([[1, 0, 2 / 3, 0], [0.5, 0, 1, 0]]))
    assert unsupported(x, CLUSTER, 2, 3).tolist() == [[False, True, False, True]] * 2
    rounded = protected_means(x, CLUSTER, 2, step=0.25)
    assert rounded.tolist() == [[1, 0.25, 0.25, 0.25], [0, 0.25, 1, 0.25]]
    assert rounded.dtype == torch.float32 and rounded.layout == torch.strided


def test_without_rules_means_are_exact():
    x = torch.randn(40, 5, generator=torch.Generator().manual_seed(0))
    cluster = torch.arange(40) % 4
    assert torch.equal(protected_means(x, cluster, 4), cluster_means(x, cluster, 4))


def test_entries_that_are_stored_as_zero_are_no_support():
    index = torch.tensor([[0, 1, 2], [0, 0, 0]])
    x = torch.sparse_coo_tensor(index, torch.tensor([0.0, 2.0, 3.0]), (3, 1))
    assert value_support(x, torch.zeros(3, dtype=torch.long), 1).tolist() == [[2]]


def test_scales_by_hand():
    x = torch.zeros(100, 5)
    x[:7, 0] = 1.0  # 0/1
    x[:10, 1] = torch.tensor([1.0, 2, 3, 1, 2, 3, 1, 2, 3, 2])  # counts, 2 on average
    x[:, 2] = 50 + torch.tensor([-1.0, 1]).repeat(50)  # dense, standard deviation 1
    x[:, 3] = 7.0  # constant
    center, scale = feature_scales(x)
    assert scale.tolist() == [1, 2, 1, 8, 1]  # no value at all in the last one
    assert center.tolist() == [0, 0, 50, 8, 0]


def test_one_outlier_does_not_move_a_mean_far():
    x = torch.ones(40, 1)
    x[20:] = 0.0
    x[0] = 1e6
    x[1:20] = torch.linspace(0.5, 1.5, 19)[:, None]
    many = torch.cat([x, x[1:].repeat(500, 1)])  # the scale follows the others
    cluster = torch.cat([torch.zeros(40), torch.ones(len(many) - 40)]).long()
    mean = float(protected_means(many, cluster, 2, step=0.1)[0])
    assert float(cluster_means(many, cluster, 2)[0]) > 20_000 and mean < 500


@st.composite
def groups(draw):
    """0/1, count, sparse or dense features with at least k members in each of two clusters."""
    k = draw(st.integers(5, 12))
    num_rows = draw(st.integers(2 * k, 40))
    rng = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    kind = draw(st.sampled_from(['binary', 'count', 'sparse', 'dense']))
    shape = (num_rows, draw(st.integers(1, 6)))
    has = torch.rand(shape, generator=rng) < draw(st.floats(0.05, 0.8))
    value = torch.randn(shape, generator=rng) * 10 ** draw(st.integers(-3, 3))
    x = {
        'binary': has.float(),
        'count': has * torch.randint(1, 9, shape, generator=rng).float(),
        'sparse': has * value.abs(),
        'dense': value + draw(st.sampled_from([0.0, 1000.0])),
    }[kind]
    cluster = (torch.arange(num_rows) >= k).long()
    return x, cluster, k


@settings(max_examples=60, deadline=None)
@given(groups(), st.integers(2, 5), st.sampled_from([0.1, 1 / 6, 1 / 3, 0.5]))
def test_what_few_members_have_is_out_and_the_rest_is_on_the_grid(case, t, step):
    x, cluster, _ = case
    out = protected_means(x, cluster, 2, t, step)
    assert not out[unsupported(x, cluster, 2, t)].any()
    is_rare = value_support(x, cluster, 2) < t  # values of the neighbourhood, on its grid
    grid = torch.where(is_rare, step / NEIGHBORHOOD, step) * feature_scales(x).scale
    steps = out.double() / grid
    assert torch.allclose(steps, steps.round(), atol=1e-3, rtol=1e-5)
    center, scale = feature_scales(x)
    inside = (out.double() - center).abs() <= (REACH + step) * scale + 1e-6 * center.abs()
    assert (inside | (out == 0)).all()


@settings(max_examples=60, deadline=None)
@given(groups())
def test_without_one_member_a_mean_moves_by_one_step_at_most(case):
    x, cluster, k = case
    step = min(1.0, 2 * REACH / (k - 1))
    with_member = protected_means(x, cluster, 2, None, step)
    without = protected_means(x[1:], cluster[1:], 2, None, step)
    scale, other = feature_scales(x), feature_scales(x[1:])
    same = (scale.scale == other.scale) & (scale.center == other.center)
    moved = (with_member.double() - without.double()).abs()
    stored = torch.finfo(torch.float32).eps * (with_member.abs() + without.abs())  # float32
    assert (moved <= step * scale.scale + stored)[:, same].all()


@pytest.mark.parametrize(
    'num_clusters, expected',
    [
        (1, [0]),
        (3, [0] * 3),
        (7, [0] * 7),
        (9, [0] * 4 + [1] * 5),
        (12, [0] * 4 + [1] * 4 + [2] * 4),
    ],
)
def test_neighborhoods_have_four_clusters_or_more(num_clusters, expected):
    assert neighborhood(num_clusters).tolist() == expected


def test_sizes_of_groups_are_not_in_rounded_means_of_words():
    """Whatever the size, the same shares give the same codeword."""
    for size in (30, 31, 37, 44, 60):
        x = torch.zeros(size, 4)
        for j, share in enumerate((0.34, 0.65, 0.99, 0.1)):
            x[: round(share * size), j] = 1.0
        cluster = torch.zeros(size, dtype=torch.long)
        out = protected_means(x, cluster, 1, 10, 1 / 3)[0]
        assert (out * 3).round().tolist() == [1, 2, 3, 0]


@pytest.mark.parametrize(
    'wrong, message',
    [
        ({'min_support': 0}, "'min_support' must be a positive integer"),
        ({'step': 0.0}, "'step' must be above 0"),
        ({'step': 1.5}, r'at most 1 \(got 1.5\)'),
    ],
)
def test_bad_arguments(wrong, message):
    with pytest.raises(ValueError, match=message):
        protected_means(WORDS, CLUSTER, 2, **wrong)
