import torch

from torch_geometric_cgt.data import InNeighbors
from torch_geometric_cgt.transforms.scenes import find_scenes


def test_scenes_hold_k_roots_and_tell_what_surroundings_tell(graph):
    n = graph.num_nodes
    cluster = torch.arange(n) % 20
    codebook = torch.stack([graph.x[cluster == c].mean(dim=0) for c in range(20)])
    root = torch.arange(n)
    near = InNeighbors.from_edge_index(graph.edge_index, graph.num_nodes)
    scene = find_scenes(cluster, codebook, near, root, graph.y, 6, 10, seed=0)
    sizes = torch.bincount(scene, minlength=6)
    assert scene.shape == (n,) and int(sizes.min()) >= 10 and sizes.numel() == 6
    again = find_scenes(cluster, codebook, near, root, graph.y, 6, 10, seed=0)
    assert torch.equal(scene, again)
