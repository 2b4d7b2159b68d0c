import pytest
import torch

from torch_geometric_cgt.pipeline.workspace import DONE, TOKENS, TokenShards


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
