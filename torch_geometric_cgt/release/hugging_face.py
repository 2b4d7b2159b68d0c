r"""The dataset folder of the Hugging Face hub: Parquet files, a README with a header, and Croissant
1.1 metadata, which describe files, tables, synthetic data and privacy.

``croissant.json`` also follows the vocabulary of Croissant for responsible AI. It is plain JSON:
mlcroissant reads it, but is not needed to write it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from torch_geometric_cgt.release.export_formats import Columns, ForestTables, write_table
from torch_geometric_cgt.release.export_readme import Origin, describe_export
from torch_geometric_cgt.release.release import CARD, README, SIGNATURE, TENSORS, Release
from torch_geometric_cgt.release.shards import shard_paths
from torch_geometric_cgt.release.terms import hub_license, license_url
from torch_geometric_cgt.utils.block_checksums import sha256
from torch_geometric_cgt.utils.files import write_text

SPLITS = {'train': 1, 'validation': 2, 'test': 4}  # split code of each split of the hub
OTHERS = 'other'  # trees in no split or in several ones
WHOLE = 'full'  # tables without splits
SIZES = ((10**3, 'n<1K'), (10**4, '1K<n<10K'), (10**5, '10K<n<100K'), (10**6, '100K<n<1M'))
PAPER = (
    '@inproceedings{yoon2023graph, title={Graph Generative Model for Benchmarking Graph Neural '
    'Networks}, author={Yoon, Minji and Wu, Yue and Palowitch, John and Perozzi, Bryan and '
    'Salakhutdinov, Ruslan}, booktitle={International Conference on Machine Learning}, '
    'year={2023}}'
)
CONTEXT: dict[str, Any] = {
    '@language': 'en',
    '@vocab': 'https://schema.org/',
    'arrayShape': 'cr:arrayShape',
    'citeAs': 'cr:citeAs',
    'column': 'cr:column',
    'conformsTo': 'dct:conformsTo',
    'containedIn': 'cr:containedIn',
    'cr': 'http://mlcommons.org/croissant/',
    'rai': 'http://mlcommons.org/croissant/RAI/',
    'prov': 'http://www.w3.org/ns/prov#',
    'data': {'@id': 'cr:data', '@type': '@json'},
    'dataType': {'@id': 'cr:dataType', '@type': '@vocab'},
    'dct': 'http://purl.org/dc/terms/',
    'description': {'@container': '@language'},
    'equivalentProperty': 'cr:equivalentProperty',
    'examples': {'@id': 'cr:examples', '@type': '@json'},
    'extract': 'cr:extract',
    'field': 'cr:field',
    'fileProperty': 'cr:fileProperty',
    'fileObject': 'cr:fileObject',
    'fileSet': 'cr:fileSet',
    'format': 'cr:format',
    'includes': 'cr:includes',
    'isArray': 'cr:isArray',
    'isLiveDataset': 'cr:isLiveDataset',
    'jsonPath': 'cr:jsonPath',
    'key': 'cr:key',
    'md5': 'cr:md5',
    'name': {'@container': '@language'},
    'parentField': 'cr:parentField',
    'path': 'cr:path',
    'recordSet': 'cr:recordSet',
    'references': 'cr:references',
    'regex': 'cr:regex',
    'repeated': 'cr:repeated',
    'replace': 'cr:replace',
    'samplingRate': 'cr:samplingRate',
    'sc': 'https://schema.org/',
    'separator': 'cr:separator',
    'source': 'cr:source',
    'subField': 'cr:subField',
    'transform': 'cr:transform',
}
DATA_TYPES = {'b': 'sc:Boolean', 'i': 'cr:Int64', 'u': 'cr:Int64', 'f': 'cr:Float32'}
ROWS = {  # what a row of each table is
    'trees': 'One synthetic computation graph: its label, its split (1 train, 2 validation, 4 '
    'test) and the token of each breadth-first slot, -1 where there is no node.',
    'nodes': 'One node of a tree. Its features are the row `cluster` of the codebook.',
    'edges': 'One edge, from child to parent.',
    'codebook': 'The feature vector of one token.',
    'projection': 'One feature of the source: its row of the public projection.',
}
BIASES = (
    'Trees were drawn from a model of the source. Rare neighbourhoods and small classes are '
    'reproduced less faithfully than frequent ones, and feature vectors are those of groups, not '
    'of single nodes.'
)
IMPACT = (
    'A substitute lets others study a graph that cannot be shared. It does not replace a '
    'decision of the owner on who may receive it: the limitations state what is not protected.'
)


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
    for name in (CARD, TENSORS, README, SIGNATURE, *(path.name for path in shard_paths(files))):
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


def croissant(
    release: Release,
    origin: Origin,
    tables: ForestTables,
    paths: dict[str, dict[str, str]],
    checksums: dict[str, str],
) -> dict[str, Any]:
    r"""The content of ``croissant.json``.

    Args:
        release (Release): The release.
        origin (Origin): Where the export comes from.
        tables (ForestTables): The tables of the release.
        paths (dict): The file of each split of each table.
        checksums (dict): The SHA-256 checksum of each file.
    """
    card, terms = release.card, origin.terms
    content = {
        '@context': CONTEXT,
        '@type': 'sc:Dataset',
        'conformsTo': [
            'http://mlcommons.org/croissant/1.1',
            'http://mlcommons.org/croissant/RAI/1.0',
        ],
        'name': f'Synthetic substitute of {card["source"]["name"]}',
        'description': f'{card["num_trees"]} synthetic computation graphs for graph neural '
        f'networks. {release.privacy.summary[:1].upper()}{release.privacy.summary[1:]}.',
        'version': '1.0.0',
        'datePublished': card['created'],
        'citeAs': PAPER,
        'keywords': ['synthetic data', 'graph', 'privacy', release.privacy.mechanism],
        'isLiveDataset': False,
        **responsible_ai(release, origin),
        'distribution': [_file(path, checksums[path]) for path in checksums]
        + [_file_set(table, files) for table, files in paths.items() if len(files) > 1],
        'recordSet': [
            _record_set(table, paths[table], getattr(tables, table), card) for table in paths
        ],
    }
    if terms.license is not None:
        content['license'] = license_url(terms.license)
    if terms.contact is not None:
        content['creator'] = _creator(terms.contact)
    return content


def responsible_ai(release: Release, origin: Origin) -> dict[str, Any]:
    r"""That the data are synthetic, where they come from, what is protected and
    what is not: the terms of Croissant's vocabulary for responsible AI.

    Args:
        release (Release): The release.
        origin (Origin): Where the export comes from.
    """
    card, privacy = release.card, release.privacy
    use = origin.terms.intended_use
    return {
        'rai:hasSyntheticData': True,
        'rai:dataCollection': 'Computation graphs were sampled from a generative model that was '
        f"fitted to the source '{card['source']['name']}'. No record was collected for this data "
        'set.',
        'rai:dataCollectionType': ['Others'],
        'rai:dataLimitations': privacy.not_guaranteed,
        'rai:dataBiases': [BIASES],
        'rai:dataUseCases': [use or 'Not stated by the owner.'],
        'rai:dataSocialImpact': IMPACT,
        'rai:personalSensitiveInformation': [
            f'Mechanism: {privacy.mechanism}. Unit: {privacy.unit}.',
            *privacy.guaranteed,
        ],
        'prov:wasDerivedFrom': {'@type': 'prov:Entity', 'prov:label': card['source']['name']},
        'prov:wasGeneratedBy': {
            '@type': 'prov:Activity',
            'prov:label': f'torch-geometric-cgt {card["versions"]["torch_geometric_cgt"]}: '
            'quantization, computation graphs, generative model, sampling',
        },
    }


def _creator(contact: str) -> dict[str, str]:
    creator = {'@type': 'sc:Organization', 'name': contact}
    if contact.startswith(('http://', 'https://')):
        creator['url'] = contact
    elif '@' in contact and ' ' not in contact:
        creator['email'] = contact
    return creator


def _file(path: str, checksum: str) -> dict[str, Any]:
    return {
        '@type': 'cr:FileObject',
        '@id': path,
        'name': path,
        'contentUrl': path,
        'encodingFormat': 'application/x-parquet',
        'sha256': checksum,
    }


def _file_set(table: str, files: dict[str, str]) -> dict[str, Any]:
    return {
        '@type': 'cr:FileSet',
        '@id': f'{table}-files',
        'name': f'{table}-files',
        'encodingFormat': 'application/x-parquet',
        'includes': f'{table}-*.parquet',
    }


def _record_set(
    table: str, files: dict[str, str], columns: Columns, card: dict[str, Any]
) -> dict[str, Any]:
    source: dict[str, Any] = {'fileSet': {'@id': f'{table}-files'}}
    if len(files) == 1:
        source = {'fileObject': {'@id': next(iter(files.values()))}}
    says = ROWS[table]
    if table == 'trees' and 'class_names' in card:
        named = ', '.join(f'{label} = {name}' for label, name in enumerate(card['class_names']))
        says += f' Labels: {named}.'
    return {
        '@type': 'cr:RecordSet',
        '@id': table,
        'name': table,
        'description': says,
        'field': [_field(table, name, value, source) for name, value in columns.items()],
    }


def _field(table: str, name: str, value: NDArray, source: dict[str, Any]) -> dict[str, Any]:
    field: dict[str, Any] = {
        '@type': 'cr:Field',
        '@id': f'{table}/{name}',
        'name': name,
        'dataType': 'cr:Float64' if value.dtype.str[1:] == 'f8' else DATA_TYPES[value.dtype.kind],
        'source': {**source, 'extract': {'column': name}},
    }
    if value.ndim > 1:
        field |= {'isArray': True, 'arrayShape': str(value.shape[1])}
    return field
