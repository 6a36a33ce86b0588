"""The lines of a log that say why a program failed, without what its launcher says of itself."""

import re
from collections.abc import Sequence

# What MPI launchers print around every failure, whatever it is.
_NOISE = re.compile(
    r"""
    ^\W*$ | ^-+$ | ^=+$
    | exactly\ when\ Open\ MPI\ kills\ them | invoking\ MPI_ABORT\ causes
    | You\ may\ or\ may\ not\ see
    | You\ can\ avoid\ this\ message | Please\ see\ the\ FAQ | YOUR\ APPLICATION\ TERMINATED
    | CLEANING\ UP\ REMAINING | YOU\ CAN\ IGNORE | BAD\ TERMINATION\ OF\ ONE
    | Primary\ job\ +terminated | a\ non-zero\ exit\ code\.\ Per\ user-direction
    | mpi(run|exec)\ detected\ that\ one\ or\ more | thus\ causing\ the\ job
    | the\ job\ to\ be\ term
    | ^\s*(Process\ name|Exit\ code):\s | ^\W*(PID|EXIT\ CODE|RUNNING\ AT)\b
    | This\ typically\ refers\ to\ a\ problem | We\ reiterate | please\ proceed\ at\ your\ own\ risk
    | This\ may\ have\ caused\ other\ processes | terminated\ by\ signals\ sent\ by | ^\[proxy:
    | ^\[mpiexec@ | Either\ request\ fewer\ | add\ one\ more\ layer | ^launch\.$ | ^with\ errorcode
    """,
    re.VERBOSE,
)


# What a launcher says at length.
_KNOWN = (
    (
        re.compile("not enough slots available"),
        "Open MPI has fewer slots than ranks: add --oversubscribe to mpirun, or let the engine mpi "
        "start the ranks",
    ),
    (
        re.compile("detected an attempt to run as root"),
        "Open MPI does not run as root: set OMPI_ALLOW_RUN_AS_ROOT=1 and "
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
    ),
)


def telling_lines(lines: Sequence[str]) -> list[str]:
    """The lines without the launcher's noise; what it says at length comes last, in one line.

    >>> telling_lines(["solver error: no convergence", "-----", "  Exit code:    3"])
    ['solver error: no convergence']
    """
    known = [words for sign, words in _KNOWN if any(sign.search(line) for line in lines)]
    return [*(line for line in lines if not _NOISE.search(line)), *known]
