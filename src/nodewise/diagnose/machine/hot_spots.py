"""Where a running Python program spends its time, by py-spy where that is installed."""

import contextlib
import shutil
import subprocess
from collections import Counter
from pathlib import Path

_SECONDS = 2
_RATE = 50
_LISTED = 3


class HotSpots:
    """A recording beside a program; `found` is empty if py-spy is missing or sees no Python."""

    def __init__(self, folder: Path) -> None:
        """Nothing yet; what is recorded goes to this folder."""
        self._program: subprocess.Popen[bytes] | None = None
        self._file = folder / "stacks.txt"

    def begin(self, process: int) -> None:
        """Record for a moment, without stopping the program."""
        spy = shutil.which("py-spy")
        if spy is None or self._program is not None:
            return
        how = f"--nonblocking --format raw --rate {_RATE} --duration {_SECONDS}".split()
        with contextlib.suppress(OSError):
            self._program = subprocess.Popen(
                [spy, "record", "--pid", str(process), *how, "--output", str(self._file)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def found(self) -> dict[str, float]:
        """The functions that ran, with their share of the looks; ends the recording."""
        if self._program is not None:
            try:
                self._program.wait(timeout=_SECONDS)
            except subprocess.TimeoutExpired:
                self._program.kill()
                self._program.wait()
        return shares_of(self._file.read_text()) if self._file.exists() else {}


def shares_of(stacks: str) -> dict[str, float]:
    """The innermost functions of folded stacks, the most frequent first.

    >>> shares_of("main (a.py:9);work (a.py:2) 30\\nmain (a.py:9);read (b.py:5) 10")
    {'work (a.py:2)': 0.75, 'read (b.py:5)': 0.25}
    """
    seen: Counter[str] = Counter()
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        if count.isdecimal():
            seen[stack.rpartition(";")[2]] += int(count)
    whole = sum(seen.values())
    return {name: count / whole for name, count in seen.most_common(_LISTED)}
