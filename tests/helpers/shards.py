"""Deals the test files out to processes that run side by side: ``pytest --shard 1/2``."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

OTHERS = 1.0  # seconds of a file that SECONDS does not name

# Rough seconds of the slowest files: of a run in one process, or estimates for files that became
# cheaper since. They balance the shards and need not be exact.
SECONDS = {
    'test_recorded_builds.py': 43,
    'benchmark/test_runner.py': 35,
    'pipeline/test_neighbours.py': 33,
    'pipeline/test_interrupted.py': 26,
    'release/test_malicious.py': 19,
    'datasets/test_synthetic.py': 22,
    'cli/test_synthesize.py': 20,
    'models/test_view_calibration.py': 18,
    'nn/test_cgt_generator.py': 15,
    'audit/test_gradient_steps.py': 13,
    'release/test_card.py': 13,
    'pipeline/test_private.py': 13,
    'training/test_checkpoint.py': 13,
    'cli/test_audit.py': 13,
    'quantizer/test_shared_kmeans.py': 13,
    'pipeline/test_several.py': 12,
    'transforms/test_task_weight.py': 11,
    'privacy/test_ledger.py': 11,
    'pipeline/test_k_anonymous.py': 7,
    'utils/test_distributed.py': 10,
    'audit/test_replay.py': 10,
    'quantizer/test_constrained_kmeans.py': 9,
    'report/test_report_files.py': 8,
    'training/test_fit.py': 8,
    'pipeline/test_odometer.py': 8,
    'models/test_edge_counts.py': 8,
    'benchmark/test_evaluation.py': 7,
    'test_architecture.py': 7,
    'audit/test_rebuild.py': 7,
    'models/test_tree_model.py': 6,
    'audit/test_canaries.py': 6,
    'test_package.py': 6,
    'pipeline/test_public_start.py': 6,
    'audit/test_release_audit.py': 6,
    'release/test_optional_facts.py': 6,
    'test_benchmarks.py': 5,
    'release/test_release.py': 5,
}

SHARD = pytest.StashKey[set[Path]]()  # the test files that this process runs


def pytest_addoption(parser: pytest.Parser) -> None:
    text = 'run only the test files of shard i of n'
    parser.addoption('--shard', metavar='i/n', help=text)


def pytest_configure(config: pytest.Config) -> None:
    shard = config.getoption('--shard')
    if shard is not None:
        tests = config.rootpath / 'tests'
        config.stash[SHARD] = {tests / file for file in shard_of(shard, files_of(tests))}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    is_other = (
        SHARD in config.stash
        and collection_path.suffix == '.py'
        and collection_path.name != '__init__.py'
        and collection_path not in config.stash[SHARD]
    )
    return True if is_other else None  # others may still ignore it


def files_of(tests: Path) -> list[str]:
    """The test files of a folder, by their path relative to it."""
    return sorted(path.relative_to(tests).as_posix() for path in tests.rglob('test_*.py'))


def deal(files: Iterable[str], number: int, seconds: dict[str, float] = SECONDS) -> list[list[str]]:
    """Deals files out: the slowest first, each to the shard with the least work so far."""
    shards, work = [[] for _ in range(number)], [0.0] * number
    for file in sorted(files, key=lambda file: (-seconds.get(file, OTHERS), file)):
        least = work.index(min(work))
        shards[least].append(file)
        work[least] += seconds.get(file, OTHERS)
    return shards


def shard_of(text: str, files: Iterable[str]) -> list[str]:
    """The files of a shard that is given as ``1/2``."""
    match = re.fullmatch(r'([1-9]\d*)/([1-9]\d*)', text)
    if match is None or int(match[1]) > int(match[2]):
        raise pytest.UsageError(f"--shard must be 'i/n' with 1 <= i <= n (got '{text}')")
    return deal(files, int(match[2]))[int(match[1]) - 1]
