"""Console logs: rules that find facts and steps in the lines of a stream."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from nodewise.importers.logs.lines import MAX_LINE, blocks
from nodewise.importers.logs.record import Log
from nodewise.importers.logs.record import number as to_number

Take = Callable[[Log, "re.Match[bytes]"], object]
TakeAll = Callable[[Log, bytes, int], bool]  # a block and how many lines; False: line by line
Seen = Callable[[int, str, bytes], None]
# Who printed a line: torchrun, srun --label, mpirun --tag-output, torchrun --tee
_LABEL = (
    r"\s{0,8}(?:\[rank(\d{1,7})\]:|(\d{1,7}): |\[\d{1,7},(\d{1,7})\]<std\w{3}>:?|"
    r"\[(?:[\w-]{1,40}/)?default(\d{1,4})\]:)"
)
_RANK = re.compile(_LABEL.encode())
_ANY_LABEL = _LABEL.replace(r"(\d", r"(?:\d")

_RANK_BEGINS = frozenset(bytes([sign]) for sign in b"[ 0123456789\t")


class Rule(NamedTuple):
    """A pattern for lines that hold a key; the key is looked for first, since that is quick."""

    name: str
    key: bytes
    pattern: re.Pattern[bytes]
    take: Take
    always: bool = False  # also after the first step; else in the header only
    take_all: TakeAll | None = None  # the lines of a block that holds no other key


def rule(
    name: str,
    key: str,
    pattern: str,
    take: Take,
    always: bool = False,
    take_all: TakeAll | None = None,
) -> Rule:
    """A rule of texts; what begins a line may have the label of a launcher before it."""
    if pattern.startswith("^"):
        pattern = f"^(?:{_ANY_LABEL} ?)?{pattern[1:]}"
    return Rule(name, key.encode(), re.compile(pattern.encode()), take, always, take_all)


def fact(name: str, key: str, pattern: str, field: str = "") -> Rule:
    """A rule for a whole number of the header."""
    return rule(name, key, pattern, lambda log, m: log.count(field or name, m[1]))


def size(name: str, key: str, pattern: str, always: bool = False) -> Rule:
    """A rule for a number that is the size of the model or the system."""
    return rule(name, key, pattern, lambda log, m: _put_size(log, name, m[1]), always)


def _put_size(log: Log, name: str, text: bytes) -> None:
    value = to_number(text)
    if value is not None:
        log.size.setdefault(name, value)


def scan(path: Path, log: Log, rules: Sequence[Rule], seen: Seen | None = None) -> Log:
    """Fill a log from the lines of a file; `seen` gets the lines that matched, and the rule.

    A header is read line by line. Between steps the keys are looked for in many lines at once,
    which is five times as fast.
    """
    later = [one for one in rules if one.always]
    number = 0  # of lines before the block
    for block in blocks(path):
        at = 0
        while at < len(block):
            if log.is_new:
                at = _header(block, at, log, rules, seen, number)
            else:
                at = _between_steps(block, at, log, later, seen, number)
        number += block.count(b"\n") if seen is not None else 0
    return log


def _header(
    block: bytes, at: int, log: Log, rules: Sequence[Rule], seen: Seen | None, number: int
) -> int:
    """Every rule on every line, until a step is found; where to go on."""
    while at < len(block) and log.is_new:
        end = block.find(b"\n", at)
        line = block[at : min(end, at + MAX_LINE)]
        for one in rules:
            if one.key in line:
                _apply(one, line, log, seen, block, at, number)
        at = end + 1
    return at


def _between_steps(
    block: bytes, at: int, log: Log, rules: Sequence[Rule], seen: Seen | None, number: int
) -> int:
    """The lines with a key, in their order; where to go on."""
    places = [(one, place) for one in rules if (place := block.find(one.key, at)) >= 0]
    if seen is None and len(places) == 1 and _takes_all(places[0][0], block, at, log):
        return len(block)
    found: dict[int, list[Rule]] = {}
    for one, place in places:
        while 0 <= place < len(block):  # an empty key is in every line
            found.setdefault(block.rfind(b"\n", at, place) + 1 or at, []).append(one)
            end = block.find(b"\n", place)
            place = block.find(one.key, end + 1)
    for begin in sorted(found):
        end = block.find(b"\n", begin)
        line = block[begin : min(end, begin + MAX_LINE)]
        for one in found[begin]:
            _apply(one, line, log, seen, block, begin, number)
        if log.is_new:  # a program begins again
            return end + 1
    return len(block)


def _takes_all(one: Rule, block: bytes, at: int, log: Log) -> bool:
    """Take the lines of a block at once, where it has no key of another rule."""
    if at or one.take_all is None:
        return False
    return one.take_all(log, block, block.count(one.key))


def _apply(
    one: Rule, line: bytes, log: Log, seen: Seen | None, block: bytes, at: int, number: int
) -> None:
    matched = one.pattern.search(line)
    if matched and log.one_rank:
        rank = rank_of(line)
        if log.values.setdefault("first rank", rank) != rank:
            return
    if matched:
        one.take(log, matched)
        if seen is not None:
            seen(number + block.count(b"\n", 0, at) + 1, one.name, line)


def text_after(line: bytes, label: bytes) -> bytes:
    """What follows a label, up to the next bar; empty where the label is not there."""
    at = line.find(label)
    if at < 0:
        return b""
    end = line.find(b"|", at)
    return line[at + len(label) : end if end >= 0 else len(line)].strip(b" :=\t")


def rank_of(line: bytes) -> bytes | None:
    """The rank that printed a line, where a launcher put it before the text."""
    if line[:1] not in _RANK_BEGINS:
        return None
    found = _RANK.match(line)
    return found[found.lastindex or 0] if found else None


def _mark(kind: str) -> Take:
    return lambda log, _: log.mark(kind)  # type: ignore[arg-type]


def _ended_by_memory(log: Log, found: "re.Match[bytes]") -> None:
    log.out_of_memory = found.string.decode("utf-8", "replace").strip()[:200]


# Pauses, in the words of the frameworks.
PAUSES = (
    rule("checkpoint", "aving ", r"(?i)\bsaving .{0,60}checkpoint", _mark("checkpoint"), True),
    rule("checkpoint", "aved ", r"(?i)\bsaved .{0,60}checkpoint|checkpoint .{0,40}\bsaved ",
         _mark("checkpoint"), True),
    rule("evaluation", "alidation ", r"(?i)validation (?:loss|step|epoch)|running validation",
         _mark("evaluation"), True),
    rule("evaluation", "eval ", r"\beval (?:metrics|iter|loop|after)|Completed eval after",
         _mark("evaluation"), True),
    rule("evaluation", "valuati", r"(?i)running evaluation|evaluating\b|evaluation (?:loop|step)",
         _mark("evaluation"), True),
)  # fmt: skip

# What launchers and job scripts print: the same for all frameworks.
LAUNCH = (
    fact("nodes", "nnodes", r"--nnodes[ =](\d{1,7})(?![\d:])"),
    fact("nodes", "NNODES", r"\b(?:SLURM_)?NNODES=(\d{1,7})\b"),
    fact("nodes", "NUM_NODES", r"\bSLURM_JOB_NUM_NODES=(\d{1,7})\b"),
    fact("nodes", "num_nodes", r"--num_nodes[ =](\d{1,7})\b"),
    fact("per node", "nproc", r"--nproc[-_]per[-_]node[ =](\d{1,7})\b", "per_node"),
    fact("per node", "GPUS_PER_NODE", r"\bGPUS_PER_NODE=(\d{1,7})\b", "per_node"),
    rule("out of memory", "ut of memory", r"(?i)(?:cuda|hip|xla|gpu|device)\b.{0,40}out of memory",
         _ended_by_memory, True),
    rule("out of memory", "OutOfMemoryError", "OutOfMemoryError", _ended_by_memory, True),
)  # fmt: skip
