import pytest
import torch

from torch_geometric_cgt import KAnonymity
from torch_geometric_cgt.benchmark.variants import find_variant, shuffle_children, shuffle_labels
from torch_geometric_cgt.data import TokenTrees, TreeShape


def _trees() -> TokenTrees:
    tokens = torch.arange(30).view(10, 3) % 7
    y, split = torch.arange(10) % 2, torch.tensor([1] * 6 + [4] * 4)
    return TokenTrees(tokens, y, split, 6, 2, TreeShape((2,)))


def test_shuffled_labels_keep_trees_and_counts() -> None:
    trees, out = _trees(), shuffle_labels(_trees(), 0)
    assert torch.equal(out.tokens, trees.tokens)
    assert not torch.equal(out.y, trees.y)
    for code in (1, 4):
        assert out.y[trees.split == code].sum() == trees.y[trees.split == code].sum()


def test_random_children_keep_roots_and_null_slots() -> None:
    trees, out = _trees(), shuffle_children(_trees(), 0)
    assert torch.equal(out.tokens[:, 0], trees.tokens[:, 0])
    assert torch.equal(out.tokens == 6, trees.tokens == 6)
    assert not torch.equal(out.tokens, trees.tokens)
    assert torch.equal(out.tokens.flatten().sort().values, trees.tokens.flatten().sort().values)


def test_variants_by_name() -> None:
    assert find_variant('k=100').promise(7) == KAnonymity(100)
    with pytest.raises(ValueError, match=r"'wrong'.*'no label'"):
        find_variant('wrong')


def test_variants_of_the_benchmark():
    assert find_variant('min_support=5').promise(7) == KAnonymity(7, min_support=5)
    assert find_variant('k=100').promise(7) == KAnonymity(100)
    for name in ('seed=5', 'min_support=', 'k=few'):
        with pytest.raises(ValueError, match=r'min_support=\.\.\.'):
            find_variant(name)
