"""Every error that a user can meet: what is wrong on one line, the fix on the next.

NodewiseError      exit code
├── SpecError      2   the spec or the arguments
├── RunError       3   the measuring: an engine, a folder, a run
└── DataError      4   the numbers that were given

Exit code 1 is not an error: the analysis is right and a gate is not met (`GATE_NOT_MET`).
"""

GATE_NOT_MET = 1


def printable(text: str) -> str:
    """Text from any file without control characters, which a terminal would obey.

    >>> printable("red\\x1b[31m")
    'red\ufffd[31m'
    """
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in text)


class NodewiseError(Exception):
    """What is wrong and how to fix it; never shown with a traceback."""

    exit_code = 2

    def __init__(self, what: str, fix: str) -> None:
        """Keep both lines; `str()` of the error is what the user reads."""
        super().__init__(what, fix)
        self.what = what
        self.fix = fix

    def __str__(self) -> str:
        """Two lines: what, fix."""
        return f"nodewise: {printable(self.what)}\n  fix: {printable(self.fix)}"


class SpecError(NodewiseError):
    """An argument or an option does not make sense."""

    exit_code = 2


class RunError(NodewiseError):
    """Something is missing or broken that a run needs."""

    exit_code = 3


class DataError(NodewiseError):
    """The numbers that were given cannot be read or contradict each other."""

    exit_code = 4
