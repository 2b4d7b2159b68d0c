import torch

from tests.helpers.graphs import random_graph
from torch_geometric_cgt.transforms.task_weight import calibrate_task_weight


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

    weight = calibrate_task_weight(graph.x, graph.edge_index, graph.y, quantized)
    assert asked == [0.0, 0.1, 0.2, 0.4]
    assert 0.2 < weight <= 0.4


def test_no_weight_where_nothing_is_lost():
    graph = random_graph()
    every_node = torch.arange(graph.num_nodes)
    assert calibrate_task_weight(graph.x, graph.edge_index, graph.y, lambda _: every_node) == 0.0


def test_what_training_nodes_do_not_tell_is_not_put_back():
    """Clusters are the labels: they repair what misleading training nodes cost, at any weight."""
    graph = random_graph()
    train = torch.arange(120) < 40
    misled = torch.where(train, (graph.y + 1) % 3, graph.y)
    useless = torch.arange(120) % 3

    def quantized(weight):
        return misled if weight > 0 else useless

    args = (graph.x, graph.edge_index, misled, quantized)
    assert calibrate_task_weight(*args) > 0
    assert calibrate_task_weight(*args, train_mask=train) == 0
