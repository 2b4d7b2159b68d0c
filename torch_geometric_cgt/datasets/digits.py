r"""Graphs of handwritten digits, which need no files: whole images, and one quarter of each."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.utils import to_undirected

from torch_geometric_cgt.data import masks_of, random_split

SIDE = 8  # pixels of a side of an image


class Digits(InMemoryDataset):
    r"""The nearest-neighbour graph of the 1,797 handwritten digits of
    scikit-learn. Nothing is downloaded.

    Nodes are 8 x 8 images with pixel values in :math:`[0, 1]`, labels are the
    digits. The masks are a fixed 50/10/40 split.

    Args:
        num_neighbors (int, optional): The number of nearest neighbours that
            each image has an edge to. The graph is undirected.
            (default: :obj:`4`)
        transform (callable, optional): Applied on every access.
            (default: :obj:`None`)
    """

    name = 'Digits'

    def __init__(self, num_neighbors: int = 4, transform: object = None) -> None:
        super().__init__(transform=transform)
        pixels, labels = load_digits(return_X_y=True)
        neighbor = torch.from_numpy(nearest_images(pixels, num_neighbors)).reshape(-1)
        image = torch.arange(len(pixels)).repeat_interleave(num_neighbors)
        data = Data(
            x=torch.from_numpy(pixels / 16.0).float(),
            edge_index=to_undirected(torch.stack([neighbor, image])),
            y=torch.from_numpy(labels).long(),
        )
        split = random_split(data.y >= 0, seed=0)
        data.update(masks_of(split))
        self.data, self.slices = self.collate([data])


class DigitQuarters(Digits):
    r"""The graph :class:`Digits`, in which each node shows one random quarter of
    its image and is black elsewhere. Nothing is downloaded.

    Neighbours have similar images and show other quarters. A GNN therefore
    sees more of the image than a perceptron, and more with two layers than with
    one: accuracies range from 0.55 to 0.98.

    Args:
        num_neighbors (int, optional): The number of nearest neighbours, by
            whole images, that each image has an edge to. (default: :obj:`4`)
        transform (callable, optional): Applied on every access.
            (default: :obj:`None`)
    """

    name = 'DigitQuarters'

    def __init__(self, num_neighbors: int = 4, transform: object = None) -> None:
        super().__init__(num_neighbors, transform)
        data = self._data
        assert data is not None
        # The stream of this generator does not change between versions of NumPy.
        shown = torch.from_numpy(np.random.RandomState(0).randint(4, size=data.num_nodes))
        pixel, half = torch.arange(SIDE * SIDE), SIDE // 2
        quarter = 2 * (pixel // SIDE // half) + pixel % SIDE // half
        data.x = data.x * (quarter == shown[:, None])


def nearest_images(pixels: np.ndarray, num_neighbors: int) -> np.ndarray:
    r"""Finds the nearest other images of each image, ``[N, num_neighbors]``.

    Pixels are integers, so squared distances are exact. Of images at the same
    distance, those with the lowest index come first. The result therefore
    depends neither on the number of threads nor on the processor.

    Args:
        pixels (numpy.ndarray): The images, with integer values, ``[N, F]``.
        num_neighbors (int): The number of neighbours of an image.
    """
    pixels = pixels.astype(float)
    length = np.square(pixels).sum(axis=1)
    distance = length[:, None] + length - 2 * (pixels @ pixels.T)
    np.fill_diagonal(distance, np.inf)
    return distance.argsort(axis=1, kind='stable')[:, :num_neighbors]
