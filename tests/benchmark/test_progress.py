import pytest

from torch_geometric_cgt.benchmark import progress
from torch_geometric_cgt.benchmark.cells import Cell, CellKey
from torch_geometric_cgt.benchmark.graphs import GraphSpec
from torch_geometric_cgt.benchmark.progress import Progress

A, B = GraphSpec('Cora', (5, 5)), GraphSpec('Photo', (5, 5))
KEY = CellKey('aggregation', 'Cora', '2', 'GCN')
MEASURED = Cell(KEY, facts={'seconds': 10.0})
COPIED = Cell(KEY, facts={'seconds': 99.0, 'copied_from': 'number'})


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.mark.parametrize('jobs, share', [(1, 1), (2, 2), (9, 2)])
def test_time_left_counts_builds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], jobs: int, share: int
) -> None:
    clock = Clock()
    monkeypatch.setattr(progress, 'time', clock)
    with Progress({A: [KEY] * 3, B: [KEY] * 2}, jobs) as bar:
        bar.begin(A)
        assert bar.seconds_left() is None
        clock.now = 110.0  # 100 for the graph, 10 for the cell
        bar.add(A, MEASURED)
        assert bar.seconds_left() == (4 * 10 + 100) / share  # and the graph of B
        clock.now = 120.0
        bar.add(A, MEASURED)
        assert bar.seconds_left() == (3 * 10 + 100) / share
        bar.add(A, COPIED)  # takes no time, and says nothing about that of others
        assert bar.seconds_left() == 2 * 10 + 100
        bar.begin(B)
        clock.now = 330.0
        bar.add(B, MEASURED)
        assert bar.seconds_left() == 10
    shown = capsys.readouterr().err
    assert '4/5' in shown
    assert 'Photo begins, about 02:00 left' in shown
    assert 'Cora 2 GCN, about 00:10 left' in shown
