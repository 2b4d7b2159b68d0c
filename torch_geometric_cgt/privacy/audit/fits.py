r"""Whether a release can have been made from a source."""

from __future__ import annotations

from torch_geometric_cgt.datasets.release import Release
from torch_geometric_cgt.datasets.source import Source
from torch_geometric_cgt.errors import SourceError


def check_fit(release: Release, source: Source) -> None:
    r"""Refuses a source that the release cannot have been made from."""
    stated = release.card['source']
    have = {
        'num_nodes': source.data.num_nodes,
        'num_edges': source.data.num_edges,
        'num_features': source.data.num_features,
        'num_classes': source.num_classes,
        'num_labelled': source.root.numel(),
    }
    wrong = [
        f'{name[4:]}: {value:,} in the source, {stated[name]:,} in the card'
        for name, value in have.items()
        if value != stated[name]
    ]
    if wrong:
        raise SourceError(
            f"The release was not made from this source ('{source.name}'; the card names "
            f"'{stated['name']}'): {'; '.join(wrong)}"
        )
