"""Pairs of edge ends: by hand, each end once, and no better pair is left."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_geometric_cgt.data.edge_ends import EdgeEnds
from torch_geometric_cgt.data.end_matching import EndMatching, first_use, is_member, pair_equal

LEVELS = ('token, size', 'token', 'group, size', 'group', 'label', 'any')


def ends_of(owner, own, wish) -> EdgeEnds:
    """Ends that say the same at all levels but the last two."""

    def levels(code):
        code = torch.tensor(code)
        rough = {'label': torch.zeros_like(code), 'any': torch.zeros_like(code)}
        return {level: rough.get(level, code) for level in LEVELS}

    return EdgeEnds(torch.tensor(owner), levels(own), levels(wish))


def matched(ends, num_nodes, closing_share=0.0, seed=0) -> EndMatching:
    matching = EndMatching(ends, num_nodes, torch.Generator().manual_seed(seed))
    matching.match(closing_share)
    return matching


def test_wishes_of_both_sides_decide():
    # Nodes 0 and 3 ask for each other, and so do nodes 1 and 2.
    ends = ends_of([0, 1, 2, 3], own=[0, 1, 2, 3], wish=[3, 2, 1, 0])
    for seed in range(5):
        assert matched(ends, 4, seed=seed).edges.tolist() == [0 * 4 + 3, 1 * 4 + 2]


def test_an_end_takes_the_node_that_asks_back():
    # Node 0 asks for token 1. Nodes 1 and 2 have it, and node 1 asks for token 0.
    ends = ends_of([0, 1, 2, 3], own=[0, 1, 1, 2], wish=[1, 0, 2, 1])
    for seed in range(10):
        assert matched(ends, 4, seed=seed).edges.tolist() == [0 * 4 + 1, 2 * 4 + 3]


def test_ends_that_nobody_asks_for_are_joined_in_the_end():
    ends = ends_of([0, 1], own=[0, 1], wish=[5, 6])
    assert matched(ends, 2).edge_index().tolist() == [[0, 1], [1, 0]]


def test_an_end_that_cannot_be_joined_stays_free():
    # Both ends belong to one node; then, both nodes have two ends.
    assert matched(ends_of([0, 0], [0, 0], [0, 0]), 1).edges.numel() == 0
    matching = matched(ends_of([0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 0, 0]), 2)
    assert matching.edges.tolist() == [1] and int(matching.is_free.sum()) == 2


def test_the_end_that_asked_for_an_edge_is_one_of_its_ends():
    owner = [node for node in range(20) for _ in range(3)]
    ends = ends_of(owner, [0] * 60, [0] * 60)
    for share in (0.0, 0.5):
        matching = matched(ends, 20, share)
        edges, asked = matching.edge_index(), matching.asking_end()
        near = ends.owner[asked]
        assert ((near == edges[0]) | (near == edges[1])).all()
        pairs = [tuple(sorted(pair)) for pair in edges.t().tolist()]
        by_pair = dict(zip(pairs, asked.tolist(), strict=True))
        assert len(set(by_pair.values())) == len(by_pair) > 20  # each edge has an end of its own
        assert [by_pair[pair] for pair in pairs] == asked.tolist()  # in both directions
        assert not matching.is_free[asked].any()


def test_ends_that_are_kept_back_close_triangles():
    # 60 nodes of one kind, of degree four.
    owner = [node for node in range(60) for _ in range(4)]
    ends = ends_of(owner, [0] * 240, [0] * 240)

    def triangles(share):
        edges = matched(ends, 60, share).edge_index()
        near = torch.zeros(60, 60).index_put_((edges[0], edges[1]), torch.ones(edges.size(1)))
        return float((near @ near * near).sum() / 6)

    assert triangles(0.5) > 2 * triangles(0.0)


def test_equal_values_are_paired_by_hand():
    left, right = torch.tensor([4, 7, 4, 9]), torch.tensor([4, 9, 9, 5, 4, 4])
    a, b = pair_equal(left, right)
    assert a.tolist() == [0, 2, 3] and b.tolist() == [0, 4, 1]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 5), max_size=30), st.lists(st.integers(0, 5), max_size=30))
def test_as_many_equal_values_are_paired_as_possible(left, right):
    a, b = pair_equal(torch.tensor(left).long(), torch.tensor(right).long())
    assert [left[i] for i in a] == [right[i] for i in b]
    assert len(set(a.tolist())) == len(set(b.tolist())) == len(a)
    assert len(a) == sum(min(left.count(v), right.count(v)) for v in set(left))


def test_a_pair_that_shares_an_entry_with_an_earlier_one_is_left_out():
    a, b = torch.tensor([0, 1, 3, 5]), torch.tensor([1, 2, 4, 3])
    assert first_use(a, b, 6).tolist() == [True, False, True, False]


def test_members_of_a_sorted_list():
    ordered = torch.tensor([1, 4, 6])
    assert is_member(torch.tensor([0, 1, 5, 6, 9]), ordered).tolist() == [0, 1, 0, 1, 0]
    assert not is_member(torch.tensor([1]), ordered[:0]).any()
