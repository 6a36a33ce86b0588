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

_LEAST, _MOST = 2**12, 2**22  # bytes that are searched at once
_RANK_BEGINS = frozenset(bytes([sign]) for sign in b"[ 0123456789\t")


class Rule(NamedTuple):
    """A pattern for lines that hold a key; the key is looked for first, since that is quick."""

    name: str
    key: bytes
    pattern: re.Pattern[bytes]
    take: Take
    always: bool = False  # also after the first step; else in the header only
    take_all: TakeAll | None = None  # the lines of a block that holds no other key
    unordered: bool = False  # `take_all` also beside other keys, whose lines do not matter to it


def rule(
    name: str,
    key: str,
    pattern: str,
    take: Take,
    always: bool = False,
    take_all: TakeAll | None = None,
    unordered: bool = False,
) -> Rule:
    """A rule of texts; what begins a line may have the label of a launcher before it."""
    if pattern.startswith("^"):
        pattern = f"^(?:{_ANY_LABEL} ?)?{pattern[1:]}"
    return Rule(name, key.encode(), re.compile(pattern.encode()), take, always, take_all, unordered)


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

    The keys are looked for in many lines at once, which is five times as fast as line by line. A
    header needs other rules than the steps, so a part ends where one begins. The next part is
    short again: a log with many beginnings is not searched to its end for each of them.
    """
    later = [one for one in rules if one.always]
    number = 0  # of lines before the block
    reach = _LEAST
    for block in blocks(path):
        at = 0
        while at < len(block):
            was_new = log.is_new
            end = block.find(b"\n", min(at + reach, len(block) - 1)) + 1
            at = _part(block, at, end, log, rules if was_new else later, seen, number)
            reach = _LEAST if log.is_new != was_new else min(2 * reach, _MOST)
        number += block.count(b"\n") if seen is not None else 0
    return log


def _part(
    block: bytes, at: int, end: int, log: Log, rules: Sequence[Rule], seen: Seen | None, number: int
) -> int:
    """The lines with a key, in their order, until a header begins or ends; where to go on."""
    was_new = log.is_new
    places = [(one, place) for one in rules if (place := block.find(one.key, at, end)) >= 0]
    is_whole = at == 0 and end == len(block)
    if is_whole and seen is None and len(places) == 1 and _takes_all(places[0][0], block, log):
        return end
    found: dict[int, list[Rule]] = {}
    for one, place in places:
        if one.unordered and one.take_all and seen is None and not was_new:
            one.take_all(log, block if is_whole else block[at:end], 0)
            continue
        while 0 <= place < end:  # an empty key is in every line
            found.setdefault(block.rfind(b"\n", at, place) + 1 or at, []).append(one)
            place = block.find(one.key, block.find(b"\n", place) + 1, end)
    for begin in sorted(found):
        stop = block.find(b"\n", begin)
        line = block[begin : min(stop, begin + MAX_LINE)]
        for one in found[begin]:
            _apply(one, line, log, seen, block, begin, number)
        if log.is_new != was_new:
            return stop + 1
    return end


def _takes_all(one: Rule, block: bytes, log: Log) -> bool:
    """Take the lines of a block at once, where it has no key of another rule."""
    if log.is_new or one.take_all is None:
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
    """What follows a label, up to the next bar; empty if the label is not there."""
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
