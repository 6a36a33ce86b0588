"""Steps against ceilings, and the ceiling of a watched program, on made-up observations."""

import json

import msgspec
import numpy as np
import pytest

from nodewise.base.errors import SpecError
from nodewise.diagnose.flow import Facts, diagnose
from nodewise.diagnose.machine.hot_spots import shares_of
from nodewise.diagnose.steps import judge_steps
from nodewise.diagnose.symptoms import classify
from nodewise.diagnose.window_rules import Roofs
from nodewise.report.charts.flow import flow_chart
from nodewise.report.charts.roofline import Point, roofline_chart
from nodewise.report.steps import Step, counted, steps
from nodewise.report.text.symptoms import symptoms_report
from nodewise.study.machine import Ceiling, Machine
from nodewise.study.observed import Observation, Sample, TimedStep


def exactly(value: float, unit: str) -> Ceiling:
    return Ceiling(value=value, low=value, high=value, unit=unit, windows=9)


MACHINE = Machine(
    identity={"cores": 2},
    measured="2026-01-01",
    seconds=1.0,
    compute={"float64": {1: exactly(40e9, "FLOP/s"), 2: exactly(80e9, "FLOP/s")}},
    memory={"DRAM": {1: exactly(20e9, "B/s"), 2: exactly(35e9, "B/s")}},
    page_fault=exactly(1e9, "B/s"),
    capacity={"installed": 8e9},
)
ROOFS = Roofs(stream=20e9, fresh_pages=1e9)


def timed(**changes: object) -> TimedStep:
    fields = {"name": "step", "seconds": (1.0,) * 7, "cpu_seconds": 1.0, **changes}
    return TimedStep(**fields)


@pytest.mark.parametrize(
    ("step", "ceiling", "axis", "share"),
    [
        (timed(flops=36e9, memory_bytes=1e9), "compute", "training", 0.9),
        (timed(flops=72e9, memory_bytes=1e9, cpu_seconds=2.0), "compute", "training", 0.9),
        (timed(flops=2e9, memory_bytes=16e9), "memory bandwidth", "model", 0.8),
        (timed(disk_bytes=1e9, cpu_seconds=0.3, system_seconds=0.2), "data I/O", "data", 0.9),
        (timed(memory_bytes=2e9, faults=2e5, system_seconds=0.7), "page faults", None, 0.7),
        (timed(flops=1e9, memory_bytes=1e9), "undecided", None, 0.05),
        (timed(flops=80e9, memory_bytes=1e9), "above the roof", None, 2.0),
        (timed(), "undecided", None, 0.0),
    ],
)
def test_a_step_stands_under_the_ceiling_that_explains_its_time(step, ceiling, axis, share):
    row = judge_steps([step], MACHINE).rows[0]
    assert (row.ceiling, row.axis) == (ceiling, axis)
    assert row.share == pytest.approx(share)
    assert bool(row.remark) == (ceiling in ("undecided", "above the roof"))


def test_the_slowest_step_is_named():
    table = judge_steps([timed(), timed(name="long", seconds=(3.0,))], MACHINE)
    assert table.slowest == "long"
    assert table.rows[1].share_of_time == pytest.approx(0.75)


def test_steps_of_ones_own_program_are_timed_and_printed():
    total = []
    found = steps(
        {"counted": Step(lambda: total.append(sum(range(20_000))), flops=2e4, memory_bytes=1e3),
         "plain": lambda: None},
        machine=MACHINE, repeats=3,
    )  # fmt: skip
    assert len(total) == 4  # once to warm up
    assert set(found.rows) == {"counted", "plain"}
    assert found.slowest.name == "counted"
    assert "reached: share of the ceiling" in str(found)


BUSY = Sample(seconds=0.5, user=0.5, active_threads=1, runnable_ticks=1.0,
              touched_bytes=1e6, touched_seconds=0.01)  # fmt: skip


def seen(sample: Sample, windows: int = 8, **changes: object) -> Observation:
    fields = {
        "command": ("job",), "seconds": windows / 2, "samples": (sample,) * windows,
        "exit_code": 0, "cores": 2, "memory_limit": 8e9, **changes,
    }  # fmt: skip
    return Observation(**fields)


def changed(**changes: object) -> Sample:
    return msgspec.structs.replace(BUSY, **changes)


WINDOWS = {
    "compute": BUSY,
    "memory bandwidth": changed(touched_bytes=1.5e8),
    "data I/O": changed(user=0.02, system=0.1, runnable_ticks=0.3, disk_ticks=0.7,
                        storage_bytes=5e8),
    "page faults": changed(user=0.1, system=0.4, minor_faults=1e5),
    "latency": changed(user=0.02, runnable_ticks=0.05, event_threads=1.0),
    "coordination": changed(active_threads=4, lock_threads=2.5),
    "communication": changed(user=0.1, system=0.4, switches=2e4, sockets=2.0),
    "memory capacity": changed(user=0.01, system=0.1, runnable_ticks=0.3, disk_ticks=0.6,
                               major_faults=5e3, resident_bytes=7e9),
}  # fmt: skip


@pytest.mark.parametrize("ceiling", WINDOWS)
def test_each_ceiling_has_its_signs(ceiling):
    found = classify(seen(WINDOWS[ceiling]), ROOFS)
    assert found.ceiling == ceiling
    assert found.confidence in ("high", "medium")
    assert len(found.evidence) >= 4


def test_the_answer_says_that_the_program_was_stopped():
    found = classify(seen(BUSY, exit_code=None, stopped=True), ROOFS)
    shown = symptoms_report(found).answer
    words = "Stopped after 4.0 s, the limit of --watch-for; the program did not end by itself."
    assert words in shown
    assert words not in symptoms_report(classify(seen(BUSY), ROOFS)).answer


@pytest.mark.parametrize("ceiling", WINDOWS)
def test_load_of_others_does_not_change_the_answer(ceiling):
    """Twice the time ready to run, for every second of CPU: it is taken out."""
    sample = WINDOWS[ceiling]
    cpu = sample.user + sample.system
    loaded = msgspec.structs.replace(
        sample, seconds=0.5 + cpu, run_delay=cpu,
        runnable_ticks=min(1.0, (sample.runnable_ticks * 0.5 + cpu) / (0.5 + cpu)),
        disk_ticks=sample.disk_ticks * 0.5 / (0.5 + cpu),
    )  # fmt: skip
    assert classify(seen(loaded), ROOFS).ceiling == ceiling


def test_spinning_libraries_make_compute_undecided():
    two = changed(processes=2, active_threads=2, user=1.0)
    found = classify(seen(two, libraries=("libmpi",)), ROOFS)
    assert found.ceiling is None
    assert "spinning" in found.evidence[0]
    assert classify(seen(two), ROOFS).confidence == "medium"  # any of them may spin


def test_no_majority_or_too_short_is_undecided():
    half = (WINDOWS["compute"],) * 5 + (WINDOWS["latency"],) * 5
    assert classify(seen(BUSY, samples=half), ROOFS).ceiling is None
    assert classify(seen(BUSY, windows=1), ROOFS).ceiling is None
    nothing = classify(seen(BUSY, windows=0), ROOFS, "data-parallel")
    assert nothing.answer.answer == "undecided"


def test_first_touch_at_the_start_is_no_ceiling():
    samples = (WINDOWS["page faults"],) * 5 + (WINDOWS["memory bandwidth"],) * 6
    assert classify(seen(BUSY, samples=samples), ROOFS).ceiling == "memory bandwidth"


def test_how_a_program_ended():
    found = classify(seen(BUSY, exit_code=1, error_tail="MemoryError"), ROOFS, "data-parallel")
    assert (found.ceiling, found.confidence, found.answer.answer) == (
        "memory capacity", "high", "no",
    )  # fmt: skip
    held = changed(resident_bytes=6e9)
    assert classify(seen(held, exit_code=-9), ROOFS).ceiling == "memory capacity"
    assert classify(seen(BUSY, exit_code=-9), ROOFS).ceiling == "compute"


def test_memory_that_only_grows_is_setting_up():
    growing = tuple(
        msgspec.structs.replace(WINDOWS["page faults"], resident_bytes=1e8 * at)
        for at in range(1, 12)
    )
    found = classify(seen(BUSY, samples=growing), ROOFS)
    assert found.ceiling is None
    assert "watch it for longer" in found.evidence[0]


def test_huge_pages_take_few_faults():
    slow = changed(user=0.02, system=0.4, minor_faults=100, resident_bytes=1e8)
    assert classify(seen(slow), ROOFS).ceiling == "page faults"


def test_a_pipeline_is_no_lock():
    piped = changed(active_threads=2, processes=3, lock_threads=1.5, switches=400, io_calls=900)
    assert classify(seen(piped), ROOFS).ceiling == "compute"


def test_threads_that_hand_over_thousands_of_times_coordinate():
    passing = changed(active_threads=6, lock_threads=0.4, switches=6000, user=0.4, system=0.1)
    found = classify(seen(passing), ROOFS)
    assert (found.ceiling, found.confidence) == ("coordination", "medium")
    with_messages = changed(active_threads=6, lock_threads=0.4, switches=6000, sockets=4)
    assert classify(seen(with_messages), ROOFS).ceiling is None


def test_large_messages_take_few_switches():
    sending = changed(user=0.05, system=0.45, active_threads=2, socket_threads=0.3, sockets=4,
                      switches=60)  # fmt: skip
    assert classify(seen(sending), ROOFS).ceiling == "communication"


def test_a_starved_program_is_never_judged_with_high_confidence():
    starved = changed(user=0.05, run_delay=0.45)
    found = classify(seen(starved), ROOFS)
    assert (found.ceiling, found.confidence) == ("compute", "medium")


def test_numpy_functions_are_counted_where_a_formula_is_sure():
    matrix, vector = np.ones((30, 20)), np.ones(1000)
    product = counted(np.matmul, matrix, matrix.T)
    assert product.flops == 2 * 30 * 20 * 30
    assert product.memory_bytes == 8 * (600 + 600 + 900)
    assert counted(np.sum, vector).flops == 1000
    assert counted(np.add, vector, vector).memory_bytes == 24_000
    assert counted(np.linalg.solve, np.eye(30), np.ones(30)).flops == pytest.approx(19_800)
    assert counted(np.add, np.ones(4, dtype=np.float32), 1).dtype == "float32"
    for call in (np.exp, np.sort, len):
        with pytest.raises(SpecError, match="No formula"):
            counted(call, vector)


def test_charts_show_the_branch_and_the_ridge():
    chart = roofline_chart(20e12, 800e9, [Point(name="step", intensity=50, flops=20e12)])
    assert "above the ridge of 25" in chart.caption
    linked = roofline_chart(
        20e12, 800e9, [Point(name="step", intensity=50, flops=20e12)], exchange_flops=7.5e12
    )
    assert "The exchange allows 7.5 TFLOP/s at that intensity: it is longer" in linked.caption
    assert len(linked.chart["layer"]) == len(chart.chart["layer"]) + 3  # line, shade and name
    found = diagnose(Facts(needed_memory=240e9, device_memory=80e9))
    flow = flow_chart(found)
    assert [row["answer"] for row in flow.rows][:2] == ["binds", "not asked"]
    assert "3 times the 80 GB" in flow.rows[0]["evidence"]
    assert "ends at memory capacity" in flow.caption


@pytest.mark.parametrize("kind", ["roofline", "flow"])
def test_charts_hold_to_the_schema(kind):
    import altair as alt

    from nodewise.report.charts.look import sized

    made = (
        roofline_chart(20e12, 800e9, [Point(name="step", intensity=50, flops=20e12)])
        if kind == "roofline"
        else flow_chart(diagnose(Facts(dataset_bytes=50e12, disk_bytes=16e12)))
    )
    alt.Chart.from_dict(json.loads(json.dumps(sized(made.chart, "screen"))))


def test_where_python_was_is_told():
    found = classify(seen(BUSY, hot_spots={"work (job.py:3)": 0.8}), ROOFS)
    assert any("work (job.py:3) 80 %" in note for note in found.notes)
    assert shares_of("a (x.py:1);b (x.py:2) 3\na (x.py:1) 1\n") == {
        "b (x.py:2)": 0.75, "a (x.py:1)": 0.25,
    }  # fmt: skip
    assert shares_of("") == {}
