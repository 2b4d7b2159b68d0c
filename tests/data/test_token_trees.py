"""Trees as rows of tokens, and masks as split codes: by hand, and what is refused."""

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

from tests.helpers.trees import two_trees
from torch_geometric_cgt.data import (
    TokenTrees,
    TreeShape,
    masks_of,
    random_split,
    token_trees,
    tokens_of,
)
from torch_geometric_cgt.data.token_trees import SparseRows, sample_of_splits, split_of


@pytest.mark.parametrize(
    'change, message',
    [
        ({'tokens': torch.tensor([[0, 1, 2, 3, 2]] * 2)}, 'token lies outside'),
        ({'tokens': torch.tensor([[-1, 1, 2, 1, 2]] * 2)}, 'token lies outside'),
        ({'tokens': torch.zeros(2, 4, dtype=torch.long)}, 'Expected tokens of shape'),
        ({'tokens': torch.tensor([[2, 2, 2, 2, 2]] * 2)}, 'root is null'),
        ({'y': torch.tensor([0, 2])}, 'label lies outside'),
        ({'y': torch.tensor([0])}, 'labels and splits'),
        ({'split': torch.tensor([0, 8])}, 'split code lies outside'),
    ],
)
def test_inconsistent_trees_are_refused(change, message):
    good = two_trees()
    good.validate()
    with pytest.raises(ValueError, match=message):
        TokenTrees(**{**vars(good), **change}).validate()


def test_sizes_and_real_slots():
    trees = two_trees()
    assert len(trees) == 2
    assert trees.real.tolist() == [[True, True, False, True, False], [True] + [False] * 4]
    assert trees.rows('train').tolist() == [0] and trees.rows('test').tolist() == [1]
    assert trees.rows('val').tolist() == []


def test_a_real_slot_below_a_null_one_is_refused():
    tokens = torch.tensor([[0, 1, 2, 1, 2], [1, 2, 2, 2, 0]])  # the last slot is below slot 2
    with pytest.raises(ValueError, match='a slot below a null slot is not null'):
        replace(two_trees(), tokens=tokens).validate()


@pytest.mark.parametrize('block', [1, 2])
def test_every_block_is_validated(monkeypatch, block):
    monkeypatch.setattr(token_trees, 'VALIDATE_BLOCK', block)
    two_trees().validate()
    with pytest.raises(ValueError, match=r'A label lies outside \[0, 1\]'):
        replace(two_trees(), y=torch.tensor([1, 5])).validate()


def test_other_tokens_keep_null():
    x = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    found = two_trees().map_tokens(torch.tensor([3, 0]), 4, x)
    assert found.tokens.tolist() == [[3, 0, 4, 0, 4], [0, 4, 4, 4, 4]]
    assert found.num_tokens == 4 and torch.equal(found.features, x)
    assert torch.equal(found.real, two_trees().real)
    found.validate()
    same = two_trees().map_tokens(None, 2, x[:2])  # other features alone
    assert torch.equal(same.tokens, two_trees().tokens) and same.features.tolist() == [[1.0], [2.0]]


def test_features_must_be_there():
    with pytest.raises(ValueError, match="no table of features 'x'"):
        _ = two_trees().features


def five_trees() -> TokenTrees:
    tokens = torch.tensor([[i, 9] for i in range(5)])
    y, split, child_split = torch.arange(5), torch.arange(5) % 3, torch.arange(5)[:, None] % 2
    x = torch.arange(9.0)[:, None]
    return TokenTrees(tokens, y, split, 9, 5, TreeShape.of([1]), x, child_split)


def test_selected_trees_keep_what_belongs_to_them():
    found = five_trees().select(torch.tensor([4, 0]))
    assert found.tokens.tolist() == [[4, 9], [0, 9]] and found.y.tolist() == [4, 0]
    assert found.split.tolist() == [1, 0] and found.child_split.tolist() == [[0], [0]]
    assert found.x is not None and len(found.x) == 9  # the table is that of all trees
    assert two_trees().select(slice(0, 1)).child_split is None


def test_blocks_are_all_trees_in_their_order():
    parts = list(five_trees().blocks(2))
    assert [part.y.tolist() for part in parts] == [[0, 1], [2, 3], [4]]
    assert torch.equal(torch.cat([part.tokens for part in parts]), five_trees().tokens)
    assert list(five_trees().select(slice(0, 0)).blocks(2)) == []


def test_nodes_become_clusters():
    tree = torch.tensor([[2, 0, -1], [1, -1, -1]])
    assert tokens_of(tree, torch.tensor([5, 6, 7]), 8).tolist() == [[7, 5, 8], [6, 8, 8]]


def test_sparse_rows_are_those_of_the_matrix():
    x = torch.tensor([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [3.0, 0.0, 4.0]])
    for matrix in (x, x.to_sparse()):
        rows = SparseRows.from_matrix(matrix)
        assert (rows.size(0), rows.size(1)) == (3, 3)
        some = rows[torch.tensor([2, 1, 2, 0])]
        assert some.ptr.tolist() == [0, 2, 2, 4, 5]
        assert some.column.tolist() == [0, 2, 0, 2, 1]
        assert some.value.tolist() == [3, 4, 3, 4, 2]


def test_random_split_is_50_10_40_of_the_candidates():
    candidates = torch.ones(1000, dtype=torch.bool)
    candidates[:200] = False
    masks = masks_of(random_split(candidates, seed=3))
    assert [int(mask.sum()) for mask in masks.values()] == [400, 80, 320]
    assert not any(mask[:200].any() for mask in masks.values())
    assert torch.equal(random_split(candidates, 3), random_split(candidates, 3))
    assert not torch.equal(random_split(candidates, 3), random_split(candidates, 4))


def test_codes_and_masks_are_inverse():
    masks = {
        'train_mask': torch.tensor([True, False, True, False]),
        'test_mask': torch.tensor([False, True, True, False]),
    }
    code = split_of(Data(num_nodes=4, **masks))
    assert code.tolist() == [1, 4, 5, 0]  # the third node is in both
    found = masks_of(code)
    assert all(torch.equal(found[name], mask) for name, mask in masks.items())
    assert found['val_mask'].tolist() == [False] * 4
    assert split_of(Data(num_nodes=4)) is None


def test_a_sample_of_roots_keeps_the_few_of_a_split():
    rng = torch.Generator().manual_seed(0)
    split = torch.tensor([0] * 5000 + [1] * 20 + [2] * 480 + [4] * 4500)
    drawn = sample_of_splits(split, 1000, 100, rng)
    assert drawn.unique().numel() == drawn.numel()
    assert split[drawn].bincount().tolist() == [500, 20, 100, 0, 450]
    assert not torch.equal(split[drawn], split[drawn].sort().values)  # in random order
    assert sorted(sample_of_splits(split[:9], 9, 5, rng).tolist()) == list(range(9))
