import torch

from tests.helpers.graphs import random_graph
from torch_geometric_cgt.transforms.task_weight import calibrate_task_weight


def test_the_weight_is_the_smallest_at_which_all_views_are_kept():
    """Clusters of random nodes below a weight of 0.5, one cluster per node from there on."""
    graph = random_graph(num_nodes=200, num_edges=400)
    rng = torch.Generator().manual_seed(99)
    useless = torch.randint(3, (200,), generator=rng)
    useless[:3] = torch.arange(3)
    asked = []

    def quantized(weight):
        asked.append(weight)
        return torch.arange(200) if weight >= 0.5 else useless

    weight = calibrate_task_weight(graph.x, graph.edge_index, graph.y, quantized)
    assert asked == [0.0, 0.4, 0.8, 1.6, 3.2]
    assert weight == 0.8


def test_a_view_that_averages_do_not_see_counts():
    """The label is in the root alone, and neighbours are random: averages over them are poor in
    any case, so that only the view of the root asks for clusters that keep the label."""
    rng = torch.Generator().manual_seed(0)
    y = torch.randint(4, (600,), generator=rng)
    edge_index = torch.randint(600, (2, 12_000), generator=rng)
    x = torch.eye(4)[y] + 0.1 * torch.randn(600, 4, generator=rng)
    blind = torch.randint(6, (600,), generator=rng)

    def quantized(weight):
        return y if weight == 1.6 else blind

    assert calibrate_task_weight(x, edge_index, y, quantized) == 1.6


def test_no_weight_where_nothing_is_lost():
    graph = random_graph()
    every_node = torch.arange(graph.num_nodes)
    assert calibrate_task_weight(graph.x, graph.edge_index, graph.y, lambda _: every_node) == 0.0


def test_what_training_nodes_do_not_tell_is_not_put_back():
    """Training nodes have wrong labels. Clusters that are the given labels would repair what this
    costs on all other nodes."""
    rng = torch.Generator().manual_seed(0)
    y = torch.randint(4, (800,), generator=rng)
    train = torch.arange(800) < 200
    misled = torch.where(train, (y + 1) % 4, y)
    x = torch.eye(4)[y] + 0.1 * torch.randn(800, 4, generator=rng)
    useless = torch.randint(4, (800,), generator=rng)

    def quantized(weight):
        return misled if weight > 0 else useless

    args = (x, None, misled, quantized)
    assert calibrate_task_weight(*args) > 0
    assert calibrate_task_weight(*args, train_mask=train) == 0
