"""A plan on paper as text: the knee, the fastest plan of each scale, its step and its memory."""

from nodewise.base.units import (
    format_duration,
    format_efficiency,
    format_money,
    format_percent,
    format_seconds,
    format_speedup,
    significant,
)
from nodewise.decide.paper.job import Plan
from nodewise.decide.paper.plan import Candidate, Planned, PlanRow
from nodewise.decide.paper.step import CEILINGS
from nodewise.report.sections import Output, Section, output
from nodewise.report.tables import BAR, Table, given, rows_table

_DAY_SECONDS = 86_400.0


def plan_report(result: Planned) -> Output:
    """The fastest plan of each scale, and where the knee is."""
    size = f"{result.parameters / 1e9:.1f} billion parameters"
    notes = Section(name="notes", title="Notes", parts=[f"  {note}" for note in result.notes])
    if result.fastest is None:
        lines = [
            f"**{result.name} on {result.cluster}: nothing fits.**",
            f"{size}; a device holds {_gigabytes(result.memory_bytes)} GB.",
            *_unfit(result),
        ]
        return output(lines, sections=[notes])
    shown = result.row(result.last_above or result.fastest)
    assert shown.best is not None
    lines = [
        f"**{result.name} on {result.cluster}: {_headline(result)}**",
        f"{size}; {_landmarks(result)}.",
        *_limits(result, shown),
        *_totals(result, shown),
        _certainty(result, shown),
        *_unfit(result),
    ]
    sections = [
        Section(name="plans", title="Plans", parts=[_plans_table(result), _caption(result)]),
        Section(name="step", title=f"Step at K={shown.nodes}", parts=[_step_table(shown.best)]),
        Section(
            name="memory",
            title=f"Memory of a device at K={shown.nodes}",
            parts=[_memory_table(shown.best, result.memory_bytes)],
        ),
        notes,
    ]
    return output(lines, _short_table(result), sections)


def _certainty(result: Planned, shown: PlanRow) -> str:
    """The interval of the step, and what it rests on."""
    assert shown.best is not None
    low, high = (format_duration(seconds, 3) for seconds in shown.best.seconds80)
    basis = "On paper: no run was made."
    if result.anchor_factor is not None:
        basis = f"The measured run took {result.anchor_factor:.3g} times its computed step."
    return f"Step at K={shown.nodes}: 80 % interval {low} to {high}. {basis}"


def _short_table(result: Planned) -> Table:
    """The fastest plan of each scale: its layout, time, efficiency, memory and cost."""
    rows: list[dict[str, object]] = []
    for row in result.fitting:
        assert row.best is not None
        plan = row.best.plan
        rows.append(
            {
                "K": row.nodes,
                "t x p x d": _layout(plan),
                "step": format_duration(row.best.seconds, 3),
                "speedup": significant(row.speedup or 0.0),
                "efficiency": format_percent(row.efficiency or 0.0),
                "of peak": format_percent(row.model_flops_share or 0.0),
                "memory": f"{_gigabytes(row.best.memory_bytes)} GB",
                "$/1e9 tokens": given(
                    row.cost_per_billion_tokens, lambda cost: f"${significant(cost)}"
                ),
                "most lost to": row.lost_to,
            }
        )
    chosen = result.last_above or result.fastest
    return rows_table(
        "The fastest plan that fits, at each scale",
        rows,
        left=("most lost to",),
        strong=[row.nodes for row in result.fitting].index(chosen or 0),
        sparse=True,
        optional=("most lost to", "of peak", "t x p x d"),
    )


def _headline(result: Planned) -> str:
    last = result.fitting[-1].nodes
    if result.last_above == last:
        return f"worth K={last} on paper, the largest scale requested"
    return f"worth up to K={result.last_above} on paper"


def _landmarks(result: Planned) -> str:
    knee = "not reached" if result.knee is None else f"K={result.knee}"
    stays = f"efficiency is {result.threshold:.2f} or more up to K={result.last_above}"
    return f"{stays}; knee {knee}; fastest K={result.fastest}; cheapest K={result.cheapest}"


def _plans_table(result: Planned) -> Table:
    titles = ["K", "devices", "t x p x d", "sharded", "micro", "chunks", "recompute", "seconds"]
    titles += ["speedup", "efficiency", "of peak", "GB"]
    priced = result.price is not None
    titles += (["$/1e9 tokens"] if priced else []) + ["most lost to"]
    strong = [row.nodes for row in result.fitting].index(result.last_above or result.fastest or 0)
    return Table(
        name="The fastest plan that fits, at each scale",
        titles=tuple(titles),
        rows=tuple(_plan_cells(row, priced) for row in result.fitting),
        left=frozenset({"sharded", "recompute", "most lost to"}),
        strong=strong,
    )


def _layout(plan: Plan) -> str:
    """Tensor, pipeline and data parallel devices; context and experts where they are divided."""
    words = f"{plan.tensor} x {plan.pipeline} x {plan.data}"
    words += f", context {plan.context}" if plan.context > 1 else ""
    return words + (f", experts {plan.expert}" if plan.expert > 1 else "")


def _plan_cells(row: PlanRow, priced: bool) -> tuple[str, ...]:
    assert row.best is not None
    plan = row.best.plan
    cells = [
        str(row.nodes),
        str(row.devices),
        _layout(plan),
        plan.sharding,
        str(plan.micro_batch),
        str(plan.interleave),
        plan.recompute,
        format_seconds(row.best.seconds),
        format_speedup(row.speedup or 0.0),
        format_efficiency(row.efficiency or 0.0),
        format_percent(row.model_flops_share or 0.0),
        _gigabytes(row.best.memory_bytes),
    ]
    if priced:
        cells.append(format_money(row.cost_per_billion_tokens or 0.0))
    return (*cells, row.lost_to or "")


def _caption(result: Planned) -> str:
    parts = [
        f"strong scaling, {result.batch} sequences a step at every K",
        f"speedup relative to K={result.base_nodes}",
        "efficiency relative to the scale with the fewest node-seconds",
        "t x p x d: tensor, pipeline and data parallel devices",
        "of peak: FLOPs of the model, without recomputation",
    ]
    if result.price is not None:
        parts.append(f"price: {result.price.source}")
    return "; ".join(parts) + "."


def _unfit(result: Planned) -> list[str]:
    lines = []
    for row in result.rows:
        if row.best is None:
            why = "no plan divides the batch, the layers and the heads"
            if row.least_bytes is not None:
                why = f"the smallest of {row.plans} plans needs {_gigabytes(row.least_bytes)} GB"
            lines.append(f"K={row.nodes} does not fit: {why}.")
    return lines


def _limits(result: Planned, shown: PlanRow) -> list[str]:
    """The ceiling that binds, what the size of the memory costs, and why not more nodes."""
    assert shown.best is not None
    share = format_percent(getattr(shown.best.step, shown.best.step.ceiling) / shown.best.seconds)
    lines = [f"Bottleneck at K={shown.nodes}: {shown.ceiling}, {share} of the step."]
    unlimited = shown.seconds_without_memory_limit or 0.0
    if unlimited < 0.99 * shown.best.seconds:
        lines.append(
            f"Memory size: {shown.fitting} of {shown.plans} plans fit; with more memory a step "
            f"could take {format_duration(unlimited)} instead of "
            f"{format_duration(shown.best.seconds)}."
        )
    beyond = [row for row in result.fitting if row.nodes > shown.nodes]
    if beyond and beyond[0].lost_to:
        lines.append(
            f"Why not more: at K={beyond[0].nodes} efficiency is "
            f"{beyond[0].efficiency:.3f}, most is lost to the {beyond[0].lost_to}."
        )
    return lines


def _step_table(best: Candidate) -> Table:
    return _parts_table(
        "A step, by what its seconds are spent on",
        "part",
        "seconds",
        {name: getattr(best.step, part) for part, name in CEILINGS.items()},
    )


def _memory_table(best: Candidate, limit: float) -> Table:
    parts = {name: getattr(best.memory, name) / 1e9 for name in best.memory.__struct_fields__}
    parts["free"] = (limit - best.memory_bytes) / 1e9
    return _parts_table("The memory of a device", "held", "GB", parts)


def _parts_table(name: str, first: str, unit: str, parts: dict[str, float]) -> Table:
    """Parts of a whole with their shares; what is nothing has no line."""
    whole = sum(parts.values())
    rows = tuple(
        (
            part,
            format_seconds(amount) if unit == "seconds" else f"{amount:.1f}",
            format_percent(amount / whole),
            BAR * round(40 * amount / whole),
        )
        for part, amount in parts.items()
        if amount >= 0.0005 * whole
    )
    return Table(
        name=name,
        titles=(first, unit, "share", ""),
        rows=rows,
        left=frozenset({first, ""}),
        indent=2,
    )


def _totals(result: Planned, shown: PlanRow) -> list[str]:
    """Days and money of the whole training, where its tokens are known."""
    if result.training_tokens is None or not shown.tokens_per_second:
        return []
    billions = result.training_tokens / 1e9
    days = result.training_tokens / shown.tokens_per_second / _DAY_SECONDS
    cost = ""
    if shown.cost_per_billion_tokens is not None:
        cost = f" and {format_money(billions * shown.cost_per_billion_tokens)}"
    return [f"All {billions:g} billion tokens at K={shown.nodes}: {days:.1f} days{cost}."]


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.1f}"
