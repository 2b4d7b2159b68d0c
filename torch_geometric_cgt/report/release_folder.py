r"""The folder of ``cgt release``: what may be published, what stays, and the finished steps."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.utils.files import require_writable, write_text

STEPS = 'steps.json'


class ReleaseFolder:
    r"""The folder that a release, its report and its audit are written to.

    :obj:`release` is the folder that may be published, :obj:`owner` holds the
    details that stay. The file :obj:`steps.json` of the latter has the seconds
    of all finished steps and the settings that they were made with, so that the
    same command resumes.

    Args:
        path (Path): The folder.
        settings (dict): The arguments of the command, as text.
    """

    def __init__(self, path: Path, settings: Mapping[str, str]) -> None:
        self.path = path
        self.settings = dict(settings)
        self.release = path / 'release'
        self.owner = path / 'owner'
        self.seconds: dict[str, float] = {}
        if (self.owner / STEPS).is_file():
            self._resume()
        elif path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise FileExistsError(f"'{path}' exists already; choose a new folder for '--out'")
        require_writable(path.absolute().parent)

    def _resume(self) -> None:
        file = self.owner / STEPS
        try:
            content = json.loads(file.read_text(encoding='utf-8'))
            before, seconds = dict(content['settings']), dict(content['seconds'])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(f"'{file}' is damaged; choose a new folder") from error
        names = [*before, *(name for name in self.settings if name not in before)]
        wrong = [
            f'{name} was {before.get(name, "not given")}, now {self.settings.get(name)}'
            for name in names
            if before.get(name) != self.settings.get(name)
        ]
        if wrong:
            raise FileExistsError(
                f"'{self.path}' holds a release with other arguments ({'; '.join(wrong)}); choose "
                f"a new folder for '--out'"
            )
        self.seconds = {name: float(value) for name, value in seconds.items()}

    def is_done(self, step: str) -> bool:
        r"""Whether a step was finished by this or by an interrupted command.

        Args:
            step (str): The name of the step.
        """
        return step in self.seconds

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        r"""Times a step and notes that it is finished.

        Args:
            name (str): The name of the step.
        """
        started = time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - started
        content = {'settings': self.settings, 'seconds': self.seconds}
        write_text(self.owner / STEPS, json.dumps(content, indent=2) + '\n')

    def read(self, name: str) -> dict[str, Any]:
        r"""Reads a JSON file of a finished step.

        Args:
            name (str): The name of the file.
        """
        file = self.owner / name
        try:
            content = json.loads(file.read_text(encoding='utf-8'))
        except (OSError, ValueError) as error:
            raise CorruptFileError(
                f"'{file}' of an interrupted command is missing or damaged; choose a new folder"
            ) from error
        return dict(content)

    def published(self) -> dict[str, int]:
        r"""The size of each file that may be published, by its path in the folder."""
        files = sorted(path for path in self.release.rglob('*') if path.is_file())
        return {str(path.relative_to(self.path)): path.stat().st_size for path in files}
