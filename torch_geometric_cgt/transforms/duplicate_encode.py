r"""Duplicate encoding: the computation graph of every node as a separate tree."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from torch_geometric_cgt.data import MASKS, EdgeValues, InNeighbors, TreeShape, build_forest
from torch_geometric_cgt.data.graph_checks import check_edges
from torch_geometric_cgt.sampler import TreeSampler, edges_of_trees, tree_sampler


@functional_transform('duplicate_encode')
class DuplicateEncode(BaseTransform):
    r"""Turns a graph into the forest of its sampled, duplicate-encoded
    computation graphs (functional name: :obj:`duplicate_encode`).

    Each labelled node becomes the root of a tree. A node that is reached twice
    is copied. Missing neighbours are null slots, which are not nodes of the
    forest. The forest has :obj:`x`, :obj:`edge_index` (child to
    parent), :obj:`y` (the root's label at roots, :obj:`-1` elsewhere),
    :obj:`root_mask`, :obj:`depth`, the lifted masks, and :obj:`tree`: the
    original node of each breadth-first slot, ``[num_trees, T]``, :obj:`-1`
    where null. Other node attributes are copied along, and so are
    :obj:`edge_weight` and :obj:`edge_attr`.

    Args:
        num_neighbors (list[int], optional): The largest number of sampled
            neighbours in each layer. (default: :obj:`[5, 5]`)
        seed (int, optional): The seed of the neighbour sampling. By default,
            draws come from the random state of torch. (default: :obj:`None`)
        sampler (str or TreeSampler, optional): How neighbours are sampled:
            :obj:`'neighbor'` (uniformly for each node, as GraphSAGE does),
            :obj:`'fastgcn'` or :obj:`'ladies'` (nodes for a whole layer of a
            batch of roots), :obj:`'cluster'` or :obj:`'saint'` (all neighbours
            inside a subgraph of ClusterGCN or GraphSAINT, up to the fan-out);
            or a tree sampler, e.g.
            :class:`~torch_geometric_cgt.sampler.LADIESSampler` or
            :class:`~torch_geometric_cgt.sampler.SubgraphSampler`.
            (default: :obj:`'neighbor'`)
    """

    def __init__(
        self,
        num_neighbors: Sequence[int] = (5, 5),
        seed: int | None = None,
        sampler: str | TreeSampler = 'neighbor',
    ) -> None:
        tree_sampler(sampler)  # Raises an error for a wrong name.
        self.shape = TreeShape.of(num_neighbors)
        self.num_neighbors = list(self.shape.num_neighbors)
        self.seed = seed
        self.sampler = sampler

    def forward(self, data: Data) -> Data:
        edge_index = check_edges(data)
        num_nodes = int(data.num_nodes or 0)
        generator = None
        if self.seed is not None:
            generator = torch.Generator(edge_index.device).manual_seed(self.seed)
        root = torch.arange(num_nodes, device=edge_index.device)
        if data.y is not None and data.y.dim() == 1:  # Unlabelled nodes are no roots.
            root = root[data.y >= 0]
        graph = InNeighbors.from_edge_index(edge_index, num_nodes)
        tree = tree_sampler(self.sampler)(graph, root, self.shape, generator)

        forest = build_forest(tree >= 0, self.shape)
        node = tree.reshape(-1)[forest.slot]
        out = Data(edge_index=forest.edge_index, num_nodes=forest.num_nodes)
        out.root_mask, out.depth, out.tree = forest.root_mask, forest.depth, tree
        for key, value in data.items():
            if key in ('y', *MASKS):
                out[key] = forest.lift(value[root], fill=False if value.dtype == torch.bool else -1)
            elif key == 'codebook':
                out[key] = value
            elif isinstance(value, Tensor) and data.is_node_attr(key):
                out[key] = value[node]
        values = EdgeValues.of(data)
        if values is not None:
            edge = edges_of_trees(edge_index, tree, self.shape, generator).reshape(-1)
            child = forest.slot[forest.edge_index[0]]
            out.update({name: data[name][edge[child]] for name in values.form.names})
        return out

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}(num_neighbors={self.num_neighbors}, seed={self.seed}, '
            f'sampler={self.sampler!r})'
        )
