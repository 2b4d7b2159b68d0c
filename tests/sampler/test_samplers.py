import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.graphs import random_graph
from tests.helpers.promises import check_promises
from torch_geometric_cgt import DuplicateEncode
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.sampler import (
    SAMPLERS,
    ClusterSampler,
    FastGCNSampler,
    InNeighbors,
    LADIESSampler,
    SAINTSampler,
    SubgraphSampler,
    sample_trees,
    tree_sampler,
)

NAMES = ['neighbor', 'fastgcn', 'ladies', 'cluster', 'saint']
SMALL = [
    FastGCNSampler(batch_size=4, layer_size=5),
    LADIESSampler(batch_size=4, layer_size=5),
    ClusterSampler(num_parts=1),
    ClusterSampler(num_parts=2, batch_size=1),
    SAINTSampler(batch_size=3, walk_length=1),
    SubgraphSampler([torch.arange(30)]),
]


@pytest.mark.parametrize('sampler', SMALL, ids=repr)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.integers(2, 30),
    st.integers(0, 80),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(0, 2**20),
)
def test_trees_keep_their_promises(sampler, n, num_edges, fan_outs, seed):
    rng = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(n, (2, num_edges), generator=rng).unique(dim=1)
    if isinstance(sampler, SubgraphSampler):
        sampler = SubgraphSampler([torch.arange(n // 2), torch.arange(n // 2 - 1, n)])
    root = torch.randint(n, (7,), generator=rng)  # some twice
    shape = TreeShape.of(fan_outs)
    tree = sampler(InNeighbors.from_edge_index(edge_index, n), root, shape, rng)
    check_promises(tree, root, edge_index, shape)


@pytest.mark.parametrize('name', NAMES)
@pytest.mark.parametrize('num_neighbors', [[4], [3, 2, 2]])
def test_named_samplers_and_seeds(name, num_neighbors):
    data = random_graph(num_edges=600)
    state = torch.get_rng_state()
    trees = [
        DuplicateEncode(num_neighbors, seed=seed, sampler=name)(data).tree for seed in [0, 0, 1]
    ]
    assert torch.equal(trees[0], trees[1]) and not torch.equal(trees[0], trees[2])
    assert torch.equal(torch.get_rng_state(), state)
    shape = TreeShape.of(num_neighbors)
    check_promises(trees[0], torch.arange(120), data.edge_index, shape)
    assert (trees[0][:, -shape.layer_sizes[-1] :] >= 0).any()


def test_the_default_is_the_uniform_sampler_with_its_numbers():
    data = random_graph(num_edges=600)
    graph = InNeighbors.from_edge_index(data.edge_index, 120)
    expected = sample_trees(
        graph, torch.arange(120), TreeShape.of([3, 2]), torch.Generator().manual_seed(5)
    )
    assert torch.equal(DuplicateEncode([3, 2], seed=5)(data).tree, expected)
    assert torch.equal(DuplicateEncode([3, 2], seed=5, sampler='neighbor')(data).tree, expected)


@pytest.mark.parametrize(
    'sampler',
    [
        FastGCNSampler(batch_size=7, layer_size=40),
        LADIESSampler(batch_size=7, layer_size=40),
        ClusterSampler(num_parts=1),
        ClusterSampler(num_parts=8, batch_size=8),
        SubgraphSampler([torch.arange(40).flip(0)]),
        SAINTSampler(batch_size=40, walk_length=1, backend='torch'),  # every node is a start
    ],
    ids=repr,
)
def test_without_limits_trees_are_whole_neighbourhoods(sampler):
    data = random_graph(num_nodes=40, num_edges=50)
    largest = int(torch.bincount(data.edge_index[1]).max())
    whole = DuplicateEncode([largest, largest])(data).tree
    assert torch.equal(DuplicateEncode([largest, largest], sampler=sampler)(data).tree, whole)


@pytest.mark.parametrize('name', NAMES)
def test_isolated_nodes_and_no_roots(name):
    graph = InNeighbors.from_edge_index(torch.empty(2, 0).long(), 3)
    shape = TreeShape.of([2, 1])
    tree = tree_sampler(name)(graph, torch.arange(3), shape)
    assert tree.tolist() == [[i, -1, -1, -1, -1] for i in range(3)]
    assert tree_sampler(name)(graph, torch.empty(0).long(), shape).shape == (0, 5)


def test_a_function_is_a_sampler():
    def only_roots(graph, root, shape, generator=None):
        return torch.nn.functional.pad(root[:, None], (0, shape.num_slots - 1), value=-1)

    forest = DuplicateEncode([2], sampler=only_roots)(random_graph())
    assert forest.num_nodes == 120 and forest.num_edges == 0


def test_repr_names_the_sampler():
    assert repr(DuplicateEncode([5], sampler='ladies')).endswith("seed=None, sampler='ladies')")
    assert repr(DuplicateEncode([5], sampler=LADIESSampler(batch_size=8))).endswith(
        'sampler=LADIESSampler(batch_size=8, layer_size=512))'
    )


@pytest.mark.parametrize('wrong', ['graphsage', None, 3, LADIESSampler])
def test_wrong_samplers(wrong):
    with pytest.raises(ValueError, match="'neighbor', 'fastgcn', 'ladies', 'cluster', 'saint'"):
        DuplicateEncode([5], sampler=wrong)
    assert list(SAMPLERS) == NAMES


@pytest.mark.parametrize(
    'make, message',
    [
        (lambda: LADIESSampler(batch_size=0), "'batch_size' must be a positive integer .got 0"),
        (lambda: FastGCNSampler(layer_size=2.5), "'layer_size' .* .got 2.5"),
        (lambda: ClusterSampler(num_parts=-1), "'num_parts' .* .got -1"),
        (lambda: ClusterSampler(backend='metis'), "'auto', 'pyg', 'torch' .got 'metis'"),
        (lambda: SAINTSampler(walk_length=True), "'walk_length' .* .got True"),
        (lambda: SAINTSampler(backend=''), "'backend'"),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
