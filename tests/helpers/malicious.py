"""Releases that a stranger may send: how they are made, and what loading them costs.

The stranger knows this package and seals every change again, so that all checksums are right.
"""

import hashlib
import json
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file

from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.utils.block_checksums import sha256
from torch_geometric_cgt.utils.files import write_tensors

CARD, TENSORS, README = 'card.json', 'release.safetensors', 'README.md'
SECONDS, BLOCKED_SECONDS = 5, 20  # of the processor, and of the clock
MOST_MEGABYTES = 1000

Attack = Callable[[Path], None]


def seal(folder: Path, card: dict) -> None:
    """Writes a card with checksums of itself and of the files beside it."""
    if card.get('files') is None:
        card['files'] = {
            name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
            for name in (TENSORS, README)
        }
    card.pop('checksum', None)
    card['checksum'] = hashlib.sha256(json.dumps(card, sort_keys=True).encode()).hexdigest()
    (folder / CARD).write_text(json.dumps(card))


def card_of(folder: Path) -> dict:
    """The card without its checksums."""
    card = json.loads((folder / CARD).read_text())
    del card['files'], card['checksum']
    return card


def set_fact(place: str, value: object) -> Attack:
    """Sets one value of the card, e.g. ``'privacy.k'``, or calls a function of the old value."""

    def attack(folder: Path) -> None:
        card = card_of(folder)
        *outer, last = [int(key) if key.isdigit() else key for key in place.split('.')]
        inner = card
        for key in outer:
            inner = inner[key]
        inner[last] = value(inner[last]) if callable(value) else value
        seal(folder, card)

    return attack


def all_of(*attacks: Attack) -> Attack:
    """Several changes, one after the other."""

    def attack(folder: Path) -> None:
        for one in attacks:
            one(folder)

    return attack


def card_text(change: Callable[[str], str | bytes]) -> Attack:
    """Changes the text of the card, which is not sealed again."""

    def attack(folder: Path) -> None:
        text = change((folder / CARD).read_text())
        (folder / CARD).write_bytes(text if isinstance(text, bytes) else text.encode())

    return attack


def set_tensor(name: str, index: tuple, value: float) -> Attack:
    """Sets one element of a tensor."""

    def attack(folder: Path) -> None:
        tensors = {key: tensor.clone() for key, tensor in load_file(folder / TENSORS).items()}
        tensors[name][index] = value
        write_tensors(folder / TENSORS, tensors)
        seal(folder, card_of(folder))

    return attack


def set_header(change: Callable[[dict], object]) -> Attack:
    """Changes the header of the tensor file. The function may return another header as text."""

    def attack(folder: Path) -> None:
        content = (folder / TENSORS).read_bytes()
        end = 8 + int.from_bytes(content[:8], 'little')
        header = json.loads(content[8:end])
        text = change(header)
        text = (text if isinstance(text, str) else json.dumps(header)).encode()
        write_raw(folder, len(text).to_bytes(8, 'little') + text + content[end:])

    return attack


def write_raw(folder: Path, content: bytes) -> None:
    """Replaces the tensor file."""
    (folder / TENSORS).write_bytes(content)
    seal(folder, card_of(folder))


def raw(change: Callable[[bytes], bytes]) -> Attack:
    """Changes the bytes of the tensor file."""
    return lambda folder: write_raw(folder, change((folder / TENSORS).read_bytes()))


def replaced(name: str, make: Callable[[Path], object]) -> Attack:
    """Puts something else in the place of a file."""

    def attack(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return attack


def sparse(size: int) -> Callable[[Path], None]:
    """A file of zeros that takes no space on the disk."""

    def make(path: Path) -> None:
        with open(path, 'wb') as file:
            file.truncate(size)

    return make


def grow(num_bytes: int) -> Attack:
    """Makes as many trees as fit, all of zeros, in a file that takes no space on the disk."""

    def attack(folder: Path) -> None:
        card, size = card_of(folder), (num_bytes - 2000) // 17
        card['num_neighbors'] = card['parameters']['num_neighbors'] = [1]
        card['num_trees'] = card['parameters']['num_samples'] = size
        header, end = {}, 0
        shapes = {'tokens': ('I32', [size, 2], 8 * size), 'y': ('I64', [size], 8 * size)}
        shapes |= {'split': ('U8', [size], size), 'codebook': ('F32', [12, 8], 384)}
        for name, (dtype, shape, length) in shapes.items():
            header[name] = {'dtype': dtype, 'shape': shape, 'data_offsets': [end, end + length]}
            end += length
        text = json.dumps(header).encode()
        with open(folder / TENSORS, 'wb') as file:
            file.write(len(text).to_bytes(8, 'little') + text)
            file.truncate(8 + len(text) + end)
        card['files'] = {name: sha256(folder / name) for name in (TENSORS, README)}
        seal(folder, card)

    return attack


def pickled(folder: Path) -> None:
    """A pickle that leaves a file behind when it is read."""

    class Payload:
        def __reduce__(self):
            return Path.touch, (folder.with_name('ran'),)

    torch.save({'tokens': Payload()}, folder / TENSORS)
    seal(folder, card_of(folder))


@dataclass
class Outcome:
    """What came of loading: an error (``''`` for none), its message, and the costs."""

    error: str
    message: str
    seconds: float
    megabytes: float
    promise: str = ''


@contextmanager
def bounded_memory(megabytes: int = 3 * MOST_MEGABYTES // 2) -> Iterator[None]:
    """Allocating more raises an error: a check that is missing does not fill the machine."""
    used = int(Path('/proc/self/statm').read_text().split()[5]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (used + (megabytes << 20), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def load_all(folders: list[Path], **arguments) -> list[Outcome]:
    """Loads releases in a process that is ended where one takes too long."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.setitimer(signal.ITIMER_PROF, SECONDS * max(1, len(folders) / 20))
            signal.alarm(BLOCKED_SECONDS * max(1, len(folders) // 20))
            with open(writing, 'w') as file, bounded_memory():
                for folder in folders:
                    file.write(json.dumps(asdict(_load(folder, arguments))) + '\n')
                    file.flush()
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading) as file:
        outcomes = [Outcome(**json.loads(line)) for line in file]
    status = os.waitpid(child, 0)[1]
    missing = len(folders) - len(outcomes)
    return outcomes + [Outcome(f'ended by signal {status}', '', 1e9, 1e9)] * missing


def _load(folder: Path, arguments: dict) -> Outcome:
    before, memory = time.process_time(), _megabytes()
    promise = error = message = ''
    try:
        dataset = SyntheticCGTDataset.load(folder, log=False, **arguments)
        promise = json.dumps([dataset.privacy.to_dict()[name] for name in PROMISE])
    except Exception as raised:
        error, message = type(raised).__name__, str(raised)
    seconds = time.process_time() - before
    return Outcome(error, message, seconds, _megabytes() - memory, promise)


PROMISE = ('mechanism', 'unit', 'k', 'epsilon', 'delta', 'guaranteed', 'not_guaranteed')


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
