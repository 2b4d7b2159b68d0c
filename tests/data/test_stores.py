import ctypes
import gc
import sys

import pytest
import torch
from torch_geometric.data import TensorAttr
from torch_geometric.loader import NeighborLoader

from tests.helpers.trees import random_trees, two_trees
from torch_geometric_cgt.data import (
    CodebookFeatureStore,
    ForestGraphStore,
    LazyForest,
    TokenTrees,
    TreeShape,
    root_nodes,
)
from torch_geometric_cgt.sampler import TreeNeighborSampler
from torch_geometric_cgt.utils import files


def some_trees(fan_outs, n=50, num_tokens=4):
    shape = TreeShape.of(fan_outs)
    tokens, _ = random_trees(n, num_tokens, shape, torch.Generator().manual_seed(0))
    return TokenTrees(tokens.int(), torch.zeros(n), torch.ones(n).long(), num_tokens, 1, shape)


@pytest.mark.parametrize('fan_outs', [[3], [3, 2], [1, 4], [2, 2, 2], [2, 1, 2, 3]])
def test_arithmetic_gives_the_forest_that_is_held(fan_outs):
    trees = some_trees(fan_outs)
    held, lazy = trees.forest(), LazyForest.of(trees)
    node = torch.randperm(held.num_nodes, generator=torch.Generator().manual_seed(1))
    assert lazy.num_nodes == held.num_nodes and torch.equal(lazy.root, held.root)
    tree, local = held.slot // trees.shape.num_slots, held.slot % trees.shape.num_slots
    assert torch.equal(lazy.tree_of(node), tree[node])
    assert torch.equal(lazy.token_of(node), trees.tokens.long()[tree, local][node])

    child, parent = held.edge_index
    assert torch.equal(lazy.edge_of(child), torch.arange(child.numel()))
    first, degree = lazy.children(node)
    assert torch.equal(degree, torch.bincount(parent, minlength=held.num_nodes)[node])
    has = degree > 0
    expected = torch.full((held.num_nodes,), held.num_nodes).scatter_reduce(
        0, parent, child, 'amin'
    )
    assert torch.equal(first[has], expected[node][has])


def test_no_trees():
    trees = some_trees([2], n=0)
    assert LazyForest.of(trees).num_nodes == 0


def test_stores_give_what_the_data_object_gives():
    codebook = torch.tensor([[10.0], [20.0]])
    data, forest = two_trees().to_data(codebook), LazyForest.of(two_trees())
    features, graph = CodebookFeatureStore(forest, codebook), ForestGraphStore(forest)
    for attr in features.get_all_tensor_attrs():
        assert features.get_tensor_size(attr) == tuple(data[attr.attr_name].shape)
        attr.index = None
        assert torch.equal(features.get_tensor(attr), data[attr.attr_name])
    part = features.get_tensor(TensorAttr(attr_name='x', group_name=None, index=torch.tensor([3])))
    assert part.tolist() == [[20.0]]
    row, col = graph.get_edge_index(graph.get_all_edge_attrs()[0])
    assert torch.equal(torch.stack([row, col]), data.edge_index)


def test_stores_are_read_only():
    features = CodebookFeatureStore(LazyForest.of(two_trees()), torch.zeros(2, 1))
    with pytest.raises(TypeError, match='read-only'):
        features.put_tensor(torch.zeros(4), group_name=None, attr_name='x', index=None)


def test_roots_of_a_split():
    forest = LazyForest.of(two_trees())
    assert root_nodes(forest, 'train').tolist() == [0]
    assert root_nodes(forest, 'test').tolist() == [3]
    assert root_nodes(forest, 'all').tolist() == [0, 3]
    with pytest.raises(ValueError, match="'nope'"):
        root_nodes(forest, 'nope')


def worker_memory(batch):
    """Adds the memory of the worker that made a batch, in bytes: what it alone has, and what it has
    that is not a part of a file, with what it shares with the main process.
    """
    with open('/proc/self/smaps_rollup') as file:
        sizes = {line.split()[0]: 1024 * int(line.split()[1]) for line in list(file)[1:]}
    batch.own = sizes['Private_Clean:'] + sizes['Private_Dirty:']
    batch.unmapped = sizes['Anonymous:']
    return batch


def return_freed_memory():
    """Gives freed memory back to the system. Otherwise workers inherit what glibc keeps of it,
    tens of MiB, and :meth:`worker_memory` counts it.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), 'malloc_trim', None)
    if trim is not None:
        trim(0)


@pytest.mark.skipif(sys.platform != 'linux', reason='reads /proc')
def test_workers_map_a_release_and_copy_none_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(files, 'MAP_ABOVE', 0)
    tree, memory, sizes = some_trees([5, 5], 1000).tokens, [], [2, 400]
    for repeats in sizes:
        path = tmp_path / f'{repeats}.safetensors'
        files.write_tensors(path, {'tokens': tree.repeat(repeats, 1)})
        tokens = files.read_tensors(path)['tokens']
        n = len(tokens)
        trees = TokenTrees(tokens, torch.zeros(n), torch.ones(n).byte(), 4, 1, TreeShape.of([5, 5]))
        forest = LazyForest.of(trees)
        stores = CodebookFeatureStore(forest, torch.eye(4)), ForestGraphStore(forest)
        loader = NeighborLoader(
            stores,
            num_neighbors=[5, 5],
            neighbor_sampler=TreeNeighborSampler(stores, [5, 5]),
            input_nodes=forest.root[-2000:],
            batch_size=250,
            num_workers=2,
            transform=worker_memory,
        )
        return_freed_memory()
        batches = list(loader)
        assert sum(batch.batch_size for batch in batches) == 2000
        memory.append([max(batch[name] for batch in batches) for name in ('own', 'unmapped')])
    grown = tree.numel() * tree.element_size() * (sizes[1] - sizes[0])
    own, unmapped = (large - small for small, large in zip(*memory, strict=True))
    assert grown > 45_000_000
    assert own < 0.1 * grown
    assert unmapped < 0.5 * grown  # includes the first node of each tree, which workers share
