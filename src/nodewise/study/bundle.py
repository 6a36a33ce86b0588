"""One file that holds a study with everything to judge and to repeat it: a zip with checksums."""

import hashlib
import io
import lzma
import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from nodewise.base.errors import DataError, SpecError
from nodewise.study.files import open_regular, replacing

SUMS = "SHA256SUMS"
_EPOCH = (2020, 1, 1, 0, 0, 0)  # the same study gives the same bytes
_MOST_BYTES = 2 * 2**30  # unpacked, on the disk; at most a chunk of it is in memory
_MOST_FILES = 100_000
_MOST_SUMS = 32 * 2**20
_CHUNK = 2**20
_DAMAGED = (zlib.error, lzma.LZMAError, EOFError, ValueError, OverflowError, struct.error)


def pack(files: Mapping[str, bytes]) -> bytes:
    """The bundle of named files, with the checksum of each."""
    sums = "".join(
        f"{hashlib.sha256(content).hexdigest()}  {name}\n"
        for name, content in sorted(files.items())
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted({**files, SUMS: sums.encode()}.items()):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return packed.getvalue()


def unpack(path: Path, folder: Path) -> None:
    """Write the files of a bundle below a folder that is empty or new.

    A bundle is refused before anything is unpacked where it holds too much, links, or names outside
    of the folder. A missing, added or changed file is refused as soon as it is seen; the folder is
    then incomplete.
    """
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            _refuse(path, entries)
            promised = _promised(path, archive, entries)
            _make_empty(folder)
            for entry in entries:
                if entry.filename != SUMS:
                    _write(path, archive, entry, folder, promised[entry.filename])
    except OSError as error:
        raise DataError(
            f"Cannot read {path}: {(error.strerror or str(error)).lower()}.",
            "Name a .zip that nodewise export made.",
        ) from None
    except (zipfile.BadZipFile, zipfile.LargeZipFile, RuntimeError, *_DAMAGED):
        raise DataError(
            f"{path} is not a bundle, or it is damaged.", "Make one with: nodewise export STUDY"
        ) from None


def _refuse(path: Path, entries: Sequence[zipfile.ZipInfo]) -> None:
    """Refuse what the list of contents shows; no byte is unpacked for it."""
    if sum(entry.file_size for entry in entries) > _MOST_BYTES or len(entries) > _MOST_FILES:
        raise DataError(
            f"{path} holds more than 2 GiB or {_MOST_FILES:,} files.", "Use a smaller bundle."
        )
    seen: set[str] = set()
    for entry in entries:
        name, kind = entry.filename, stat.S_IFMT(entry.external_attr >> 16)
        inside = PurePosixPath(name)
        if inside.is_absolute() or ".." in inside.parts or "\\" in name:
            raise DataError(
                f"The bundle would write outside of its folder: {name}.", "Do not use this bundle."
            )
        if kind not in (0, stat.S_IFREG) or entry.is_dir():
            what = "a symbolic link" if stat.S_ISLNK(kind) else "not a regular file"
            raise DataError(f"{path}: {name} is {what}.", "Do not use this bundle.")
        if name in seen:
            raise DataError(f"{path} holds {name} twice.", "Do not use this bundle.")
        seen.add(name)


def _promised(
    path: Path, archive: zipfile.ZipFile, entries: Sequence[zipfile.ZipInfo]
) -> dict[str, str]:
    """The checksum of every file; the lists of files and of checksums must name the same ones."""
    found = {entry.filename: entry for entry in entries}
    listed = found.pop(SUMS, None)
    if listed is None or listed.file_size > _MOST_SUMS:
        raise DataError(f"{path} has no checksums.", "Make one with: nodewise export STUDY")
    promised = {}
    for line in archive.read(listed).decode(errors="replace").splitlines():
        digest, _, name = line.partition("  ")
        promised[name] = digest
    if not promised:
        raise DataError(f"{path} has no checksums.", "Make one with: nodewise export STUDY")
    if differ := sorted(set(promised) ^ set(found)):
        raise _changed(path, differ)
    return promised


def _make_empty(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise SpecError(f"{folder} is not empty.", "Name another folder with -o.")
    except OSError as error:
        raise _cannot_write(folder, error) from None


def _write(
    path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: Path, promised: str
) -> None:
    """Write one file in chunks; it takes its name only when its checksum is right."""
    target = folder / entry.filename
    digest = hashlib.sha256()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(entry) as packed, replacing(target, folder_is_new=True) as file:
            while chunk := packed.read(_CHUNK):
                digest.update(chunk)
                file.write(chunk)
            if digest.hexdigest() != promised:
                raise _changed(path, [entry.filename])
    except OSError as error:
        raise _cannot_write(folder, error) from None


def _changed(path: Path, names: Sequence[str]) -> DataError:
    return DataError(f"{path} was changed: {', '.join(names[:3])}.", "Ask for the bundle again.")


def _cannot_write(folder: Path, error: OSError) -> SpecError:
    return SpecError(
        f"Cannot write to {folder}: {(error.strerror or 'it fails').lower()}.",
        "Name another folder with -o.",
    )
