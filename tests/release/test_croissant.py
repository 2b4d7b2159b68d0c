"""Croissant metadata, read by mlcroissant: valid, complete, and the same forest."""

import json

import numpy as np
import pytest

from tests.helpers.exported import NAMES, RECORDED, forest
from torch_geometric_cgt.release import Terms, export_release, read_release

mlcroissant = pytest.importorskip('mlcroissant')
pytest.importorskip('pyarrow')
TERMS = Terms('CC-BY-4.0', 'data@example.org', 'Comparison of GNNs')


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
