import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch_geometric.utils import contains_isolated_nodes, is_undirected

from torch_geometric_cgt.datasets import DigitQuarters, Digits, load_source
from torch_geometric_cgt.datasets.digits import nearest_images


def test_digits_are_real_and_embedded():
    data = Digits()[0]
    assert (data.num_nodes, data.num_features) == (1797, 64)
    assert data.y.unique().tolist() == list(range(10))
    assert 0 <= data.x.min() and data.x.max() == 1
    assert is_undirected(data.edge_index) and not contains_isolated_nodes(data.edge_index)
    assert [int(data[f'{m}_mask'].sum()) for m in ('train', 'val', 'test')] == [898, 180, 719]
    source, target = data.edge_index
    assert (data.y[source] == data.y[target]).float().mean() > 0.9


def test_a_node_shows_one_quarter_of_its_image():
    whole, data = Digits()[0], DigitQuarters()[0]
    assert torch.equal(data.edge_index, whole.edge_index) and torch.equal(data.y, whole.y)
    image = data.x.view(-1, 2, 4, 2, 4)  # rows of quarters, rows, columns of quarters, columns
    seen = image.amax(dim=(2, 4)).flatten(1) > 0  # [N, 4]
    assert seen.sum(dim=1).max() == 1
    assert (seen.sum(dim=0) / 1797 - 0.25).abs().max() < 0.04  # any quarter, of any digit
    shown = data.x > 0
    assert torch.equal(data.x[shown], whole.x[shown])
    parts = whole.x.view(-1, 2, 4, 2, 4).amax(dim=(2, 4)).flatten(1) > 0
    assert (seen & ~parts).sum() == 0 and load_source('DigitQuarters').name == 'DigitQuarters'


def test_images_at_the_same_distance_are_neighbours_in_the_order_of_their_indices():
    pixels = np.array([[0, 0], [0, 2], [2, 0], [0, 2], [9, 9]])
    assert nearest_images(pixels, 2).tolist() == [[1, 2], [3, 0], [0, 1], [1, 0], [1, 2]]


def test_digits_do_not_depend_on_the_number_of_threads():
    edges = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            edges.append(Digits()[0].edge_index)
    assert torch.equal(*edges)
