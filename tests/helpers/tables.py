"""A small graph with masks, and its files."""

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, remove_self_loops

from tests.helpers.graphs import random_graph
from torch_geometric_cgt.data import MASKS, masks_of, random_split

CLASSES = ('ash', 'birch', 'cedar')


def own_graph() -> Data:
    """A graph as its owner would pass it to PyG. Functions without arguments are sources, too."""
    data = random_graph()
    data.edge_index = coalesce(remove_self_loops(data.edge_index)[0])
    data.update(masks_of(random_split(data.y >= 0, seed=0)))
    return data


def node_frame(data: Data) -> pd.DataFrame:
    """The nodes of a graph with text as ids, classes and splits."""
    table = pd.DataFrame(data.x.numpy(), columns=[f'f{i}' for i in range(data.num_features)])
    table.insert(0, 'id', [f'{i:03d}' for i in range(data.num_nodes)])
    table['y'] = [CLASSES[label] for label in data.y.tolist()]
    split = pd.Series([None] * data.num_nodes, dtype=object)
    for name in MASKS:
        split[data[name].numpy()] = name[:-5]
    table['split'] = split
    return table


def edge_frame(data: Data) -> pd.DataFrame:
    """One row per pair of neighbours."""
    source, target = data.edge_index[:, data.edge_index[0] < data.edge_index[1]].tolist()
    return pd.DataFrame(
        {'source': [f'{i:03d}' for i in source], 'target': [f'{i:03d}' for i in target]}
    )


def write_tables(folder: Path, data: Data, suffix: str = '.csv') -> Path:
    """Writes a graph as two tables."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in (('nodes', node_frame(data)), ('edges', edge_frame(data))):
        if suffix == '.parquet':
            table.to_parquet(folder / f'{name}.parquet')
        else:
            table.to_csv(folder / f'{name}{suffix}', index=False)
    return folder


def write_npz(path: Path, data: Data) -> Path:
    """Writes a graph as arrays."""
    np.savez(path, **{name: value.numpy() for name, value in data.to_dict().items()})
    return path


def write_pt(path: Path, data: Data) -> Path:
    """Writes a graph as PyG users do."""
    torch.save(data, path)
    return path
