import torch

from tests.conftest import random_graph
from torch_geometric_cgt.sampler import InNeighbors
from torch_geometric_cgt.transforms.calibrate import calibrate_weight, smooth


def test_smoothing_by_hand():
    z = torch.tensor([[0.0], [6.0], [12.0]])
    edge_index = torch.tensor([[1, 2], [0, 1]])  # 1 -> 0, 2 -> 1
    once = torch.tensor([[3.0], [9.0], [12.0]])
    twice = torch.tensor([[6.0], [10.5], [12.0]])
    graph = InNeighbors.from_edge_index(edge_index, 3)
    assert torch.equal(smooth(z, graph, 1), once)
    assert torch.equal(smooth(z, graph), twice)
    nobody = InNeighbors.from_edge_index(edge_index[:, :0], 3)
    assert torch.equal(smooth(z, nobody), z)
    assert smooth(z, None) is z


def test_the_weight_lies_where_the_gap_closes():
    """Clusters of random nodes below a weight of 0.3, one cluster per node from there on."""
    graph = random_graph(num_nodes=200, num_edges=400)
    rng = torch.Generator().manual_seed(99)
    useless = torch.randint(3, (200,), generator=rng)
    useless[:3] = torch.arange(3)
    asked = []

    def quantized(weight):
        asked.append(weight)
        return torch.arange(200) if weight >= 0.3 else useless

    weight = calibrate_weight(graph.x, graph.edge_index, graph.y, quantized)
    assert asked == [0.0, 0.1, 0.2, 0.4]
    assert 0.2 < weight <= 0.4


def test_no_weight_where_nothing_is_lost():
    graph = random_graph()
    every_node = torch.arange(graph.num_nodes)
    assert calibrate_weight(graph.x, graph.edge_index, graph.y, lambda _: every_node) == 0.0


def test_what_training_nodes_do_not_tell_is_not_put_back():
    """Clusters are the labels: they repair what misleading training nodes cost, at any weight."""
    graph = random_graph()
    train = torch.arange(120) < 40
    misled = torch.where(train, (graph.y + 1) % 3, graph.y)
    useless = torch.arange(120) % 3

    def quantized(weight):
        return misled if weight > 0 else useless

    args = (graph.x, graph.edge_index, misled, quantized)
    assert calibrate_weight(*args) > 0
    assert calibrate_weight(*args, train_mask=train) == 0
