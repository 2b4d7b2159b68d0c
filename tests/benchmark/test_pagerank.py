import pytest
import torch
from torch_geometric.nn import APPNP
from torch_geometric.utils import add_self_loops, degree

from tests.helpers.trees import SHAPE, encoded
from torch_geometric_cgt.benchmark import make_gnn
from torch_geometric_cgt.benchmark.pagerank import PPNP
from torch_geometric_cgt.data import TreeShape


@torch.no_grad()
def test_equals_many_power_steps_of_appnp_on_the_forest():
    forest, trees = encoded()
    model = make_gnn('PPNP', 8, 3, SHAPE, hidden_channels=16).eval()
    edge_index, _ = add_self_loops(forest.edge_index, num_nodes=forest.num_nodes)
    weight = 1 / degree(edge_index[1])[edge_index[1]]
    reference = APPNP(K=200, alpha=0.1, normalize=False)(
        model.predict(forest.x), edge_index, weight
    )
    assert torch.allclose(model(trees.x, trees.index), reference[forest.root_mask], atol=1e-5)


def test_closed_form_by_hand():
    model = PPNP(1, 1, 1, TreeShape.of([2]), teleport=0.5)
    h = torch.tensor([[[4.0], [1.0], [3.0]], [[4.0], [1.0], [0.0]], [[4.0], [0.0], [0.0]]])
    real = torch.tensor([[True, True, True], [True, True, False], [True, False, False]])
    # z = (4 / 2 + (1 + 3) / 6) / (1 - 1 / 6), z = (4 / 2 + 1 / 4) / (1 - 1 / 4), z = 4
    assert model.propagate(h, real).view(-1).tolist() == pytest.approx([3.2, 3.0, 4.0])
