r"""The source graph: checks of the input, its fingerprint, and public graphs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset

from torch_geometric_cgt.data import EDGE_KEYS, MASKS, EdgeValues, random_split, split_of
from torch_geometric_cgt.data.graph_checks import check_edges, check_features
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.pipeline.source_checks import (
    not_carried,
    source_warnings,
    supported_graph,
)
from torch_geometric_cgt.utils.rows import to_csr


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
    y = _check_labels(data)
    if x.size(0) != data.num_nodes:
        raise SourceError(f"'x' must have {data.num_nodes} rows (got {x.size(0)})")
    for mask in MASKS:
        if mask in data and data[mask].shape != (data.num_nodes,):
            raise SourceError(
                f"'{mask}' must have the shape [{data.num_nodes}] (got {list(data[mask].shape)}): "
                f'select one split, e.g. data.{mask} = data.{mask}[:, 0]'
            )
    checked = Data(x=x, edge_index=edge_index.cpu().long(), y=y)
    if EdgeValues.of(data) is not None:  # raises an error if they are invalid
        given = {name: data[name] for name in EDGE_KEYS if data.get(name) is not None}
        checked.update({name: value.detach().cpu() for name, value in given.items()})
    sizes = (split_of(data), int(y.max()) + 1)
    return Source(name, checked, *sizes, not_carried=not_carried(data))


def _check_labels(data: Data) -> Tensor:
    y = data.y
    if y is None:
        raise SourceError("The source graph has no labels 'y'")
    if y.is_floating_point() or y.is_complex():
        raise SourceError(f"'y' must hold integer class labels (got {y.dtype})")
    y = y.view(-1) if y.dim() == 2 and y.size(1) == 1 else y
    if y.dim() != 1:
        raise SourceError(
            f"'y' must hold one label per node (got {list(y.shape)}); "
            f'multi-label graphs are not supported'
        )
    if y.numel() != data.num_nodes:
        raise SourceError(f"'y' must have {data.num_nodes} entries (got {y.numel()})")
    if int(y.max()) < 0:
        raise SourceError('No node of the source graph is labelled (all labels are negative)')
    return y.cpu().long()


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
