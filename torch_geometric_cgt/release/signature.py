r"""Signatures of files in the format of minisign: Ed25519 over a BLAKE2b hash of the file.

``minisign -V -p KEY.pub -m card.json`` verifies a signature of this module, and this module
verifies signatures of minisign. Secret keys have no password, like those of ``minisign -G -W``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from torch_geometric_cgt.errors import CorruptFileError, UnsupportedError
from torch_geometric_cgt.utils.files import require_writable, write_text
from torch_geometric_cgt.utils.limits import MAX_SIGNATURE_BYTES
from torch_geometric_cgt.utils.untrusted import open_regular, read_bounded

SUFFIX = '.minisig'
KEY_KIND, HASHED_KIND = b'Ed', b'ED'  # of a key, and of a signature of a hash
NO_PASSWORD, CHECKSUM_KIND = b'\0\0', b'B2'
UNUSED = bytes(48)  # salt and limits of the password
UNTRUSTED, TRUSTED = 'untrusted comment: ', 'trusted comment: '


@dataclass(frozen=True)
class PublicKey:
    r"""A key that verifies signatures.

    Args:
        number (bytes): Eight random bytes that name the pair of keys.
        point (bytes): The Ed25519 public key, 32 bytes.
    """

    number: bytes
    point: bytes

    @property
    def name(self) -> str:
        r"""The number as minisign shows it."""
        return self.number[::-1].hex().upper()

    def __str__(self) -> str:
        return base64.b64encode(KEY_KIND + self.number + self.point).decode()

    @classmethod
    def of(cls, key: str | Path) -> PublicKey:
        r"""Reads a public key.

        Args:
            key (str or Path): The key as a text that begins with :obj:`"RW"`, or
                its file.
        """
        line = str(key)
        if isinstance(key, Path) or not (len(line) == 56 and line.startswith('RW')):
            path = Path(key).expanduser()
            if not path.exists():
                raise FileNotFoundError(f"There is no public key at '{path}'")
            line = _lines(path, 2)[1]
        content = _decode(line, 42, f"'{key}' is not a public key")
        if content[:2] != KEY_KIND:
            raise ValueError(f"'{key}' is not a public key of Ed25519 in the format of minisign")
        return cls(content[2:10], content[10:])


def new_key(path: str | Path) -> PublicKey:
    r"""Creates a pair of keys. The secret key is readable for its owner only
    and has no password. Existing files are never overwritten.

    Args:
        path (str or Path): The file of the secret key. The public key is written
            beside it, with the suffix :obj:`".pub"`.
    """
    private = _ed25519().Ed25519PrivateKey.generate()
    seed, point = private.private_bytes_raw(), private.public_key().public_bytes_raw()
    path = Path(path).expanduser()
    public_path = path.with_name(f'{path.name}.pub')
    for taken in (path, public_path):
        if taken.exists() or taken.is_symlink():
            raise FileExistsError(f"'{taken}' exists already; choose another name")
    require_writable(path.parent)
    key = PublicKey(secrets.token_bytes(8), point)
    pair = key.number + seed + point
    content = KEY_KIND + NO_PASSWORD + CHECKSUM_KIND + UNUSED + pair + _checksum(pair)
    secret = base64.b64encode(content).decode()
    _write_new(path, f'{UNTRUSTED}minisign secret key {key.name}\n{secret}\n', 0o600)
    _write_new(public_path, f'{UNTRUSTED}minisign public key {key.name}\n{key}\n', 0o644)
    return key


def sign(path: Path, secret_key: str | Path) -> PublicKey:
    r"""Signs a file. The signature is written beside it, with the suffix
    :obj:`".minisig"`. Returns the public key that verifies it.

    Args:
        path (Path): The file.
        secret_key (str or Path): The file of the secret key.
    """
    key, private = _read_secret(Path(secret_key).expanduser())
    signature = private.sign(_hash(path))
    comment = f'timestamp:{int(time.time())}\tfile:{path.name}\thashed'
    both = private.sign(signature + comment.encode())
    encoded = base64.b64encode(HASHED_KIND + key.number + signature).decode()
    write_text(
        path.with_name(path.name + SUFFIX),
        f'{UNTRUSTED}verify with the public key {key}\n{encoded}\n'
        f'{TRUSTED}{comment}\n{base64.b64encode(both).decode()}\n',
    )
    return key


def verify_signature(path: Path, public_key: str | Path) -> str:
    r"""Verifies the signature of a file and returns its signed comment. Raises
    :class:`CorruptFileError` if the signature is missing or wrong, or has another
    key.

    Args:
        path (Path): The file. Its signature is beside it.
        public_key (str or Path): The public key as a text, or its file.
    """
    key, module = PublicKey.of(public_key), _ed25519()
    from cryptography.exceptions import InvalidSignature

    place = path.with_name(path.name + SUFFIX)
    lines = _lines(place, 4)
    what = f"'{place}' is not a signature in the format of minisign"
    content, both = _decode(lines[1], 74, what), _decode(lines[3], 64, what)
    if content[:2] != HASHED_KIND or not lines[2].startswith(TRUSTED):
        raise CorruptFileError(f'{what} with a hashed file')
    if content[2:10] != key.number:
        other = PublicKey(content[2:10], b'').name
        raise CorruptFileError(f"'{place}' was made with key {other}, but {key.name} is expected")
    comment = lines[2].removeprefix(TRUSTED)
    try:
        public = module.Ed25519PublicKey.from_public_bytes(key.point)
        public.verify(content[10:], _hash(path))
        public.verify(both, content[10:] + comment.encode())
    except InvalidSignature as error:
        raise CorruptFileError(
            f"'{place}' is not a signature of '{path.name}' by key {key.name}: one of them was "
            f'altered'
        ) from error
    return comment


def _read_secret(path: Path) -> tuple[PublicKey, Any]:
    if not path.exists():
        raise FileNotFoundError(f"There is no secret key at '{path}'")
    what = f"'{path}' is not a secret key without a password in the format of minisign"
    content = _decode(_lines(path, 2)[1], 158, what)
    pair, checksum = content[54:126], content[126:]
    if content[:6] != KEY_KIND + NO_PASSWORD + CHECKSUM_KIND or checksum != _checksum(pair):
        raise CorruptFileError(what)
    private = _ed25519().Ed25519PrivateKey.from_private_bytes(pair[8:40])
    return PublicKey(pair[:8], private.public_key().public_bytes_raw()), private


def _checksum(pair: bytes) -> bytes:
    return hashlib.blake2b(KEY_KIND + pair, digest_size=32).digest()


def _hash(path: Path) -> bytes:
    digest = hashlib.blake2b()
    with open_regular(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.digest()


def _lines(path: Path, number: int) -> list[str]:
    try:
        text = read_bounded(path, MAX_SIGNATURE_BYTES).decode()
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"'{path}' is not a text file") from error
    lines = [line.rstrip('\r') for line in text.rstrip('\n').split('\n')]
    if len(lines) < number:
        raise CorruptFileError(f"'{path}' must have {number} lines (got {len(lines)})")
    return lines


def _decode(line: str, size: int, what: str) -> bytes:
    try:
        content = base64.b64decode(line, validate=True)
    except (binascii.Error, ValueError) as error:
        raise CorruptFileError(what) from error
    if len(content) != size:
        raise CorruptFileError(f'{what}: it has {len(content)} bytes instead of {size}')
    return content


def _write_new(path: Path, text: str, mode: int) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), 'w') as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _ed25519() -> ModuleType:
    r"""Imports :obj:`cryptography`, or raises an error that says how to install it."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise UnsupportedError(
            "Signatures need 'cryptography', which is not installed: run "
            "pip install 'torch-geometric-cgt[sign]'"
        ) from error
    return ed25519
