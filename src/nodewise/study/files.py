"""How files that others may have prepared are opened, and how files are written.

Only regular files are opened, so that a FIFO or a device cannot stop a command. A file of a study
folder must not be a symbolic link: it would show, or overwrite, a file that lies elsewhere. A file
is written beside its place, synced to disk and renamed, so that it is the old one or the new one.
"""

import contextlib
import errno
import io
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

MOST_BYTES = 2**30
_CHUNK = 2**20
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
}
# Names of files that are open already, as a shell gives them: <(command), /dev/stdout.
_OPEN_ALREADY = re.compile(r"/dev/(fd/\d+|stdin|stdout|stderr|null|tty)|/proc/(self|\d+)/fd/\d+")
_PART = re.compile(r"\.(?P<name>.+)\.(?P<process>\d{1,9})-\w+\.part")


class NotRegularError(OSError):
    """A file is a link, a FIFO or a device where only a regular one will do."""


def file_name(text: str) -> str:
    r"""A name from a file of someone else as one part of a path.

    >>> file_name("../../.ssh/config"), file_name("lj, 32k atoms")
    ('_.._.ssh_config', 'lj, 32k atoms')
    """
    return re.sub(r"[/\\\0]", "_", text).lstrip(".") or "_"


def is_stream(path: Path) -> bool:
    """Whether a path that the user names is read once, to its end: open already, or a FIFO."""
    return _is_open_already(path) or path.is_fifo()


def open_regular(path: Path, follow: bool = True) -> io.BufferedReader:
    """Open a regular file for reading, or a stream that a shell opened.

    Raises:
        NotRegularError: it is not regular; `strerror` says what it is.
    """
    if _is_open_already(path):
        return path.open("rb")
    return os.fdopen(_open(path, os.O_RDONLY, follow), "rb")


def open_own(path: Path) -> io.BufferedReader:
    """Open a file of a study folder for reading; a symbolic link is refused."""
    return open_regular(path, follow=False)


def read_regular(path: Path, follow: bool = True) -> bytes:
    """What a regular file or a stream holds; one of more than 1 GiB is refused."""
    with open_regular(path, follow) as file:
        if os.fstat(file.fileno()).st_size > MOST_BYTES:
            raise _too_large(path)
        if not _is_open_already(path):
            return file.read()
        read = bytearray()  # the size of a stream is known at its end
        while chunk := file.read(_CHUNK):
            read += chunk
            if len(read) > MOST_BYTES:
                raise _too_large(path)
        return bytes(read)


def _too_large(path: Path) -> OSError:
    return OSError(errno.EFBIG, "it is larger than 1 GiB", str(path))


def read_own(path: Path) -> bytes:
    """What a file of a study folder holds."""
    return read_regular(path, follow=False)


def open_to_change(path: Path, flags: int = 0) -> io.BufferedRandom:
    """Open a file of a study folder for reading and writing; it is made if it is missing."""
    is_new = not os.path.lexists(path)
    descriptor = _open(path, os.O_RDWR | os.O_CREAT | flags, follow=False)
    if is_new:
        sync_folder(path.parent)
    return os.fdopen(descriptor, "rb+")


def own_folder(path: Path) -> Path:
    """A folder inside a study folder, made if it is missing; a symbolic link is refused."""
    make_folder(path)
    _require(path, os.lstat(path), stat.S_IFDIR)
    return path


def make_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing; their names reach the disk too."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync_folder(folder.parent)


def replace(path: Path, content: str | bytes) -> None:
    """Write a file whole, by replacing what is there: a symbolic link goes, its target stays.

    A FIFO, a device or a folder in its place is refused. A stream that a shell opened is written
    to.
    """
    raw = content.encode() if isinstance(content, str) else content
    if _is_open_already(path):
        path.write_bytes(raw)
        return
    with contextlib.suppress(FileNotFoundError):
        found = os.lstat(path)
        if not stat.S_ISLNK(found.st_mode):
            _require(path, found, stat.S_IFREG)
    with replacing(path) as file:
        file.write(raw)


@contextlib.contextmanager
def replacing(path: Path, folder_is_new: bool = False) -> Iterator[io.BufferedWriter]:
    """A file to be written, which takes the place of another one when it is complete.

    A new folder is not searched for what a killed writer left.
    """
    if not folder_is_new:
        _drop_parts(path)
    part = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(part, flags, 0o666), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk; some network file systems cannot, and need not."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EROFS):
            raise
    finally:
        os.close(descriptor)


def is_alive(process: int) -> bool:
    """Whether a process of this number runs on this machine."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _is_open_already(path: Path) -> bool:
    return _OPEN_ALREADY.fullmatch(str(path)) is not None


def _open(path: Path, flags: int, follow: bool) -> int:
    # Asked first: to open a device can already change it. Asked again: it may have been exchanged.
    with contextlib.suppress(FileNotFoundError):
        _require(path, path.stat(follow_symlinks=follow), stat.S_IFREG)
    flags |= os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags, 0o666)
    try:
        _require(path, os.fstat(descriptor), stat.S_IFREG)
    except OSError:
        os.close(descriptor)
        raise
    os.set_blocking(descriptor, True)
    return descriptor


def _require(path: Path, found: os.stat_result, kind: int) -> None:
    seen = stat.S_IFMT(found.st_mode)
    if seen == kind:
        return
    wanted = "folder" if kind == stat.S_IFDIR else "regular file"
    what = _KINDS.get(seen, "a file" if stat.S_ISREG(seen) else "something else")
    number = errno.EISDIR if seen == stat.S_IFDIR else errno.EINVAL
    raise NotRegularError(number, f"it is {what}, not a {wanted}", str(path))


def _drop_parts(path: Path) -> None:
    """Remove what writers of this file left that were killed."""
    for beside in path.parent.iterdir():
        matched = _PART.fullmatch(beside.name)
        if matched and matched["name"] == path.name and not is_alive(int(matched["process"])):
            beside.unlink(missing_ok=True)
