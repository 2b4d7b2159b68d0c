"""Releases in several files: the same release, and every wrong file is found and named."""

import json
import os
import random
import shutil
import signal
import time

import pyarrow.parquet
import pytest
import torch

from tests.helpers.builds import damage
from tests.helpers.exported import RECORDED, with_edge_values
from tests.helpers.malicious import seal
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.data.sharded_rows import ShardedRows
from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.release import export_release, read_release, save_release
from torch_geometric_cgt.release.shards import Shards
from torch_geometric_cgt.utils.untrusted import TensorSpec

NAME = 'trees-0000{}-of-0000{}.format-4.safetensors'


def release_of():
    return read_release(RECORDED / 'k_anonymous')


def bytes_for(release, num_shards):
    """A shard size that divides the trees into so many files."""
    num_trees, num_slots = release.trees.tokens.shape
    per_tree = 4 * num_slots + 9 + (0 if release.trees.edge_tokens is None else 4 * num_slots)
    return -(-num_trees // num_shards) * per_tree


@pytest.fixture
def folder(tmp_path):
    release = release_of()
    save_release(tmp_path / 'release', release, shard_bytes=bytes_for(release, 3))
    return tmp_path / 'release'


def test_a_small_release_is_one_file_with_the_same_bytes(tmp_path):
    save_release(tmp_path / 'one', release_of())
    names = {path.name for path in (tmp_path / 'one').iterdir()}
    assert names == {'README.md', 'card.json', 'release.safetensors'}
    card = json.loads((tmp_path / 'one' / 'card.json').read_text())
    assert card['format'] == release_of().card['format'] and 'shards' not in card
    assert 'format-4' not in (tmp_path / 'one' / 'README.md').read_text()


def test_round_trip(folder, tmp_path):
    names = sorted(path.name for path in folder.iterdir())
    shards = [NAME.format(i, 3) for i in (1, 2, 3)]
    assert names == sorted(['README.md', 'card.json', 'release.safetensors', *shards])
    whole, divided = release_of(), read_release(folder)
    assert isinstance(divided.trees.tokens, ShardedRows)
    for name in ('tokens', 'y', 'split'):
        assert torch.equal(getattr(divided.trees, name).long(), getattr(whole.trees, name).long())
    assert torch.equal(divided.codebook, whole.codebook) and divided.card == whole.card
    dataset, original = (SyntheticCGTDataset.load(f) for f in (folder, RECORDED / 'k_anonymous'))
    for name, value in original[0].to_dict().items():
        assert torch.equal(dataset[0][name], value)
    dataset.save(tmp_path / 'one')
    original.save(tmp_path / 'other')
    dataset.save(tmp_path / 'again', shard_bytes=bytes_for(whole, 3))
    for one, other in (('one', 'other'), ('again', 'release')):
        for path in (tmp_path / one).iterdir():
            assert path.read_bytes() == (tmp_path / other / path.name).read_bytes()


def test_edge_values_are_divided_as_well(tmp_path):
    trees = with_edge_values().trees
    names = ('tokens', 'y', 'split', 'edge_tokens')
    tensors = {name: getattr(trees, name) for name in names}
    shards = Shards.of(tensors, shard_bytes=1000)
    shards.write(tmp_path, tensors)
    dtypes = {'tokens': 'I32', 'y': 'I64', 'split': 'I64', 'edge_tokens': 'I32'}
    specs = {n: TensorSpec((dtypes[n],), tuple(v.shape)) for n, v in tensors.items()}
    shards.check(tmp_path, specs, 1 << 20)
    found = shards.read(tmp_path, specs)
    assert shards.count > 2 and found.keys() == tensors.keys()
    assert all(torch.equal(found[name], value) for name, value in tensors.items())


@pytest.mark.parametrize('how', ['truncate', 'flip', 'remove'])
@pytest.mark.parametrize('number', [1, 2, 3])
def test_a_damaged_or_missing_shard_is_named(folder, how, number):
    damage(folder / NAME.format(number, 3), how)
    with pytest.raises(CorruptFileError, match=NAME.format(number, 3)):
        read_release(folder)


def test_swapped_shards_are_named(folder):
    first, second, spare = folder / NAME.format(1, 3), folder / NAME.format(2, 3), folder / 'spare'
    first.rename(spare)
    second.rename(first)
    spare.rename(second)
    with pytest.raises(CorruptFileError, match=rf'{first.name}.*has the content of.*{second.name}'):
        read_release(folder)


@pytest.mark.parametrize('number, count', [(4, 3), (1, 4), (0, 3)])
def test_an_additional_shard_is_named(folder, number, count):
    name = NAME.format(number, count)
    shutil.copy(folder / NAME.format(1, 3), folder / name)
    with pytest.raises(CorruptFileError, match=rf'{name}.*no file of a release'):
        read_release(folder)


def test_a_shard_beside_a_release_of_one_file_is_refused(folder, tmp_path):
    save_release(tmp_path / 'one', release_of())
    shutil.copy(folder / NAME.format(1, 3), tmp_path / 'one')
    with pytest.raises(CorruptFileError, match='no file of a release'):
        read_release(tmp_path / 'one')


def test_values_are_checked_in_every_shard_even_if_checksums_fit(tmp_path):
    from torch_geometric_cgt.release import write_release

    release = release_of()
    release.trees.tokens[-1, 0] = 10_000
    (tmp_path / 'bad').mkdir()
    write_release(tmp_path / 'bad', release, bytes_for(release, 3))
    with pytest.raises(CorruptFileError, match=rf'{NAME.format(3, 3)}.*token lies outside'):
        read_release(tmp_path / 'bad')


LIES = {
    'no shards': (lambda card: card.pop('shards'), 'must state'),
    'no number': (lambda card: card['shards'].pop('trees_per_shard'), 'must state'),
    'zero': (lambda card: card['shards'].update(trees_per_shard=0), 'trees_per_shard'),
    'too many': (lambda card: card['shards'].update(trees_per_shard=1 << 40), 'trees_per_shard'),
    'text': (lambda card: card['shards'].update(trees_per_shard='3'), 'trees_per_shard'),
    'one by one': (lambda card: card['shards'].update(trees_per_shard=1), 'does not name all'),
    'other division': (lambda card: card['shards'].update(trees_per_shard=20), 'trees|names?'),
    'unknown format': (lambda card: card['shards'].update(format=9), r'format 9; .*\[1, 2, 3, 4\]'),
    'itself': (lambda card: card['shards'].update(format=4), 'format 4'),
    'huge': (lambda card: card.update(num_trees=1 << 39), 'shards'),
    'format 5': (lambda card: card.update(format=5), 'format 5; this version reads'),
    'format 3': (lambda card: card.update(format=3), 'and no others'),
}


@pytest.mark.parametrize('name', LIES)
def test_cards_that_lie_about_shards(folder, name):
    change, message = LIES[name]
    card = json.loads((folder / 'card.json').read_text())
    change(card)
    seal(folder, card)
    with pytest.raises(CorruptFileError, match=message):
        read_release(folder)


def test_max_bytes_counts_all_shards(folder):
    size = sum(path.stat().st_size for path in folder.glob('*.safetensors'))
    read_release(folder, max_bytes=size)
    trees, codebook = release_of().trees, release_of().codebook
    needed = len(trees) * (4 * trees.shape.num_slots + 9) + 2 * codebook.numel()  # float16 or more
    with pytest.raises(CorruptFileError, match=f"{needed:,} bytes .* by 'max_bytes'"):
        read_release(folder, max_bytes=needed - 1)


@pytest.mark.parametrize('context', ['fork', 'spawn'])
def test_workers_read_the_same_batches(folder, context):
    batches = []
    for path, workers in ((RECORDED / 'k_anonymous', 0), (folder, 2)):
        dataset = SyntheticCGTDataset.load(path)
        how = {'multiprocessing_context': context} if workers else {}
        loader = dataset.loader('all', batch_size=16, num_workers=workers, **how)
        batches.append(list(loader))
    assert len(batches[0]) == len(batches[1]) > 2
    for one, other in zip(*batches, strict=True):
        assert one.to_dict().keys() == other.to_dict().keys()
        for name in ('x', 'y', 'edge_index', 'n_id', 'train_mask'):
            assert torch.equal(one[name], other[name])


def test_parquet_shards_are_the_tables_of_one_file(folder, tmp_path):
    export_release(RECORDED / 'k_anonymous', tmp_path / 'one', 'parquet')
    export_release(folder, tmp_path / 'several', 'parquet')
    for table in ('nodes', 'edges', 'trees'):
        paths = [tmp_path / 'several' / f'{table}-0000{i}-of-00003.parquet' for i in (1, 2, 3)]
        parts = pyarrow.concat_tables([pyarrow.parquet.read_table(path) for path in paths])
        assert parts.equals(pyarrow.parquet.read_table(tmp_path / 'one' / f'{table}.parquet'))
    assert (tmp_path / 'several' / 'codebook.parquet').exists()
    stated = json.loads((tmp_path / 'several' / 'export.json').read_text())['files']
    assert len([name for name in stated if name.startswith('nodes-')]) == 3


@pytest.mark.parametrize('format', ['npz', 'huggingface'])
def test_other_exports_of_a_divided_release(folder, tmp_path, format):
    export_release(folder, tmp_path / 'out', format)
    if format == 'huggingface':
        assert torch.equal(read_release(tmp_path / 'out' / 'release').trees.y, release_of().trees.y)


def test_a_killed_writer_leaves_no_release_that_loads(tmp_path):
    """Either the folder is there and whole, or it is not there."""
    release, chance, killed = release_of(), random.Random(0), 0
    shard_bytes = bytes_for(release, 9)
    started = time.monotonic()
    save_release(tmp_path / 'whole', release, shard_bytes=shard_bytes)
    seconds = time.monotonic() - started
    for number in range(12):
        target = tmp_path / f'{number}' / 'release'
        child = os.fork()
        if child == 0:
            save_release(target, release, shard_bytes=shard_bytes)
            os._exit(0)
        time.sleep(chance.uniform(0, 1.2 * seconds))
        os.kill(child, signal.SIGKILL)
        killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        if target.exists():
            assert torch.equal(read_release(target).trees.tokens, release.trees.tokens)
        for draft in (tmp_path / f'{number}').glob('.release-*'):
            if not (draft / 'card.json').exists():
                with pytest.raises(CorruptFileError):
                    read_release(draft)
    assert killed > 2
