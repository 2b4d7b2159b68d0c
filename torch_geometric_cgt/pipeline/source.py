r"""The source graph: what it must not be, what of it is carried over, what its owner should know,
its fingerprint, and public graphs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset, HeteroData

from torch_geometric_cgt.data import EDGE_KEYS, MASKS, EdgeValues, random_split, split_of
from torch_geometric_cgt.data.graph_checks import (
    SPLIT_ATTRIBUTES,
    add_masks,
    check_edges,
    check_features,
    check_labels,
    check_masks,
    how_to_number,
)
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.utils.rows import to_csr

# The attributes of a source that its release reflects. All others are named in a warning and on
# the card.
CARRIED = ('x', 'edge_index', 'y', 'num_nodes', *EDGE_KEYS, *SPLIT_ATTRIBUTES)
LINK_SPLIT = (  # attributes that RandomLinkSplit and train_test_split_edges add
    'edge_label_index',
    'edge_label',
    'pos_edge_label_index',
    'neg_edge_label_index',
    'train_pos_edge_index',
)
ALONE = 0.5  # largest share of roots without in-neighbours that is not worth a warning


@dataclass(frozen=True)
class Source:
    r"""A checked source graph."""

    name: str
    data: Data  # x, edge_index and y on the CPU; edge_weight and edge_attr, if there are any
    split: Tensor | None  # [N] split codes, None if the graph has no masks
    num_classes: int
    num_zeroed: int = 0  # roots whose record is zeroed out; num_roots includes them
    not_carried: tuple[str, ...] = ()  # attributes of the graph that the release does not reflect

    @property
    def num_roots(self) -> int:
        r"""The number of computation graphs, including zeroed-out records."""
        return self.root.numel() + self.num_zeroed

    @property
    def root(self) -> Tensor:
        r"""The roots of computation graphs: all labelled nodes."""
        return (self.data.y >= 0).nonzero().view(-1)

    def warnings(self) -> list[str]:
        r"""What the owner of the graph should know before a build."""
        return source_warnings(self.data, self.root, self.not_carried)

    def split_codes(self, seed: int) -> Tensor:
        r"""The split codes of the graph, or a random 50/10/40 split if it has no masks."""
        return random_split(self.data.y >= 0, seed) if self.split is None else self.split

    def fingerprint(self) -> str:
        r"""A digest of everything in the graph that the result depends on."""
        digest = hashlib.sha256()
        x = self.data.x
        if self.num_zeroed:
            digest.update(f'zeroed:{self.num_zeroed}'.encode())
        parts = {'edge_index': self.data.edge_index, 'y': self.data.y, 'split': self.split}
        if x.layout == torch.strided:
            parts['x'] = x
        else:
            csr = to_csr(x)
            digest.update(f'{list(x.shape)}'.encode())
            parts |= {'crow': csr.crow_indices(), 'col': csr.col_indices(), 'value': csr.values()}
        parts |= {name: self.data[name] for name in EDGE_KEYS if name in self.data}
        for name, value in parts.items():
            if value is None:
                digest.update(f'{name}:none'.encode())
                continue
            digest.update(f'{name}:{value.dtype}:{list(value.shape)}'.encode())
            digest.update(value.contiguous().view(-1).view(torch.uint8).numpy())
        return digest.hexdigest()

    def bare(self) -> Source:
        r"""The same graph without splits and edge values."""
        data = self.data
        return replace(self, data=Data(x=data.x, edge_index=data.edge_index, y=data.y), split=None)

    def edge_values(self) -> EdgeValues | None:
        r"""The weights and attributes of all edges; :obj:`None` if there are none."""
        return EdgeValues.of(self.data)


def check_source(source: Any) -> Source:
    r"""Checks a PyG dataset of one graph or a :class:`~torch_geometric.data.Data`
    object. Raises :class:`SourceError` if it cannot be used.
    """
    data, name = source, 'Data'
    if isinstance(source, Dataset):
        name = str(getattr(source, 'name', None) or type(source).__name__)
        if len(source) != 1:
            raise SourceError(
                f"'source' must be a dataset of one graph (got {len(source)} graphs): "
                f"pass one of them, e.g. 'source={type(source).__name__}(...)[0]'"
            )
        data = source[0]
    data = supported_graph(data)
    if not data.num_nodes:
        raise SourceError('The source graph is empty (got 0 nodes)')
    x = check_features(data)
    edge_index = check_edges(data)
    y = check_labels(data)
    if x.size(0) != data.num_nodes:
        raise SourceError(f"'x' must have {data.num_nodes} rows (got {x.size(0)})")
    check_masks(data)
    checked = Data(x=x, edge_index=edge_index.cpu().long(), y=y)
    if EdgeValues.of(data) is not None:  # raises an error if they are invalid
        given = {name: data[name] for name in EDGE_KEYS if data.get(name) is not None}
        checked.update({name: value.detach().cpu() for name, value in given.items()})
    sizes = (split_of(data), int(y.max()) + 1)
    return Source(name, checked, *sizes, not_carried=not_carried(data))


@dataclass(frozen=True)
class PublicGraph:
    r"""A reference to a public graph. Cards and cache folders contain its name and
    fingerprint; the graph itself is kept in memory only.

    Args:
        name (str): The name of the graph.
        fingerprint (str): The digest of its content.
    """

    name: str
    fingerprint: str
    source: ClassVar[Source | None] = None  # set per instance; not a dataclass field

    @classmethod
    def of(cls, given: Any) -> PublicGraph:
        r"""Creates a reference from a PyG dataset of one graph, a graph, or the
        name and fingerprint on a card.

        Args:
            given (Dataset or Data or dict or PublicGraph): The graph.
        """
        if isinstance(given, PublicGraph):
            return given
        if isinstance(given, dict):
            return cls(**given)
        source = check_source(given)
        graph = cls(source.name, source.fingerprint())
        object.__setattr__(graph, 'source', source)
        return graph

    def content(self) -> Source:
        r"""The graph. Raises :class:`SourceError` if only its name is available."""
        if self.source is None:
            raise SourceError(
                f"The tree model starts from the public graph '{self.name}', which is not "
                f'available: build with privacy=DifferentialPrivacy(..., public=<that graph>)'
            )
        return self.source

    def check_apart_from(self, source: Source) -> None:
        r"""Raises :class:`SourceError` if the public graph is the private source,
        even with other splits or other edge values.

        Args:
            source (Source): The private source.
        """
        public = self.content()
        same = self.fingerprint == source.fingerprint() or (
            public.bare().fingerprint() == source.bare().fingerprint()
        )
        if same:
            raise SourceError(
                f"The public graph '{self.name}' is the source itself: pre-training on it without "
                f'noise would not be private'
            )


def supported_graph(source: Any) -> Data:
    r"""Returns a homogeneous graph, with masks for all its splits. Raises
    :class:`SourceError` for other graphs, and for results of transforms that must
    come after the release.

    Args:
        source (Any): What a user gave as a graph.
    """
    if isinstance(source, HeteroData):
        raise SourceError(_heterogeneous(source))
    if not isinstance(source, Data):
        raise SourceError(
            f"'source' must be a PyG dataset of one graph or a 'Data' object "
            f"(got '{type(source).__name__}'){_hint(source)}"
        )
    if found := [name for name in LINK_SPLIT if source.get(name) is not None]:
        raise SourceError(
            f"'source' is one part of a link split (got '{found[0]}', which 'RandomLinkSplit' "
            f'adds): pass the graph before the transform, and split the links of the release: '
            f"'RandomLinkSplit(...)(dataset[0])'"
        )
    _check_adjacency(source)
    for name in ('x', 'y', 'edge_index', *MASKS):
        value = source.get(name)
        if value is not None and not isinstance(value, Tensor):
            raise SourceError(
                f"'{name}' must be a 'torch.Tensor' (got '{type(value).__name__}')"
                f'{_conversion(name, value)}'
            )
    _check_features(source)
    return add_masks(source)


def not_carried(data: Data) -> tuple[str, ...]:
    r"""The names of attributes that a release does not reflect, in the order of the
    graph.

    Args:
        data (Data): The graph.
    """
    names = [name for name, v in data.to_dict().items() if v is not None and name not in CARRIED]
    return tuple(name if name.isprintable() else ascii(name) for name in names)


def source_warnings(data: Data, root: Tensor, lost: Sequence[str]) -> list[str]:
    r"""What the owner of a source should know before a build.

    Args:
        data (Data): The checked graph.
        root (torch.Tensor): The roots of computation graphs, ``[n]``.
        lost (list[str]): The names of attributes that are not carried over.
    """
    found = []
    if lost:
        names = ', '.join(f"'{name}'" for name in lost)
        found.append(
            f'These attributes of the source are not carried over to the release: {names}. They '
            f'are named on its card'
        )
        if edge_values := [name for name in lost if name in EDGE_KEYS]:
            found[-1] += (
                f'. For {" and ".join(edge_values)}, declare bounds that are known without reading '
                f"the source, e.g. DifferentialPrivacy(..., edge_bounds={{'{edge_values[0]}': "
                f"(0, 1)}}), or '--edge-bounds 0 1' on the command line"
            )
    if gaps := _unused_labels(data.y):
        found.append(gaps)
    source, target = data.edge_index
    num_nodes = int(data.num_nodes or 0)
    alone = torch.bincount(target, minlength=num_nodes)[root] == 0
    if int(alone.sum()) > ALONE * root.numel():
        outgoing = int((torch.bincount(source, minlength=num_nodes)[root][alone] > 0).sum())
        what = (
            f'{int(alone.sum()):,} of {root.numel():,} roots have no in-neighbours, so that their '
            f'computation graphs are single nodes. '
        )
        if outgoing:
            what += (
                f"{outgoing:,} of them have edges to other nodes: if 'edge_index' has the wrong "
                f"direction, or edges have none, use 'torch_geometric.transforms.ToUndirected()'"
            )
        else:
            what += 'They have no edges at all: see whether all edges were read'
        found.append(what)
    return found


def _unused_labels(y: Tensor) -> str | None:
    r"""What the owner should know if some labels below the largest one are those of no node."""
    used = y[y >= 0].unique()
    num_classes = int(used[-1]) + 1
    if used.numel() == num_classes:
        return None
    unused = (torch.bincount(used, minlength=num_classes) == 0).nonzero().view(-1).tolist()
    more = f' and {len(unused) - 3:,} more' if len(unused) > 3 else ''
    return (
        f'The largest label is {num_classes - 1:,}, so that the release has {num_classes:,} '
        f'labels, but no node has the label {", ".join(map(str, unused[:3]))}{more}. If labels are '
        f'codes, number them: {how_to_number(y)}'
    )


def _check_adjacency(data: Data) -> None:
    r"""Raises an error for edges in a sparse matrix."""
    edge_index = data.get('edge_index')
    for name in ('adj_t', 'adj'):
        if edge_index is None and (matrix := data.get(name)) is not None:
            undo = 'to_edge_index(data.adj_t)[0].flip(0)' if name == 'adj_t' else 'to_edge_index'
            if type(matrix).__name__ == 'SparseTensor':
                undo = f'torch.stack(data.{name}.{"t()." if name == "adj_t" else ""}coo()[:2])'
            raise SourceError(
                f"The graph has a sparse '{name}' instead of 'edge_index' (the transform "
                f"'ToSparseTensor' makes it): pass the graph before the transform, and apply it to "
                f"the release, or undo it: 'data.edge_index = {undo}'"
            )
    if isinstance(edge_index, Tensor) and edge_index.layout != torch.strided:
        raise SourceError(
            f"'edge_index' must be a matrix of shape [2, E] (got a sparse matrix, "
            f"{edge_index.layout}): 'torch_geometric.utils.to_edge_index' returns the edges of it"
        )


def _check_features(data: Data) -> None:
    r"""Raises an error for features that are no matrix of real numbers."""
    x = data.get('x')
    if x is None:
        raise SourceError(
            "The graph has no node features 'x': add some that are known of every node, or "
            "features of the structure, e.g. 'torch_geometric.transforms.LocalDegreeProfile()'"
        )
    if x.is_complex():
        raise SourceError(
            f"'x' must hold real numbers (got {x.dtype}): "
            f"use 'torch.view_as_real(data.x).flatten(1)'"
        )
    if x.dim() > 2:
        raise SourceError(
            f"'x' must be a non-empty [N, F] matrix (got {list(x.shape)}): "
            f"one row per node is 'data.x = data.x.flatten(1)'"
        )
    if x.dim() == 1:
        raise SourceError(
            f"'x' must be a non-empty [N, F] matrix (got {list(x.shape)}): "
            f"one feature is 'data.x = data.x.view(-1, 1)'"
        )


def _conversion(name: str, value: Any) -> str:
    r"""How to convert an attribute to a tensor."""
    if type(value).__name__ == 'ndarray':
        return f": convert it with 'data.{name} = torch.from_numpy(data.{name})'"
    if isinstance(value, (list, tuple)):
        return f": convert it with 'data.{name} = torch.tensor(data.{name})'"
    if type(value).__name__ == 'SparseTensor':
        return f": convert it with 'data.{name} = data.{name}.to_torch_sparse_csr_tensor()'"
    return ''


def _hint(source: Any) -> str:
    r"""What a user may have wanted to pass instead of an object that is no graph."""
    if isinstance(source, (list, tuple)) and source and isinstance(source[0], Data):
        return (
            f': these are {len(source)} graphs. If they are the result of '
            f"'RandomLinkSplit', pass the graph before the split"
        )
    if isinstance(source, type):
        return f": '{source.__name__}' is a class; create an object of it, '{source.__name__}(...)'"
    if type(source).__name__ in ('str', 'PosixPath', 'WindowsPath'):
        return (
            f": read files with 'torch_geometric_cgt.datasets.load_source({str(source)!r})' first"
        )
    if isinstance(source, dict):
        return ": 'Data.from_dict(source)' is a graph"
    if type(source).__module__.startswith('networkx'):
        return ": 'torch_geometric.utils.from_networkx' makes a 'Data' object of it"
    return ''


def _heterogeneous(data: HeteroData) -> str:
    r"""The error for a heterogeneous graph: what its edges connect, and what to do."""
    nodes = ', '.join(f"'{kind}' ({data[kind].num_nodes or 0:,})" for kind in data.node_types)
    edges = ', '.join('-'.join(kind) for kind in data.edge_types) or 'none'
    text = (
        f"'source' must be a homogeneous graph (got 'HeteroData' with the nodes {nodes}; edges: "
        f'{edges}). '
    )
    labelled = [kind for kind in data.node_types if data[kind].get('y') is not None]
    if not labelled:
        return text + "No type of nodes has labels 'y': a source needs nodes of one type with them"
    kind = labelled[0]
    own = [edge for edge in data.edge_types if edge[0] == edge[2] == kind]
    graph = f"Data(x=data['{kind}'].x, y=data['{kind}'].y, edge_index=...)"
    if own:
        return text + (
            f"Pass the nodes '{kind}' with the edges among them: '{graph}' with "
            f'data[{", ".join(map(repr, own[0]))}].edge_index'
        )
    between = [edge[2] for edge in data.edge_types if edge[0] == kind]
    via = between[0] if between else next((e[0] for e in data.edge_types if e[2] == kind), None)
    if via is None:
        return text + f"No edge connects the labelled nodes '{kind}' to anything"
    return text + (
        f"No edge connects two labelled nodes '{kind}', so that 'to_homogeneous()' would leave "
        f"them without neighbours of their kind. Connect those that share a '{via}' with "
        f"'AddMetaPaths([[('{kind}', '{via}'), ('{via}', '{kind}')]])' (after 'ToUndirected()', if "
        f"edges have one direction), and pass '{graph}' with the new edges"
    )
