"""The figures of a training as text."""

from nodewise.base.units import format_duration, format_money, format_percent, format_quantity
from nodewise.decide.training import Training
from nodewise.report.sections import Report, Section
from nodewise.report.tables import Table, given, rows_table


def training_section(result: Training | None, currency: str) -> list[Section]:
    """The figures as a section; none of another job."""
    parts = training_lines(result, currency)
    return [Section(name="training", title="Training", parts=parts)] if parts else []


def training_lines(result: Training | None, currency: str) -> Report:
    """What trainings are compared by, one row per scale; nothing of another job."""
    if result is None:
        return []
    counted = (
        "" if result.parameters is None else f", {format_quantity(result.parameters)} parameters"
    )
    notes = (
        [f"  FLOPs are counted as {result.flops}."]
        if any(row.utilisation is not None for row in result.rows)
        else []
    )
    notes += [f"  {check.evidence}. {check.remedy}" for check in result.checks]
    return [_table(result, currency), f"  {result.precision}{counted}.", *notes]


def _table(result: Training, currency: str) -> Table:
    def money(value: float) -> str:
        return format_money(value, currency)

    return rows_table(
        "training",
        [
            {
                "K": row.nodes,
                "global batch": format_quantity(result.global_batch[row.nodes]),
                "samples/s": given(row.samples_per_second, format_quantity),
                "tokens/s": given(row.tokens_per_second, format_quantity),
                "tokens/s each": given(row.tokens_per_second_each, format_quantity),
                "cost/1e9 tokens": given(row.cost_per_billion_tokens, money),
                "MFU": given(row.utilisation, format_percent),
                "loss": given(row.loss, lambda value: f"{value:.4g}"),
                "to the loss": given(row.seconds_to_loss, format_duration),
                "cost of that": given(row.cost_to_loss, money),
            }
            for row in result.rows
        ],
        sparse=True,
        indent=2,
    )
