"""The figures on Cora: `make test-slow`."""

import time

import pytest

from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.benchmark import evaluate_dataset
from torch_geometric_cgt.datasets import load_source


@pytest.mark.slow
def test_gnns_score_on_generated_as_on_original(data_root, monkeypatch, tmp_path):
    monkeypatch.setenv('CGT_DATA_ROOT', data_root)
    source = load_source('Cora', largest_component=True, random_split=True)
    datasets = [
        SyntheticCGTDataset(source, k=30, root=tmp_path / 'root', seed=seed) for seed in range(3)
    ]
    started = time.monotonic()
    SyntheticCGTDataset(source, k=30, root=tmp_path / 'root', seed=0)
    assert time.monotonic() - started < 2
    result = evaluate_dataset(source, datasets)
    assert result.agreement()['max_abs'] <= 0.03
    assert result.agreement()['mse'] <= 0.001
    assert min(result.mean('transfer')) >= 0.80
