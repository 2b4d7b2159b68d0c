"""Folders for the Hugging Face hub, and their Croissant metadata."""

import json

import numpy as np
import pytest

from tests.helpers.exported import NAMES, RECORDED, forest, overlapping
from torch_geometric_cgt.release import Terms, export_release, read_release
from torch_geometric_cgt.release.terms import hub_license, license_url

pandas = pytest.importorskip('pandas')
yaml = pytest.importorskip('yaml')
pytest.importorskip('pyarrow')
mlcroissant = pytest.importorskip('mlcroissant')
TERMS = Terms('CC-BY-4.0', 'data@example.org', 'Comparison of GNNs')


def header(folder):
    _, text, body = (folder / 'README.md').read_text().split('---\n', 2)
    assert body.startswith('\n# Synthetic substitute')
    return yaml.safe_load(text)


def test_the_header_names_licence_size_and_files(tmp_path):
    terms = Terms(license='CC-BY-4.0')
    export_release(RECORDED / 'nodes', tmp_path / 'out', 'huggingface', terms)
    found = header(tmp_path / 'out')
    assert found['license'] == 'cc-by-4.0' and found['size_categories'] == ['n<1K']
    assert found['pretty_name'] == 'Synthetic substitute of Data'
    assert [config['config_name'] for config in found['configs']] == [
        'trees',
        'nodes',
        'edges',
        'codebook',
    ]
    paths = [entry['path'] for config in found['configs'] for entry in config['data_files']]
    assert {path.name for path in (tmp_path / 'out').glob('*.parquet')} == set(paths)
    assert read_release(tmp_path / 'out' / 'release').card['num_trees'] == 40


def test_every_tree_is_in_one_split(tmp_path):
    release = overlapping(tmp_path / 'release')
    export_release(tmp_path / 'release', tmp_path / 'out', 'huggingface')
    (config,) = (c for c in header(tmp_path / 'out')['configs'] if c.get('default'))
    parts = {
        e['split']: pandas.read_parquet(tmp_path / 'out' / e['path']) for e in config['data_files']
    }
    assert list(parts) == ['train', 'validation', 'test', 'other']
    assert parts['other']['tree'].tolist() == [0, 1] and parts['other']['split'].tolist() == [0, 3]
    assert set(parts['validation']['split']) == {2}
    trees = pandas.concat(parts.values()).sort_values('tree')
    tokens = release.trees.tokens.masked_fill(~release.trees.real, -1)
    assert np.array_equal(np.stack(trees['tokens']), tokens.numpy())
    assert trees['y'].tolist() == release.trees.y.tolist()


def test_names_of_licences():
    assert hub_license(None) == {'license': 'unknown'}
    assert hub_license('odbl-1.0') == {'license': 'odbl'}
    assert hub_license('Ask us') == {'license': 'other', 'license_name': 'Ask us'}
    assert license_url('mit') == 'https://spdx.org/licenses/MIT.html'
    assert license_url('Ask us') == 'Ask us' and license_url(None) is None


def test_a_name_cannot_break_the_header(tmp_path):
    from torch_geometric_cgt.utils.files import read_sealed_json, write_sealed_json

    overlapping(tmp_path / 'release')
    path = tmp_path / 'release' / 'card.json'
    card = read_sealed_json(path)
    del card['checksum']
    card['source']['name'] = 'A: "b" --- {c} # d'
    write_sealed_json(path, card, list(card.pop('files')))
    export_release(tmp_path / 'release', tmp_path / 'out', 'huggingface')
    assert header_name(tmp_path / 'out') == 'Synthetic substitute of A: "b" --- {c} # d'
    assert json.loads((tmp_path / 'out' / 'croissant.json').read_text())['name'].endswith('# d')


def header_name(folder):
    lines = (folder / 'README.md').read_text().split('\n---\n')[0].removeprefix('---\n')
    return yaml.safe_load(lines)['pretty_name']


pytest.importorskip('pyarrow')


def export(name, folder):
    export_release(RECORDED / name, folder, 'huggingface', TERMS)
    return mlcroissant.Dataset(folder / 'croissant.json')


@pytest.mark.parametrize('name', NAMES)
def test_mlcroissant_reads_the_forest(name, tmp_path):
    dataset = export(name, tmp_path / 'out')
    assert not dataset.metadata.issues.errors and not dataset.metadata.issues.warnings
    tables = {
        table: list(dataset.records(table)) for table in ('trees', 'nodes', 'edges', 'codebook')
    }
    expected, release = forest(RECORDED / name), read_release(RECORDED / name)
    for column in ('y', 'cluster', 'depth', 'root_mask', 'train_mask', 'val_mask', 'test_mask'):
        found = [row[f'nodes/{column}'] for row in tables['nodes']]
        assert found == expected[column].tolist()
    edges = [(row['edges/source'], row['edges/target']) for row in tables['edges']]
    assert np.array_equal(np.array(edges).T, expected['edge_index'])
    codebook = np.array([row['codebook/x'] for row in tables['codebook']], dtype=np.float32)
    assert np.array_equal(codebook[expected['cluster']], expected['x'])
    trees = {row['trees/tree']: row for row in tables['trees']}
    tokens = np.array([trees[index]['trees/tokens'] for index in range(len(trees))])
    assert np.array_equal(tokens >= 0, release.trees.real.numpy())
    assert [trees[i]['trees/y'] for i in range(len(trees))] == release.trees.y.tolist()


def test_the_metadata_state_synthetic_data_and_privacy(tmp_path):
    metadata = export('nodes', tmp_path / 'out').metadata
    privacy = read_release(RECORDED / 'nodes').privacy
    assert str(metadata.ctx.conforms_to.value) == 'http://mlcommons.org/croissant/1.1'
    assert metadata.license == ['https://spdx.org/licenses/CC-BY-4.0.html']
    assert 'data@example.org' in metadata.creators[0].email
    assert metadata.personal_sensitive_information[1:] == privacy.guaranteed
    assert metadata.data_limitations == privacy.not_guaranteed
    assert metadata.data_use_cases == ['Comparison of GNNs']
    content = metadata.to_json()  # terms that mlcroissant does not know itself are kept
    assert content['rai:hasSyntheticData'] is True
    assert content['prov:wasDerivedFrom']['prov:label'] == 'Data'


def test_mlcroissant_finds_an_altered_file(tmp_path):
    export('nodes', tmp_path / 'out')
    path = tmp_path / 'out' / 'croissant.json'
    content = json.loads(path.read_text())
    del content['recordSet'][0]['field'][0]['dataType']
    path.write_text(json.dumps(content))
    with pytest.raises(mlcroissant.ValidationError, match='dataType'):
        mlcroissant.Dataset(path)
