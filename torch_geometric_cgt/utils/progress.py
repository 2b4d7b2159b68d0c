r"""Progress of a build: a bar per stage on a terminal, with the time left of all stages; a line per
stage in a log file.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO

from tqdm import tqdm

FORMAT = '{desc}: {percentage:3.0f}%|{bar:20}| {n_fmt}/{total_fmt} {unit} [{elapsed}{postfix}]'


class Bar:
    r"""The work of one stage. Without a terminal, it draws nothing.

    Args:
        shown (tqdm, optional): The bar to draw. (default: :obj:`None`)
        owner (Progress, optional): The progress of the whole build.
            (default: :obj:`None`)
    """

    def __init__(self, shown: tqdm | None = None, owner: Progress | None = None) -> None:
        self.shown = shown
        self.owner = owner
        self.n = self.start = 0
        self.total = 1

    def reset(self, total: int, n: int = 0) -> None:
        r"""Starts a new count.

        Args:
            total (int): The number of steps.
            n (int, optional): How many of them were done by an interrupted run.
                (default: :obj:`0`)
        """
        self.total, self.n, self.start = total, n, n
        if self.shown is not None:
            self.shown.reset(total)
            self.shown.initial = self.shown.n = n
            self.shown.refresh()

    def update(self, n: int = 1) -> None:
        r"""Counts finished steps.

        Args:
            n (int, optional): Their number. (default: :obj:`1`)
        """
        self.n += n
        if self.owner is not None:
            self.owner.at((self.n - self.start) / max(1, self.total - self.start))
        if self.shown is not None:
            self.shown.update(n)

    def move(self, n: int, total: int) -> None:
        r"""Moves the bar to a step.

        Args:
            n (int): The number of finished steps.
            total (int): The number of steps.
        """
        self.total = total
        if self.shown is not None:
            self.shown.total = total
        self.update(n - self.n)

    def note(self, text: str) -> None:
        r"""Shows a text beside the bar.

        Args:
            text (str): The text.
        """
        if self.owner is not None:
            self.owner.note = text
            self.owner.show_left()
        elif self.shown is not None:
            self.shown.set_postfix_str(text, refresh=False)


def count_repetitions(bar: Bar, repetitions: int) -> Callable[[int, int], None]:
    r"""Returns a callback for a computation that runs several times. Each run counts its
    steps from the start, may end early, and moves the bar on from where the last one ended.

    Args:
        bar (Bar): The bar of all runs.
        repetitions (int): The number of runs.
    """
    steps = [0]  # of each run

    def advance(step: int, total: int) -> None:
        if step <= steps[-1]:  # a new run
            steps.append(0)
        steps[-1] = step
        bar.move((len(steps) - 1) * total + step, repetitions * total)

    return advance


class Progress:
    r"""The stages of a build, how much of each is done, and the time left of all of
    them together.

    The shares of the stages are what they usually take of a build. The time left
    follows from them and from the time that the stages of this run took so far,
    so that it becomes exact towards the end. A stage that an interrupted build
    finished is left out.

    Args:
        shares (dict[str, float]): The name of each stage, in order, and its
            usual share of the time.
        file (TextIO, optional): Where to write. By default, stderr.
            (default: :obj:`None`)
    """

    def __init__(self, shares: Mapping[str, float], file: TextIO | None = None) -> None:
        self.shares = dict(shares)
        self.file = sys.stderr if file is None else file
        self.note = ''
        self.is_drawn = bool(getattr(self.file, 'isatty', lambda: False)())
        self._names = list(shares)
        self._done = 0.0  # shares of stages that this run finished
        self._fraction = 0.0  # of the current stage
        self._name: str | None = None
        self._bar: Bar | None = None
        self._started = time.monotonic()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        r"""Shows a stage while it runs.

        Args:
            name (str): Its name.
        """
        title = f'{name.replace("_", " ")} ({self._names.index(name) + 1}/{len(self._names)})'
        begun = time.monotonic()
        self._name, self._fraction, self.note = name, 0.0, ''
        shown = None
        if self.is_drawn:
            shown = tqdm(total=1, desc=title, unit='step', bar_format=FORMAT, file=self.file)
        self._bar = Bar(shown, self)
        self.show_left()
        try:
            yield
        except BaseException:
            if shown is not None:
                shown.close()
            raise
        seconds = time.monotonic() - begun
        self._finish(name)
        if shown is not None:
            shown.total = max(1, shown.n)  # clustering may converge early
            shown.n = shown.total
            self.show_left()
            shown.refresh()
            shown.close()
        else:
            left = self.left()
            more = '' if left is None else f', about {tqdm.format_interval(round(left))} left'
            self.file.write(f'{title}: {tqdm.format_interval(round(seconds))}{more}\n')
            self.file.flush()
        self._bar = None

    def skip(self) -> None:
        r"""Records that an interrupted build has finished the current stage."""
        assert self._name is not None
        self.shares[self._name] = 0.0

    def bar(self, total: int, unit: str, n: int = 0) -> Bar:
        r"""The bar of the current stage, for a number of steps.

        Args:
            total (int): The number of steps.
            unit (str): What is counted.
            n (int, optional): How many are done. (default: :obj:`0`)
        """
        assert self._bar is not None and self._name is not None
        if self._bar.shown is not None:
            self._bar.shown.unit = unit
        if n > 0:  # the rest of a stage that was interrupted
            self.shares[self._name] *= max(0, total - n) / max(1, total)
        self._bar.reset(total, n)
        return self._bar

    def at(self, fraction: float) -> None:
        r"""Records how much of the current stage is done. It never goes back.

        Args:
            fraction (float): The share of the stage.
        """
        self._fraction = max(self._fraction, min(1.0, fraction))
        self.show_left()

    def left(self) -> float | None:
        r"""The estimated seconds left of all stages, or :obj:`None` at the beginning."""
        done = self._done + (self.shares[self._name] * self._fraction if self._name else 0.0)
        whole = sum(self.shares.values())
        if done <= 0.0 or whole <= 0.0:
            return None
        return (time.monotonic() - self._started) * max(0.0, whole - done) / done

    def show_left(self) -> None:
        r"""Writes the time left beside the bar."""
        if self._bar is None or self._bar.shown is None:
            return
        left = self.left()
        whole = '' if left is None else f'about {tqdm.format_interval(round(left))} left in total'
        text = ', '.join(part for part in (whole, self.note) if part)
        self._bar.shown.set_postfix_str(text, refresh=False)

    def _finish(self, name: str) -> None:
        self._done += self.shares[name]
        self._name, self._fraction = None, 0.0  # the note stays beside the finished bar


Log = bool | Progress  # whether to show progress, or the progress of the build to show it in


@contextmanager
def progress_bar(log: Log, total: int, desc: str, unit: str, n: int = 0) -> Iterator[Bar]:
    r"""Shows the progress of some work: in the stage of a build, as a bar of its
    own on a terminal, or not at all.

    Args:
        log (bool or Progress): Whether to show it, and in which build.
        total (int): The number of steps.
        desc (str): What is done.
        unit (str): What is counted.
        n (int, optional): How many steps are done. (default: :obj:`0`)
    """
    if isinstance(log, Progress):
        yield log.bar(total, unit, n)
        return
    disable = None if log else True  # None draws on terminals only
    with tqdm(total=total, initial=n, desc=desc, unit=unit, disable=disable) as shown:
        bar = Bar(None if shown.disable else shown)
        bar.total, bar.n, bar.start = total, n, n
        yield bar
