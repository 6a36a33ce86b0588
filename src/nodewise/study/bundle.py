"""One file that holds a study with everything to judge and to repeat it: a zip with checksums."""

import hashlib
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from nodewise.base.errors import DataError, SpecError

SUMS = "SHA256SUMS"
_EPOCH = (2020, 1, 1, 0, 0, 0)  # the same study gives the same bytes
_MOST_BYTES = 2 * 2**30
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


def unpack(path: Path) -> dict[str, bytes]:
    """The files of a bundle; a missing, added or changed one is refused."""
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > _MOST_BYTES:
                raise DataError(f"{path} holds more than 2 GiB.", "Hand in a smaller bundle.")
            files = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    except OSError as error:
        raise DataError(
            f"Cannot read {path}: {(error.strerror or str(error)).lower()}.",
            "Name a .zip that nodewise export made.",
        ) from None
    except (zipfile.BadZipFile, zipfile.LargeZipFile, RuntimeError, *_DAMAGED):
        raise DataError(
            f"{path} is not a bundle.", "Make one with: nodewise export STUDY"
        ) from None
    _check(path, files, files.pop(SUMS, b"").decode(errors="replace"))
    return files


def _check(path: Path, files: Mapping[str, bytes], sums: str) -> None:
    promised = {}
    for line in sums.splitlines():
        digest, _, name = line.partition("  ")
        promised[name] = digest
    if not promised:
        raise DataError(f"{path} has no checksums.", "Make one with: nodewise export STUDY")
    strangers = sorted(set(promised) ^ set(files))
    changed = sorted(
        name
        for name, content in files.items()
        if name in promised and hashlib.sha256(content).hexdigest() != promised[name]
    )
    if strangers or changed:
        raise DataError(
            f"{path} was changed: {', '.join([*changed, *strangers][:3])}.",
            "Ask for the bundle anew.",
        )


def write_files(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files of a bundle below a folder that is empty or new."""
    for name in files:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise DataError(f"The bundle would write outside: {name}.", "Do not use this bundle.")
    try:
        if folder.exists() and any(folder.iterdir()):
            raise SpecError(f"{folder} is not empty.", "Name another folder with -o.")
        for name, content in files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    except OSError as error:
        raise SpecError(
            f"Cannot write to {folder}: {(error.strerror or 'it fails').lower()}.",
            "Name another folder with -o.",
        ) from None
