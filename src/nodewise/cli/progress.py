"""Progress on stderr: one line that changes on a terminal, a plain line for each step in a pipe."""

import sys
import time
from typing import TYPE_CHECKING

import click

from nodewise.base.units import format_duration

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class ProgressLine:
    """What is done, what is left, and about how long that takes."""

    def __init__(self, first: str) -> None:
        """`first` is shown until the first step is finished."""
        self._first = first
        self._begin = time.monotonic()
        self._done = 0
        self._bar = _bar() if sys.stderr.isatty() else None
        self._task: TaskID | None = None

    def __enter__(self) -> "ProgressLine":
        """Show the line."""
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task(self._first, total=None)
        return self

    def __exit__(self, *_: object) -> None:
        """Take the line away; what was noted stays."""
        if self._bar is not None:
            self._bar.stop()

    def step(self, line: str, left: int | None = None, alike: bool = True) -> float:
        """A step is finished, and `left` are still to be made; the seconds that one takes.

        The time left is shown only if the steps left are `alike` the finished ones.
        """
        self._done += 1
        each = (time.monotonic() - self._begin) / self._done
        rest = f"about {format_duration(each * left, digits=2)} left" if left and alike else ""
        if self._bar is None:
            told = f"{left} to go, {rest}" if rest else f"{left} to go"
            click.echo(f"{line}  ({told})" if left else line, err=True)
        else:
            assert self._task is not None
            total = None if left is None else self._done + left
            words = f"{line}  {rest}".rstrip()
            self._bar.update(self._task, description=words, completed=self._done, total=total)
        return each

    def note(self, line: str) -> None:
        """A line that stays."""
        if self._bar is None:
            click.echo(line, err=True)
        else:
            self._bar.console.print(line, markup=False, highlight=False)


def _bar() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    return Progress(
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.description}", markup=False),
        console=Console(stderr=True),
        transient=True,
    )
