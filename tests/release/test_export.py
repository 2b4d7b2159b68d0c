"""Exports: what they state, what happens with signatures, and what is refused."""

import json
import shutil

import pytest

from tests.helpers.exported import RECORDED
from torch_geometric_cgt.errors import CorruptFileError, UnsupportedError
from torch_geometric_cgt.release import (
    EXPORT_FORMATS,
    Terms,
    export_release,
    new_key,
    read_release,
    sign_release,
)
from torch_geometric_cgt.utils.block_checksums import sha256
from torch_geometric_cgt.utils.files import read_sealed_json

FOLDER = RECORDED / 'k_anonymous'
NEED_ARROW = ('parquet', 'huggingface')


@pytest.mark.parametrize('format', EXPORT_FORMATS)
def test_every_export_states_promise_terms_and_origin(format, tmp_path):
    if format in NEED_ARROW:
        pytest.importorskip('pyarrow')
    terms = Terms(license='MIT', contact='me@example.org')
    export_release(FOLDER, tmp_path / 'out', format, terms)
    facts = read_sealed_json(tmp_path / 'out' / 'export.json')  # checks all checksums
    assert facts['export'] == format and facts['card_sha256'] == sha256(FOLDER / 'card.json')
    assert facts['card'] == read_release(FOLDER).card
    assert facts['terms'] == {'license': 'MIT', 'contact': 'me@example.org'}
    names = {path.name for path in (tmp_path / 'out').iterdir() if path.is_file()}
    assert names == {*facts['files'], 'export.json'}
    text = (tmp_path / 'out' / 'README.md').read_text()
    for sentence in (*facts['card']['privacy']['guaranteed'], 'is not signed', 'License: MIT'):
        assert sentence in text
    for sentence in facts['card']['privacy']['not_guaranteed']:
        assert sentence in text
    assert not list((tmp_path / 'out').rglob('private*'))


def test_the_signature_of_a_release_does_not_cover_the_export(tmp_path):
    pytest.importorskip('cryptography')
    pytest.importorskip('pyarrow')
    folder = shutil.copytree(FOLDER, tmp_path / 'release')
    key, other = new_key(tmp_path / 'key'), new_key(tmp_path / 'other')
    with pytest.raises(CorruptFileError, match='minisig'):
        export_release(folder, tmp_path / 'a', 'npz', public_key=str(key))
    sign_release(folder, tmp_path / 'key')
    unverified = export_release(folder, tmp_path / 'a', 'npz')
    assert 'was not verified' in unverified.signature and unverified.verified_by is None
    with pytest.raises(CorruptFileError, match=other.name):
        export_release(folder, tmp_path / 'b', 'npz', public_key=str(other))
    verified = export_release(folder, tmp_path / 'b', 'huggingface', public_key=str(key))
    assert f'valid signature of key {key.name}' in verified.signature
    assert 'not their conversion' in (tmp_path / 'b' / 'README.md').read_text()
    assert json.loads((tmp_path / 'b' / 'export.json').read_text())['signature'] == {
        'is_signed': True,
        'verified_by': key.name,
    }
    assert read_release(tmp_path / 'b' / 'release', public_key=str(key)).card['num_trees'] == 120


def test_nothing_is_overwritten_and_nothing_private_is_read(tmp_path, finished_build):
    with pytest.raises(ValueError, match="'csv'"):
        export_release(FOLDER, tmp_path / 'out', 'csv')
    (tmp_path / 'full').mkdir()
    (tmp_path / 'full' / 'precious').write_text('')
    with pytest.raises(FileExistsError, match='full'):
        export_release(FOLDER, tmp_path / 'full', 'npz')
    (build,) = (path.parent for path in finished_build.glob('*/private.safetensors'))
    with pytest.raises(CorruptFileError, match='private'):
        export_release(build, tmp_path / 'out', 'npz')
    assert not (tmp_path / 'out').exists()


def test_terms_that_contradict_the_card_are_refused(tmp_path, graph, cached):
    from torch_geometric_cgt import SyntheticCGTDataset

    SyntheticCGTDataset(graph, **cached).save(tmp_path / 'release', terms=Terms(license='MIT'))
    with pytest.raises(ValueError, match='save the dataset again'):
        export_release(tmp_path / 'release', tmp_path / 'out', 'npz', Terms(license='CC0-1.0'))
    origin = export_release(tmp_path / 'release', tmp_path / 'out', 'npz', Terms(contact='me'))
    assert origin.terms == Terms('MIT', 'me')


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__('sys').modules, 'pyarrow', None)
    with pytest.raises(UnsupportedError, match=r'torch-geometric-cgt\[files\]'):
        export_release(FOLDER, tmp_path / 'out', 'parquet')
    assert not (tmp_path / 'out').exists()
