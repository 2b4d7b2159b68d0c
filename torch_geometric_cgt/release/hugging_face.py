r"""The dataset folder of the Hugging Face hub: Parquet files, a README with a header, Croissant.

``croissant.json`` follows Croissant 1.1 and its vocabulary for responsible AI. It is plain JSON:
mlcroissant reads it, but is not needed to write it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from torch_geometric_cgt.release.croissant import croissant
from torch_geometric_cgt.release.export_formats import write_table
from torch_geometric_cgt.release.export_readme import Origin, describe_export
from torch_geometric_cgt.release.forest_tables import Columns, ForestTables
from torch_geometric_cgt.release.licenses import hub_license
from torch_geometric_cgt.release.release import CARD, README, SIGNATURE, TENSORS, Release
from torch_geometric_cgt.utils.files import sha256, write_text

SPLITS = {'train': 1, 'validation': 2, 'test': 4}  # split code of each split of the hub
OTHERS = 'other'  # trees in no split or in several ones
WHOLE = 'full'  # tables without splits
SIZES = ((10**3, 'n<1K'), (10**4, '1K<n<10K'), (10**5, '10K<n<100K'), (10**6, '100K<n<1M'))


def write_hugging_face(folder: Path, release: Release, origin: Origin, files: Path) -> None:
    r"""Writes the folder.

    Args:
        folder (Path): An existing, empty folder.
        release (Release): The release.
        origin (Origin): Where the export comes from.
        files (Path): The folder of the release, which is included.
    """
    tables = ForestTables.of(release)
    trees = split_trees(tables.trees)
    paths = {'trees': {name: f'trees-{name}.parquet' for name in trees}}
    for name, columns in trees.items():
        write_table(folder / paths['trees'][name], columns)
    for name in ('nodes', 'edges', 'codebook', 'projection'):
        if columns := getattr(tables, name):
            paths[name] = {WHOLE: f'{name}.parquet'}
            write_table(folder / paths[name][WHOLE], columns)
    (folder / 'release').mkdir()
    for name in (CARD, TENSORS, README, SIGNATURE):
        if (files / name).exists():
            shutil.copyfile(files / name, folder / 'release' / name)
    checksums = {p: sha256(folder / p) for group in paths.values() for p in group.values()}
    content = croissant(release, origin, tables, paths, checksums)
    write_text(folder / 'croissant.json', json.dumps(content, indent=2, ensure_ascii=False) + '\n')
    header = '\n'.join(['---', *_yaml(hub_header(release, origin, paths)), '---', '', ''])
    write_text(folder / README, header + describe_export(release, origin))


def split_trees(trees: Columns) -> dict[str, Columns]:
    r"""The trees of each split. A tree that belongs to no split, or to several
    ones, is in :obj:`"other"`. Every tree is in exactly one of them.

    Args:
        trees (dict): The columns of all trees.
    """
    rows = {name: trees['split'] == code for name, code in SPLITS.items()}
    rows[OTHERS] = ~sum(rows.values()).astype(bool)
    return {
        name: {column: value[mask] for column, value in trees.items()}
        for name, mask in rows.items()
        if mask.any()
    }


def hub_header(
    release: Release, origin: Origin, paths: dict[str, dict[str, str]]
) -> dict[str, Any]:
    r"""The metadata of a dataset card of the hub.

    Args:
        release (Release): The release.
        origin (Origin): Where the export comes from.
        paths (dict): The file of each split of each table.
    """
    number = release.card['num_trees']
    configs = []
    for table, files in paths.items():
        entry: dict[str, Any] = {'config_name': table}
        if table == 'trees':
            entry['default'] = True
        entry['data_files'] = [{'split': split, 'path': path} for split, path in files.items()]
        configs.append(entry)
    return {
        'pretty_name': f'Synthetic substitute of {release.card["source"]["name"]}',
        **hub_license(origin.terms.license),
        'size_categories': [next((name for top, name in SIZES if number < top), 'n>1M')],
        'task_categories': ['graph-ml'],
        'tags': ['synthetic', 'graph', 'privacy', release.privacy.mechanism.replace(' ', '-')],
        'configs': configs,
    }


def _yaml(content: dict[str, Any]) -> list[str]:
    r"""Lines of YAML. Every value is JSON, which YAML includes."""
    return [f'{name}: {json.dumps(value, ensure_ascii=False)}' for name, value in content.items()]
