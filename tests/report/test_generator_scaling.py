"""Time and memory of builds against the size of the graph: table, figure and files."""

import pytest

from torch_geometric_cgt.report.generator_scaling import (
    scaled_builds,
    scaling_figure,
    scaling_table,
    write_scaling,
)

GIB = 1 << 30
SIZES = {'large': (10_000, 80_000), 'small': (1_000, 4_000)}


def build(graph, generator, minutes, gib, status='finished', seed=0):
    nodes, edges = SIZES[graph]
    return {
        'graph': graph,
        'column': generator,
        'part': 'build',
        'seed': seed,
        'status': status,
        'wall_seconds': 120.0 * minutes,
        'processor_seconds': 60.0 * minutes,
        'peak_bytes': int(gib * GIB),
        'seconds': 1200.0,
        'max_bytes': 8 * GIB,
        'clock': 'processor',
        'num_nodes': nodes,
        'num_edges': edges,
    }


@pytest.fixture
def results():
    return [
        build('large', 'NGram', 1.0, 0.5),
        build('large', 'VGAE', 20.1, 2.0, 'out of time'),
        build('large', 'CGT', 3.0, 8.5, 'out of memory'),
        build('small', 'NGram', 0.1, 0.25),
        build('small', 'NGram', 0.3, 0.75, seed=1),
        build('small', 'VGAE', 2.0, 1.0),
        {**build('small', 'VGAE', 2.0, 1.0), 'part': 'GCN'},
    ]


def test_small_graphs_come_first_and_seeds_are_joined(results):
    found = scaled_builds(results)
    assert [f.graph for f in found] == ['small'] * 2 + ['large'] * 3
    assert found[0].seconds == pytest.approx(12) and found[0].wall_seconds == pytest.approx(24)
    assert found[0].peak_bytes == 0.75 * GIB and found[0].num_edges == 4_000


def test_one_seed_that_does_not_finish_is_named(results):
    worse = [*results, build('small', 'VGAE', 20.0, 1.0, 'out of time', seed=1)]
    assert scaled_builds(worse)[1].status == 'out of time'


def test_every_end_is_in_the_table(results):
    table = scaling_table(results)
    assert table.header == ['Generator', 'small', 'large']
    assert table.body == [
        ['NGram', '12 s, 0.8 GiB', '1.0 min, 0.5 GiB'],
        ['VGAE', '2.0 min, 1.0 GiB', 'out of time'],
        ['CGT', 'not run', 'out of memory'],
    ]
    assert table.notes[0].startswith('small: 1,000 nodes, 4,000 edges; large: 10,000 nodes')
    assert table.notes[-1] == 'Limits: 20 minutes of processor time, 8 GiB.'


def test_the_figure_marks_limits_at_the_limit(results):
    pytest.importorskip('matplotlib')
    time, memory = scaling_figure(results).axes
    assert time.get_xscale() == time.get_yscale() == memory.get_yscale() == 'log'
    lines = {line.get_label(): line for line in time.get_lines()}
    assert list(lines['NGram'].get_xdata()) == [1_000, 10_000]
    assert list(lines['NGram'].get_ydata()) == pytest.approx([0.2, 1.0])
    assert list(lines['VGAE'].get_xdata()) == [1_000]  # what met a limit is not joined
    for axes, marker, limit in ((time, 'x', 20), (memory, '+', 8)):
        stops = [line for line in axes.get_lines() if line.get_marker() == marker]
        assert [list(line.get_xdata()) for line in stops] == [[10_000]]
        assert limit <= stops[0].get_ydata()[0] < 1.5 * limit
    assert [text.get_text() for text in time.texts] == ['out of time']
    assert [text.get_text() for text in memory.texts] == ['out of memory']


def test_files(results, tmp_path):
    pytest.importorskip('matplotlib')
    paths = write_scaling(tmp_path, results)
    assert [path.name for path in paths] == ['scaling.json', 'scaling.md', 'scaling.png']
    assert '| VGAE ' in paths[1].read_text() and 'out of time' in paths[1].read_text()
    assert paths[2].read_bytes().startswith(b'\x89PNG')
