"""One scale again, on the commit before a slowdown and on this one, in alternating rounds.

Both commits share every round, so what disturbs the machine disturbs both alike. The earlier commit
is checked out in a git worktree, which is removed afterwards.
"""

import re
import signal
import subprocess
from collections.abc import Callable, Set
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from nodewise.base.errors import RunError, SpecError
from nodewise.base.interval import Interval
from nodewise.base.stats import ratio_interval
from nodewise.base.units import format_duration
from nodewise.history import git
from nodewise.history.check import Confirmation, HistoryCheck
from nodewise.history.entry import job_key
from nodewise.measure.engines.base import signal_group
from nodewise.measure.engines.registry import engine_of
from nodewise.measure.loop import measure
from nodewise.measure.scratch import scratch_folder
from nodewise.study import files
from nodewise.study.spec import Spec, parse_file
from nodewise.study.study import Run
from nodewise.study.telling_lines import failure

_BUILD_SECONDS = 3600
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


class Suspicion(msgspec.Struct, frozen=True):
    """What is to be measured again, and how much slower it seems."""

    workload: str
    nodes: int
    good: str  # the commit to compare with
    bad: str
    ratio: float


def names_of(spec: Spec) -> set[str]:
    """What a history may call the workload of a spec."""
    return {spec.name, job_key(spec, "strong"), job_key(spec, "weak")}


def suspicion(result: HistoryCheck, names: Set[str]) -> Suspicion | None:
    """The one scale of a workload whose repetition decides a check; None: nothing is suspected."""
    if result.state not in ("failed", "in doubt") or not result.regressions:
        return None
    places = {
        (entry.workload, nodes): found
        for found in sorted(result.regressions, key=lambda one: (one.confirmed, one.probability))
        for entry in result.newest
        for nodes in entry.nodes
        if found.covers(entry.workload, nodes)
    }
    if not places:
        return None
    ours = {place: found for place, found in places.items() if place[0] in names}
    if not ours:
        slow = ", ".join(dict.fromkeys(workload for workload, _ in places))
        raise SpecError(
            f"The slowdown is in {slow}, and the spec measures {min(names, key=len)}.",
            "Name the spec of that workload, or the workload of this spec with --workload.",
        )
    found = max(ours.values(), key=lambda one: (one.confirmed, one.probability))
    first = next(place for place, one in ours.items() if one is found)
    workload, nodes = found.measure_again if found.measure_again in ours else first
    return Suspicion(workload, nodes, found.good, found.bad, found.ratio)


def confirm(
    suspected: Suspicion,
    spec_file: Path,
    rounds: int,
    limit: float,
    build: str = "",
    tell: Callable[[str, Run], None] = lambda side, run: None,
) -> Confirmation:
    """Run the job of both commits in turn; slower only if the interval excludes the limit."""
    if not _COMMIT.fullmatch(suspected.good):
        raise SpecError(
            f"'{suspected.good}' is not a commit, so it cannot be measured again.",
            "Record commits: measure inside a git repository, or use history add --commit.",
        )
    home = spec_file.resolve().parent
    top = Path(git.git("rev-parse", "--show-toplevel", folder=home).decode().strip())
    inside = spec_file.resolve().relative_to(top.resolve())
    with git.worktree(suspected.good, home) as base, scratch_folder() as scratch:
        if build:
            _build(build, base)
        theirs = base / inside if (base / inside).is_file() else spec_file
        sides = {
            "base": _Side(theirs, (base / inside).parent, scratch / "base", suspected.nodes),
            "new": _Side(spec_file, home, scratch / "new", suspected.nodes),
        }
        for number in range(rounds):
            order = ("base", "new") if number % 2 == 0 else ("new", "base")
            for name in order:
                tell(name, sides[name].run(number))
    before, after = (np.array(sides[name].seconds) for name in ("base", "new"))
    bounds = ratio_interval(after, before, paired=True)
    return Confirmation(
        workload=suspected.workload,
        nodes=suspected.nodes,
        good=suspected.good,
        bad=suspected.bad,
        rounds=rounds,
        ratio=float(after.mean() / before.mean()),
        low=bounds.low,
        high=bounds.high,
        state=confirmed_state(bounds, suspected.ratio, limit),
    )


def confirmed_state(
    bounds: Interval, suspected: float, limit: float
) -> Literal["slower", "not slower", "in doubt"]:
    """Slower if the interval is above the limit; not slower if it is at or below it.

    Without a limit no interval is below it, so less than half of what was suspected is enough:
    what else differs by a hair between two commits is not what was suspected.
    """
    if bounds.high <= 1 + (limit or (suspected - 1) / 2):
        return "not slower"
    return "slower" if bounds.low > 1 + limit else "in doubt"


class _Side:
    """The job of one commit at one scale."""

    def __init__(self, spec_file: Path, home: Path, folder: Path, nodes: int) -> None:
        self._text = files.read_regular(spec_file).decode()
        spec, _ = parse_file(self._text)
        self._spec: Spec = msgspec.structs.replace(
            spec, scales=(nodes,), baseline=None, precision=None
        )
        self._home, self._folder = home, folder
        self.seconds: list[float] = []

    def run(self, number: int) -> Run:
        """One more round."""
        made: list[Run] = []
        spec = msgspec.structs.replace(self._spec, rounds=number + 1)
        engine = engine_of(spec.engine, self._home)
        measure(
            spec, self._text, self._home, self._folder, engine,
            lambda run, left: made.append(run), lambda study: False,
        )  # fmt: skip
        if not made or made[-1].outcome != "ok":
            why = failure(made[-1]) if made else "the run was abandoned"
            raise RunError(
                f"The job of {self._home} failed at K={spec.scales[0]}: {why}.",
                "Correct the job; a program that is compiled needs --build.",
            )
        self.seconds.append(made[-1].seconds)
        return made[-1]


def _build(command: str, folder: Path) -> None:
    with subprocess.Popen(
        ["bash", "-c", command], cwd=folder, stdin=subprocess.DEVNULL, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as started:  # fmt: skip
        is_over = False
        try:
            printed, errors = started.communicate(timeout=_BUILD_SECONDS)
            is_over = True
        except subprocess.TimeoutExpired:
            raise RunError(
                f"{command} took longer than {format_duration(_BUILD_SECONDS)}.",
                "Build in less time.",
            ) from None
        finally:
            if not is_over:
                signal_group(started.pid, signal.SIGKILL)  # the shell and what it started
    if started.returncode:
        said = (errors or printed).decode(errors="replace").strip().splitlines()
        raise RunError(
            f"{command} failed in the worktree: {said[-1] if said else 'no output'}.",
            "Name a command that builds the job from the root of the repository.",
        )
