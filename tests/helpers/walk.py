"""Which rooms of the package a build enters, step by step."""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType

import pytest

import torch_geometric_cgt
from torch_geometric_cgt.pipeline import Pipeline

PACKAGE = Path(torch_geometric_cgt.__file__).parent


class Walk:
    """Records the calls of functions of the package.

    Args:
        rooms: The rooms of each step, in order.
        anywhere: The rooms that all steps may enter.
    """

    def __init__(self, rooms: dict[str, set[str]], anywhere: set[str]) -> None:
        self.rooms, self.anywhere = rooms, anywhere
        self.steps: list[str] = []  # in the order in which they began
        self.entered: dict[str, set[str]] = defaultdict(set)  # rooms of the step itself
        self.files: dict[str, set[str]] = defaultdict(set)  # of all rooms
        self.outside: dict[str, set[str]] = defaultdict(set)  # functions of other rooms

    def begin(self, step: str) -> None:
        if not self.steps or self.steps[-1] != step:
            self.steps.append(step)

    def follow(self, patch: pytest.MonkeyPatch, step_of: Callable[[str], str]) -> None:
        """Begins a step with each stage of a pipeline, and the release after the last one."""
        run, run_stage = Pipeline.run, Pipeline.run_stage

        def followed_stage(pipeline, stage):
            self.begin(step_of(stage.name))
            run_stage(pipeline, stage)

        def followed(pipeline):
            build = run(pipeline)
            self.begin('release')
            return build

        patch.setattr(Pipeline, 'run_stage', followed_stage)
        patch.setattr(Pipeline, 'run', followed)

    @contextmanager
    def recording(self) -> Iterator[None]:
        before = sys.getprofile()
        sys.setprofile(self._record)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _record(self, frame: FrameType, event: str, _: object) -> None:
        if event != 'call' or (file := file_of(frame)) is None:
            return
        step, room = self.steps[-1], file.split('/')[0]
        self.files[step].add(file)
        if room in self.rooms[step]:
            self.entered[step].add(room)
        elif room not in self.anywhere:
            self.outside[step].add(self._entry(frame))

    def _is_outside(self, frame: FrameType) -> bool:
        file = file_of(frame)
        if file is None:
            return False
        room = file.split('/')[0]
        return room not in self.rooms[self.steps[-1]] and room not in self.anywhere

    def _entry(self, frame: FrameType) -> str:
        """The first function outside of the step among those that are running."""
        entry, above = frame, frame.f_back
        while above is not None:
            entry = above if self._is_outside(above) else entry
            above = above.f_back
        owner = entry.f_locals.get('self', entry.f_locals.get('cls'))
        name = entry.f_code.co_name
        if owner is None:
            return name
        return f'{owner.__name__ if isinstance(owner, type) else type(owner).__name__}.{name}'


def file_of(frame: FrameType) -> str | None:
    """The file of a function inside the package, or None for functions of others."""
    return _inside(frame.f_code.co_filename)


@cache
def _inside(filename: str) -> str | None:
    path = Path(filename)
    if PACKAGE not in path.parents or path.parent == PACKAGE:
        return None
    return path.relative_to(PACKAGE).as_posix()
