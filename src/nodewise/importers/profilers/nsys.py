"""Nsight Systems: the SQLite export (nsys export --type sqlite). A rank a process and device.

Tables appear only where something was recorded, so each is looked for before it is read. Steps are
not marked in a way that all programs share; where NVTX ranges are named step, they are taken.
"""

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nodewise.base.errors import DataError
from nodewise.importers.profilers.kineto import COLLECTIVE_KERNEL, operation_of_kernel, rank_of_name
from nodewise.study.trace import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    NO_CALL,
    NO_LAUNCH,
    Call,
    RankTrace,
    Step,
)

_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_COPIES = ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
_LAUNCHES = "CUPTI_ACTIVITY_KIND_RUNTIME"
_STEP = re.compile(r"(?:ProfilerStep|step|iteration|iter)\s*[#:_ ]?\s*(\d{1,18})$", re.IGNORECASE)
_PROCESS_BITS = 0xFFFFFFFFFF000000  # of a global thread number: machine and process


def read(path: Path, collective_kernels: str = "") -> list[RankTrace]:
    """The traces in one export, in the order of process and device."""
    try:
        address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(address, uri=True)) as database:
            database.text_factory = lambda text: text.decode("utf-8", "replace")
            return _Export(database, path, collective_kernels).traces()
    except (sqlite3.Error, OverflowError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} is not an export that can be read: {error}.",
            "Make it with: nsys export --type sqlite report.nsys-rep",
        ) from None


class _Export:
    def __init__(self, database: sqlite3.Connection, path: Path, collective_kernels: str) -> None:
        self._database = database
        self._path = path
        self._more = re.compile(collective_kernels) if collective_kernels else None
        names = database.execute("select name from sqlite_master where type in ('table', 'view')")
        self._tables = {str(name) for (name,) in names}

    def traces(self) -> list[RankTrace]:
        if _KERNELS not in self._tables:
            raise DataError(
                f"{self._path} has no kernels.", "Record with: nsys profile --trace cuda,nvtx"
            )
        pairs = self._rows(f"select distinct globalPid, deviceId from {_KERNELS} order by 1, 2")
        base = self._session_start()
        steps = self._steps()
        found = [self._trace(process, device, base, steps) for process, device in pairs]
        if not found:
            raise DataError(f"{self._path} has no kernels.", "Record more of the run.")
        # An export of one rank tells it by its name; one of several ranks has them in order.
        alone = rank_of_name(self._path) if len(found) == 1 else None
        return [replace(t, rank=alone if len(found) == 1 else at) for at, t in enumerate(found)]

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._database.execute(query, values).fetchall()

    def _session_start(self) -> int:
        """What times are counted from, so that exports of several machines share a clock."""
        if "TARGET_INFO_SESSION_START_TIME" not in self._tables:
            return 0
        rows = self._rows("select utcEpochNs from TARGET_INFO_SESSION_START_TIME limit 1")
        return int(rows[0][0]) if rows and isinstance(rows[0][0], int) else 0

    def _trace(self, process: Any, device: Any, base: int, steps: "_Steps") -> RankTrace:
        kernels = self._rows(
            f"select k.start, k.end, k.correlationId, s.value from {_KERNELS} k "
            "left join StringIds s on s.id = k.shortName "
            "where k.globalPid is ? and k.deviceId is ?",
            (process, device),
        )
        copies: list[tuple[Any, ...]] = []
        for table in _COPIES:
            if table in self._tables:
                copies += self._rows(
                    f"select start, end, correlationId from {table} "
                    "where globalPid is ? and deviceId is ?",
                    (process, device),
                )
        calls: dict[Call, int] = {}
        kinds = np.full(len(kernels) + len(copies), COPY, np.int8)
        called = np.full(len(kinds), NO_CALL, np.int32)
        for at, (_, _, _, name) in enumerate(kernels):
            name = str(name or "")
            communicates = COLLECTIVE_KERNEL.match(name) or (self._more and self._more.search(name))
            kinds[at] = COMMUNICATION if communicates else COMPUTE
            if communicates:
                call = Call(operation=operation_of_kernel(name))
                called[at] = calls.setdefault(call, len(calls))
        rows = np.array([row[:3] for row in (*kernels, *copies)], np.int64).reshape(-1, 3)
        return RankTrace(
            file=str(self._path),
            rank=None,
            starts=rows[:, 0] + base,
            ends=np.maximum(rows[:, 1], rows[:, 0]) + base,
            kinds=kinds,
            launches=self._launches(process, rows[:, 2], base),
            calls=called,
            call_table=tuple(calls),
            steps=tuple(
                Step(number=number, start=start + base, end=end + base)
                for number, start, end in steps.get(process, [])
            ),
            last_step_start=max(
                (start + base for _, start, _ in steps.get(process, [])), default=None
            ),
        )

    def _launches(self, process: Any, wanted: "np.ndarray[Any, Any]", base: int) -> Any:
        launches = np.full(len(wanted), NO_LAUNCH)
        if _LAUNCHES not in self._tables or process is None:
            return launches
        rows = self._rows(
            f"select correlationId, start from {_LAUNCHES} where (globalTid & ?) = ? order by 1",
            (_PROCESS_BITS - 2**64, process & (_PROCESS_BITS - 2**64)),
        )
        if not rows:
            return launches
        known = np.array(rows, np.int64)
        at = np.minimum(np.searchsorted(known[:, 0], wanted), len(known) - 1)
        same = known[at, 0] == wanted
        launches[same] = known[at[same], 1] + base
        return launches

    def _steps(self) -> "_Steps":
        """NVTX ranges that are named after a step, by process."""
        found: _Steps = {}
        if "NVTX_EVENTS" not in self._tables:
            return found
        rows = self._rows(
            "select e.start, e.end, coalesce(e.text, s.value), e.globalTid from NVTX_EVENTS e "
            "left join StringIds s on s.id = e.textId "
            "where e.end is not null and (coalesce(e.text, s.value) like '%step%' "
            "or coalesce(e.text, s.value) like '%iter%') order by 1"
        )
        seen: set[tuple[int, int]] = set()
        for start, end, text, thread in rows:
            named = _STEP.match(str(text))
            process = int(thread or 0) & (_PROCESS_BITS - 2**64)
            if named and (process, int(named[1])) not in seen:
                seen.add((process, int(named[1])))
                found.setdefault(process, []).append((int(named[1]), int(start), int(end)))
        return found


_Steps = dict[int, list[tuple[int, int, int]]]
