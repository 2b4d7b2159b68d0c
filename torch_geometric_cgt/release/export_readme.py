r"""What an export says about itself: where it comes from, what is promised, and how to read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch_geometric_cgt.release.release import Release
from torch_geometric_cgt.release.terms import Terms, class_name_lines

USES = {  # how to read each format
    'pyg': """import torch
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

with torch.serialization.safe_globals([DataEdgeAttr, DataTensorAttr, GlobalStorage]):
    data = torch.load('data.pt', weights_only=True)  # a Data object; no code is run""",
    'parquet': """import numpy as np
import pandas as pd

nodes, edges = pd.read_parquet('nodes.parquet'), pd.read_parquet('edges.parquet')
codebook = np.stack(pd.read_parquet('codebook.parquet')['x'])
x = codebook[nodes['cluster']]""",
    'npz': """import numpy as np

forest = np.load('forest.npz', allow_pickle=False)
x, edge_index = forest['codebook'][forest['cluster']], forest['edge_index']""",
    'dgl': """import dgl

graph = dgl.data.CSVDataset('.')[0]
x, y = graph.ndata['feat'].float(), graph.ndata['label']""",
    'networkx': """import json
import networkx

graph = networkx.node_link_graph(json.load(open('forest.json')), edges='edges')
x = {node: graph.graph['codebook'][c] for node, c in graph.nodes(data='cluster')}""",
    'huggingface': """from datasets import load_dataset

trees = load_dataset('path/to/this/folder', 'trees')  # also: nodes, edges, codebook

from torch_geometric_cgt import SyntheticCGTDataset

dataset = SyntheticCGTDataset.load('path/to/this/folder/release')  # for PyG""",
}


@dataclass(frozen=True)
class Origin:
    r"""Where an export comes from.

    Args:
        format (str): The format of the export.
        card_sha256 (str): The checksum of :obj:`card.json` of the release.
        is_signed (bool): Whether the release has a signature.
        verified_by (str, optional): The name of the key that verified it.
        terms (Terms): The terms of the release.
    """

    format: str
    card_sha256: str
    is_signed: bool
    verified_by: str | None
    terms: Terms

    @property
    def signature(self) -> str:
        r"""What the signature of the release says about the export."""
        if self.verified_by is not None:
            found = f'has a valid signature of key {self.verified_by}'
        elif self.is_signed:
            found = 'has a signature, which was not verified'
        else:
            return 'The release that this was made from is not signed.'
        where = 'Ask for the release to verify it yourself.'
        if self.format == 'huggingface':
            where = 'The folder `release` holds the signed files.'
        return (
            f'The release that this was made from {found}. A signature covers the files of the '
            f'release, not their conversion. {where}'
        )

    def to_dict(self) -> dict[str, Any]:
        r"""All facts, for a JSON file."""
        return {
            'export': self.format,
            'card_sha256': self.card_sha256,
            'signature': {'is_signed': self.is_signed, 'verified_by': self.verified_by},
            'terms': self.terms.to_dict(),
        }


def describe_export(release: Release, origin: Origin) -> str:
    r"""The text of the README of an export.

    Args:
        release (Release): The release.
        origin (Origin): Where the export comes from.
    """
    card, privacy = release.card, release.privacy
    promises = '\n'.join(f'- {sentence}' for sentence in privacy.guaranteed)
    limits = '\n'.join(f'- {sentence}' for sentence in privacy.not_guaranteed)
    terms = '\n'.join(origin.terms.lines()) or 'None are stated.'
    class_names = '\n'.join(class_name_lines(card))
    return f"""# Synthetic substitute of {card['source']['name']}

{card['num_trees']:,} synthetic computation graphs with {card['num_features']:,} features and
{card['num_classes']} labels, made on {card['created']} by torch-geometric-cgt
{card['versions']['torch_geometric_cgt']}. The fan-outs of their layers are {card['num_neighbors']}.
Edges lead from child to parent. `y` is the label at roots and -1 elsewhere; masks are set at roots
only. The features of a node are the row `cluster` of the codebook.

```python
{USES[origin.format]}
```

## Terms

{terms}

{class_names}## What is guaranteed

Unit: {privacy.unit}. In short: {privacy.summary}.

{promises}

## What is not guaranteed

{limits}

## Where this comes from

This is a conversion of a release whose `card.json` has the SHA-256 checksum
`{origin.card_sha256}`.
{origin.signature}
"""
