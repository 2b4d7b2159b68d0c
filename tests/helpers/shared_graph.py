"""Quantization and scenes of a graph whose rows the processes of a world share."""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data

from tests.helpers.graphs import random_graph
from torch_geometric_cgt.data import InNeighbors, in_neighbors
from torch_geometric_cgt.quantizer import FlowKMeans, protected_means, reduce_features
from torch_geometric_cgt.quantizer.feature_space import out_of_fold_probabilities, tf_idf
from torch_geometric_cgt.training import World, join_world, leave_world
from torch_geometric_cgt.transforms import Quantize, quantize, scenes, task_weight
from torch_geometric_cgt.utils import scratch
from torch_geometric_cgt.utils.rows import block_of
from torch_geometric_cgt.utils.scratch import Scratch

K, NUM_NODES = 7, 500


def graph() -> Data:
    """Some nodes have no label."""
    data = random_graph(NUM_NODES, 1500, 20)
    data.y[::11] = -1
    return data


def words() -> torch.Tensor:
    rng = torch.Generator().manual_seed(3)
    return (torch.rand(NUM_NODES, 80, generator=rng) < 0.05).float()


def statistics(world: World) -> dict[str, torch.Tensor]:
    """What one process computes of all rows, and several of their shares."""
    data, own = graph(), world.share(NUM_NODES)
    mine, sparse = data.x[own], block_of(words().to_sparse(), own)
    cluster = torch.arange(NUM_NODES) % 40
    z = reduce_features(data.x, 6)
    near = InNeighbors.from_edge_index(data.edge_index, NUM_NODES)
    root = torch.arange(NUM_NODES)[own]
    hops = scenes._neighbourhoods(cluster, z[:40], near, root, world)
    parts = {
        'components': reduce_features(mine, 6, world=world),
        'words': tf_idf(sparse, world).to_dense(),
        'probabilities': torch.from_numpy(out_of_fold_probabilities(z[own], data.y, world=world)),
        'one hop': hops[0],
        'two hops': hops[1],
    }
    out = {name: world.concatenate(part) for name, part in parts.items()}
    args = (40, 3, 0.25, world)
    out['means'] = protected_means(mine, cluster[own], *args)
    out['means of words'] = protected_means(sparse, cluster[own], *args)
    return out


def clusterings(folder: Path, world: World) -> dict[str, torch.Tensor]:
    """Clusters, codebook and scenes with rows that are shared, in small cells."""
    task_weight.TRIAL_ROWS = 150
    scratch.MAP_FROM = 1  # maps all tables
    quantize.FlowKMeans = partial(FlowKMeans, cell_size=40)
    scenes.FlowKMeans = partial(FlowKMeans, cell_size=40)
    data, out = graph(), {}
    if world.is_first:
        np.save(folder / f'x-{world.size}.npy', data.x.half().numpy())
    world.gather(None)
    mapped = np.load(folder / f'x-{world.size}.npy', mmap_mode='c')
    for name, x in {'memory': data.x.half(), 'mapped': torch.from_numpy(mapped)}.items():
        data.x = x
        place = Scratch(folder / 'scratch') if name == 'mapped' else None
        found = Quantize(K, task_weight='auto').cluster(data, world=world, scratch=place)
        out[f'cluster {name}'], out[f'codebook {name}'] = found.cluster, found.codebook
        out[f'weight {name}'] = torch.tensor(found.task_weight)
    data.x = words().to_sparse()
    out['cluster words'] = Quantize(K).cluster(data, world=world).cluster
    root = (data.y >= 0).nonzero().view(-1)
    near = InNeighbors.from_edge_index(data.edge_index, NUM_NODES)
    args = (out['cluster memory'], out['codebook memory'].float(), near, root, data.y[root])
    in_neighbors.RANGE_EDGES = 100
    files = in_neighbors.mapped_in_neighbors(data.edge_index, NUM_NODES, folder / 'e', world)
    assert torch.equal(files.ptr, near.ptr) and torch.equal(files.source, near.source)
    out['scene'] = scenes.find_scenes(*args, 12, K, world=world)
    place = Scratch(folder / 'scratch')
    mapped_scene = scenes.find_scenes(*args, 12, K, world=world, scratch=place)
    assert torch.equal(mapped_scene, out['scene']) and not any(place.folder.iterdir())
    return out


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    world = join_world()
    found = {**statistics(world), **clusterings(folder, world)}
    torch.save(found, folder / f'{world.rank}.pt')
    leave_world()


if __name__ == '__main__':
    main(Path(sys.argv[1]))
