"""Which lines of a log say why a program failed.

The first error is usually the cause. What a launcher prints afterwards (aborted ranks, where to
ask for help) comes last in the log and does not name the cause.
"""

import re
from collections.abc import Sequence

from nodewise.base.errors import printable
from nodewise.study.study import Run

_EXCEPTION = re.compile(r"^\s*(?:\[[\w.:, ]+\][: ]*)?[\w.]*(?:Error|Exception|Interrupt)\b")
_CAUSE = re.compile(
    r"not enough slots|segmentation fault|bus error|illegal instruction"
    r"|floating[- ]point exception(?! trapping)"
    r"|out of memory|cannot allocate memory|bad_alloc|error while loading shared libraries"
    r"|undefined symbol|command not found|no such file or directory|permission denied"
    r"|fatal error|assert\w* .*failed|terminate called|what\(\):|forrtl: severe|cuda error"
    r"|error in routine|address already in use|no space left|disk quota exceeded"
    r"|^\s*error\b|\berror on proc|\*\*\* error|error:",
    re.IGNORECASE,
)
_SIGN = re.compile(
    r"\b(?:error|fatal|fail(?:ed|ure)|abort(?:ed|ing)?|exception|invalid|cannot|could not|unable"
    r"|killed|unknown|missing|unrecognized|unsupported|traceback)\b",
    re.IGNORECASE,
)
_EPILOGUE = re.compile(
    r"(?:mpirun|mpiexec|prterun|srun|orterun) (?:noticed|detected|has exited)|primary job\s+term"
    r"|bad termination|exit (?:code|status):|cleaning up remaining|your application terminated"
    r"|^=\s|^=+$|^-+$|invoking mpi_abort|mpi_abort was invoked|you may or may not see"
    r"|exactly when open mpi|with errorcode|pmi_abort|^srun: error: .*task"
    r"|slurmstepd[-\w]*: error: \*\*\*(?!.*due to)|childfailederror"
    r"|^srun: (?:terminating|job step abort)"
    r"|step tasks have been terminated|^\[\w+\] .*more processes"
    r"|we reiterate|root cause \(first|^\s*(?:exitcode|error_file|traceback) *:|sent signal"
    r"|orte_error_log|please see the faq page|this typically refers to a problem"
    r"|exiting improperly|this process (?:did not call|called) \"|^the job did\. this can cause"
    r"|process(?:es)? (?:to|must) call \"init|one process calls \"init|by rule, all processes"
    r"|considered an \"abnormal term|orte_create_session_dirs|abort call was an abnormal"
    r"|you will receive is this one|this may have caused other|^terminated by signals sent"
    r"|avoid this message by specifying|per user-direction, the job"
    r"|elastic.*(?:failed|error)|mpi_abort\(|application called mpi_abort",
    re.IGNORECASE,
)
_SIGNAL = re.compile(r"signal:? |signal \d+", re.IGNORECASE)
_STOPPED = re.compile(r"terminated \(signal 15\)", re.IGNORECASE)  # as every run that is stopped
_WORDS = re.compile(r"[A-Za-z]{2}")
_MAX_LINE = 200
_SEARCHED = 500  # characters of a line: some patterns take the square of it

# What a launcher says at length, and what to do about it.
_KNOWN = (
    (
        re.compile("not enough slots available"),
        "Open MPI has fewer slots than ranks: add --oversubscribe to mpirun, or let the engine mpi "
        "start the ranks",
    ),
    (
        re.compile("does not support recursive calls"),
        "the program starts mpirun itself: leave mpirun out of it, or choose the engine command",
    ),
    (
        re.compile("requested more processes than the ppr"),
        "ranks_per_node leaves fewer places than ranks: name more nodes, or raise it",
    ),
    (
        re.compile("detected an attempt to run as root"),
        "Open MPI does not run as root: set OMPI_ALLOW_RUN_AS_ROOT=1 and "
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
    ),
)

# A torch script that asks its launcher for its place, and was started by none.
_NO_TORCHRUN = re.compile("environment variable (?:RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT) expect")


def telling_line(lines: Sequence[str]) -> str:
    """The line that says most about a failure, with the next one where it only announces it.

    >>> telling_line(["step 1", "ValueError: no such basis", "= BAD TERMINATION", "= EXIT CODE: 1"])
    'ValueError: no such basis'
    """
    for sign, words in _KNOWN:
        if any(sign.search(line) for line in lines):
            return words
    at = telling_place(lines)
    if at is None:
        return ""
    line = lines[at].strip()
    following = next((one.strip() for one in lines[at + 1 :] if _WORDS.search(one)), "")
    announces = line.endswith(":") or re.fullmatch(r"\W*(?:\w+ ){0,2}error\W*", line, re.IGNORECASE)
    if announces and following and not _EPILOGUE.search(following):
        line = f"{line} {following}"
    return line[:_MAX_LINE]


def failure(run: Run) -> str:
    """How a run failed, on one line: the outcome and the line of its log that says most."""
    how, *log = run.detail.splitlines() or [""]
    if how and not any(map(_weight, log)):
        log = []  # the end of a launcher adds nothing to how the ranks ended
    words = ": ".join(part for part in (run.outcome, how, telling_line(log)) if part)
    return printable(words.removesuffix("."))


def failures(runs: Sequence[Run]) -> str:
    """How the last failed run at each scale failed; scales that failed alike are named together."""
    last = {run.nodes: failure(run) for run in runs if run.outcome != "ok"}
    alike: dict[str, list[str]] = {}
    for nodes, how in sorted(last.items()):
        alike.setdefault(how, []).append(str(nodes))
    return "; ".join(f"K={', '.join(scales)}: {how}" for how, scales in alike.items())


def remedy(runs: Sequence[Run]) -> str:
    """What to correct after these runs: the job, or the way in which its ranks are started."""
    for run in runs:
        if run.outcome != "ok" and _NO_TORCHRUN.search(run.detail):
            if run.provenance.get("engine") == "rehearsal":
                return 'Write launcher = "torchrun" under [engine.rehearsal]'
            return (
                'Use --engine torchrun and another --name, or write name = "torchrun" under '
                "[engine]"
            )
    return "Correct the job"


def telling_place(lines: Sequence[str]) -> int | None:
    """Where the most telling line is: the first of the highest weight, else the last with words.

    Where there is nothing but the epilogue of a launcher, its first line says what happened.
    """
    weights = [_weight(line) for line in lines]
    most = max(weights, default=0)
    if most > 1:
        return weights.index(most)
    said = [at for at, weight in enumerate(weights) if weight == 1]
    worded = [at for at, line in enumerate(lines) if _WORDS.search(line)]
    return said[-1] if said else next(iter(worded), None)


def _weight(line: str) -> int:
    """How much a line says: 0 for a launcher's epilogue, 1 for any other words."""
    line = line[:_SEARCHED]
    if not _WORDS.search(line):
        return 0
    if _EPILOGUE.search(line):
        return 2 if _SIGNAL.search(line) and not _STOPPED.search(line) else 0
    if _EXCEPTION.match(line):
        return 5
    if _CAUSE.search(line):
        return 4
    return 3 if _SIGN.search(line) else 1
