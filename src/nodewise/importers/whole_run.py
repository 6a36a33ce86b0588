"""Which of several named times is that of the whole run, and not of its set-up or of a part."""

import re
from collections.abc import Sequence

_WHOLE = re.compile(
    r"\b(total|wall ?(clock|time)?|elapsed|run ?time|execution|cumulative)\b|^time$", re.IGNORECASE
)
_PART = re.compile(
    r"\b(comm\w*|mpi|io|i/o|set ?up|init\w*|solve\w*|write|read|kernel)\b", re.IGNORECASE
)
Named = tuple[str, float]


def whole_run(times: Sequence[Named]) -> Named | None:
    """The first time that is called one of the run; else the only one that there is.

    >>> whole_run([("setup_time", 3.0), ("total_time", 80.0)])
    ('total_time', 80.0)
    >>> whole_run([("total_comm_time", 3.0), ("walltime", 80.0)])
    ('walltime', 80.0)
    """
    named = [time for time in times if _is_whole(time[0].replace("_", " "))]
    if named or len({name for name, _ in times}) == 1:
        return (named or times)[0]
    return None


def _is_whole(name: str) -> bool:
    return _WHOLE.search(name) is not None and _PART.search(name) is None
