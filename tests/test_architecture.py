"""The layering and the walk of docs/architecture.md hold, and what breaks them is found."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.helpers.builds import promised
from tests.helpers.walk import Walk
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.models import view_calibration
from torch_geometric_cgt.models.scenes import SceneTable
from torch_geometric_cgt.pipeline import KAnonymousPipeline
from torch_geometric_cgt.quantizer import FlowKMeans
from torch_geometric_cgt.sampler import sample_trees

pytestmark = pytest.mark.usefixtures('short_networks')

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / 'torch_geometric_cgt'
PAGE = (ROOT / 'docs' / 'architecture.md').read_text(encoding='utf-8')
WALK = PAGE.split('## The walk of the data')[1].split('\n## ')[0]
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
        ('nn/two_stream.py', 'from torch_geometric_cgt.privacy import Ledger'),
        ('quantizer/kmeans_steps.py', 'from torch_geometric_cgt.data import TreeShape'),
        ('models/scenes.py', 'from torch_geometric_cgt.sampler import sample_trees'),
        ('models/scenes.py', 'from torch_geometric_cgt.baselines import ConfigurationModel'),
        ('baselines/block_graphs.py', 'from torch_geometric_cgt.pipeline import Build'),
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


ANYWHERE = {'data', 'privacy', 'utils', 'pipeline', 'datasets'}  # used by all steps, and leading


def table(number: int) -> list[list[str]]:
    """The cells of the first or the second table of the walk, without its header."""
    tables = [part for part in WALK.split('\n\n') if part.startswith('|')]
    return [
        [cell.strip() for cell in line.strip('|').split('|')]
        for line in tables[number].splitlines()[2:]
    ]


ROOMS = {step: set(rooms.split(', ')) for step, rooms, *_ in table(0)}
FILES = {step: set(re.findall(r'`([\w/]+\.py)`', files)) for step, _, files, _ in table(0)}
OUTSIDE = {step: set(re.findall(r'`([\w.]+)`', names)) for step, names, _ in table(1)}


def test_the_table_of_the_walk_names_each_room_once():
    assert len(ROOMS) == 6
    rooms = [room for rooms in ROOMS.values() for room in rooms]
    assert len(rooms) == len(set(rooms))
    for step, files in FILES.items():
        assert files and {file.split('/')[0] for file in files} == ROOMS[step]


def walked(graph, arguments: dict, patch: pytest.MonkeyPatch) -> Walk:
    """Builds a dataset of a small graph and records what it enters."""
    walk = Walk({**ROOMS, 'loader': set()}, ANYWHERE)
    walk.follow(patch, lambda stage: next(step for step in ROOMS if stage in step.split(', ')))
    walk.begin('check')
    with walk.recording():
        dataset = SyntheticCGTDataset(graph, **arguments)
        walk.begin('dataset')
        dataset[0], dataset.stores()
        walk.begin('loader')
        next(iter(dataset.loader('train', batch_size=4)))
    return walk


def test_a_build_walks_as_the_page_says(graph, quick, monkeypatch):
    monkeypatch.setattr(view_calibration, 'MIN_TREES', 1)  # also for a graph of 120 nodes
    walk = walked(graph, quick, monkeypatch)
    assert walk.steps == [*ROOMS, 'loader']
    assert {name.split('.')[0] for name in walk.outside.pop('loader')} == {'TreeNeighborSampler'}
    assert walk.outside == OUTSIDE
    assert walk.entered == ROOMS
    for step, files in FILES.items():
        assert files <= walk.files[step]


def test_the_support_rule_needs_no_other_call(graph, quick, monkeypatch):
    walk = walked(graph, promised(quick, min_support=2), monkeypatch)
    for step in ('quantize, scenes', 'encode', 'support, fit, match_views, sample', 'release'):
        assert walk.outside.get(step, set()) == OUTSIDE.get(step, set())


def plant(patch: pytest.MonkeyPatch, stage: str, *calls) -> None:
    """Makes calls at the beginning of a stage."""
    run = getattr(KAnonymousPipeline, stage)
    patch.setattr(KAnonymousPipeline, stage, lambda p: ([call(p) for call in calls], run(p))[1])


def test_calls_to_other_rooms_are_found(graph, quick, monkeypatch):
    own = lambda p: p.tree_draws().nodes(p.root[:1], torch.Generator())  # noqa: E731  may be called
    plant(monkeypatch, 'match_views', lambda p: FlowKMeans(2, 3).fit(p.codebook))
    plant(monkeypatch, 'fit', own, lambda p: sample_trees(p.graph, p.root[:1], p.shape))
    plant(monkeypatch, 'encode', lambda p: SceneTable(p.y, p.split, p.scene, 9, 99))
    walk = walked(graph, promised(quick, task_weight=0.0), monkeypatch)
    learn = 'support, fit, match_views, sample'
    assert walk.outside['encode'] - OUTSIDE.get('encode', set()) == {'SceneTable.__init__'}
    found = {name for name in walk.outside[learn] - OUTSIDE[learn] if 'KMeans' not in name}
    assert found == {'sample_trees'}
    assert 'FlowKMeans.__init__' in walk.outside[learn]


def test_the_page_names_files_and_folders_that_exist():
    named = re.findall(r'`([a-z_]+/[\w/]+\.py)`', PAGE)
    missing = [
        name for name in named if not (PACKAGE / name).exists() and not (ROOT / name).exists()
    ]
    assert not missing
    folders = {path.name for path in PACKAGE.iterdir() if (path / '__init__.py').exists()}
    drawing = PAGE.split('```')[1]
    assert all(re.search(rf'\b{folder}\b', drawing) for folder in folders)
