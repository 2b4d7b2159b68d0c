import pytest

from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.report.release_folder import ReleaseFolder

SETTINGS = {'--k': '30', '--source': 'Cora'}


def started(path):
    folder = ReleaseFolder(path, SETTINGS)
    with folder.step('synthesize'):
        folder.release.mkdir(parents=True)
        (folder.release / 'card.json').write_text('{}')
    return folder


def test_finished_steps_are_known_to_the_same_command(tmp_path):
    first = started(tmp_path / 'out')
    again = ReleaseFolder(tmp_path / 'out', SETTINGS)
    assert again.is_done('synthesize') and not again.is_done('audit')
    assert again.seconds == first.seconds and again.seconds['synthesize'] >= 0
    assert again.published() == {'release/card.json': 2}


def test_a_step_that_fails_is_not_finished(tmp_path):
    folder = started(tmp_path / 'out')
    with pytest.raises(RuntimeError), folder.step('audit'):
        raise RuntimeError
    assert not folder.is_done('audit')
    assert not ReleaseFolder(tmp_path / 'out', SETTINGS).is_done('audit')


def test_nothing_is_written_before_a_step_is_finished(tmp_path):
    ReleaseFolder(tmp_path / 'out', SETTINGS)
    assert not (tmp_path / 'out').exists()


def test_other_arguments_need_another_folder(tmp_path):
    started(tmp_path / 'out')
    with pytest.raises(FileExistsError, match='--k was 30, now 20'):
        ReleaseFolder(tmp_path / 'out', {**SETTINGS, '--k': '20'})
    with pytest.raises(FileExistsError, match='--zoo was not given, now True'):
        ReleaseFolder(tmp_path / 'out', {**SETTINGS, '--zoo': 'True'})


def test_files_of_others_are_left_alone(tmp_path):
    (tmp_path / 'mine.txt').write_text('mine')
    with pytest.raises(FileExistsError, match='exists already; choose a new folder'):
        ReleaseFolder(tmp_path, SETTINGS)
    with pytest.raises(FileExistsError, match='exists already'):
        ReleaseFolder(tmp_path / 'mine.txt', SETTINGS)


def test_damaged_notes_are_an_error(tmp_path):
    folder = started(tmp_path / 'out')
    (folder.owner / 'audit.json').write_text('{"half')
    with pytest.raises(CorruptFileError, match=r'audit\.json'):
        folder.read('audit.json')
    (folder.owner / 'steps.json').write_text('[]')
    with pytest.raises(CorruptFileError, match=r'steps\.json'):
        ReleaseFolder(tmp_path / 'out', SETTINGS)
