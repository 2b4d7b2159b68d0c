"""What every tree sampler promises, as assertions."""

from torch import Tensor

from torch_geometric_cgt.data import TreeShape


def children_of(tree: list[int], slot: int, shape: TreeShape) -> list[int]:
    slots = (shape.parent == slot).nonzero().view(-1).tolist()
    return [tree[i] for i in slots if tree[i] >= 0]


def check_promises(tree: Tensor, root: Tensor, edge_index: Tensor, shape: TreeShape) -> None:
    """The edges must be distinct."""
    assert tree.shape == (root.numel(), shape.num_slots)
    assert tree[:, 0].tolist() == root.tolist()
    assert shape.check_nulls(tree >= 0)
    edges = set(map(tuple, edge_index.t().tolist()))
    for row in tree.tolist():
        for slot in range(shape.num_internal):
            children = children_of(row, slot, shape)
            assert len(set(children)) == len(children)
            assert all((child, row[slot]) in edges for child in children)
