"""The benchmark for GPUs runs on CPUs, and counts the work of a roofline."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).parents[1] / 'benchmarks'
SIZES = (
    '--device cpu --tokens 50 --channels 16 --trees 200 --batch-size 16 --steps 2 --blocks 1 '
    '--rows 90 --cell-rows 90 --cells-per-process 2 --features 4'
)
TINY = [*SIZES.split(), '--skip', 'fit compiled', 'fit bfloat16']


@pytest.fixture(autouse=True)
def programs(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)


def test_operations_bytes_and_kernels_by_hand():
    roofline = importlib.import_module('roofline')
    a, b = torch.ones(4, 5, requires_grad=True), torch.ones(5, 6)
    forward = roofline.count(lambda: a @ b)
    assert forward == roofline.Work(2 * 4 * 5 * 6, 4 * (20 + 30 + 24), 1)
    assert roofline.count(lambda: (a @ b).sum().backward()).flops == 2 * forward.flops
    added = roofline.count(lambda: torch.add(b, b).view(-1)[3:])
    assert added == roofline.Work(0, 4 * (30 + 30), 1)  # one input, one output, views are free


def test_the_slowest_part_sets_the_time():
    roofline = importlib.import_module('roofline')
    machine = roofline.Machine(tflops=2.0, gbps=100.0, launch=5.0)
    work = roofline.Work(flops=4e12, bytes=3e11, kernels=10)
    assert machine.seconds(work) == (3.0, 'memory')
    small = roofline.Work(flops=4e3, bytes=300, kernels=10)
    seconds, limit = machine.seconds(small)
    assert seconds == pytest.approx(5e-5) and limit == 'kernels'
    assert machine.seconds(small, compiled=True)[1] == 'memory'


def test_the_table_has_measured_and_expected_times(tmp_path, capsys):
    gpu = importlib.import_module('gpu')
    args = gpu.parse([*TINY, '--cells', str(tmp_path / 'gpu.jsonl')])
    cell = gpu.run(args)
    phases = cell['phases']
    assert list(phases) == ['quantize', 'distances', 'fit float32', 'plan on the host', 'sample']
    assert all(facts['seconds'] > 0 for facts in phases.values())
    assert phases['distances']['work']['flops'] == 2 * (2 * 90 * 3 * 4)
    assert phases['fit float32']['trees'] == 32 and phases['sample']['trees'] == 16
    assert phases['fit float32']['work']['flops'] > 2 * phases['sample']['work']['flops'] > 0
    twice = {**cell, 'processes': 2}
    gpu.show([json.loads((tmp_path / 'gpu.jsonl').read_text()), twice])
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith('fit float32') for line in lines) == 2
    assert lines[-1].startswith('sample') and lines[-1].split()[-1] == '1.00'


@pytest.mark.slow
def test_the_script_runs_one_and_two_processes(tmp_path):
    environment = {
        **os.environ,
        'PYTHON': sys.executable,
        'PYTHONPATH': str(BENCHMARKS.parent),
        'OMP_NUM_THREADS': '1',
        'CELLS': str(tmp_path / 'gpu.jsonl'),
    }
    run = subprocess.run(
        ['sh', str(BENCHMARKS / 'gpu.sh'), '2', *TINY],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    cells = [json.loads(line) for line in (tmp_path / 'gpu.jsonl').read_text().splitlines()]
    assert [cell['processes'] for cell in cells] == [1, 2]
    assert run.stdout.count('fit float32') == 2 and '2 x cpu' in run.stdout
    assert cells[1]['phases']['fit float32']['trees'] == 64
