"""The layering of docs/architecture.md holds, and a forbidden import is found."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / 'torch_geometric_cgt'
PAGE = (ROOT / 'docs' / 'architecture.md').read_text(encoding='utf-8')
LINT = 'from importlinter.cli import lint_imports_command; lint_imports_command()'


def lint(folder: Path) -> subprocess.CompletedProcess:
    """Runs import-linter on the package in a folder."""
    return subprocess.run(
        [sys.executable, '-c', LINT, '--no-cache'],
        cwd=folder,
        env={'PYTHONPATH': str(folder), 'PATH': ''},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def copy(tmp_path):
    """A copy of the package and its contracts."""
    shutil.copytree(PACKAGE, tmp_path / PACKAGE.name, ignore=shutil.ignore_patterns('__pycache__'))
    shutil.copy(ROOT / 'pyproject.toml', tmp_path)
    return tmp_path


def test_imports_go_down(copy):
    out = lint(copy)
    assert out.returncode == 0 and '0 broken' in out.stdout, out.stdout[-2000:] + out.stderr[-2000:]


@pytest.mark.parametrize(
    'file, line',
    [
        ('privacy/ledger.py', 'from torch_geometric_cgt.quantizer import FlowKMeans'),
        ('pipeline/build.py', 'from torch_geometric_cgt.release import Card'),
        ('nn/layout.py', 'from torch_geometric_cgt.privacy import Ledger'),
        ('quantizer/centers.py', 'from torch_geometric_cgt.data import TreeShape'),
        ('benchmark/metrics.py', 'from torch_geometric_cgt.audit import run_audit'),
        ('data/tree.py', 'def hidden():\n    from torch_geometric_cgt.nn import CGTGenerator'),
    ],
)
def test_a_forbidden_import_is_found(copy, file, line):
    path = copy / PACKAGE.name / file
    path.write_text(f'{path.read_text()}\n\n{line}\n')
    out = lint(copy)
    assert out.returncode == 1 and 'broken' in out.stdout
    module = f'torch_geometric_cgt.{file[:-3].replace("/", ".")}'
    assert module in out.stdout


def walk() -> list[tuple[list[str], list[str]]]:
    """The rooms and files of each step of the walk."""
    table = PAGE.split('## The walk of the data')[1].split('\n\n')[2]
    rows = [line.split('|')[1:-1] for line in table.splitlines()[2:]]
    return [
        (row[1].replace(' ', '').split(','), re.findall(r'`([\w/]+\.py)`', row[2])) for row in rows
    ]


def test_the_table_of_the_walk_names_each_room_once():
    steps = walk()
    assert len(steps) == 6
    rooms = [room for step, _ in steps for room in step]
    assert len(rooms) == len(set(rooms))
    for step, files in steps:
        assert files and {file.split('/')[0] for file in files} == set(step)


def test_the_page_names_files_and_folders_that_exist():
    named = re.findall(r'`([a-z_]+/[\w/]+\.py)`', PAGE)
    missing = [
        name for name in named if not (PACKAGE / name).exists() and not (ROOT / name).exists()
    ]
    assert not missing
    folders = {path.name for path in PACKAGE.iterdir() if (path / '__init__.py').exists()}
    drawing = PAGE.split('```')[1]
    assert all(re.search(rf'\b{folder}\b', drawing) for folder in folders)
