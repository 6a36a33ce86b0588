"""The curve of a study if a cause were smaller: from the ledger, then the forecast of the rest.

A stage (communication, input/output, serial fraction, engine overhead) is changed as a whole: what
it takes of the wall time, lost or not. A cause of waiting is changed by what it loses: ranks that
no longer wait for a late one save that wait. Hidden communication costs nothing, so it saves
nothing. What a change may bring about elsewhere, such as another rank being the last, is not seen.
"""

from collections.abc import Sequence

import msgspec

from nodewise.base.errors import DataError, SpecError
from nodewise.decide.forecast import Forecast, predict
from nodewise.decide.inputs import Question
from nodewise.decide.paper.relocate import rehearsed_place
from nodewise.explain.attribute import Attribution, LedgerRow, attribute
from nodewise.explain.causes import CAUSE_OF_STAGE, CauseName
from nodewise.explain.changes import link_rates, link_share, share_left
from nodewise.study.study import Run, Stage, Study

_STAGES: tuple[CauseName, ...] = (
    "communication", "input/output", "serial fraction", "engine overhead",
)  # fmt: skip
_WAITS: tuple[CauseName, ...] = (
    "load imbalance", "slow node", "jitter", "late rank", "idle", "compute inflation",
    "foreign load", "oversubscription", "emulation",
)  # fmt: skip


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A cause, and what is left of it."""

    cause: CauseName
    factor: float
    because: str = ""  # of a faster link: its rates


class WhatIfRow(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """One measured scale, and its time with the changes."""

    nodes: int
    measured_seconds: float
    seconds: float
    saved: dict[CauseName, float]  # seconds, by cause


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """The measured scales with the changes, and the forecast of that curve."""

    name: str
    changes: tuple[Change, ...]
    rows: tuple[WhatIfRow, ...]
    before: Forecast
    after: Forecast


def parse_changes(text: str, study: Study) -> tuple[Change, ...]:
    """Changes as they are typed: communication=0.5x,slow-node=fixed,link=400Gbit."""
    found = []
    for word in text.split(","):
        name, _, value = (part.strip() for part in word.partition("="))
        if name == "link":
            found.append(_link(value, study))
            continue
        cause = next((one for one in (*_STAGES, *_WAITS) if one.replace(" ", "-") == name), None)
        if cause is None:
            known = ", ".join(one.replace(" ", "-") for one in (*_STAGES, *_WAITS))
            raise SpecError(f"--what-if: {name or word!r} is not a cause.", f"Use link, {known}.")
        found.append(Change(cause=cause, factor=share_left(name, value)))
    causes = [change.cause for change in found]
    if twice := next((cause for cause in causes if causes.count(cause) > 1), None):
        raise SpecError(f"--what-if changes {twice} twice.", "State one factor for it.")
    return tuple(found)


def _link(value: str, study: Study) -> Change:
    """Communication over a faster link; the study or the user says what it was measured on."""
    here, rate = link_rates(value)
    place = rehearsed_place(study)
    if here is None and place is not None and place.network is not None:
        here = place.network.bytes_per_second
    if here is None:
        raise SpecError(
            "--what-if link: the study does not say what link it was measured on.",
            "State both: link=100Gbit:400Gbit, or a factor: communication=0.5x.",
        )
    because = f"link of {here * 8e-6:g} Mbit/s, now {rate * 8e-6:g}"
    return Change(cause="communication", factor=link_share(here, rate), because=because)


def what_if(
    study: Study, question: Question, changes: Sequence[Change], nodes: Sequence[int] = ()
) -> WhatIf:
    """The forecast of a study with and without the changes."""
    ledger = attribute(study, question.needs.threshold, question.center)
    rows = tuple(_row(row, changes, _serial_seconds(study, row)) for row in _staged(ledger))
    by_scale = {row.nodes: row for row in rows}
    runs = [
        _changed(run, by_scale[run.nodes], changes) if run.nodes in by_scale else run
        for run in study.runs
    ]
    return WhatIf(
        name=study.name,
        changes=tuple(changes),
        rows=rows,
        before=predict(study, question, nodes),
        after=predict(msgspec.structs.replace(study, runs=tuple(runs)), question, nodes),
    )


def _changed(run: Run, row: WhatIfRow, changes: Sequence[Change]) -> Run:
    """A run with the changes; its stages keep what is left, so that their laws continue it."""
    factors = {change.cause: change.factor for change in changes}
    waits = sum(saved for cause, saved in row.saved.items() if cause in _WAITS)
    serial = row.saved.get("serial fraction", 0.0)  # the other ranks waited for it

    def left(stages: dict[Stage, float]) -> dict[Stage, float]:
        found = {
            stage: seconds * factors.get(CAUSE_OF_STAGE[stage], 1.0)
            if CAUSE_OF_STAGE[stage] in _STAGES
            else seconds
            for stage, seconds in stages.items()
        }
        if "idle" in found:
            mine = serial if not stages.get("serial") else 0.0
            found["idle"] = max(found["idle"] - waits - mine, 0.0)
        return found

    ranks = tuple(
        msgspec.structs.replace(rank, stages=left(rank.stages), seconds=None) for rank in run.ranks
    )
    seconds = run.seconds * row.seconds / row.measured_seconds
    return msgspec.structs.replace(run, seconds=seconds, stages=left(run.stages), ranks=ranks)


def _staged(ledger: Attribution) -> tuple[LedgerRow, ...]:
    if not all(row.time_shares for row in ledger.rows):
        raise DataError(
            "--what-if needs the stages of every run, and these runs have none.",
            "Record compute_s and comm_s of every run, or use the probe (docs/spec.md).",
        )
    return ledger.rows


def _serial_seconds(study: Study, row: LedgerRow) -> float:
    """Seconds of the serial stage on the rank that works while the others wait."""
    runs = study.at(row.nodes)
    longest = [
        max((rank.stages.get("serial", 0.0) for rank in run.timed_ranks), default=None)
        for run in runs
    ]
    known = [seconds for seconds in longest if seconds is not None]
    if known:
        return sum(known) / len(known)
    return row.time_shares.get("serial fraction", 0.0) * row.seconds


def _row(row: LedgerRow, changes: Sequence[Change], serial: float) -> WhatIfRow:
    lost = {loss.cause: max(loss.gross_seconds, 0.0) for loss in row.causes}
    saved = {}
    for change in changes:
        taken = lost.get(change.cause, 0.0)
        if change.cause in _STAGES:
            taken = row.time_shares.get(change.cause, 0.0) * row.seconds
        if change.cause == "serial fraction":
            taken = serial
        saved[change.cause] = (1 - change.factor) * taken
    # Compute is left: parts may add up to more than the rest
    least = min(row.time_shares.get("compute", 0.0), 1.0) * row.seconds
    seconds = max(row.seconds - sum(saved.values()), least)
    return WhatIfRow(nodes=row.nodes, measured_seconds=row.seconds, seconds=seconds, saved=saved)
