"""Virtual nodes on one machine: each has its own share of the CPU, network, link, name and memory.

The nodes hang on one switch that leads nowhere else: the machine's own network stays as it is.
Their namespaces live as long as a process that waits for the end of its input, so they end with
the harness, however it ends. Only control groups can outlive it, and those carry the harness in
their name, so that the next one finds and removes them (`remove_leftovers`).
"""

import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from typing import Any

from nodewise.errors import RunError
from nodewise.spec import Rehearsal

TOOLS = ("ip", "tc", "unshare", "nsenter", "mount", "hostname")
HEAD = "head"  # beside the nodes and without limits: the switch, and launchers such as mpiexec

# Weight of the parent group: usual, and such that no other load takes what a node was promised.
_SHARES = ("1024", "262144")
_WEIGHTS = ("100", "10000")  # the same in version 2
_MTU_BYTES = 9000  # at 1500, a wake-up for each packet costs more than the link
_QUEUE_BYTES = 16_000_000  # enough that nothing is dropped when all nodes send to one
_WAIT_SECONDS = 15.0
_COMMUNICATION = ("gloo", "pt_gloo")  # how the threads begin that a network card would replace
_NAMESPACES = ("--net", "--mount", "--uts", "--ipc")  # without the last, MPI has shared memory
_GONE = (FileNotFoundError, ProcessLookupError)
_SETS = count()

_HOLD = """set -e
mount -t tmpfs -o nosuid,nodev tmpfs /dev/shm
printf '%s' "$1" > /dev/shm/hosts
: > /dev/shm/nothing
mount --bind /dev/shm/hosts /etc/hosts
[ ! -e /etc/resolv.conf ] || mount --bind /dev/shm/nothing /etc/resolv.conf
rm /dev/shm/hosts /dev/shm/nothing
hostname "$0"
echo ready
exec cat > /dev/null"""

_ENTER = """set -e
while [ "$1" != -- ]; do echo $$ > "$1"; shift; done
shift
exec "$@" """


class Groups:
    """Control groups of version 1: a tree for each controller, the same names in each.

    Every node has a group with the memory and disk limits, and in it one group with the quota
    for the job and one without for communication, as a network card works beside the cores.
    """

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

    def doors(self, node: str) -> list[Path]:
        """The files a process writes its id to, to run under the node's limits."""
        jobs = [tree / node / "job" for tree in self._cpu_trees()]
        others = [group for group in self._all(node) if group.parent not in self._cpu_trees()]
        return [group / "cgroup.procs" for group in (*jobs, *others)]

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

    def cpu_seconds(self, node: str) -> float:
        """CPU time that the job has used under its quota."""
        return int((self._trees["cpuacct"] / node / "job" / "cpuacct.usage").read_text()) / 1e9

    def periods(self, node: str) -> tuple[int, int]:
        """How many quota periods the job was awake in, and in how many it used all it had."""
        lines = (self._trees["cpu"] / node / "job" / "cpu.stat").read_text().splitlines()
        facts = dict(line.split() for line in lines)
        return int(facts.get("nr_periods", 0)), int(facts.get("nr_throttled", 0))

    def release_communication(self, node: str) -> int:
        """Move the threads that only move bytes out of the quota; says how many."""
        threads = self._threads()
        moved = 0
        for thread in (self._trees["cpu"] / node / "job" / threads).read_text().split():
            with suppress(*_GONE):
                if Path(f"/proc/{thread}/comm").read_text().startswith(_COMMUNICATION):
                    for tree in self._cpu_trees():
                        (tree / node / "communication" / threads).write_text(thread)
                    moved += 1
        return moved

    def kill(self, node: str, part: str = "job") -> None:
        """End what runs under the node's quota, or all of it if `part` is '.'."""
        _kill(self._trees["cpu"] / node / part)

    def remove(self) -> None:
        """End every process and remove every group."""
        for group in self._all("."):
            _remove(group)

    def _threads(self) -> str:
        return "tasks"

    def _cpu_trees(self) -> list[Path]:
        names = [name for name in ("cpu", "cpuacct") if name in self._trees]
        return list(dict.fromkeys(self._trees[name] for name in names))

    def _all(self, node: str) -> list[Path]:
        return list(dict.fromkeys(tree / node for tree in self._trees.values()))


class UnifiedGroups(Groups):
    """Control groups of version 2: one tree, in which `job` and `communication` are threaded."""

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

    def doors(self, node: str) -> list[Path]:
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
        lines = (self._trees["cpu"] / node / "job" / "cpu.stat").read_text().splitlines()
        return int(dict(line.split() for line in lines)["usage_usec"]) / 1e6

    def _threads(self) -> str:
        return "cgroup.threads"


class Node:
    """The namespaces of one node, held open by a process, and the way to start others in them."""

    def __init__(self, name: str, hosts: str, outer: "Node | None") -> None:
        """`hosts` is its own hosts file; without root, `outer` has the rights to wire it."""
        self.name = name
        make = _make_namespaces() if outer is None else ["unshare", *_NAMESPACES]
        self._holder = subprocess.Popen(
            [*(outer.inside(make, spaces=()) if outer else make), "sh", "-c", _HOLD, name, hosts],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def process(self) -> int:
        """The process that holds the namespaces open."""
        return self._holder.pid

    def wait_until_ready(self) -> None:
        """The node's files and name are in place."""
        output = self._holder.stdout
        assert output is not None
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            said = output.readline().decode() if selector.select(_WAIT_SECONDS) else "no answer"
        if said != "ready\n":
            raise RunError(
                f"{self.name} cannot be made: {said.strip()}",
                "Namespaces must be allowed: run as root, in a container with --privileged.",
            )

    def inside(
        self, command: Sequence[str], spaces: Sequence[str] = _NAMESPACES, from_head: bool = False
    ) -> list[str]:
        """The command as it is started in the node's namespaces, but outside of its limits."""
        # Without root the rights come with the user namespace; who is on the head has them.
        user = ("--user", "--preserve-credentials") if os.geteuid() and not from_head else ()
        target = f"--target={self.process}"
        return ["nsenter", target, *user, *spaces, "--", *command] if user or spaces else [*command]

    def configure(self, tool: str, lines: Sequence[str]) -> None:
        """Give `ip` or `tc` their orders in the node's network."""
        _run(self.inside([tool, "-batch", "-"], ["--net"]), "\n".join(lines) + "\n")

    def ask(self, *command: str) -> list[dict[str, Any]]:
        """What `ip` or `tc` say of the node's network."""
        answer: list[dict[str, Any]] = json.loads(
            _run(self.inside([command[0], "-json", *command[1:]], ["--net"]))
        )
        return answer

    def traffic_bytes(self) -> tuple[int, int]:
        """Bytes that came in and went out over the node's link so far."""
        for line in Path(f"/proc/{self.process}/net/dev").read_text().splitlines():
            device, _, figures = line.partition(":")
            if device.strip() == "eth0":
                return int(figures.split()[0]), int(figures.split()[8])
        raise RunError(f"{self.name} has lost its link.", "Run the study again.")

    def close(self) -> None:
        """Let the namespaces go."""
        self._holder.kill()
        self._holder.communicate()


class VirtualNodes:
    """A set of equal nodes on one switch, called node0, node1 and so on."""

    def __init__(self, nodes: int, options: Rehearsal, disk: Path) -> None:
        """Make the nodes, all limits but the CPU's in force; `disk` is on the device to limit."""
        self._options = options
        self._disk = disk
        self._members: list[Node] = []
        trees = _trees(options)
        kind = Groups if "cpuacct" in trees else UnifiedGroups
        self._groups = kind(_set_name(), trees, round(options.period_ms * 1000))
        with ExitStack() as undo:
            undo.callback(self.remove)
            hosts = _hosts(nodes)
            self.head = self._make(HEAD, hosts, None)
            self.head.wait_until_ready()
            self._nodes = [self._make(f"node{index}", hosts, self.head) for index in range(nodes)]
            for member in self._nodes:
                member.wait_until_ready()
            self._connect()
            self._read_back()
            undo.pop_all()

    def __len__(self) -> int:
        """How many nodes there are, the head apart."""
        return len(self._nodes)

    def command(
        self, node: int | None, command: Sequence[str], directory: Path, from_head: bool = False
    ) -> list[str]:
        """The command as it is started on a node, or on the head if that is None."""
        member = self.head if node is None else self._nodes[node]
        doors = [str(door) for door in self._groups.doors(member.name)]
        there = ["sh", "-c", 'cd "$0" && exec "$@"', str(directory), *command]
        there = member.inside(there, from_head=from_head)
        return ["sh", "-c", _ENTER, member.name, *doors, "--", *there]

    def limit(self, cores: Sequence[float]) -> None:
        """Give the first nodes this many cores, and put them before all other load."""
        for node, share in enumerate(cores):
            self._groups.limit_cpu(f"node{node}", share)
        self._groups.shield(True)

    def unlimit(self) -> None:
        """Lift the quotas of all nodes; they compete with other load as usual."""
        self._groups.shield(False)
        for node in self._nodes:
            self._groups.limit_cpu(node.name, None)

    def cores(self, node: int) -> float | None:
        """The quota of a node that is in force, None without."""
        return self._groups.cores(f"node{node}")

    def cpu_seconds(self, node: int) -> float:
        """CPU time used under the node's quota so far."""
        return self._groups.cpu_seconds(f"node{node}")

    def periods(self, node: int) -> tuple[int, int]:
        """Quota periods so far: with work to do, and with the quota used up."""
        return self._groups.periods(f"node{node}")

    def traffic_bytes(self, node: int) -> tuple[int, int]:
        """Bytes in and out of the node's link so far."""
        return self._nodes[node].traffic_bytes()

    def release_communication(self, node: int) -> int:
        """Move threads that only move bytes out of the node's quota; says how many."""
        return self._groups.release_communication(f"node{node}")

    def kill(self) -> None:
        """End every job on the nodes and the head."""
        for member in self._members:
            self._groups.kill(member.name)

    def remove(self) -> None:
        """End every process and remove everything that was made."""
        for member in self._members:
            member.close()
        self._members.clear()
        self._groups.remove()

    def _make(self, name: str, hosts: str, outer: Node | None) -> Node:
        self._groups.make(name)
        member = Node(name, hosts, outer)
        self._members.append(member)
        self._groups.adopt(name, member.process)
        if name != HEAD:
            if self._options.memory_bytes is not None:
                self._groups.limit_memory(name, self._options.memory_bytes)
            if self._options.disk_bytes_per_second is not None:
                rate = self._options.disk_bytes_per_second
                self._groups.limit_disk(name, _device(self._disk), rate)
        return member

    def _connect(self) -> None:
        """Wire each node to the switch; both ends of the wire are limited, so it is full duplex."""
        limit = _link_limit(self._options)
        wires = [
            "link set lo up",
            f"link add switch mtu {_MTU_BYTES} type bridge mcast_snooping 0",
            "link set switch addrgenmode none up",
            f"address add {_address(None)}/16 dev switch",
        ]
        for index, node in enumerate(self._nodes):
            far_end = f"name eth0 mtu {_MTU_BYTES} netns {node.process}"
            wires += [
                f"link add port{index} mtu {_MTU_BYTES} type veth peer {far_end}",
                f"link set port{index} addrgenmode none master switch up",
            ]
        self.head.configure("ip", wires)
        ports = range(len(self._nodes))
        self.head.configure("tc", [f"qdisc add dev port{port} root {limit}" for port in ports])
        for index, node in enumerate(self._nodes):
            node.configure("tc", [f"qdisc add dev eth0 root {limit}"])
            up = ["link set lo up", "link set eth0 addrgenmode none up"]
            node.configure("ip", [*up, f"address add {_address(index)}/16 dev eth0"])

    def _read_back(self) -> None:
        """Trust no limit that was not seen."""
        ports = {f"port{index}" for index in range(len(self._nodes))}
        wanted = round(self._options.link_mbit_per_second * 1e6 / 8)
        for member in self._members:
            devices = ports if member is self.head else {"eth0"}
            sizes = {link["ifname"]: link["mtu"] for link in member.ask("ip", "link", "show")}
            queues = member.ask("tc", "qdisc", "show")
            rates = {queue["dev"]: queue["options"].get("rate") for queue in queues}
            for device in devices:
                if sizes.get(device) != _MTU_BYTES or rates.get(device) != wanted:
                    raise RunError(
                        f"The link of {member.name} has a rate of {rates.get(device)} byte/s "
                        f"instead of {wanted} and packets of {sizes.get(device)} bytes.",
                        "Choose another link_mbit_per_second; see `tc qdisc add ... tbf` by hand.",
                    )


def remove_leftovers() -> list[str]:
    """End and remove what harnesses that are no more have left behind; says their names."""
    dead = [group for group in _find_groups() if not _is_alive(group.name)]
    for group in dead:
        with suppress(FileNotFoundError):  # another harness was faster
            _remove(group)
    return sorted({group.name for group in dead})


def _find_groups() -> list[Path]:
    """All groups of our kind that we may remove, whoever made them."""
    walks = [os.walk(mount) for mount in set(_mounts().values())]
    found = [Path(folder, name) for walk in walks for folder, names, _ in walk for name in names]
    ours = [group for group in found if re.fullmatch(r"nodewise-\d+-\d+-\d+", group.name)]
    return [group for group in ours if os.access(group, os.W_OK)]


def missing(options: Rehearsal) -> str | None:
    """What this machine lacks for such nodes, in words; None if nothing."""
    tools = [tool for tool in TOOLS if shutil.which(tool) is None]
    if tools:
        return f"the programs {', '.join(tools)}"
    trial = subprocess.run(
        [*_make_namespaces(), "true"], capture_output=True, check=False, timeout=_WAIT_SECONDS
    )
    if trial.returncode:
        return "the right to make namespaces"
    try:
        trees = _trees(options)
    except KeyError as error:
        return f"a control group controller for {error.args[0]}"
    shut = [str(tree) for tree in trees.values() if not os.access(tree, os.W_OK)]
    return f"the right to write to {shut[0]}" if shut else None


def _make_namespaces() -> list[str]:
    """How a command gets namespaces; without root, one of users comes first and gives the right."""
    user = ["--user", "--map-root-user"] if os.geteuid() else []
    return ["unshare", *user, *_NAMESPACES]


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
            return [path for path in (*reversed(own.parents), own) if _is_in(path, mount)]
    return [mount]


def _is_in(path: Path, mount: Path) -> bool:
    return path.is_relative_to(mount) and path.is_dir()


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
    """Kill all in a group and below, until there is nobody."""
    deadline = time.monotonic() + _WAIT_SECONDS
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


def _device(path: Path) -> str:
    """The number of the whole disk that a folder is on, as the kernel limits it."""
    number = path.stat().st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not device.exists():
        raise RunError(f"{path} is not on a disk.", "Leave out disk_bytes_per_second.")
    whole = device.resolve().parent if (device / "partition").exists() else device
    return (whole / "dev").read_text().strip()


def _address(node: int | None) -> str:
    """Where a node is found; the head stands at the end of the range."""
    return "10.77.255.254" if node is None else f"10.77.{(node + 1) // 256}.{(node + 1) % 256}"


def _hosts(nodes: int) -> str:
    """All names, also as mapped addresses, so that nobody asks a name server."""
    names = [(HEAD, _address(None)), *((f"node{i}", _address(i)) for i in range(nodes))]
    lines = [f"{address} {name}\n::ffff:{address} {name}\n" for name, address in names]
    return "127.0.0.1 localhost\n::1 localhost\n" + "".join(lines)


def _link_limit(options: Rehearsal) -> str:
    """The token bucket of a link: no more than a millisecond ahead, but some packets at least."""
    bits = round(options.link_mbit_per_second * 1e6)
    burst = max(4 * _MTU_BYTES, bits // 8 // 1000)
    return f"tbf rate {bits}bit burst {burst} limit {_QUEUE_BYTES}"


def _run(command: Sequence[str], text: str = "") -> str:
    """The output of a tool that must succeed."""
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=_WAIT_SECONDS, check=False
    )
    if done.returncode:
        raise RunError(
            f"{command[0]} failed: {done.stderr.strip()}", f"Try it by hand: {' '.join(command)}"
        )
    return done.stdout
