"""The working folder of a build: one build at a time, and finished stages are kept."""

import shutil
import threading
import time

import pytest
import torch

from tests.helpers.builds import builds
from tests.helpers.processes import in_a_process
from torch_geometric_cgt.errors import NotWritableError
from torch_geometric_cgt.pipeline.workspace import (
    DONE,
    TOKENS,
    TokenShards,
    clear,
    exclusive,
    once,
    report_full_disk,
)
from torch_geometric_cgt.training import World


def test_a_build_waits_for_the_one_before(tmp_path):
    work, order = tmp_path / 'some.fit', []

    def second():
        with pytest.warns(UserWarning, match=r'some\.fit.*waiting'), exclusive(work):
            order.append('second')

    with exclusive(work):
        (work / 'quantize').mkdir()
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.3)
        order.append('first')
    thread.join(10)
    assert order == ['first', 'second']


@pytest.mark.filterwarnings('ignore:Another process')
def test_a_folder_that_is_deleted_stays_locked(tmp_path):
    """Every build deletes its working folder at the end; those that wait must not meet."""
    work, inside, most = tmp_path / 'some.fit', [], []

    def build():
        with exclusive(work):
            inside.append(1)
            most.append(len(inside))
            assert work.is_dir()
            time.sleep(0.05)
            shutil.rmtree(work)
            time.sleep(0.1)  # the folder is gone, and the build is not done
            inside.pop()

    threads = [threading.Thread(target=build) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most == [1] * 6


def test_three_forced_builds_at_once_all_end_well(tmp_path):
    out = in_a_process('tests.helpers.together', tmp_path / 'root', 3, timeout=300)
    assert out.returncode == 0 and out.stdout == '[0, 0, 0]', out.stderr[-2000:]
    tokens = [torch.load(tmp_path / f'{i}.pt') for i in range(3)]
    assert all(torch.equal(other, tokens[0]) for other in tokens)
    assert len(builds(tmp_path / 'root')) == 1


def test_an_empty_working_folder_is_removed_and_a_full_one_is_kept(tmp_path):
    with exclusive(tmp_path / 'a.fit'):
        pass
    with exclusive(tmp_path / 'b.fit'):
        (tmp_path / 'b.fit' / 'quantize').mkdir()
    assert [path.name for path in builds(tmp_path)] == ['b.fit']
    with exclusive(tmp_path / 'b.fit'):
        clear(tmp_path / 'b.fit')
    assert builds(tmp_path) == []


def test_a_stage_runs_once(tmp_path):
    calls = []

    def run():
        calls.append(1)
        return {'x': torch.arange(3)}, {'n': 3}

    for _ in range(2):
        tensors, facts = once(tmp_path, 'stage', run, World())
        assert tensors['x'].tolist() == [0, 1, 2] and facts == {'n': 3}
    assert calls == [1]
    content = (tmp_path / 'stage' / 'tensors.safetensors').read_bytes()
    (tmp_path / 'stage' / 'tensors.safetensors').write_bytes(content[:-1])  # cut by a crash
    once(tmp_path, 'stage', run, World())
    assert calls == [1, 1]


def test_other_errors_of_the_disk_stay_as_they_are(tmp_path):
    with pytest.raises(NotWritableError, match='nothing is kept'), report_full_disk(tmp_path / 'w'):
        raise OSError(28, 'No space left on device')
    with pytest.raises(FileNotFoundError), report_full_disk(tmp_path / 'w'):
        raise FileNotFoundError(2, 'No such file')


def tokens_of(rows):
    return rows[:, None] * 10 + torch.arange(3)


def filled(folder, shards=range(4)):
    out = TokenShards(folder, num_trees=10, num_slots=3, shard_size=3)
    for shard in shards:
        out.write(shard, tokens_of(out.rows[shard]), rank=shard % 2)
    return out


def test_shards_of_several_processes_make_one_table(tmp_path):
    shards = filled(tmp_path, [3, 0, 2, 1])
    assert shards.missing() == []
    assert torch.equal(shards.tokens(), tokens_of(torch.arange(10)).int())


def test_another_run_writes_what_is_missing(tmp_path):
    filled(tmp_path, [0, 2])
    again = TokenShards(tmp_path, num_trees=10, num_slots=3, shard_size=3)
    assert again.missing() == [1, 3]


@pytest.mark.parametrize('byte', range(0, 120, 7))
def test_a_flipped_byte_costs_its_shard(tmp_path, byte):
    filled(tmp_path)
    content = bytearray((tmp_path / TOKENS).read_bytes())
    content[byte] ^= 1
    (tmp_path / TOKENS).write_bytes(content)
    again = TokenShards(tmp_path, num_trees=10, num_slots=3, shard_size=3)
    assert again.missing() == [byte // 36]


def test_a_kill_inside_a_line_or_a_shard_costs_that_shard(tmp_path):
    filled(tmp_path)
    done = tmp_path / DONE.format(rank=1)
    done.write_text(done.read_text()[:-20])  # the last line was of shard 3
    (tmp_path / TOKENS).write_bytes((tmp_path / TOKENS).read_bytes()[:40])
    again = TokenShards(tmp_path, num_trees=10, num_slots=3, shard_size=3)
    assert again.missing() == [1, 2, 3]


def test_a_shard_of_the_wrong_size_is_refused(tmp_path):
    shards = filled(tmp_path)
    with pytest.raises(ValueError, match=r'Shard 3 must have 12 bytes \(got 36\)'):
        shards.write(3, tokens_of(torch.arange(3)))


def test_no_trees(tmp_path):
    shards = TokenShards(tmp_path, num_trees=0, num_slots=3, shard_size=3)
    assert shards.tokens().shape == (0, 3)
