"""Control groups: what a node may use of the machine, and what it has used.

Groups can outlive the harness that made them. So they carry it in their name, and the next one
finds and removes them (`remove_leftovers`).
"""

import os
import re
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from nodewise.base.errors import RunError
from nodewise.study.spec import Rehearsal

# Weight of the parent group: usual, and such that no other load takes what a node was promised.
_SHARES = ("1024", "262144")
_WEIGHTS = ("100", "10000")  # the same in version 2
_COMMUNICATION = ("gloo", "pt_gloo")  # how the threads begin that a network card would replace
_END_SECONDS = 15.0
_GONE = (FileNotFoundError, ProcessLookupError)
_SETS = count()
_ENTER = """set -e
while [ "$1" != -- ]; do echo $$ > "$1"; shift; done
shift
exec "$@" """
# Of a rank that a local mpiexec starts, @ in the name of a file is the number of the rank.
_ENTER_AS_RANK = """set -e
rank=${PMI_RANK:-$OMPI_COMM_WORLD_RANK}
while [ "$1" != -- ]; do echo $$ > "${1%@*}$rank${1##*@}"; shift; done
shift
exec "$@" """


class Groups:
    """Control groups of version 1: a tree for each controller, the same names in each.

    Every node has a group with the memory and disk limits, and in it one group with the quota
    for the job and one without for communication, as a network card works beside the cores.
    """

    _threads = "tasks"
    _memory_events = "memory.oom_control"

    def __init__(self, name: str, trees: dict[str, Path], period_us: int) -> None:
        """`trees` are the folders in which the groups called `name` are made."""
        self._trees = {controller: tree / name for controller, tree in trees.items()}
        self._period_us = period_us
        for group in self._all("."):
            group.mkdir(exist_ok=True)

    def make(self, node: str) -> None:
        """The groups of one node, without limits so far."""
        for group in self._all(node):
            group.mkdir(exist_ok=True)
        for tree in self._cpu_trees():
            for part in ("job", "communication"):
                (tree / node / part).mkdir()
        _set(self._trees["cpu"] / node / "job" / "cpu.cfs_period_us", str(self._period_us))

    def adopt(self, node: str, process: int) -> None:
        """Count a process to the node, outside of its quota."""
        for group in self._all(node):
            (group / "cgroup.procs").write_text(str(process))

    def procs_files(self, node: str) -> list[Path]:
        """The files a process writes its id to, to run under the node's limits."""
        jobs = [tree / node / "job" for tree in self._cpu_trees()]
        others = [group for group in self._all(node) if group.parent not in self._cpu_trees()]
        return [group / "cgroup.procs" for group in (*jobs, *others)]

    def entered(self, node: str, command: Sequence[str]) -> list[str]:
        """The command as it is started under the node's limits."""
        procs_files = [str(file) for file in self.procs_files(node)]
        return ["sh", "-c", _ENTER, node, *procs_files, "--", *command]

    def entered_by_ranks(self, command: Sequence[str]) -> list[str]:
        """The command of all ranks of a local mpiexec: each rank enters the node of its number."""
        procs_files = [str(file) for file in self.procs_files("node@")]
        return ["sh", "-c", _ENTER_AS_RANK, "rank", *procs_files, "--", *command]

    def limit_cpu(self, node: str, cores: float | None) -> None:
        """Give the job this many cores; None lifts the limit."""
        quota = -1 if cores is None else round(cores * self._period_us)
        _set(self._trees["cpu"] / node / "job" / "cpu.cfs_quota_us", str(quota))

    def cores(self, node: str) -> float | None:
        """The limit that is in force, as the kernel tells it."""
        quota = int((self._trees["cpu"] / node / "job" / "cpu.cfs_quota_us").read_text())
        return None if quota < 0 else quota / self._period_us

    def shield(self, on: bool) -> None:
        """Put the nodes before all other load; only under quotas, else nothing else would run."""
        _set(self._trees["cpu"] / "cpu.shares", _SHARES[on])

    def limit_memory(self, node: str, size: int) -> None:
        """Memory and swap together, rounded down to whole pages."""
        pages = size // os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PAGE_SIZE")
        group = self._trees["memory"] / node
        _set(group / "memory.limit_in_bytes", str(pages))
        if (group / "memory.memsw.limit_in_bytes").exists():
            _set(group / "memory.memsw.limit_in_bytes", str(pages))

    def limit_disk(self, node: str, device: str, rate: int) -> None:
        """Bytes a second that the node reads from and writes to a device."""
        for way in ("read", "write"):
            file = self._trees["blkio"] / node / f"blkio.throttle.{way}_bps_device"
            _set(file, f"{device} {rate}")

    def cpu_seconds(self, node: str) -> float | None:
        """CPU time that the job has used under its quota; None if it is not counted."""
        return int((self._trees["cpuacct"] / node / "job" / "cpuacct.usage").read_text()) / 1e9

    def periods(self, node: str) -> tuple[int, int] | None:
        """How many quota periods the job was awake in, and in how many it used all it had."""
        facts = _figures(self._trees["cpu"] / node / "job" / "cpu.stat")
        return int(facts.get("nr_periods", 0)), int(facts.get("nr_throttled", 0))

    def throttled_seconds(self, node: str) -> float | None:
        """How long the quota held the job up so far; None if it is not counted."""
        facts = _figures(self._trees["cpu"] / node / "job" / "cpu.stat")
        if "throttled_usec" in facts:
            return int(facts["throttled_usec"]) / 1e6
        return int(facts.get("throttled_time", 0)) / 1e9

    def memory_kills(self, node: str) -> int:
        """How many processes the kernel has ended because the node's memory was full."""
        if "memory" not in self._trees:
            return 0
        return int(_figures(self._trees["memory"] / node / self._memory_events)["oom_kill"])

    def release_communication(self, node: str) -> int:
        """Move the threads that only move bytes out of the quota; says how many."""
        moved = 0
        for thread in (self._trees["cpu"] / node / "job" / self._threads).read_text().split():
            with suppress(*_GONE):
                if Path(f"/proc/{thread}/comm").read_text().startswith(_COMMUNICATION):
                    for tree in self._cpu_trees():
                        (tree / node / "communication" / self._threads).write_text(thread)
                    moved += 1
        return moved

    def kill(self, node: str, part: str = "job") -> None:
        """End what runs under the node's quota, or all of it if `part` is '.'."""
        _kill(self._trees["cpu"] / node / part)

    def remove(self) -> None:
        """End every process and remove every group."""
        for group in self._all("."):
            _remove(group)

    def _cpu_trees(self) -> list[Path]:
        names = [name for name in ("cpu", "cpuacct") if name in self._trees]
        return list(dict.fromkeys(self._trees[name] for name in names))

    def _all(self, node: str) -> list[Path]:
        return list(dict.fromkeys(tree / node for tree in self._trees.values()))


class UnifiedGroups(Groups):
    """Control groups of version 2: one tree, in which `job` and `communication` are threaded."""

    _threads = "cgroup.threads"
    _memory_events = "memory.events"

    def __init__(self, name: str, trees: dict[str, Path], period_us: int) -> None:
        """All controllers have the same tree, and are handed down in it."""
        super().__init__(name, trees, period_us)
        group = self._trees["cpu"]
        for folder in (group.parent, group):
            switch = folder / "cgroup.subtree_control"
            missing = set(trees).difference(switch.read_text().split())
            if missing:
                switch.write_text(" ".join(f"+{name}" for name in sorted(missing)))

    def cores(self, node: str) -> float | None:
        """The limit that is in force, as the kernel tells it."""
        quota, period = (self._trees["cpu"] / node / "job" / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)

    def shield(self, on: bool) -> None:
        """Put the nodes before all other load; only under quotas, else nothing else would run."""
        _set(self._trees["cpu"] / "cpu.weight", _WEIGHTS[on])

    def make(self, node: str) -> None:
        """The groups of one node; the quota may then differ between threads of one process."""
        group = self._trees["cpu"] / node
        group.mkdir()
        for part in ("job", "communication"):
            (group / part).mkdir()
            (group / part / "cgroup.type").write_text("threaded")
        (group / "cgroup.subtree_control").write_text("+cpu")

    def procs_files(self, node: str) -> list[Path]:
        """The file a process writes its id to, to run under the node's limits."""
        return [self._trees["cpu"] / node / "job" / "cgroup.procs"]

    def limit_cpu(self, node: str, cores: float | None) -> None:
        """Give the job this many cores; None lifts the limit."""
        quota = "max" if cores is None else str(round(cores * self._period_us))
        _set(self._trees["cpu"] / node / "job" / "cpu.max", f"{quota} {self._period_us}")

    def limit_memory(self, node: str, size: int) -> None:
        """Memory, rounded down to whole pages, and no swap."""
        pages = size // os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PAGE_SIZE")
        _set(self._trees["cpu"] / node / "memory.max", str(pages))
        if (self._trees["cpu"] / node / "memory.swap.max").exists():
            _set(self._trees["cpu"] / node / "memory.swap.max", "0")

    def limit_disk(self, node: str, device: str, rate: int) -> None:
        """Bytes a second that the node reads from and writes to a device."""
        _set(self._trees["cpu"] / node / "io.max", f"{device} rbps={rate} wbps={rate}")

    def cpu_seconds(self, node: str) -> float:
        """CPU time that the job has used under its quota."""
        return int(_figures(self._trees["cpu"] / node / "job" / "cpu.stat")["usage_usec"]) / 1e6


class NoGroups(Groups):
    """Where control groups are not allowed: nothing is limited or counted, so ranks are paced."""

    def __init__(self) -> None:
        """Nothing is made."""
        self._trees = {}

    def make(self, node: str) -> None:
        """Nothing to make."""

    def adopt(self, node: str, process: int) -> None:
        """Processes stay where they are."""

    def procs_files(self, node: str) -> list[Path]:
        """There are none."""
        return []

    def entered(self, node: str, command: Sequence[str]) -> list[str]:
        """The command as it is."""
        return [*command]

    def entered_by_ranks(self, command: Sequence[str]) -> list[str]:
        """The command as it is."""
        return [*command]

    def limit_cpu(self, node: str, cores: float | None) -> None:
        """Only a limit that is lifted can be had."""
        if cores is not None:
            raise RunError(
                "The program calls neither probe.setup nor probe.steps, so it cannot be paced, "
                "and a CPU quota needs control groups.",
                "Call them in the program, or run as root.",
            )

    def cores(self, node: str) -> float | None:
        """No limit."""
        return None

    def shield(self, on: bool) -> None:
        """The nodes compete with other load as usual."""

    def cpu_seconds(self, node: str) -> float | None:
        """Not counted."""
        return None

    def periods(self, node: str) -> tuple[int, int] | None:
        """Not counted."""
        return None

    def throttled_seconds(self, node: str) -> float | None:
        """Not counted."""
        return None

    def release_communication(self, node: str) -> int:
        """Nothing to leave without a quota."""
        return 0

    def kill(self, node: str, part: str = "job") -> None:
        """Who started a process ends it."""

    def remove(self) -> None:
        """Nothing was made."""


def make_groups(options: Rehearsal) -> Groups:
    """A set of groups, empty so far, of the version that this machine has."""
    if missing_for_groups(options) is not None:
        return NoGroups()
    trees = _trees(options)
    kind = Groups if "cpuacct" in trees else UnifiedGroups
    return kind(_set_name(), trees, round(options.period_ms * 1000))


def missing_for_groups(options: Rehearsal) -> str | None:
    """What this machine lacks for such groups, in words; None if nothing."""
    try:
        trees = _trees(options)
    except KeyError as error:
        return f"a control group controller for {error.args[0]}"
    shut = [str(tree) for tree in trees.values() if not os.access(tree, os.W_OK)]
    return f"the right to write to {shut[0]}" if shut else None


def remove_leftovers() -> list[str]:
    """End and remove the groups of harnesses that have ended; returns their names."""
    dead = [group for group in _find_groups() if not _is_alive(group.name)]
    for group in dead:
        with suppress(FileNotFoundError):  # another harness was faster
            _remove(group)
    return sorted({group.name for group in dead})


def _find_groups() -> list[Path]:
    """All groups of this kind that may be removed, of any process."""
    walks = [os.walk(mount) for mount in set(_mounts().values())]
    found = [Path(folder, name) for walk in walks for folder, names, _ in walk for name in names]
    ours = [group for group in found if re.fullmatch(r"nodewise-\d+-\d+-\d+", group.name)]
    return [group for group in ours if os.access(group, os.W_OK)]


def _trees(options: Rehearsal) -> dict[str, Path]:
    """Where the groups of each controller that is needed are made."""
    mounts = _mounts()
    memory, disk = options.memory_bytes is not None, options.disk_bytes_per_second is not None
    if "cpu" in mounts:
        trees = {name: _highest(mounts[name], name) for name in ("cpu", "cpuacct")}
        names = [*["memory"] * memory, *["blkio"] * disk]
        # Limits that we are under ourselves stay in force.
        return trees | {name: _way_down(mounts[name], name)[-1] for name in names}
    top = _highest(mounts["unified"], "") if "unified" in mounts else Path("/nowhere")
    offered = (top / "cgroup.controllers").read_text().split() if top.exists() else []
    given = dict.fromkeys(offered, top)
    return {name: given[name] for name in ["cpu", *["memory"] * memory, *["io"] * disk]}


def _highest(mount: Path, controller: str) -> Path:
    """The highest group we may write to, as only there our weight counts against all else."""
    way = _way_down(mount, controller)
    return next((group for group in way if os.access(group / "cgroup.procs", os.W_OK)), way[-1])


def _way_down(mount: Path, controller: str) -> list[Path]:
    """The groups from the mount down to the one this process is in, as far as they are seen."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        if controller in controllers.split(","):
            own = mount / group.lstrip("/")
            way = (*reversed(own.parents), own)
            return [path for path in way if path.is_relative_to(mount) and path.is_dir()]
    return [mount]


def _mounts() -> dict[str, Path]:
    """Where each controller of version 1 is mounted, and version 2 as 'unified'."""
    found = {}
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, folder, kind, settings, *_ = line.split()
        if kind == "cgroup2":
            found["unified"] = Path(folder)
        elif kind == "cgroup":
            found.update(dict.fromkeys(settings.split(","), Path(folder)))
    return found


def _set_name() -> str:
    """A name that says which harness made it: its process and when that began."""
    return f"nodewise-{os.getpid()}-{_birth(os.getpid())}-{next(_SETS)}"


def _is_alive(name: str) -> bool:
    """Whether the harness that made a group still runs; a number alone could be taken again."""
    _, process, birth, _ = name.split("-")
    return _birth(int(process)) == birth


def _birth(process: int) -> str | None:
    """When a process began, in clock ticks; None if it is gone or only waits to be collected."""
    try:
        facts = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except _GONE:
        return None
    return None if facts[0] == "Z" else facts[19]


def _kill(group: Path) -> None:
    """Kill all in a group and below, until the group is empty."""
    deadline = time.monotonic() + _END_SECONDS
    while members := _processes(group):
        if time.monotonic() > deadline:
            raise RunError(f"Processes {members} do not end.", "See what they wait for: ps -l.")
        for member in members:
            with suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)
        time.sleep(0.005)


def _processes(group: Path) -> set[int]:
    """Who is in a group or below; threaded groups tell threads only, which are as good to kill."""
    found: set[int] = set()
    for name in ("cgroup.procs", "cgroup.threads"):
        for file in group.glob(f"**/{name}"):
            with suppress(OSError):  # gone by now, or a threaded group
                found.update(int(word) for word in file.read_text().split())
    return found


def _remove(group: Path) -> None:
    """Kill all in a group, then remove it from the leaves up."""
    _kill(group)
    below = sorted(group.glob("**/"), reverse=True)
    for folder in below:
        with suppress(FileNotFoundError):
            folder.rmdir()


def _figures(file: Path) -> dict[str, str]:
    """A file with a name and a number on each line."""
    return dict(line.split() for line in file.read_text().splitlines())


def _set(file: Path, text: str) -> None:
    """Write a limit and read it back: some are refused without a word."""
    try:
        file.write_text(text)
        got = file.read_text().strip()
    except OSError as error:
        got = str(error.strerror)
    if got.split()[: len(text.split())] != text.split():
        raise RunError(
            f"{file} does not take {text}: {got}.",
            "Choose a larger limit or period; a quota below 1 ms a period is not possible.",
        )


def disk_of(path: Path) -> str:
    """The number of the whole disk that a folder is on, as the kernel limits it."""
    number = path.stat().st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not device.exists():
        raise RunError(f"{path} is not on a disk.", "Leave out disk_bytes_per_second.")
    whole = device.resolve().parent if (device / "partition").exists() else device
    return (whole / "dev").read_text().strip()
