r"""The cache of builds: their files, and the list of builds in a folder with their removal."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from torch_geometric_cgt.baselines import BASELINES
from torch_geometric_cgt.errors import CGTError, CorruptFileError
from torch_geometric_cgt.models import TREE_MODELS, TransformerModel
from torch_geometric_cgt.pipeline import Build, BuildConfig, Source
from torch_geometric_cgt.pipeline.odometer import FOLDER as ODOMETER
from torch_geometric_cgt.pipeline.workspace import LOCKS
from torch_geometric_cgt.privacy.queries import from_tensors, to_tensors
from torch_geometric_cgt.release.release import (
    CARD,
    Release,
    make_release,
    read_release,
    write_release,
)
from torch_geometric_cgt.training.kept_steps import KeptSteps
from torch_geometric_cgt.utils.files import (
    atomic_folder,
    read_sealed_json,
    read_tensors,
    require_writable,
    write_sealed_json,
    write_tensors,
)

PRIVATE_TENSORS, PRIVATE_CARD = 'private.safetensors', 'private.json'
EDGE_CLUSTER = 'edge_cluster'
ANSWERS, STEPS = 'answers', 'steps'  # of a private build: answers to queries, steps of DP-SGD
WORK = '.fit'  # suffix of the folder of a build that is not finished
FINISHED, INTERRUPTED, LEFT_OVER = 'finished', 'interrupted', 'left over'


def write_cache(folder: Path, source: Source, config: BuildConfig, build: Build) -> None:
    r"""Writes a build atomically.

    Args:
        folder (Path): The folder to write.
        source (Source): The checked source graph.
        config (BuildConfig): All parameters of the build.
        build (Build): The build.
    """
    assert build.model is not None and build.cluster is not None
    history: dict[str, Any] = {
        'form': build.model.name,
        'generator': build.model.config(),
        'fit': build.history,
    }
    tensors = {f'model.{name}': value for name, value in build.model.state_dict().items()}
    for stage, answers in build.answers.items():
        kept, facts = to_tensors(answers, f'{ANSWERS}.{stage}')
        tensors |= kept
        history.setdefault(ANSWERS, {})[stage] = facts
    if build.steps is not None:
        tensors |= build.steps.to_tensors(STEPS)
    with atomic_folder(folder) as draft:
        write_release(draft, make_release(source, config, build))
        own = {'cluster': build.cluster}
        if build.edge_cluster is not None:
            own[EDGE_CLUSTER] = build.edge_cluster
        write_tensors(draft / PRIVATE_TENSORS, {**tensors, **own})
        write_sealed_json(draft / PRIVATE_CARD, history, [PRIVATE_TENSORS])


def read_cache(folder: Path) -> tuple[Release, Build]:
    r"""Reads a build and its release. Raises :class:`CorruptFileError` if files are
    missing, altered or inconsistent.

    Args:
        folder (Path): The folder to read.
    """
    release = read_release(folder, verify=False)  # written by this package, not by a third party
    history = read_sealed_json(folder / PRIVATE_CARD)
    tensors = read_tensors(folder / PRIVATE_TENSORS)
    try:
        cluster, edge_cluster = tensors.pop('cluster'), tensors.pop(EDGE_CLUSTER, None)
        answers = {
            stage: from_tensors(tensors, facts, f'{ANSWERS}.{stage}')
            for stage, facts in history.get(ANSWERS, {}).items()
        }
        has_steps = any(name.startswith(f'{STEPS}.') for name in tensors)
        steps = KeptSteps.from_tensors(tensors, STEPS) if has_steps else None
        kept = (f'{ANSWERS}.', f'{STEPS}.')
        tensors = {name: v for name, v in tensors.items() if not name.startswith(kept)}
        kind = {**TREE_MODELS, **BASELINES}[history.get('form', TransformerModel.name)]
        model = kind(**history['generator']).eval()
        # Version 0.1.0 wrote weights without the prefix 'model.', and no form for a Transformer.
        prefix = 'model.' if any(name.startswith('model.') for name in tensors) else ''
        if not prefix and 'form' in history:
            prefix = 'generator.'
        model.load_state_dict({name.removeprefix(prefix): v for name, v in tensors.items()})
        facts = dict(release.card['privacy'])
        build = Build(
            release.trees,
            release.codebook,
            model,
            cluster,
            facts,
            history['fit'],
            projection=release.projection,
            answers=answers,
            steps=steps,
            edge_cluster=edge_cluster,
            profile=release.profile,
        )
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise CorruptFileError(f"'{folder}' does not hold a consistent build: {error}") from error
    return release, build


@dataclass(frozen=True)
class KeptBuild:
    r"""A build in a folder of builds.

    Args:
        folder (str): The name of its folder.
        source (str): The name of the source.
        promise (str): What the release of it promises, in short.
        date (str): The day on which it was made or last written to.
        num_bytes (int): The size of its files.
        state (str): :obj:`"finished"`; :obj:`"interrupted"`, if the same command
            resumes it; or :obj:`"left over"` of a write that was killed.
        has_secrets (bool): Whether it holds what must not be published: the
            cluster of each node, weights, noisy answers.
    """

    folder: str
    source: str
    promise: str
    date: str
    num_bytes: int
    state: str
    has_secrets: bool

    def to_dict(self) -> dict[str, Any]:
        r"""The build for a JSON file."""
        return asdict(self)


def kept_builds(root: str | Path) -> list[KeptBuild]:
    r"""The builds in a folder, by name.

    Args:
        root (str): The folder of builds, see
            :class:`~torch_geometric_cgt.SyntheticCGTDataset`.
    """
    root = Path(root).expanduser()
    if not root.is_dir():
        return []
    folders = [path for path in root.iterdir() if path.is_dir() and not path.is_symlink()]
    return [_describe(path) for path in sorted(folders) if path.name not in (LOCKS, ODOMETER)]


def remove_build(root: str | Path, folder: str) -> None:
    r"""Removes a build. The account of its source in the odometer stays: what was
    released cannot be taken back by deleting files, and its cost still counts.

    Raises :class:`CGTError` if the build is running.

    Args:
        root (str): The folder of builds.
        folder (str): The name of the folder of the build.
    """
    root = Path(root).expanduser()
    known = [build.folder for build in kept_builds(root)]
    if folder not in known:
        raise ValueError(f"There is no build '{folder}' in '{root}'; it has {known}")
    locks = root / LOCKS
    require_writable(locks)
    name = folder if folder.endswith(WORK) else f'{folder}{WORK}'
    try:
        with FileLock(locks / f'{name}.lock').acquire(blocking=False):
            shutil.rmtree(root / folder)
    except Timeout as error:
        raise CGTError(f"'{folder}' is being built by another process: not removed") from error


def _describe(path: Path) -> KeptBuild:
    files = [file for file in path.rglob('*') if file.is_file() and not file.is_symlink()]
    num_bytes = sum(file.stat().st_size for file in files)
    newest = max((file.stat().st_mtime for file in files), default=path.stat().st_mtime)
    date = datetime.fromtimestamp(newest, timezone.utc).strftime('%Y-%m-%d')
    name = path.name.strip('.').removesuffix(WORK)
    parts = name.split('-')
    source, promise = parts[0], parts[1] if len(parts) > 1 else ''
    state = LEFT_OVER if path.name.startswith('.') else FINISHED
    if path.name.endswith(WORK):
        state = INTERRUPTED
    has_secrets = state != FINISHED or (path / PRIVATE_TENSORS).exists()
    try:
        card = read_sealed_json(path / CARD, check_files=False)
        source, date = str(card['source']['name']), str(card['created'])
        promise = _promise(card['privacy'])
    except (CGTError, OSError, KeyError, TypeError, ValueError):
        if state == FINISHED:
            state = LEFT_OVER  # not readable: construct the dataset again
    return KeptBuild(path.name, source, promise, date, num_bytes, state, has_secrets)


def _promise(privacy: dict[str, Any]) -> str:
    if privacy['epsilon'] is not None:
        return f'epsilon={privacy["epsilon"]:.3g} per {privacy["protects"]}'
    return f'k={privacy["k"]}'
