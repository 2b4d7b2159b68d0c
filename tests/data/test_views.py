"""Views of trees, by hand and against plain loops."""

import pytest
import torch
from torch_geometric.nn import GCNConv

from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.data.views import tree_views, view_names


def test_views_by_hand():
    shape = TreeShape.of([2, 2])
    table = torch.tensor([[1.0, 0.0], [0.0, 4.0], [3.0, -2.0]])
    tokens = torch.tensor([[0, 1, 2, 0, 3, 3, 3], [2, 3, 3, 3, 3, 3, 3]])  # 3 is null
    views = tree_views(tokens, table, shape)
    assert list(views) == view_names(shape)
    assert views['root'].tolist() == [[1, 0], [3, -2]]
    assert views['children'].tolist() == [[1.5, 1], [0, 0]]
    assert views['grandchildren'].tolist() == [[1, 0], [0, 0]]
    # Of three neighbours with the root itself, one has a child: degrees 3, 2 and 1.
    one_hop = table[0] / 3 + table[1] / 6**0.5 + table[2] / 3**0.5
    assert torch.allclose(views['1 hop'], torch.stack([one_hop, table[2]]))
    assert views['maximum'].tolist() == [[3, 4, 0, -2], [0, 0, 0, 0]]
    assert views['layers apart'].tolist() == [[1, 0, 1.5, 1, 1, 0], [3, -2, 0, 0, 0, 0]]


@pytest.mark.parametrize('fan_outs', [[3], [3, 2], [2, 2, 2]])
def test_hops_are_those_of_a_linear_gcn(fan_outs):
    """PyG's own layer, on the forest of the trees, with a weight matrix of one."""
    shape = TreeShape.of(fan_outs)
    rng = torch.Generator().manual_seed(0)
    table = torch.randn(6, 4, generator=rng)
    tokens = torch.randint(7, (40, shape.num_slots), generator=rng)
    tokens[:, 0] = tokens[:, 0].clamp(max=5)
    for slot in range(1, shape.num_slots):  # nothing below null
        tokens[:, slot] = torch.where(tokens[:, shape.parent[slot]] == 6, 6, tokens[:, slot])
    views = tree_views(tokens.int(), table, shape)
    trees = TokenTrees(tokens, tokens[:, 0], tokens[:, 0] * 0, 6, 7, shape)
    data = trees.to_data(table)
    conv = GCNConv(4, 4, bias=False)
    conv.lin.weight = torch.nn.Parameter(torch.eye(4))
    x = data.x
    for hop in range(1, shape.depth + 1):
        x = conv(x, data.edge_index).detach()
        name = '1 hop' if hop == 1 else f'{hop} hops'
        assert torch.allclose(views[name], x[data.root_mask], atol=1e-5)


def test_blocks_do_not_change_views(monkeypatch):
    shape, rng = TreeShape.of([3]), torch.Generator().manual_seed(0)
    tokens, table = torch.randint(5, (50, 4), generator=rng), torch.randn(5, 3, generator=rng)
    whole = tree_views(tokens, table, shape)
    monkeypatch.setattr('torch_geometric_cgt.data.views.BLOCK_ELEMENTS', 40)
    parts = tree_views(tokens, table, shape)
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_deep_trees_have_more_views():
    assert view_names(TreeShape.of([2, 2, 2])) == [
        'root', 'children', 'grandchildren', 'layer 3', '1 hop', '2 hops', '3 hops', 'maximum',
        'layers apart',
    ]  # fmt: skip
    assert view_names(TreeShape.of([4])) == ['root', 'children', '1 hop', 'maximum', 'layers apart']
