"""Signatures of releases, and that they are those of minisign."""

import base64
import shutil
import stat
import sys
from pathlib import Path

import pytest

from tests.helpers.malicious import card_of, seal
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.errors import CorruptFileError, UnsupportedError
from torch_geometric_cgt.release import PublicKey, new_key, sign_release, verify_signature
from torch_geometric_cgt.release.signature import sign

RECORDED = Path(__file__).parents[1] / 'recorded' / 'format_1' / 'k_anonymous'
# The example of minisign's own library: a signature of the four bytes 'test'.
MINISIGN_KEY = 'RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3'
MINISIGN_SIGNATURE = (
    'untrusted comment: signature from minisign secret key\n'
    'RUQf6LRCGA9i559r3g7V1qNyJDApGip8MfqcadIgT9CuhV3EMhHoN1mGTkUidF/z7SrlQgXdy8ofjb7bNJJylDOocrCo8KLz'
    'Zwo=\n'
    'trusted comment: timestamp:1633700835\tfile:test\tprehashed\n'
    'wLMDjy9FLAuxZ3q4NlEvkgtyhrr0gtTu6KC4KBJdITbbOeAi1zBIYo0v4iTgt8jJpIidRJnp94ABQkJAgAooBQ==\n'
)


@pytest.fixture
def key(tmp_path):
    new_key(tmp_path / 'key')
    return tmp_path / 'key'


@pytest.fixture
def signed(tmp_path, key):
    folder = Path(shutil.copytree(RECORDED, tmp_path / 'release'))
    sign_release(folder, key)
    return folder


def test_a_signature_of_minisign_is_verified(tmp_path):
    (tmp_path / 'test').write_bytes(b'test')
    (tmp_path / 'test.minisig').write_text(MINISIGN_SIGNATURE)
    assert verify_signature(tmp_path / 'test', MINISIGN_KEY).startswith('timestamp:1633700835')
    assert PublicKey.of(MINISIGN_KEY).name == 'E7620F1842B4E81F'
    (tmp_path / 'test').write_bytes(b'tesT')
    with pytest.raises(CorruptFileError, match='one of them was altered'):
        verify_signature(tmp_path / 'test', MINISIGN_KEY)


def test_files_have_the_layout_of_minisign(signed, key):
    public = Path(f'{key}.pub').read_text().splitlines()
    number = PublicKey.of(public[1]).number
    assert public[0] == f'untrusted comment: minisign public key {number[::-1].hex().upper()}'
    secret = base64.b64decode(key.read_text().splitlines()[1])
    assert len(secret) == 158 and secret[:6] == b'Ed\0\0B2' and secret[54:62] == number
    assert secret[94:126] == PublicKey.of(public[1]).point
    lines = (signed / 'card.json.minisig').read_text().splitlines()
    assert lines[0].startswith('untrusted comment: ') and len(lines) == 4
    assert base64.b64decode(lines[1])[:10] == b'ED' + number
    assert lines[2].startswith('trusted comment: timestamp:')
    assert lines[2].endswith('\tfile:card.json\thashed')


def test_a_signed_release_is_loaded_with_its_key(signed, key):
    text = Path(f'{key}.pub').read_text().splitlines()[1]
    for public_key in (f'{key}.pub', Path(f'{key}.pub'), text):
        assert SyntheticCGTDataset.load(signed, public_key=public_key).privacy.k == 10
    assert SyntheticCGTDataset.load(signed).privacy.k == 10  # nobody asks for a signature


def test_save_signs(tmp_path, key):
    dataset = SyntheticCGTDataset.load(RECORDED)
    dataset.save(tmp_path / 'saved', sign_with=key)
    assert SyntheticCGTDataset.load(tmp_path / 'saved', public_key=f'{key}.pub').privacy.k == 10
    with pytest.raises(FileNotFoundError, match='no secret key'):
        dataset.save(tmp_path / 'unsigned', sign_with=tmp_path / 'none')
    assert not (tmp_path / 'unsigned').exists()


def seal_again(folder):
    card = card_of(folder)
    card['created'] = '2026-01-01'
    seal(folder, card)


def flip_a_bit_of(line):
    def change(folder):
        path = folder / 'card.json.minisig'
        lines = path.read_text().splitlines()
        content = bytearray(base64.b64decode(lines[line]))
        content[40] ^= 1
        lines[line] = base64.b64encode(content).decode()
        path.write_text('\n'.join(lines))

    return change


def edit_signature(old, new):
    def change(folder):
        path = folder / 'card.json.minisig'
        path.write_text(path.read_text().replace(old, new))

    return change


@pytest.mark.parametrize(
    'change, reason',
    [
        (seal_again, 'was altered'),
        (flip_a_bit_of(1), 'was altered'),
        (flip_a_bit_of(3), 'was altered'),
        (edit_signature('timestamp:', 'timestamp:9'), 'was altered'),
        (edit_signature('trusted comment: timestamp', 'comment: timestamp'), 'format of minisign'),
        (lambda folder: (folder / 'card.json.minisig').unlink(), r'minisig.* is missing'),
        (lambda folder: (folder / 'card.json.minisig').write_text(''), 'must have 4 lines'),
        (lambda folder: (folder / 'card.json.minisig').write_text('a\n' * 9), 'format of minisign'),
        (lambda folder: (folder / 'card.json.minisig').write_bytes(b'\xff' * 9), 'not a text'),
        (lambda folder: (folder / 'card.json.minisig').write_text('a' * 10**5), 'at most 4,096'),
        (lambda folder: (folder / 'README.md').write_text('trust me'), r'README\.md'),
    ],
)
def test_a_wrong_signature_is_refused(signed, key, change, reason):
    change(signed)
    with pytest.raises(CorruptFileError, match=reason):
        SyntheticCGTDataset.load(signed, public_key=f'{key}.pub')


def test_the_signature_of_somebody_else_is_refused(signed, tmp_path):
    other = new_key(tmp_path / 'other')
    with pytest.raises(CorruptFileError, match=f'was made with key .*, but {other.name}'):
        SyntheticCGTDataset.load(signed, public_key=str(other))


def test_the_number_of_a_key_is_not_its_proof(signed, key, tmp_path):
    """A key with the same number and another point."""
    own, other = PublicKey.of(f'{key}.pub'), new_key(tmp_path / 'other')
    with pytest.raises(CorruptFileError, match='not a signature of'):
        SyntheticCGTDataset.load(signed, public_key=str(PublicKey(own.number, other.point)))


def test_a_secret_key_is_for_its_owner_and_never_overwritten(key, tmp_path):
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    before = key.read_bytes()
    with pytest.raises(FileExistsError, match='choose another name'):
        new_key(key)
    (tmp_path / 'half.pub').touch()
    with pytest.raises(FileExistsError):
        new_key(tmp_path / 'half')
    assert key.read_bytes() == before and not (tmp_path / 'half').exists()


@pytest.mark.parametrize('content', ['', 'a\nb\n', f'a\n{base64.b64encode(bytes(158)).decode()}\n'])
def test_what_is_no_key_is_refused(tmp_path, content, signed):
    (tmp_path / 'bad').write_text(content)
    with pytest.raises(CorruptFileError, match='bad'):
        sign(signed / 'card.json', tmp_path / 'bad')
    with pytest.raises(CorruptFileError, match='bad'):
        SyntheticCGTDataset.load(signed, public_key=tmp_path / 'bad')
    with pytest.raises(FileNotFoundError, match='no public key'):
        SyntheticCGTDataset.load(signed, public_key=tmp_path / 'none')


def test_nothing_is_signed_that_loading_refuses(tmp_path, key):
    folder = Path(shutil.copytree(RECORDED, tmp_path / 'release'))
    card = card_of(folder)
    card['privacy']['k_reached'] = 50
    seal(folder, card)
    with pytest.raises(CorruptFileError):
        sign_release(folder, key)
    assert not (folder / 'card.json.minisig').exists()


def test_without_the_extra_an_error_says_how_to_install_it(signed, key, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, 'cryptography.hazmat.primitives.asymmetric', None)
    for call in (
        lambda: new_key(tmp_path / 'other'),
        lambda: sign_release(signed, key),
        lambda: SyntheticCGTDataset.load(signed, public_key=f'{key}.pub'),
    ):
        with pytest.raises(UnsupportedError, match=r"pip install 'torch-geometric-cgt\[sign\]'"):
            call()
    assert not (tmp_path / 'other').exists()
    assert SyntheticCGTDataset.load(signed).privacy.k == 10
