r"""The embedded default: handwritten digits as a nearest-neighbour graph."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.utils import to_undirected

from torch_geometric_cgt.data import masks_of, random_split


class Digits(InMemoryDataset):
    r"""The 1,797 handwritten digits that come with scikit-learn, each joined
    to its nearest neighbours among the others. Nothing is downloaded.

    Nodes are 8 x 8 images with pixel values in :math:`[0, 1]`, labels are the
    digits. The masks are a fixed 50/10/40 split.

    Args:
        num_neighbors (int, optional): The number of neighbours that each
            image is joined to; the graph is undirected. (default: :obj:`4`)
        transform (callable, optional): Applied on every access.
            (default: :obj:`None`)
    """

    name = 'Digits'

    def __init__(self, num_neighbors: int = 4, transform: object = None) -> None:
        super().__init__(transform=transform)
        pixels, labels = load_digits(return_X_y=True)
        pixels = pixels / 16.0
        nearest = NearestNeighbors(n_neighbors=num_neighbors).fit(pixels)
        neighbor = torch.from_numpy(nearest.kneighbors(return_distance=False)).view(-1)
        image = torch.arange(len(pixels)).repeat_interleave(num_neighbors)
        data = Data(
            x=torch.from_numpy(pixels).float(),
            edge_index=to_undirected(torch.stack([neighbor, image])),
            y=torch.from_numpy(labels).long(),
        )
        split = random_split(data.y >= 0, seed=0)
        data.update(masks_of(split))
        self.data, self.slices = self.collate([data])
