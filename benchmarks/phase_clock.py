r"""The time and memory of the phases of a build, over all runs that it took."""

import json
import math
import threading
import time
from collections.abc import Callable
from pathlib import Path

from memory import peak_memory

from torch_geometric_cgt.utils.files import write_text

NOTE_SECONDS = 5.0
LOOK_SECONDS = 0.1  # between two looks at the memory


def own_memory() -> float:
    r"""The memory of this process without mapped files, in GB. The system may take back the
    pages of mapped files at any time.
    """
    status = Path('/proc/self/status')
    for line in status.read_text().splitlines() if status.exists() else []:
        if line.startswith('RssAnon:'):
            return int(line.split()[1]) / 2**20
    return math.nan


class PhaseClock:
    r"""The time and memory of each phase, over all runs of a build. They are written to a file
    every few seconds, so that a run that is killed loses little of its time.

    Args:
        path (Path): The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.phases: dict[str, dict] = json.loads(path.read_text()) if path.exists() else {}

    def run(self, phase: str, function: Callable[[], object]) -> dict:
        r"""Runs a phase, and returns what it took: seconds on the wall and of the processor, the
        peak memory of the process so far in GB, and the peak of this phase without mapped files.
        A phase that an earlier run has finished keeps what it took there.
        """
        empty = {'wall': 0.0, 'processor': 0.0, 'own': 0.0, 'runs': 0}
        before = self.phases.get(phase, empty)
        if before.get('done'):
            function()  # reads what the phase left
            return before
        wall, processor, ended = time.monotonic(), time.process_time(), threading.Event()
        own = before['own']

        def note(done: bool) -> None:
            self.phases[phase] = {
                'wall': round(before['wall'] + time.monotonic() - wall, 1),
                'processor': round(before['processor'] + time.process_time() - processor, 1),
                'peak': round(peak_memory() / 1024, 2),
                'own': round(own, 2),
                'runs': before['runs'] + 1,
                'done': done,
            }
            write_text(self.path, json.dumps(self.phases))

        def watch() -> None:
            nonlocal own
            noted = time.monotonic()
            while not ended.wait(LOOK_SECONDS):
                own = max(own, own_memory())
                if time.monotonic() - noted >= NOTE_SECONDS:
                    note(False)
                    noted = time.monotonic()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            function()
        finally:
            ended.set()
            watcher.join()
        own = max(own, own_memory())
        note(True)
        return self.phases[phase]
