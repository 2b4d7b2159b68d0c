r"""Checkpoints of a fit: written atomically, and resumed by the same run only."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.errors import CheckpointError, CorruptFileError
from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.training.config import FitResult
from torch_geometric_cgt.utils.distributed import World
from torch_geometric_cgt.utils.files import (
    atomic_folder,
    read_sealed_json,
    read_tensors,
    write_sealed_json,
    write_tensors,
)
from torch_geometric_cgt.utils.warn import warn_user

FORMAT = 1
TENSORS, STATE = 'state.safetensors', 'state.json'
WAY_OUT = 'start from scratch with resume=False (--no-resume), or choose another folder'


@dataclass
class TrainingState:
    r"""The progress of a fit, apart from weights and optimiser."""

    epoch: int = 0  # of the next step
    step: int = 0  # of the next step, within the epoch
    nll: float = 0.0  # the summed loss of this process in the unfinished epoch
    count: int = 0  # the tokens that it is summed over
    result: FitResult = field(default_factory=FitResult)
    best: dict[str, Tensor] | None = None  # weights of the best epoch


class Checkpoints:
    r"""The checkpoints of one fit in a folder.

    A checkpoint is a folder, named by the number of steps and written
    atomically. The last two checkpoints are kept. They hold no pickled
    objects. The first process writes them, and all processes read them.

    Args:
        folder (Path): The folder of the checkpoints.
        identity (dict): Names and JSON values that a checkpoint must share
            with this run to be resumed.
        steps_per_epoch (int): The number of steps of an epoch.
        world (World): The processes.
    """

    def __init__(
        self, folder: Path, identity: dict[str, Any], steps_per_epoch: int, world: World
    ) -> None:
        self.folder = folder
        self.identity = json.loads(json.dumps(identity))  # as JSON returns it
        self.steps_per_epoch = steps_per_epoch
        self.world = world
        self.last: Path | None = None

    def save(
        self, state: TrainingState, generator: CGTGenerator, optimizer: torch.optim.Optimizer
    ) -> None:
        r"""Writes a checkpoint, and removes all but the last two. All processes
        must call it.
        """
        progress = self.world.gather((state.nll, state.count))
        path = self.folder / f'step-{state.epoch * self.steps_per_epoch + state.step:09d}'
        with self.world.together(f"write '{path}'"):
            if self.world.is_first and path != self.last:
                self._write(path, state, progress, generator, optimizer)
        self.last = path

    def _write(
        self,
        path: Path,
        state: TrainingState,
        progress: list[tuple[float, int]],
        generator: CGTGenerator,
        optimizer: torch.optim.Optimizer,
    ) -> None:
        saved = optimizer.state_dict()
        content = {
            'format': FORMAT,
            'identity': self.identity,
            'world_size': self.world.size,
            'epoch': state.epoch,
            'step': state.step,
            'progress': progress,  # of each process
            'history': vars(state.result),
            'optimizer': saved['param_groups'],
        }
        tensors = _named('weights', generator.state_dict()) | _named('best', state.best or {})
        for index, moments in saved['state'].items():
            tensors |= _named(f'optimizer.{index}', moments)
        with atomic_folder(path) as draft:
            write_tensors(draft / TENSORS, tensors)
            write_sealed_json(draft / STATE, content, [TENSORS])
        self._remove_all_but(path)

    def load(
        self, generator: CGTGenerator, optimizer: torch.optim.Optimizer
    ) -> TrainingState | None:
        r"""Restores weights and optimiser from the last checkpoint and returns
        its progress, or :obj:`None` if there is no checkpoint. All processes
        must call it.
        """
        path = None
        with self.world.together('find a checkpoint'):
            if self.world.is_first:
                path = self._newest()
        path = self.world.first(path)
        if path is None:
            return None
        with self.world.together(f"resume from '{path}'"):
            state = self._restore(path, generator, optimizer)
        self.last = path
        return state

    def _restore(
        self, path: Path, generator: CGTGenerator, optimizer: torch.optim.Optimizer
    ) -> TrainingState:
        content, tensors = self._read(path)
        self._require_same_run(path, content)
        try:
            parts: dict[str, dict[str, Tensor]] = {'weights': {}, 'best': {}, 'optimizer': {}}
            for name, value in tensors.items():
                part, rest = name.split('.', 1)
                parts[part][rest] = value
            moments: dict[int, dict[str, Tensor]] = {}
            for name, value in parts['optimizer'].items():
                index, key = name.split('.', 1)
                moments.setdefault(int(index), {})[key] = value
            nll, count = self._progress(content['progress'])
            state = TrainingState(
                content['epoch'],
                content['step'],
                nll,
                count,
                FitResult(**content['history']),
                parts['best'] or None,
            )
            generator.load_state_dict(parts['weights'])
            groups = [
                {**own, **saved, 'betas': tuple(saved['betas'])}
                for own, saved in zip(
                    optimizer.state_dict()['param_groups'], content['optimizer'], strict=True
                )
            ]
            optimizer.load_state_dict({'state': moments, 'param_groups': groups})
        except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
            raise CorruptFileError(
                f"'{path}' does not hold a consistent checkpoint ({error}): {WAY_OUT}"
            ) from error
        return state

    def _progress(self, saved: list[tuple[float, int]]) -> tuple[float, int]:
        r"""The loss and the tokens of this process. With another number of
        processes, the first one continues the sums of all.
        """
        if len(saved) == self.world.size:
            nll, count = saved[self.world.rank]
            return nll, count
        if not self.world.is_first:
            return 0.0, 0
        return sum(nll for nll, _ in saved), sum(count for _, count in saved)

    def clear(self) -> None:
        r"""Removes all checkpoints and the drafts of interrupted writes."""
        if self.world.is_first:
            self._remove_all_but(None)
        self.last = None

    def _newest(self) -> Path | None:
        r"""The last checkpoint that is not damaged. An older checkpoint leads
        to the same final weights.
        """
        damage = ''
        for path in reversed(self._paths()):
            try:
                self._read(path)
            except CorruptFileError as error:
                damage = damage or str(error)
                continue
            if damage:
                warn_user(f'{damage}; resuming from {path.name} before it')
            return path
        if damage:
            raise CorruptFileError(f'{damage}, and there is no other checkpoint: {WAY_OUT}')
        return None

    def _read(self, path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
        content = read_sealed_json(path / STATE)
        if content.get('format') != FORMAT:
            raise CorruptFileError(
                f"'{path / STATE}' has format {content.get('format')!r}; "
                f'this version reads {FORMAT}'
            )
        return content, read_tensors(path / TENSORS)

    def _require_same_run(self, path: Path, content: dict[str, Any]) -> None:
        saved, own = content.get('identity', {}), self.identity
        different = [
            f'{name} is {saved.get(name)!r} there and {own.get(name)!r} here'
            for name in sorted(saved.keys() | own.keys())
            if saved.get(name) != own.get(name)
        ]
        if different:
            raise CheckpointError(
                f"'{path}' belongs to another run: {', '.join(different)}; {WAY_OUT}"
            )
        if content.get('world_size') != self.world.size and self.world.is_first:
            warn_user(
                f"'{path}' was written by {content.get('world_size')} processes, and this run has "
                f'{self.world.size}. They drop other entries, so that the weights will not be '
                f'those of an uninterrupted run',
            )

    def _paths(self) -> list[Path]:
        return sorted(path for path in self.folder.glob('step-*') if path.is_dir())

    def _remove_all_but(self, path: Path | None) -> None:
        r"""Removes all but a checkpoint and the one before it, and drafts."""
        paths = self._paths()
        before = [other for other in paths if path is not None and other < path][-1:]
        for other in [*paths, *self.folder.glob('.step-*')]:
            if other != path and other not in before:
                shutil.rmtree(other, ignore_errors=True)


def fingerprint(tensors: Iterable[Tensor]) -> str:
    r"""A digest of the types, shapes and values of some tensors."""
    digest = hashlib.sha256()
    for value in tensors:
        value = value.detach().cpu().contiguous()
        digest.update(f'{value.dtype}:{list(value.shape)}'.encode())
        digest.update(value.view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def _named(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f'{prefix}.{name}': value for name, value in tensors.items()}
