r"""Croissant 1.1 metadata of an export: files, tables, synthetic data and privacy."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from torch_geometric_cgt.release.export_readme import Origin
from torch_geometric_cgt.release.forest_tables import Columns, ForestTables
from torch_geometric_cgt.release.licenses import license_url
from torch_geometric_cgt.release.release import Release

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
        'recordSet': [_record_set(table, paths[table], getattr(tables, table)) for table in paths],
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


def _record_set(table: str, files: dict[str, str], columns: Columns) -> dict[str, Any]:
    source: dict[str, Any] = {'fileSet': {'@id': f'{table}-files'}}
    if len(files) == 1:
        source = {'fileObject': {'@id': next(iter(files.values()))}}
    return {
        '@type': 'cr:RecordSet',
        '@id': table,
        'name': table,
        'description': ROWS[table],
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
