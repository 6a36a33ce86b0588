"""Ceilings, rooflines and diagnoses as text: the answer first, then the evidence."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from nodewise.base.units import (
    capitalised,
    format_bandwidth,
    format_bytes,
    format_duration,
    format_flops,
    format_latency,
    format_percent,
    format_seconds,
)
from nodewise.diagnose.axes import MENU, axis_words
from nodewise.diagnose.flow import Branch, Diagnosis, from_workers, headline
from nodewise.diagnose.memory import Fit
from nodewise.diagnose.next_ceiling import NextCeiling
from nodewise.diagnose.roofline import Roofline
from nodewise.diagnose.steps import StepTable
from nodewise.diagnose.training_step import TrainingStep, table_of
from nodewise.report.sections import Output, Report, Section, output
from nodewise.report.table import Table, between, given, rows_table
from nodewise.report.text.symptoms import (
    answer_lines,
    first_words,
    remedy_and_notes,
    remedy_lines,
    verdict_lines,
)
from nodewise.study.machine import Ceiling, Machine


def roofline_report(step: Roofline) -> Output:
    """A step on paper: its bound, its times and, with an exchange, how many workers it bears."""
    figures = {
        "ridge": f"{step.ridge:.4g} FLOP/B",
        "intensity": f"{step.intensity:.4g} FLOP/B",
        "attainable": format_flops(step.attainable_flops),
        "compute": f"{step.compute_s:.3g} s",
        "memory": f"{step.memory_s:.3g} s",
    }
    if step.comm_s is not None:
        figures["exchange"] = f"{step.comm_s:.3g} s"
    lines = [
        f"**{capitalised(step.verdict)}.**",
        *(f"{capitalised(reason)}." for reason in step.reasons),
    ]
    notes = Section(name="notes", title="Notes", parts=[f"  {note}" for note in step.notes])
    table = _figures_table(figures, left=("",))
    if not step.workers:
        return output(lines, table, [notes])
    shown = Section(name="step", title="Step", parts=[table])
    workers = Section(name="workers", title="Workers", parts=[*_binding_lines(step)])
    return output(lines, _workers_table(step), [shown, workers, notes])


def _figures_table(figures: Mapping[str, str], left: Sequence[str]) -> Table:
    rows = [{"": name, "value": value} for name, value in figures.items()]
    return rows_table("The step", rows, left=left)


def _workers_table(step: Roofline) -> Table:
    rows = [
        {
            "workers": row.workers,
            "exchange": format_duration(row.exchange_s, 3),
            "shared step": format_duration(row.strong_step_s, 3),
            "efficiency": format_percent(row.strong_efficiency),
            "step each": format_duration(row.weak_step_s, 3),
            "efficiency ": format_percent(row.weak_efficiency),
        }
        for row in step.workers
    ]
    return rows_table("Workers", rows)


def _binding_lines(step: Roofline) -> Report:
    return [
        "Ring all-reduce after the work, without overlap; efficiency against one worker.",
        f"The exchange takes longer than the work {from_workers(step.binds_at_strong)} that share "
        f"one step (strong), and {from_workers(step.binds_at_weak)} with a whole step each (weak).",
    ]


def diagnosis_report(result: Diagnosis) -> Output:
    """Yes or no to a proposal, the ceiling and its remedy; each question in a section."""
    lines = [
        *answer_lines(result.answer),
        f"**{capitalised(headline(result))}.** Confidence: {result.confidence}.",
        *(f"{capitalised(words)}." for words in result.evidence),
    ]
    memory = [] if result.training is None else memory_lines(result.training)
    remedy: Report = [] if result.ceiling is None else remedy_lines(MENU[result.ceiling])
    flow = flow_table(result.branches, "ceiling")
    if result.ceiling is not None and result.answer is None:
        lines.append(first_words(result.ceiling))
    sections = [
        Section(name="memory", title="Memory", parts=memory),
        Section(name="flow", title="Bottleneck check", parts=[flow]),
        Section(name="remedy", title="Remedy", parts=remedy),
    ]
    table = next((part for part in memory if isinstance(part, Table)), flow)
    return output(lines, table, sections)


def flow_table(branches: Sequence[Branch], beside: Literal["ceiling", "lost"]) -> Table:
    """The questions in order with their answers, and the ceiling of each or what is lost to it."""
    asked = [one for one in branches if one.answer != "not asked"]
    rows = [
        {
            "question": one.question,
            "answer": "BINDS" if one.answer == "binds" else one.answer,
            beside: (one.ceiling or "") if beside == "ceiling" else one.evidence,
        }
        for one in asked
    ]
    strong = next((at for at, one in enumerate(asked) if one.answer == "binds"), None)
    return rows_table("Bottleneck check", rows, left=("question", "answer", beside), strong=strong)


def memory_lines(fit: Fit) -> Report:
    """What each device would hold, under each strategy."""
    demand = fit.demand
    sizes = {
        "parameters": demand.parameters,
        "gradients": demand.gradients,
        "optimizer": demand.states,
        "activations": demand.activations,
    }
    parts = ", ".join(f"{name} {format_bytes(size)}" for name, size in sizes.items() if size)
    rows = [
        {
            "strategy": share.strategy,
            "devices": fit.workers,
            "on each": format_bytes(share.device_bytes),
            "of": format_bytes(fit.device_bytes),
            "": "fits" if share.fits else "does not fit",
        }
        for share in fit.shares
    ]
    return [
        f"One copy: {format_bytes(demand.total)} ({parts}).",
        rows_table("Memory", rows, left=("strategy", "")),
    ]


def menu_report(_: object) -> Report:
    """The whole menu: ceiling, axis, tools."""
    rows = [
        {"ceiling": name, "axis": remedy.axis or "none", "tools": ", ".join(remedy.tools)}
        for name, remedy in MENU.items()
    ]
    return [
        rows_table("Menu", rows, left=("ceiling", "axis", "tools")),
        "",
        *(f"{name}: {remedy.symptom}." for name, remedy in MENU.items()),
    ]


def machine_report(machine: Machine) -> Report:
    """Every ceiling with its interval, and how it was got; what is missing and why."""
    busy = machine.contention.get("cpu_pressure", 0.0)
    limit, size = min(machine.capacity.items(), key=lambda one: one[1])
    processor = machine.identity.get("processor", "a processor")
    lines: Report = [
        f"**{processor}, {machine.identity['cores']} cores, {format_bytes(size)} memory "
        f"({limit}).** Measured {machine.measured} in {machine.seconds:.0f} s.",
        "",
        rows_table("Ceilings", _ceiling_rows(machine), left=("ceiling", "how")),
        "interval: contains the median in 95 of 100 cases; the range if fewer than six windows. "
        "clean: share of windows in which no other process had the core; only those count, unless "
        "by CPU time.",
    ]
    if machine.clock_hertz is not None and machine.peak_flops:
        lines.append(
            f"of theory: {machine.clock_hertz / 1e9:.2f} GHz measured x "
            f"{machine.identity.get('instructions', '')} on 64 bits; at most, for two units."
        )
    ridge = _ridge(machine)
    if ridge is not None:
        lines.append(f"Ridge: {ridge:.3g} FLOP per byte (float64, all cores, main memory).")
    if busy > 0.1:
        lines.append(
            f"note: The machine was busy: processes waited for a core in {format_percent(busy)} "
            "of the time."
        )
    return lines + [f"note: Not measured: {name}; {why}." for name, why in machine.missing.items()]


def _ridge(machine: Machine) -> float | None:
    peak, bandwidth = machine.peak(), machine.memory_bandwidth
    return None if peak is None or bandwidth is None else peak / bandwidth


def _ceiling_rows(machine: Machine) -> list[dict[str, str]]:
    rows = []
    for dtype, by_threads in machine.compute.items():
        for threads, one in by_threads.items():
            peak = machine.peak_flops.get(dtype)
            share = "" if peak is None else format_percent(one.value / peak / threads)
            rows.append(_ceiling_cells(dtype, str(threads), one, share))
    for level, by_threads in machine.memory.items():
        for threads, one in by_threads.items():
            rows.append(_ceiling_cells(f"memory, {level}", str(threads), one))
    if machine.page_fault is not None:
        rows.append(_ceiling_cells("page faults", "1", machine.page_fault))
    for name, one in machine.disk.items():
        rows.append(_ceiling_cells(f"disk {name}", "", one))
    for groups in (machine.link, machine.devices):
        for kind, parts in groups.items():
            rows += [_ceiling_cells(f"{kind}, {name}", "", one) for name, one in parts.items()]
    return rows


def _ceiling_cells(name: str, cores: str, one: Ceiling, share: str = "") -> dict[str, str]:
    form = _FORMS[one.unit]
    return {
        "ceiling": name,
        "cores": cores,
        "median": form(one.value),
        "interval": between(one.low, one.high, form),
        "clean": format_percent(one.clean) if cores else "",
        "of theory": share,
        "how": one.how,
    }


_FORMS: dict[str, Callable[[float], str]] = {
    "FLOP/s": format_flops,
    "B/s": format_bandwidth,
    "B": format_bytes,
    "s": format_latency,
    "1/s": "{:.3g}/s".format,
}


def steps_report(table: StepTable) -> Report:
    """The steps of a program: time, intensity, rates, ceiling with the share reached, axis."""
    slowest = next(row for row in table.rows if row.name == table.slowest)
    remarks = [f"note: {row.name}: {row.remark}." for row in table.rows if row.remark]
    return [
        f"**{slowest.name} takes {format_percent(slowest.share_of_time)} of the time; ceiling: "
        f"{slowest.ceiling}.**",
        "",
        _steps_table(table, "step"),
        "reached: share of the ceiling, for as many cores as the step kept busy.",
        *remarks,
    ]


def _steps_table(table: StepTable, what: str) -> Table:
    rows = [
        {
            what: row.name,
            "seconds": format_seconds(row.seconds),
            "interval": between(row.low, row.high, format_seconds),
            "FLOP/B": given(row.intensity, "{:.2f}".format),
            "FLOP/s": given(row.flops_per_second or None, format_flops),
            "B/s": given(row.bytes_per_second or None, format_bandwidth),
            "cores": f"{row.cores:.1f}",
            "ceiling": row.ceiling,
            "reached": format_percent(row.share),
            "remedy": axis_words(row.axis) if row.axis else "",
        }
        for row in table.rows
    ]
    return rows_table(f"{what.capitalize()}s", rows, left=(what, "ceiling", "remedy"))


def training_step_report(result: TrainingStep) -> Output:
    """A torch step: the ceiling, its counts and its point, its stages, what was not counted."""
    lines = verdict_lines(result)
    sections = remedy_and_notes(result)
    if not result.stages:
        return output(lines, sections=sections)
    stages: Report = [
        _steps_table(table_of(result), "stage"),
        "Bytes are a lower bound: every operation reads its inputs and writes its outputs once. "
        "reached: share of the ceiling, for as many cores as the stage kept busy.",
    ]
    if result.uncounted:
        listed = ", ".join(f"{one.name} {format_percent(one.share)}" for one in result.uncounted)
        stages.append(f"Not in the FLOP count, with their share of the operations' time: {listed}.")
    own = Section(name="stages", title="Stages", parts=stages)
    return output(lines, _point_table(result), [own, *sections])


def _point_table(result: TrainingStep) -> Table:
    figures = {
        "step": f"{format_seconds(result.seconds)} s, a {result.step}, {result.steps} timed",
        "operations": f"{result.flops:.4g} FLOP ({result.dtype})",
        "bytes": f"at least {format_bytes(result.memory_bytes)}",
    }
    if result.intensity is not None and result.ridge is not None:
        side = "above" if result.intensity >= result.ridge else "below"
        figures["intensity"] = (
            f"{result.intensity:.3g} FLOP/B, {side} the ridge of {result.ridge:.3g}"
        )
    if result.peak_flops:
        share = format_percent(result.flops_per_second / result.peak_flops)
        reached = format_flops(result.flops_per_second)
        figures["reached"] = f"{reached}, {share} of the arithmetic of all cores"
    return _figures_table(figures, left=("", "value"))


def next_ceiling_report(result: NextCeiling) -> Output:
    """A distributed job: what binds it now, and how the ledger answers each question."""
    first = f"largest stage on the smallest scale: {result.first or 'not recorded'}"
    lines = [
        *answer_lines(result.answer),
        f"**{capitalised(result.verdict)}.** Confidence: {result.confidence} ({result.evidence}).",
        f"{capitalised(result.change)}.",
        f"K={result.nodes}: {format_duration(result.seconds)}, speedup {result.speedup:.2f}x of "
        f"{result.ideal:g}x; {first}.",
        *(f"{capitalised(verdict)}." for verdict in result.elsewhere),
    ]
    return output(lines, flow_table(result.branches, "lost"))
