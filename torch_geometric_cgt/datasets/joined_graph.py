r"""One joined graph as a PyG dataset, for scripts that open a dataset."""

from __future__ import annotations

from collections.abc import Callable

from torch_geometric.data import Data, InMemoryDataset


class JoinedGraph(InMemoryDataset):
    r"""A dataset of the one graph of
    :meth:`~torch_geometric_cgt.SyntheticCGTDataset.to_graph`, see
    :meth:`~torch_geometric_cgt.SyntheticCGTDataset.joined`.

    Args:
        data (Data): The graph.
        num_classes (int): The number of labels of the source.
        transform (callable, optional): Applied on every access. The graph is an
            ordinary one, so that all transforms of PyG work as they are.
            (default: :obj:`None`)
    """

    def __init__(self, data: Data, num_classes: int, transform: Callable | None = None) -> None:
        super().__init__(None, transform)
        self.declared_classes = num_classes
        self.data, self.slices = self.collate([data])
        self.size_of_graph = data.num_nodes, data.num_edges

    @property
    def num_classes(self) -> int:
        r"""The number of labels of the source."""
        return self.declared_classes

    def __repr__(self) -> str:
        num_nodes, num_edges = self.size_of_graph
        return f'{self.__class__.__name__}({num_nodes}, edges={num_edges})'
