"""A comparison goes on whatever ends a generator, and does not run finished parts again."""

import pytest

from tests.helpers import limited
from tests.helpers.graphs import random_graph
from torch_geometric_cgt.benchmark import generator_comparison
from torch_geometric_cgt.benchmark.generator_comparison import Comparison, ComparisonConfig
from torch_geometric_cgt.benchmark.generator_runs import (
    BuildSettings,
    ComparedGenerator,
    ComparedGraph,
)
from torch_geometric_cgt.benchmark.generator_verdicts import compare_results
from torch_geometric_cgt.benchmark.zoo import ZooConfig
from torch_geometric_cgt.data import masks_of, random_split

NAMES = ('Independent', 'ConfigurationModel', 'DegreeCorrectedSBM', 'Resampled', 'NGram')


def split_graph(seed):
    data = random_graph(num_nodes=150, num_edges=400)
    data.update(masks_of(random_split(data.y >= 0, seed)))
    return data


def compare(folder, names=NAMES, lines=None, **changes):
    config = {
        'settings': BuildSettings(15, (2, 2)),
        'models': ('MLP', 'GCN'),
        'seconds': 3.0,
        'memory': 1.5,
        'training': ZooConfig(epochs=2),
    }
    retry = changes.pop('retry', False)
    return Comparison(
        [ComparedGraph('tiny', split_graph)],
        [ComparedGenerator.of(name) for name in names],
        folder / 'results.jsonl',
        folder / 'builds',
        ComparisonConfig(**{**config, **changes}),
        limited.count_records,
        retry,
        None if lines is None else lines.append,
    )


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp('comparison')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generator_comparison, 'measure_build', limited.build_or_fail)
        compare(folder, seconds=30.0, names=('Resampled', 'NGram')).run()  # finish in any case
        lines = []
        results = compare(folder, lines=lines).run()
    return folder, results, lines


def test_every_end_is_a_result(finished):
    columns = compare_results(finished[1])['graphs'][0]['columns']
    assert columns['Independent']['status'] == 'out of time'
    assert columns['ConfigurationModel']['status'] == 'out of memory'
    failed = columns['DegreeCorrectedSBM']
    assert (failed['status'], failed['message']) == ('failed', 'ValueError: no blocks')
    assert columns['NGram']['status'] == 'finished' and columns['NGram']['mse'] < 1
    assert columns['NGram']['attack']['area'] == 0.6
    assert columns['Resampled']['attack'] == 'failed: ValueError: nobody to attack'
    assert columns['ceiling']['multiple'] in (None, 1.0)


def test_lines_say_what_happened(finished):
    lines = finished[2]
    assert any(line.startswith('tiny, seed 0, Independent, build: out of time') for line in lines)
    assert not any('NGram' in line for line in lines)  # it was there already


def test_a_second_run_runs_nothing(finished, monkeypatch):
    folder, results, _ = finished
    for name in ('run_limited', 'GraphScores.score', 'GraphScores.statistics'):
        monkeypatch.setattr(f'{generator_comparison.__name__}.{name}', lambda *_, **__: 1 / 0)
    lines = []
    assert compare(folder, lines=lines).run() == results and not lines


def test_more_time_runs_what_was_out_of_time(finished, monkeypatch):
    folder, results, _ = finished
    calls = []

    def stop(function, *args, **limits):
        calls.append(args[1].name if len(args) == 5 else 'attack')
        raise KeyboardInterrupt

    monkeypatch.setattr(generator_comparison, 'run_limited', stop)
    with pytest.raises(KeyboardInterrupt):
        compare(folder, seconds=60.0).run()
    assert calls == ['Independent']
    with pytest.raises(KeyboardInterrupt):
        compare(folder, names=('DegreeCorrectedSBM',), retry=True).run()
    assert calls == ['Independent', 'DegreeCorrectedSBM']
    assert compare(folder).run() == results


def test_a_damaged_line_is_run_again(finished, tmp_path, monkeypatch):
    folder, results, _ = finished
    lines = (folder / 'results.jsonl').read_text().splitlines()
    (tmp_path / 'results.jsonl').write_text('\n'.join([lines[0][:40], *lines[1:]]) + '\n')
    (tmp_path / 'builds').symlink_to(folder / 'builds')
    told = []
    with pytest.warns(UserWarning, match='Line 1 of'):
        again = compare(tmp_path, lines=told).run()
    assert len(told) == 1 and 'original, MLP' in told[0]
    assert again[0]['value'] == results[0]['value'] and again[1:] == results[1:]


def test_builds_alone_are_measured_and_taken_over(finished, tmp_path, monkeypatch):
    folder, results, _ = finished
    found = compare(tmp_path, names=('Resampled',), only_builds=True, clock='processor').run()
    assert [(r['column'], r['part'], r['status']) for r in found] == [
        ('Resampled', 'build', 'finished')
    ]
    assert (found[0]['num_nodes'], found[0]['clock']) == (150, 'processor')
    assert found[0]['num_edges'] == split_graph(0).num_edges and found[0]['processor_seconds'] > 0
    monkeypatch.setattr(generator_comparison, 'run_limited', lambda *_, **__: 1 / 0)
    known = compare(folder, only_builds=True).run()
    assert known == [r for r in results if r['part'] == 'build']
    stopped = {r['column']: r for r in known}['Independent']
    assert stopped['status'] == 'out of time' and stopped['num_nodes'] == 150
