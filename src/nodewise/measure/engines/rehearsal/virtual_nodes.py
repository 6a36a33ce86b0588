"""Virtual nodes on one machine: each has its own share of the CPU, network, link, name and memory.

The nodes hang on one switch that leads nowhere else: the machine's own network stays as it is.
Their namespaces live as long as a process that waits for the end of its input, so they end with
the harness, however it ends. How much of the machine a node gets, its control groups say.
"""

import functools
import json
import os
import selectors
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from nodewise.base.errors import RunError
from nodewise.measure.engines.rehearsal import control_groups
from nodewise.study.spec import Rehearsal

TOOLS = ("ip", "tc", "unshare", "nsenter", "mount", "hostname")
_ADMINISTRATORS = "/usr/sbin:/sbin"
HEAD = "head"  # beside the nodes and without limits: the switch, and launchers such as mpiexec

_MTU_BYTES = 1500, 9000  # least and most: at 1500 a wake-up for each packet costs more than a fast
_PACKET_SECONDS = 0.001  # link, and at 9000 each hop over a slow one waits for a whole packet
_QUEUE_BYTES = 16_000_000  # enough that nothing is dropped when all nodes send to one
_WAIT_SECONDS = 60.0  # a busy machine takes long to start a tool
_NAMESPACES = ("--net", "--mount", "--uts", "--ipc")  # without the last, MPI has shared memory
_KINDS = ("net", "uts", "ipc", "mnt")  # the same, in the words of the kernel

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

    @property
    def is_lost(self) -> bool:
        """Whether that process was ended."""
        return self._holder.poll() is not None

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

    def spaces(self) -> list[str]:
        """The files of its namespaces, in the order in which a process has to join them."""
        user = ["user"] if os.geteuid() else []
        return [f"/proc/{self.process}/ns/{kind}" for kind in (*user, *_KINDS)]

    def configure(self, tool: str, lines: Sequence[str]) -> None:
        """Give `ip` or `tc` their orders in the node's network."""
        command = [_where(tool) or tool, "-batch", "-"]
        _run(self.inside(command, ["--net"]), "\n".join(lines) + "\n")

    def ask(self, tool: str, *words: str) -> list[dict[str, Any]]:
        """What `ip` or `tc` say of the node's network."""
        command = [_where(tool) or tool, "-json", *words]
        answer: list[dict[str, Any]] = json.loads(_run(self.inside(command, ["--net"])))
        return answer

    def traffic_bytes(self) -> tuple[int, int] | None:
        """Bytes that came in and went out over the node's link so far; None: the node is lost."""
        if self.is_lost:
            return None
        for line in Path(f"/proc/{self.process}/net/dev").read_text().splitlines():
            device, _, figures = line.partition(":")
            if device.strip() == "eth0":
                return int(figures.split()[0]), int(figures.split()[8])
        raise RunError(f"{self.name} has lost its link.", "Run the study again.")

    def close(self) -> None:
        """Let the namespaces go."""
        self._holder.kill()
        self._holder.communicate()


class PlainNodes:
    """Nodes without namespaces: they share the machine's network, so their link is modelled."""

    link = "modelled"

    def __init__(self, nodes: int, options: Rehearsal, disk: Path) -> None:
        """Make the nodes, all limits but the CPU's in force; `disk` is on the device to limit."""
        self._options = options
        self._disk = disk
        self._names = [HEAD, *(f"node{index}" for index in range(nodes))]
        self.groups = control_groups.make_groups(options)
        with ExitStack() as undo:
            undo.callback(self.remove)
            self._make()
            undo.pop_all()

    def __len__(self) -> int:
        """How many nodes there are, the head apart."""
        return len(self._names) - 1

    def command(
        self, node: int | None, command: Sequence[str], directory: Path, from_head: bool = False
    ) -> list[str]:
        """The command as it is started on a node, or on the head if no node is given."""
        there = ["sh", "-c", 'cd "$0" && exec "$@"', str(directory), *command]
        return self.groups.entered(HEAD if node is None else f"node{node}", there)

    def procs_files(self, node: int) -> list[str]:
        """The files of the node's groups that a process writes its id to, to come in by itself."""
        return [str(file) for file in self.groups.procs_files(f"node{node}")]

    def spaces(self, node: int) -> list[str]:
        """The files of the node's namespaces that such a process joins then, in this order."""
        return []

    def limit(self, cores: Sequence[float]) -> None:
        """Give the first nodes this many cores, and put them before all other load."""
        for node, share in enumerate(cores):
            self.groups.limit_cpu(f"node{node}", share)
        self.groups.shield(True)

    def unlimit(self) -> None:
        """Lift the quotas of all nodes; they compete with other load as usual."""
        self.groups.shield(False)
        for node in range(len(self)):
            self.groups.limit_cpu(f"node{node}", None)

    def traffic_bytes(self, node: int) -> tuple[int, int] | None:
        """Bytes in and out of the node's link so far; None: a modelled link does not count them."""
        return None

    def lost(self) -> list[str]:
        """The nodes that were ended; the others are useless without them."""
        return []

    def kill(self) -> None:
        """End every job on the nodes and the head."""
        for name in self._names:
            self.groups.kill(name)

    def remove(self) -> None:
        """End every process and remove everything that was made."""
        self.groups.remove()

    def _make(self) -> None:
        """Make the control groups of the nodes, where they are allowed."""
        for name in self._names:
            self._make_groups(name)

    def _make_groups(self, name: str) -> None:
        self.groups.make(name)
        if name != HEAD and self._options.memory_bytes is not None:
            self.groups.limit_memory(name, self._options.memory_bytes)
        if name != HEAD and self._options.disk_bytes_per_second is not None:
            rate = self._options.disk_bytes_per_second
            self.groups.limit_disk(name, control_groups.disk_of(self._disk), rate)


class VirtualNodes(PlainNodes):
    """A set of equal nodes on one switch, called node0, node1 and so on."""

    link = "real"

    def command(
        self, node: int | None, command: Sequence[str], directory: Path, from_head: bool = False
    ) -> list[str]:
        """The command as it is started on a node, or on the head if no node is given."""
        member = self.head if node is None else self._nodes[node]
        there = ["sh", "-c", 'cd "$0" && exec "$@"', str(directory), *command]
        return self.groups.entered(member.name, member.inside(there, from_head=from_head))

    def spaces(self, node: int) -> list[str]:
        """The files of the node's namespaces that such a process joins then, in this order."""
        return self._nodes[node].spaces()

    def traffic_bytes(self, node: int) -> tuple[int, int] | None:
        """Bytes in and out of the node's link so far."""
        return self._nodes[node].traffic_bytes()

    def lost(self) -> list[str]:
        """The nodes that were ended; the others are useless without them."""
        return [member.name for member in self._members if member.is_lost]

    def remove(self) -> None:
        """End every process and remove everything that was made."""
        for member in self._members:
            member.close()
        self._members.clear()
        self.groups.remove()

    def _make(self) -> None:
        self._members: list[Node] = []
        hosts = _hosts(len(self))
        self.head = self._member(HEAD, hosts, None)
        self.head.wait_until_ready()
        self._nodes = [self._member(name, hosts, self.head) for name in self._names[1:]]
        for node in self._nodes:
            node.wait_until_ready()
        self._connect()
        self._read_back()

    def _member(self, name: str, hosts: str, outer: Node | None) -> Node:
        self._make_groups(name)
        member = Node(name, hosts, outer)
        self._members.append(member)
        self.groups.adopt(name, member.process)
        return member

    def _connect(self) -> None:
        """Wire each node to the switch; both ends of the wire are limited, so it is full duplex."""
        limit, mtu = _link_limit(self._options), _packet_bytes(self._options)
        wires = [
            "link set lo up",
            f"link add switch address {_hardware(None)} mtu {mtu} type bridge mcast_snooping 0",
            "link set switch addrgenmode none up",
            f"address add {_address(None)}/16 dev switch",
        ]
        for index, node in enumerate(self._nodes):
            far_end = f"name eth0 address {_hardware(index)} mtu {mtu} netns {node.process}"
            wires += [
                f"link add port{index} mtu {mtu} type veth peer {far_end}",
                f"link set port{index} addrgenmode none master switch up",
            ]
        self.head.configure("ip", wires)
        ports = range(len(self._nodes))
        self.head.configure("tc", [f"qdisc add dev port{port} root {limit}" for port in ports])
        for index, node in enumerate(self._nodes):
            node.configure("tc", [f"qdisc add dev eth0 root {limit}"])
            up = ["link set lo up", "link set eth0 addrgenmode none up"]
            up.append(f"address add {_address(index)}/16 dev eth0")
            node.configure("ip", [*up, *self._neighbours(index)])

    def _neighbours(self, own: int) -> list[str]:
        """Where all others are: looking them up would fill the kernel's table from K=32 on."""
        return [
            f"neigh add {_address(other)} lladdr {_hardware(other)} dev eth0 nud permanent"
            for other in (None, *range(len(self._nodes)))
            if other != own
        ]

    def _read_back(self) -> None:
        """Trust no limit that was not seen."""
        ports = {f"port{index}" for index in range(len(self._nodes))}
        wanted = round(self._options.link_mbit_per_second * 1e6 / 8)
        mtu = _packet_bytes(self._options)
        for member in self._members:
            devices = ports if member is self.head else {"eth0"}
            sizes = {link["ifname"]: link["mtu"] for link in member.ask("ip", "link", "show")}
            queues = member.ask("tc", "qdisc", "show")
            rates = {queue["dev"]: queue["options"].get("rate") for queue in queues}
            for device in devices:
                if sizes.get(device) != mtu or rates.get(device) != wanted:
                    raise RunError(
                        f"The link of {member.name} has a rate of {rates.get(device)} byte/s "
                        f"instead of {wanted} and packets of {sizes.get(device)} bytes.",
                        "Choose another link_mbit_per_second; try `tc qdisc add ... tbf` yourself.",
                    )


def missing(options: Rehearsal) -> str | None:
    """What this machine lacks for such nodes, in words; None if nothing."""
    lacking = missing_for_links() if options.link == "real" else None
    limits = options.cpu == "quota" or options.memory_bytes or options.disk_bytes_per_second
    return lacking or (control_groups.missing_for_groups(options) if limits else None)


@functools.cache
def missing_for_links() -> str | None:
    """What this machine lacks for links of its own, in words; None if nothing."""
    tools = [tool for tool in TOOLS if _where(tool) is None]
    if tools:
        return f"the program{'s' * (len(tools) > 1)} {', '.join(tools)}"
    trial_command = [*_make_namespaces(), "true"]
    try:
        trial = subprocess.run(
            trial_command, capture_output=True, check=False, timeout=_WAIT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"namespaces: unshare has not ended after {_WAIT_SECONDS:g} s"
    return "the right to make namespaces" if trial.returncode else None


def make_nodes(nodes: int, options: Rehearsal, link: str, disk: Path) -> PlainNodes:
    """Nodes with a link that is real or modelled."""
    kind = VirtualNodes if link == "real" else PlainNodes
    return kind(nodes, options, disk)


def cores_of(options: Rehearsal, node: int, running: int) -> float:
    """The cores of a node when this many run; a slow node of -1 is the last of them."""
    slow = options.slow_node
    is_slow = slow is not None and node == (running - 1 if slow == -1 else slow)
    return options.cores_per_node / (options.slow_factor if is_slow else 1.0)


def _where(tool: str) -> str | None:
    """A program; those of administrators are there for all users, but not on everyone's path."""
    return shutil.which(tool) or shutil.which(tool, path=_ADMINISTRATORS)


def _make_namespaces() -> list[str]:
    """How a command gets namespaces; without root, one of users comes first and gives the right."""
    user = ["--user", "--map-root-user"] if os.geteuid() else []
    return ["unshare", *user, *_NAMESPACES]


def _address(node: int | None) -> str:
    """Where a node is found; the head is at the end of the range."""
    return "10.77.255.254" if node is None else f"10.77.{(node + 1) // 256}.{(node + 1) % 256}"


def _hardware(node: int | None) -> str:
    """The address of a node's card."""
    number = 0 if node is None else node + 1
    return f"02:77:00:00:{number // 256:02x}:{number % 256:02x}"


def _hosts(nodes: int) -> str:
    """All names, also as mapped addresses, so that no name server is asked."""
    names = [(HEAD, _address(None)), *((f"node{i}", _address(i)) for i in range(nodes))]
    lines = [f"{address} {name}\n::ffff:{address} {name}\n" for name, address in names]
    return "127.0.0.1 localhost\n::1 localhost\n" + "".join(lines)


def _packet_bytes(options: Rehearsal) -> int:
    """The packets of a link: as large as is sent in a millisecond."""
    least, most = _MTU_BYTES
    return min(max(round(options.link_mbit_per_second * 125_000 * _PACKET_SECONDS), least), most)


def _link_limit(options: Rehearsal) -> str:
    """The token bucket of a link: a millisecond ahead, but two packets at least."""
    bits = round(options.link_mbit_per_second * 1e6)
    burst = max(2 * _packet_bytes(options), bits // 8 // 1000)
    return f"tbf rate {bits}bit burst {burst} limit {_QUEUE_BYTES}"


def _run(command: Sequence[str], text: str = "") -> str:
    """The output of a tool that must succeed."""
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=_WAIT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise RunError(
            f"{command[0]} has not ended after {_WAIT_SECONDS:g} s.",
            "Repeat when the machine is less busy; the same command continues.",
        ) from None
    if done.returncode:
        raise RunError(
            f"{command[0]} failed: {done.stderr.strip()}", f"Try it yourself: {' '.join(command)}"
        )
    return done.stdout
