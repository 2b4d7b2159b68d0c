from dataclasses import replace

import pytest

from torch_geometric_cgt.benchmark.experiments import (
    EXPERIMENTS,
    BenchmarkConfig,
    CellKey,
    find_experiment,
    graph_of,
)

GCN = CellKey('aggregation', 'Digits', '0', 'GCN')


def test_experiments_are_found_by_name_and_number() -> None:
    assert find_experiment('1') is find_experiment('aggregation') is EXPERIMENTS['aggregation']
    with pytest.raises(ValueError, match=r"'7'.*'1'.*'aggregation'"):
        find_experiment('7')


def test_keys_of_an_experiment() -> None:
    keys = EXPERIMENTS['aggregation'].keys(('Cora',), seeds=2)
    assert len(keys) == len(set(keys)) == 3 * 4 * 2
    assert {k.level for k in keys} == {'0', '2', '4'}


def test_levels_are_those_of_the_scenario() -> None:
    with pytest.raises(ValueError, match=r"\['0'\] of 'shift' \(scenario 4\); .*\['iid', '0.01'"):
        find_experiment('4').keys(levels=('0',))


def test_graphs_of_cells() -> None:
    config = BenchmarkConfig()
    assert graph_of(replace(GCN, level='2'), config).num_neighbors == (7, 7)
    assert graph_of(replace(GCN, experiment='number', level='1'), config) == graph_of(GCN, config)
    assert graph_of(replace(GCN, experiment='shift', level='0.3'), config).alpha == 0.3
    assert graph_of(replace(GCN, experiment='link', level='Dot'), config).num_neighbors == (5, 5, 5)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="'k' must be at least 1"):
        BenchmarkConfig(k=0)
