"""One study as a line of a history: its rounds at each K, its ledger and its cost."""

import hashlib
import re
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from nodewise.decide.decide import decide
from nodewise.decide.inputs import Question
from nodewise.explain.attribute import attribute
from nodewise.explain.validity import foreign_load
from nodewise.study.spec import Amount, Nodes, Positive, Regime, Signed, Spec
from nodewise.study.study import Run, Study

_SHORT = 8  # digits of a commit
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT")
_HEX = re.compile(r"[0-9a-f]{12,64}")
Seconds = Annotated[tuple[Positive, ...], msgspec.Meta(min_length=1)]


class Scale(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"nodes": "K"}):
    """What a study recorded at one K. What is unknown is absent."""

    nodes: Nodes
    seconds: Seconds  # of each round
    parts: dict[str, Signed] = {}  # seconds of the wall time by part: compute, communication, ...
    lost: dict[str, Signed] = {}  # speedup lost to each cause, where the causes are identified
    cost: Amount | None = None
    cost_low: Amount | None = None
    cost_high: Amount | None = None
    memory_bytes: tuple[Positive, ...] = ()  # the largest rank of each round
    energy_joules: tuple[Positive, ...] = ()  # of each round

    @property
    def mean_seconds(self) -> float:
        """The mean of its rounds."""
        return sum(self.seconds) / len(self.seconds)


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One study."""

    format: Literal[1] = 1
    workload: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    date: str  # of its first run, UTC
    commit: str = ""
    changed: bool = False  # the code that ran had changes that were not committed
    machine: str = ""
    regime: Regime = "strong"
    scales: Annotated[tuple[Scale, ...], msgspec.Meta(min_length=1)]  # by K
    paired: bool = False  # every K was run in the same rounds
    currency: str = ""  # empty: no price was known
    chosen: tuple[Nodes, ...] = ()  # K*, then the other K that may be the right one
    invalid: str = ""  # why its times must not be compared
    foreign_load: Annotated[float, msgspec.Meta(ge=0)] | None = (
        None  # mean share of the CPU that other processes took
    )
    key: str = ""  # a checksum of its runs: the same study is kept once

    @property
    def nodes(self) -> tuple[int, ...]:
        """The measured K, ascending."""
        return tuple(scale.nodes for scale in self.scales)

    def at(self, nodes: int) -> Scale | None:
        """What was recorded at one K."""
        return next((scale for scale in self.scales if scale.nodes == nodes), None)

    def ideal(self, nodes: int) -> float:
        """The ideal speedup at K over the smallest K."""
        return nodes / self.scales[0].nodes

    @property
    def label(self) -> str:
        """Its commit, or else its date, as it is shown."""
        return short(self.commit) or self.date[:10]


def short(name: str) -> str:
    """The first digits of a commit, the day of a moment; other names are kept."""
    if _MOMENT.match(name):
        return name[:10]
    return name[:_SHORT] if _HEX.fullmatch(name) else name


def entry_of(
    study: Study,
    question: Question,
    *,
    date: str = "",
    commit: str = "",
    machine: str = "",
    workload: str = "",
) -> Entry:
    """A study as a line of a history; what is named here goes before what its runs say."""
    facts = study.good_runs[-1].provenance
    begun = min((run.started for run in study.runs if run.started), default="")
    bare = bare_entry(
        workload or workload_key(study),
        commit=commit or str(facts.get("commit", "")),
        date=date or begun,
        seconds={nodes: [run.seconds for run in study.at(nodes)] for nodes in study.scales},
        machine=machine or machine_key(facts),
        regime=study.regime,
    )
    whole = msgspec.structs.replace(
        bare,
        changed=not commit and bool(facts.get("uncommitted_changes")),
        paired=study.paired,
        foreign_load=foreign_load(study),
        scales=tuple(_with_usage(scale, study.at(scale.nodes)) for scale in bare.scales),
        key=study_key(study),
    )
    return _explained(whole, study, question) if len(study.scales) > 1 else whole


def bare_entry(
    workload: str,
    *,
    commit: str,
    date: str,
    seconds: dict[int, list[float]],
    machine: str = "",
    regime: Regime = "strong",
) -> Entry:
    """A line that knows only seconds, as tables of other tools do."""
    scales = tuple(Scale(nodes=nodes, seconds=tuple(seconds[nodes])) for nodes in sorted(seconds))
    bare = Entry(workload=workload, commit=commit, date=date, machine=machine, scales=scales)
    return in_regime(bare, regime)


def in_regime(entry: Entry, regime: Regime) -> Entry:
    """A line that other tools kept, read as strong or weak scaling; these are two studies."""
    about = [entry.workload, entry.commit, entry.date, entry.machine, regime]
    seconds = [(scale.nodes, scale.seconds) for scale in entry.scales]
    return msgspec.structs.replace(entry, regime=regime, key=_checksum([*about, *seconds]))


def study_key(study: Study) -> str:
    """A checksum of its runs, by which a history knows it again."""
    return _checksum([[run.nodes, run.round, run.seconds, run.started] for run in study.runs])


def workload_key(study: Study) -> str:
    """The name of a study; where its job is known, with a checksum of it, as jobs change."""
    if study.spec is None:
        return study.name
    return job_key(study.spec, study.regime)


def job_key(spec: Spec, regime: Regime) -> str:
    """The name of a spec with a checksum of its job."""
    return f"{spec.name}@{_checksum([spec.workload, spec.engine, regime])[:6]}"


def machine_key(facts: "dict[str, str | int | float | bool]") -> str:
    """Processor and cores: machines that agree in both are compared; hosts come and go."""
    cpu = str(facts.get("cpu", ""))
    return f"{cpu}, {facts.get('cores')} cores" if cpu else ""


def _checksum(content: object) -> str:
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:16]


def _with_usage(scale: Scale, runs: Sequence[Run]) -> Scale:
    """With memory and energy, where every round recorded them."""
    peaks = [
        max((rank.usage.memory_bytes for rank in run.ranks if rank.usage), default=0)
        for run in runs
    ]
    joules = [run.energy_joules or 0.0 for run in runs]
    return msgspec.structs.replace(
        scale,
        memory_bytes=tuple(map(float, peaks)) if all(peaks) else (),
        energy_joules=tuple(joules) if all(joules) else (),
    )


def _explained(entry: Entry, study: Study, question: Question) -> Entry:
    """With the ledger, the costs and the recommendation."""
    decision = decide(study, question)
    ledger = {row.nodes: row for row in attribute(study).rows}
    priced = decision.price.is_money
    scales = []
    for scale in entry.scales:
        row, bill = ledger[scale.nodes], decision.row(scale.nodes)
        known = bool(row.time_shares) or row.dominant_cause is not None
        scales.append(
            msgspec.structs.replace(
                scale,
                parts={part: share * row.seconds for part, share in row.time_shares.items()},
                lost={loss.cause: loss.folds for loss in row.causes} if known else {},
                cost=bill.cost if priced else None,
                cost_low=bill.cost_low if priced else None,
                cost_high=bill.cost_high if priced else None,
            )
        )
    choice = decision.recommended
    others = [nodes for nodes in choice.undecided if nodes != choice.nodes]
    state = decision.validity
    return msgspec.structs.replace(
        entry,
        scales=tuple(scales),
        currency=decision.price.currency if priced else "",
        chosen=() if choice.nodes is None else (choice.nodes, *others),
        invalid="; ".join(state.reasons) if state.state == "invalid" else "",
    )
