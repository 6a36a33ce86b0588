"""Cube profiles of Score-P and others: the time of each rank, and how much of it is in MPI."""

import gzip
import importlib
import struct
import tarfile
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from nodewise.base.stats import Floats
from nodewise.importers.logs.hpc import mpi_ranks
from nodewise.importers.logs.record import Log, LogRun
from nodewise.importers.logs.scan import Seen

_MOST_BYTES = 2**30  # that a packed part may unpack to, as of every file that is read
_CHUNK = 2**20
_ZHEADER = b"ZCUBEX.DATA"
_OUTSIDE = ("MPI_Init", "MPI_Init_thread", "MPI_Finalize")  # not of the run


def read(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The run in a profile; threads of a process count by its first one."""
    log = Log(path, "cube")
    try:
        pycubexr: Any = importlib.import_module("pycubexr")
    except ImportError:
        return [log.run(problem="pycubexr is not installed: pip install 'nodewise[cube]'")]
    own = importlib.import_module("pycubexr.utils.exceptions")
    members = importlib.import_module("pycubexr.utils.custom_tarinfo").TarInfoWithoutCheck
    errors: tuple[type[Exception], ...] = (
        own.MissingMetricError, own.UnsupportedMetricFormatError, own.CorruptIndexError,
        AssertionError, AttributeError, EOFError, ElementTree.ParseError, LookupError, MemoryError,
        OSError, OverflowError, RecursionError, TypeError, ValueError, struct.error,
        tarfile.TarError, zlib.error,
    )  # fmt: skip
    try:
        _refuse_too_large(path, members)
        # CubeWriter 4.8 writes files whose checksum is wrong; pycubexr warns and reads them
        with warnings.catch_warnings(action="ignore"), pycubexr.CubexParser(str(path)) as profile:
            return [_run(log, profile)]
    except errors as error:
        return [log.run(problem=f"the profile is damaged: {str(error)[:100]}")]


def _refuse_too_large(path: Path, members: type[tarfile.TarInfo]) -> None:
    """Raise ValueError where a part unpacks to more than is read: pycubexr has no bound."""
    with tarfile.open(path, tarinfo=members) as tar:
        for member in tar.getmembers():
            if member.issparse():
                raise ValueError(f"{member.name} is a file with holes")
            part = tar.extractfile(member)
            if part is None:  # a folder
                continue
            with part:
                start = part.read(len(_ZHEADER))
                size = 0
                if start == _ZHEADER:
                    data = part.read()
                    size = max(_unpacked_bytes(data, order) for order in "<>")
                elif start[:2] == b"\x1f\x8b":
                    part.seek(0)
                    with gzip.GzipFile(fileobj=part) as packed:
                        while size <= _MOST_BYTES and (chunk := packed.read(_CHUNK)):
                            size += len(chunk)
            if size > _MOST_BYTES:
                raise ValueError(f"{member.name} unpacks to more than 1 GiB")


def _unpacked_bytes(data: bytes, order: str) -> int:
    """Bytes of the packed blocks behind a header; 0 where the order of its bytes is another."""
    (count,) = struct.unpack_from(f"{order}q", data)
    at = 8 + 24 * count
    if not 0 <= at <= len(data):
        return 0
    size = 0
    for length in struct.unpack_from(f"{order}{3 * count}q", data, 8)[2::3]:
        if length < 0:
            raise ValueError("a block has a negative size")
        size += _inflated_bytes(data[at : at + length])
        at += length
        if size > _MOST_BYTES:
            break
    return size


def _inflated_bytes(block: bytes) -> int:
    reader, size = zlib.decompressobj(), 0
    for start in range(0, len(block), _CHUNK):
        piece = block[start : start + _CHUNK]
        while piece and size <= _MOST_BYTES:
            size += len(reader.decompress(piece, _CHUNK))
            piece = reader.unconsumed_tail
    return size


def _run(log: Log, profile: Any) -> LogRun:
    values = profile.get_metric_values(profile.get_metric_by_name("time"))

    def inclusive(node: Any) -> Floats:
        found: Floats = values.cnode_values(node, convert_to_inclusive=True).astype(float)
        return found

    [root] = profile.get_root_cnodes()
    total = inclusive(root)
    mpi = np.zeros_like(total)
    for node in _calls(profile):
        if node.region.name in _OUTSIDE:
            total = total - inclusive(node)
        else:
            mpi = mpi + inclusive(node)
    tasks = {rank: (float(total[at]), float(mpi[at])) for rank, at in enumerate(_masters(profile))}
    if not tasks or not all(whole > 0 and 0 <= part <= whole for whole, part in tasks.values()):
        return log.run(problem="no process with a time")
    log.put("world_size", len(tasks))
    return log.run(run_seconds=max(whole for whole, _ in tasks.values()), ranks=mpi_ranks(tasks))


def _calls(profile: Any) -> Iterator[Any]:
    """The calls of MPI in the call tree; what they call themselves is in their time."""
    for node in profile.all_cnodes():
        inside = node.parent is not None and node.parent.region.name.startswith("MPI_")
        if node.region.name.startswith("MPI_") and not inside:
            yield node


def _masters(profile: Any) -> list[int]:
    """The place of the first thread of each process among the values."""
    return [
        place
        for place, location in enumerate(profile.get_locations())
        if location.rank == "0" and "thread" in location.type
    ]
