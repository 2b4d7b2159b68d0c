r"""A public graph that a private model may learn from without noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.pipeline.source import Source, check_source


@dataclass(frozen=True)
class PublicGraph:
    r"""Names a public graph. Cards and cache folders hold its name and
    fingerprint, the graph itself is in memory only.

    Args:
        name (str): The name of the graph.
        fingerprint (str): The digest of its content.
    """

    name: str
    fingerprint: str
    source: ClassVar[Source | None] = None  # of an instance; not among the fields

    @classmethod
    def of(cls, given: Any) -> PublicGraph:
        r"""Takes a PyG dataset of one graph, a graph, or what a card says of one.

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
        r"""The graph, or an error where only its name is known."""
        if self.source is None:
            raise SourceError(
                f"The model of trees starts from the public graph '{self.name}', which is not at "
                f"hand: build with private_args={{'public': <that graph>}}"
            )
        return self.source

    def check_apart_from(self, source: Source) -> None:
        r"""Refuses the private source itself, also with other splits.

        Args:
            source (Source): The private source.
        """
        public = self.content()
        same = self.fingerprint == source.fingerprint() or (
            replace(public, split=None).fingerprint() == replace(source, split=None).fingerprint()
        )
        if same:
            raise SourceError(
                f"The public graph '{self.name}' is the source itself: what is learned from it "
                f'without noise would not be private'
            )
