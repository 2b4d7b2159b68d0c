import random
import time

import pytest
import torch

from tests.helpers.processes import imported
from tests.helpers.tiny import CONFIG, Killed, Y, draw, model, run, stop_after
from torch_geometric_cgt import FitConfig
from torch_geometric_cgt.errors import CheckpointError, CorruptFileError, NotFiniteError
from torch_geometric_cgt.training import fit
from torch_geometric_cgt.utils.files import (
    read_sealed_json,
    read_tensors,
    write_sealed_json,
    write_tensors,
)


def same(a, b) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a) and a.keys() == b.keys()


def test_killed_at_any_moment_and_resumed_gives_the_same_bits(tmp_path):
    long = {'epochs': 60, 'patience': 6}
    context = imported()  # nothing is killed during its imports
    child = context.Process(target=run, args=(None, tmp_path / 'whole.pt', long))
    started = time.monotonic()
    child.start()
    child.join()
    took = time.monotonic() - started
    whole = torch.load(tmp_path / 'whole.pt')
    assert 5 < len(whole['result']['train_nll']) < 60  # stopped early
    rng, kills, started = random.Random(0), 0, time.monotonic()
    while True:
        child = context.Process(target=run, args=(tmp_path / 'fit', tmp_path / 'cut.pt', long))
        child.start()
        patient = time.monotonic() - started > 30
        # Five of them do not suffice, however fast the machine is; they grow, so that some do.
        child.join(None if patient else rng.uniform(0.02, 0.15) * took * (1 + kills / 10))
        if child.exitcode is not None:
            break
        child.kill()  # SIGKILL
        child.join()
        kills += 1
    assert child.exitcode == 0 and kills >= 5
    cut = torch.load(tmp_path / 'cut.pt')
    assert same(cut['weights'], whole['weights']) and cut['result'] == whole['result']


@pytest.mark.parametrize('stop', [1, 4, 5, 6, 17])
def test_resumed_at_any_step_with_accumulation(tmp_path, stop):
    config = FitConfig(**CONFIG, accumulate=3)
    whole = model()
    expected = fit(whole, draw, Y, config, log=False)
    with pytest.raises(Killed):
        fit(model(), stop_after(stop), Y, config, log=False, checkpoint=tmp_path)
    cut = model()
    result = fit(cut, draw, Y, config, log=False, checkpoint=tmp_path)
    assert same(cut.state_dict(), whole.state_dict()) and result == expected


def test_a_finished_fit_is_not_repeated(tmp_path):
    config = FitConfig(**{**CONFIG, 'checkpoint_minutes': 60})
    first, second = model(), model()
    result = fit(first, draw, Y, config, log=False, checkpoint=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1  # written at the end alone
    again = fit(second, stop_after(0), Y, config, log=False, checkpoint=tmp_path)
    assert same(first.state_dict(), second.state_dict()) and again == result


def test_two_generations_are_kept_and_a_draft_is_swept(tmp_path):
    (tmp_path / '.step-000000001-abc').mkdir()
    with pytest.raises(Killed):
        fit(model(), stop_after(9), Y, FitConfig(**CONFIG), log=False, checkpoint=tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ['step-000000008', 'step-000000009']


def test_without_resume_it_starts_anew(tmp_path):
    config = FitConfig(**CONFIG)
    with pytest.raises(Killed):
        fit(model(), stop_after(9), Y, config, log=False, checkpoint=tmp_path)
    with pytest.raises(Killed):
        fit(model(), stop_after(1), Y, config, log=False, checkpoint=tmp_path, resume=False)
    assert [path.name for path in tmp_path.iterdir()] == ['step-000000001']


@pytest.fixture
def cut(tmp_path):
    with pytest.raises(Killed):
        fit(model(), stop_after(9), Y, FitConfig(**CONFIG), log=False, checkpoint=tmp_path / 'fit')
    return tmp_path / 'fit'


def resume(folder, generator=None, y=Y, seed=0, world=None, belongs_to='', **changes):
    config = FitConfig(**{**CONFIG, **changes})
    generator = generator or model()
    return fit(
        generator,
        draw,
        y,
        config,
        seed,
        log=False,
        checkpoint=folder,
        world=world,
        belongs_to=belongs_to,
    )


@pytest.mark.parametrize(
    'change, message',
    [
        ({'lr': 0.1}, r'fit\.lr is 0.005 there and 0.1 here'),
        ({'accumulate': 2}, r'fit\.accumulate is 1 there and 2 here'),
        ({'precision': 'bfloat16'}, r"fit\.precision is 'float32' there and 'bfloat16' here"),
        ({'generator': model(dropout=0.1)}, r'generator\.dropout is 0.2 there and 0.1 here'),
        ({'seed': 1}, 'seed is 0 there and 1 here'),
        ({'belongs_to': 'Cora'}, "belongs_to is '' there and 'Cora' here"),
        ({'y': Y.flip(0)}, 'roots is'),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(cut, change, message):
    with pytest.raises(CheckpointError, match=f'step-000000009.*{message}.*resume=False'):
        resume(cut, **change)


def test_other_initial_weights_are_another_run(cut):
    generator = model()
    generator.reset_parameters()
    with pytest.raises(CheckpointError, match='initial_weights'):
        resume(cut, generator)


def test_how_it_is_run_may_change(cut):
    whole, resumed = model(), model()
    fit(whole, draw, Y, FitConfig(**CONFIG), log=False)
    resume(cut, resumed, checkpoint_minutes=1.0)
    assert same(resumed.state_dict(), whole.state_dict())


def test_another_number_of_processes_continues_with_a_warning(cut):
    """The state of one process, as two of them would have written it."""
    for path in cut.iterdir():
        content = read_sealed_json(path / 'state.json')
        (nll, count), content['world_size'] = content['progress'][0], 2
        content['progress'] = [[nll - 1.0, count - 5], [1.0, 5]]
        del content['checksum'], content['files']
        write_sealed_json(path / 'state.json', content, ['state.safetensors'])
    whole, resumed = model(), model()
    expected = fit(whole, draw, Y, FitConfig(**CONFIG), log=False)
    with pytest.warns(UserWarning, match='step-000000009.* by 2 processes, and this run has 1'):
        result = resume(cut, resumed)
    assert same(whole.state_dict(), resumed.state_dict())
    assert result.train_nll == pytest.approx(expected.train_nll)


@pytest.mark.parametrize('name', ['state.json', 'state.safetensors'])
@pytest.mark.parametrize('damage', ['truncate', 'remove'])
def test_a_damaged_checkpoint_gives_way_to_the_one_before_it(cut, name, damage):
    last = cut / 'step-000000009' / name
    last.write_bytes(last.read_bytes()[:100]) if damage == 'truncate' else last.unlink()
    whole, resumed = model(), model()
    fit(whole, draw, Y, FitConfig(**CONFIG), log=False)
    with pytest.warns(UserWarning, match=f'{name}.*resuming from step-000000008'):
        resume(cut, resumed)
    assert same(whole.state_dict(), resumed.state_dict())


def test_damaged_checkpoints_alone_are_an_error(cut):
    for path in cut.glob('*/state.safetensors'):
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptFileError, match=r'step-000000009/state.*no other.*resume=False'):
        resume(cut)


def test_a_checkpoint_that_lies_about_its_content_is_refused(cut):
    path = cut / 'step-000000009'
    content = read_sealed_json(path / 'state.json')
    tensors = read_tensors(path / 'state.safetensors')
    tensors.pop('weights.head.hidden.bias')
    write_tensors(path / 'state.safetensors', tensors)
    del content['checksum'], content['files']
    write_sealed_json(path / 'state.json', content, ['state.safetensors'])
    with pytest.raises(CorruptFileError, match=r'(?s)step-000000009.*head\.hidden\.bias'):
        resume(cut)


def test_a_bad_state_never_becomes_a_checkpoint(tmp_path):
    generator, calls = model(), []

    def poisoned(index, rng):
        calls.append(1)
        if len(calls) == 9:  # the seventh step
            with torch.no_grad():
                generator.head.hidden.bias.fill_(float('inf'))
        return draw(index, rng)

    with pytest.raises(NotFiniteError, match=r"step 7 of 24 .learning rate.*'.*step-000000006'"):
        fit(generator, poisoned, Y, FitConfig(**CONFIG), log=False, checkpoint=tmp_path)
    assert max(path.name for path in tmp_path.iterdir()) == 'step-000000006'
