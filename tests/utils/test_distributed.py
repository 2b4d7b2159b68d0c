import pytest
import torch

from tests.helpers import tiny
from tests.helpers.processes import in_a_world
from torch_geometric_cgt.errors import DistributedError
from torch_geometric_cgt.utils.distributed import World, join_world, resolve_device


def flat(path) -> torch.Tensor:
    return torch.cat([value.flatten() for value in torch.load(path)['weights'].values()])


def test_two_processes_follow_the_trajectory_of_one(tmp_path):
    for name in ['one', 'two']:
        (tmp_path / name).mkdir()
    outs = in_a_world('tests.helpers.tiny', tmp_path / 'two')
    for out in outs:
        assert out.returncode == 0, out.stderr[-2000:]
    tiny.several(tmp_path / 'one')
    one = torch.load(tmp_path / 'one' / '1.pt')
    assert len(one['result']['train_nll']) * 9 == 90  # steps; the last of 9 has fewer roots
    reference = flat(tmp_path / 'one' / '1.pt')
    for path in [tmp_path / 'one' / '3.pt', *tmp_path.glob('two/[13].pt')]:
        other = torch.load(path)
        assert (flat(path) - reference).norm() / reference.norm() < 1e-4
        for history in ['train_nll', 'holdout_nll']:
            assert other['result'][history] == pytest.approx(one['result'][history], rel=1e-4)
    for name in ['one', 'two']:  # killed and resumed
        assert torch.equal(flat(tmp_path / name / 'cut.pt'), flat(tmp_path / name / 'whole.pt'))
    rest = [torch.load(tmp_path / name / 'rest.pt') for name in ['one', 'two']]
    assert rest[1]['error'] == 'Process 1 of 2 failed to paint the fence: OSError: no brush'
    assert rest[0]['error'] == ''

    alone = torch.load(tmp_path / 'one' / 'messages-0.pt')
    assert alone['rows'].tolist() == [[0, 1]] and alone['error'] == ''
    found = [torch.load(tmp_path / 'two' / f'messages-{rank}.pt') for rank in range(2)]
    assert [out['rows'].tolist() for out in found] == [[[0, 1], [1, 2]], [[2, 3], [3, 4]]]
    for out in found:
        assert out['counts'] == [1, 1] and out['named'] == 'by 0'
        assert out['whole'].tolist() == [0.0, 1.0, 1.0]
        assert out['seconds'] < 30
    quoted = 'DistributedError: Process 1 of 2 failed to cross the river: OSError: no bridge'
    assert [out['error'] for out in found] == [quoted, 'OSError: no bridge']


def test_shares_are_blocks_that_cover_all_rows():
    for size, num_rows in [(1, 5), (2, 5), (3, 2), (4, 4)]:
        world = World(0, size)
        rows = [row for rank in range(size) for row in range(num_rows)[world.share(num_rows, rank)]]
        assert rows == list(range(num_rows))


def test_one_process_needs_no_environment(monkeypatch):
    for name in ['RANK', 'WORLD_SIZE', 'MASTER_ADDR', 'MASTER_PORT']:
        monkeypatch.delenv(name, raising=False)
    assert join_world() == World(0, 1)
    monkeypatch.setenv('RANK', '0')
    monkeypatch.setenv('WORLD_SIZE', '1')
    assert join_world() == World(0, 1)
    monkeypatch.setenv('WORLD_SIZE', '2')
    with pytest.raises(DistributedError, match=r'MASTER_ADDR.*torchrun'):
        join_world()


def test_device():
    assert resolve_device('cpu') == torch.device('cpu')
    assert resolve_device('auto').type in ('cpu', 'cuda', 'mps', 'xpu')


def test_each_process_takes_the_device_of_its_number(monkeypatch):
    monkeypatch.setattr(torch.accelerator, 'is_available', lambda: True)
    monkeypatch.setattr(torch.accelerator, 'current_accelerator', lambda: torch.device('cuda'))
    monkeypatch.setattr(torch.accelerator, 'device_count', lambda: 2)
    assert resolve_device('auto') == torch.device('cuda')
    monkeypatch.setenv('LOCAL_RANK', '1')
    assert resolve_device('auto') == torch.device('cuda:1')
    assert resolve_device('cuda') == torch.device('cuda:1')
    assert resolve_device('cuda:0') == torch.device('cuda:0')
    assert resolve_device('cpu') == torch.device('cpu')
    monkeypatch.setenv('LOCAL_RANK', '2')
    with pytest.raises(DistributedError, match=r'Process 2 .*there are 2.*at most 2'):
        resolve_device('auto')


@pytest.mark.parametrize('device, message', [('gpu', 'a device of PyTorch'), ('cuda', "'cpu' or")])
def test_a_device_that_is_not_there(monkeypatch, device, message):
    monkeypatch.setattr(torch.accelerator, 'is_available', lambda: False)
    with pytest.raises(ValueError, match=f"'device' must be.*{message}.*got '{device}'"):
        resolve_device(device)
    assert resolve_device('auto') == torch.device('cpu')
