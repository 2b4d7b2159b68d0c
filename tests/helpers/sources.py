"""A tiny graph as a named source of the commands."""

from torch_geometric.data import InMemoryDataset

from tests.helpers.graphs import random_graph


class Tiny(InMemoryDataset):
    """A random graph that every command can build in about a second."""

    name = 'Tiny'

    def __init__(self, **sizes) -> None:
        super().__init__()
        self.data, self.slices = self.collate([random_graph(**sizes)])
