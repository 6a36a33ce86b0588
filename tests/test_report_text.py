from rich.table import Table

from nodewise.attribute import attribute
from nodewise.decide import decide, decide_law
from nodewise.laws import Law
from nodewise.prices import Price
from nodewise.report.text import attribution_report, decision_report, scaling_report
from nodewise.scaling import scale
from nodewise.simulate import Plan, simulate
from nodewise.table import parse_table
from tests.conftest import golden_study


def lines_of(report) -> str:
    return "\n".join(part for part in report if isinstance(part, str))


def cells_of(table: Table) -> list[list[str]]:
    return [list(cells) for cells in zip(*(column.cells for column in table.columns), strict=True)]


def test_the_scaling_table_prints_the_digits_of_the_worked_example():
    table = next(
        p for p in scaling_report(scale(golden_study("step-times"))) if isinstance(p, Table)
    )
    rows = cells_of(table)
    assert rows[3] == ["8", "5", "0.1884", "0.0039", "0.1844..0.1944", "5.33", "5.20..5.45",
                       "0.667", "0.0715", "below"]  # fmt: skip


def test_every_row_of_a_report_has_a_value_in_every_measured_column():
    table = next(p for p in decision_report(decide(golden_study("rubric"))) if isinstance(p, Table))
    for row in cells_of(table):
        assert all(row[:-1])


def test_a_long_ladder_shows_doublings_and_the_chosen_scales():
    price = Price(per_node_hour=2.1, fixed_per_hour=9.0)
    decision = decide_law(Law(s=0.03, c=0.0015, base_seconds=3600.0), 64, price)
    table = next(p for p in decision_report(decision) if isinstance(p, Table))
    shown = [row[0] for row in cells_of(table)]
    assert shown == ["1", "2", "4", "8", "16", "24", "25", "32", "48", "64"]


def test_user_text_is_never_read_as_markup():
    study = parse_table("K,time_s\n1,10\n2,6\n", "[red]evil[/red] [/]")
    for report in (
        scaling_report(scale(study)),
        attribution_report(attribute(study)),
        decision_report(decide(study, Price(per_node_hour=1.0, source="[bold]list[/x]"))),
    ):
        assert "\\[red]evil" in lines_of(report)


def test_regime_and_evidence_are_always_said():
    weak = simulate(Plan(law=Law(c=0.01, regime="weak")))
    assert "weak scaling against the flat line E = 1" in lines_of(scaling_report(scale(weak)))
    assert "evidence: stage totals" in lines_of(
        attribution_report(attribute(golden_study("breakdown")))
    )
    model = decision_report(decide_law(Law(s=0.1), 8, Price(per_node_hour=1.0)))
    assert "from a model" in lines_of(model)
