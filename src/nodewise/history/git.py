"""Git, as far as a history needs it: a file on a branch, and a folder with another commit."""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from nodewise.base.errors import RunError
from nodewise.measure.scratch import scratch_folder

_SECONDS = 120
_TRIES = 20  # to move a branch that others move at the same time
_MISSING = "0" * 40
_IDENTITY = ("-c", "user.name=nodewise", "-c", "user.email=nodewise@localhost")


def git(*arguments: str, folder: Path = Path(), content: bytes | None = None) -> bytes:
    """What git prints; an error where it fails."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], input=content, capture_output=True,
            timeout=_SECONDS, env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
        )  # fmt: skip
    except FileNotFoundError:
        raise RunError("git is not installed.", "Install it: apt-get install git") from None
    except subprocess.TimeoutExpired:
        raise RunError(
            f"git {arguments[0]} took longer than {_SECONDS} s.", "Look at the repository."
        ) from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise RunError(
            f"git {arguments[0]} failed: {said[-1] if said else 'no reason given'}.",
            "Run it inside a git repository that has this commit or branch.",
        )
    return done.stdout


def word(*arguments: str, folder: Path = Path()) -> str:
    """One word that git prints; nothing if it fails."""
    with contextlib.suppress(RunError):
        return git(*arguments, folder=folder).decode(errors="replace").strip()
    return ""


def tip(branch: str, folder: Path) -> str:
    """The commit of a branch, here or as it was fetched; nothing if it is missing."""
    for name in (f"refs/heads/{branch}", f"refs/remotes/origin/{branch}"):
        if found := word("rev-parse", "--verify", "--quiet", name, folder=folder):
            return found
    return ""


def read_file(branch: str, name: str, folder: Path) -> bytes:
    """A file on a branch; nothing if either is missing."""
    return _file_at(tip(branch, folder), name, folder)


def _file_at(at: str, name: str, folder: Path) -> bytes:
    listed = word("ls-tree", "--name-only", at, "--", name, folder=folder) if at else ""
    return git("cat-file", "blob", f"{at}:{name}", folder=folder) if listed else b""


def change_file(
    branch: str, name: str, change: Callable[[bytes], tuple[bytes, str] | None], folder: Path
) -> None:
    """Commit what `change` makes of a file on a branch, with its message; None changes nothing.

    A missing branch is made. Where another process moved the branch, `change` is asked again. The
    working tree stays as it is.
    """
    ref = f"refs/heads/{branch}"
    for left in reversed(range(_TRIES)):
        held = word("rev-parse", "--verify", "--quiet", ref, folder=folder)
        at = held or tip(branch, folder)
        changed = change(_file_at(at, name, folder))
        if changed is None:
            return
        made = _commit(at, name, *changed, folder)
        try:
            git("update-ref", ref, made, held or _MISSING, folder=folder)
        except RunError:
            if not left:
                raise
        else:
            return


def _commit(at: str, name: str, content: bytes, message: str, folder: Path) -> str:
    """A commit after another one, with one file changed."""
    blob = git("hash-object", "-w", "--stdin", folder=folder, content=content).decode().strip()
    listed = git("ls-tree", at, folder=folder).decode().splitlines() if at else []
    rows = [row for row in listed if row.partition("\t")[2] != name]
    table = "".join(f"{row}\n" for row in [*rows, f"100644 blob {blob}\t{name}"])
    tree = git("mktree", folder=folder, content=table.encode()).decode().strip()
    known = () if word("config", "user.email", folder=folder) else _IDENTITY
    parent = ("-p", at) if at else ()
    return git(*known, "commit-tree", tree, *parent, "-m", message, folder=folder).decode().strip()


@contextlib.contextmanager
def worktree(commit: str, folder: Path) -> Iterator[Path]:
    """A folder with another commit of the repository, removed afterwards."""
    with scratch_folder() as scratch:
        place = scratch / "base"
        git("worktree", "add", "--detach", "--quiet", str(place), commit, folder=folder)
        try:
            yield place
        finally:
            with contextlib.suppress(RunError):
                git("worktree", "remove", "--force", str(place), folder=folder)
