"""``cgt benchmark``; `tests/benchmark/test_runner.py` runs cells."""

import pytest

from torch_geometric_cgt.cli import main


@pytest.mark.parametrize(
    'arguments, message',
    [
        (
            ['--scenario', '7'],
            "Unknown scenario '7'; choose from ['1', '2', '3', '4', 'aggregation'",
        ),
        (
            ['--scenario', '1', '--datasets', 'Kora'],
            "Unknown datasets ['Kora']; choose from ['Digits', 'DigitQuarters'",
        ),
        (['--scenario', '1', '--models', 'GCN,GNC'], "Unknown models ['GNC']; choose from ['GCN'"),
        (
            ['--scenario', '1,4', '--levels', '0'],
            "Unknown levels ['0'] of 'shift' (scenario 4); choose from ['iid', '0.01', '0.3']",
        ),
        (['--scenario', '1', '--epochs', '0'], "'epochs' must be at least 1 (got 0)"),
        (['--scenario', '1', '--k', '0'], "'k' must be at least 1 (got 0)"),
        (['--scenario', '1', '--variants', 'best'], "Unknown variant 'best'; choose from ['', "),
        (['--scenario', '1', '--seeds', '0'], "'--seeds' must be at least 1 (got 0)"),
        (['--scenario', '1', '--jobs', '0'], "'jobs' must be at least 1 (got 0)"),
    ],
)
def test_wrong_cells_are_refused(tmp_path, capsys, arguments, message):
    assert main(['benchmark', '--cells', str(tmp_path / 'cells.jsonl'), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / 'cells.jsonl').exists()


def test_cells_in_the_place_of_a_folder_are_refused(tmp_path, capsys):
    assert main(['benchmark', '--scenario', '1', '--cells', str(tmp_path)]) == 2
    assert f"'{tmp_path}' is a folder" in capsys.readouterr().err


def test_a_dataset_without_files_says_where_they_were_looked_for(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv('CGT_DATA_ROOT', str(tmp_path / 'nothing'))
    cells = str(tmp_path / 'cells.jsonl')
    assert main(['benchmark', '--scenario', '1', '--datasets', 'Cora', '--cells', cells]) == 2
    assert str(tmp_path / 'nothing') in capsys.readouterr().err
