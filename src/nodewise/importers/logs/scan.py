"""Console logs: rules that find facts and steps in the lines of a stream."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from nodewise.importers.logs.lines import lines
from nodewise.importers.logs.record import Log

Take = Callable[[Log, "re.Match[bytes]"], object]
Seen = Callable[[int, str, bytes], None]
# Who printed a line: torchrun, srun --label, mpirun --tag-output, torchrun --tee
_RANK = re.compile(
    rb"\s{0,8}(?:\[rank(\d{1,7})\]:|(\d{1,7}): |\[\d{1,7},(\d{1,7})\]<std\w{3}>:?|"
    rb"\[(?:[\w-]{1,40}/)?default(\d{1,4})\]:)"
)


class Rule(NamedTuple):
    """A pattern for lines that hold a key; the key is looked for first, since that is quick."""

    name: str
    key: bytes
    pattern: re.Pattern[bytes]
    take: Take
    always: bool = False  # also after the first step; else in the header only


def rule(name: str, key: str, pattern: str, take: Take, always: bool = False) -> Rule:
    """A rule of texts."""
    return Rule(name, key.encode(), re.compile(pattern.encode()), take, always)


def fact(name: str, key: str, pattern: str, field: str = "") -> Rule:
    """A rule for a whole number of the header."""
    return rule(name, key, pattern, lambda log, m: log.count(field or name, m[1]))


def scan(path: Path, log: Log, rules: Sequence[Rule], seen: Seen | None = None) -> Log:
    """Fill a log from the lines of a file; `seen` gets the lines that matched, and the rule."""
    every = [(one.key, one.pattern, one.take, one.name) for one in rules]
    later = [(one.key, one.pattern, one.take, one.name) for one in rules if one.always]
    for number, line in enumerate(lines(path), start=1):
        for key, pattern, take, name in every if log.is_new else later:
            if key in line:
                found = pattern.search(line)
                if found:
                    take(log, found)
                    if seen is not None:
                        seen(number, name, line)
    return log


def rank_of(line: bytes) -> bytes | None:
    """The rank that printed a line, where a launcher put it before the text."""
    found = _RANK.match(line)
    return found[found.lastindex or 0] if found else None


def _mark(kind: str) -> Take:
    return lambda log, _: log.mark(kind)  # type: ignore[arg-type]


# Pauses, in the words of the frameworks.
PAUSES = (
    rule("checkpoint", "heckpoint",
         r"(?i)\bsav(?:ing|ed)\b.{0,60}checkpoint|checkpoint.{0,40}\bsaved\b",
         _mark("checkpoint"), True),
    rule("evaluation", "alidation", r"(?i)validation (?:loss|step|epoch)|running validation",
         _mark("evaluation"), True),
    rule("evaluation", "val", r"(?i)\beval(?:uation)? (?:metrics|iter|loop|after)|"
         r"running evaluation|evaluating\b", _mark("evaluation"), True),
)  # fmt: skip

# What launchers and job scripts print: the same for all frameworks.
LAUNCH = (
    fact("nodes", "nnodes", r"--nnodes[ =](\d{1,7})(?![\d:])"),
    fact("nodes", "NNODES", r"\b(?:SLURM_)?NNODES=(\d{1,7})\b"),
    fact("nodes", "NUM_NODES", r"\bSLURM_JOB_NUM_NODES=(\d{1,7})\b"),
    fact("nodes", "num_nodes", r"--num_nodes[ =](\d{1,7})\b"),
    fact("per node", "nproc", r"--nproc[-_]per[-_]node[ =](\d{1,7})\b", "per_node"),
    fact("per node", "GPUS_PER_NODE", r"\bGPUS_PER_NODE=(\d{1,7})\b", "per_node"),
)
