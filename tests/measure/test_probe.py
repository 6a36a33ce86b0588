import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nodewise import probe
from nodewise.measure.barrier import Barrier
from tests.jobs import wait_until


def run(code: str, folder: Path | None = None, **variables: str) -> dict:
    """A workload in a process of its own; what its probe reported."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NODEWISE")}
    if folder is not None:
        environment |= {"NODEWISE_RUN": str(folder), "NODEWISE_RANK": "0"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**environment, **variables}, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads((folder / "rank-0.json").read_text()) if folder else {}


WORKLOAD = """
    import time
    from nodewise import probe
    with probe.setup():
        time.sleep(0.05)
    for step in probe.steps(range(6)):
        with probe.compute():
            time.sleep(0.02)
        with probe.comm():
            time.sleep(0.01)
    time.sleep(0.2)  # evaluation, after the clock
    probe.quality(accuracy=0.9, split="test", seed=3)
    probe.work(items=60)
    probe.fact(batch=10)
"""


def test_stages_setup_quality_and_items_are_reported(tmp_path):
    told = run(WORKLOAD, tmp_path)
    assert 0.05 <= told["setup_seconds"] < told["setup_seconds"] + told["seconds"]
    assert told["stages"]["compute"] >= 6 * 0.02
    assert told["stages"]["communication"] >= 6 * 0.01
    assert told["seconds"] >= 6 * 0.03
    assert sum(told["stages"].values()) <= told["seconds"]
    assert told["steps"] == 6
    assert (told["quality"], told["items"]) == (0.9, 60)
    assert told["facts"] == {
        "quality_name": "accuracy",
        "quality_split": "test",
        "quality_seed": 3,
        "batch": 10,
    }
    assert told["comm_calls"] == 6


def test_figures_that_are_no_numbers_are_said(tmp_path):
    told = run(
        """
        from nodewise import probe
        probe.quality(loss=float("nan"))
        probe.work(items=float("inf"))
        """,
        tmp_path,
    )
    assert (told["quality"], told["items"]) == (None, None)
    assert told["no_number"] == "quality is nan, items is inf"


def test_what_follows_the_last_step_is_not_timed(tmp_path):
    begin = time.monotonic()
    told = run(WORKLOAD.replace("0.2", "1.0"), tmp_path)
    assert told["seconds"] < time.monotonic() - begin - 1.0


def test_warm_up_steps_are_not_counted(tmp_path):
    told = run(WORKLOAD, tmp_path, NODEWISE_WARMUP_STEPS="4")
    assert (told["steps"], told["counts_steps"]) == (2, True)
    assert told["comm_calls"] == 2
    assert sum(told["stages"].values()) <= told["seconds"]


def test_a_span_inside_another_takes_its_time_from_it(tmp_path):
    told = run(
        """
        import time
        from nodewise import probe
        for step in probe.steps(range(1)):
            with probe.compute():
                with probe.comm():
                    time.sleep(0.1)
        """,
        tmp_path,
    )
    assert told["stages"]["communication"] >= 0.1
    assert told["stages"]["compute"] < told["stages"]["communication"]


def test_without_nodewise_every_call_does_nothing():
    run(WORKLOAD + "    assert list(probe.steps([1, 2])) == [1, 2]\n")


def test_a_workload_that_fails_still_says_what_it_did(tmp_path):
    code = "from nodewise import probe\nfor step in probe.steps(range(3)):\n    1 / (1 - step)"
    variables = {**os.environ, "NODEWISE_RUN": str(tmp_path), "NODEWISE_RANK": "0"}
    subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, timeout=240)
    assert json.loads((tmp_path / "rank-0.json").read_text())["steps"] == 1


def test_the_probe_needs_the_standard_library_only():
    code = "import sys, nodewise.probe; print({'numpy', 'msgspec', 'psutil'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert done.stdout.strip() == "set()"


def test_the_gate_hears_of_the_end_when_no_more_steps_can_come(tmp_path):
    through = tmp_path / "through"
    code = f"""
        import os, pathlib, signal, sys, time
        from nodewise import probe
        through = pathlib.Path({str(through)!r})
        probe.work(items=4)  # known beforehand, and no end
        for epoch in range(2):
            for step in probe.steps(range(2)):
                probe.work(items=4)
            if not os.fork():
                sys.exit()  # the end of a child is not ours
            os.wait()
            time.sleep(0.1)
            probe.fact(**{{f"through_after_{{epoch}}": through.exists()}})
            probe.quality(accuracy=0.9)
        child = os.fork()  # holds what its parent holds, as a worker of a loader does
        if not child:
            signal.alarm(30)
            signal.pause()
        probe.work(items=4)
        deadline = time.monotonic() + 10
        while not through.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        probe.fact(through_after_work=through.exists())
        os.kill(child, signal.SIGKILL)
    """
    calls = [lambda: None, lambda: None, through.touch]
    with Barrier(tmp_path / "gate", 1, *calls):
        told = run(code, tmp_path, NODEWISE_GATE=str(tmp_path / "gate"))
    assert told["facts"]["through_after_0"] is False
    assert told["facts"]["through_after_1"] is False
    assert told["facts"]["through_after_work"] is True
    assert told["steps"] == 4


class Span(NamedTuple):
    """A span of a stage with what is inside it; a number there is time that passes."""

    stage: str
    inside: list


class Epoch(NamedTuple):
    before: list  # what is done before its steps
    steps: list[list]
    loading: int  # the wait for each batch
    left: bool  # by a break at the end of the last step


SPANS = {
    "compute": "compute",
    "comm": "communication",
    "wait": "idle",
    "io": "io",
    "serial": "serial",
}
TICKS = st.integers(0, 50)
BLOCKS = st.recursive(
    st.lists(TICKS, max_size=2),
    lambda inside: st.lists(TICKS | st.builds(Span, st.sampled_from(list(SPANS)), inside)),
    max_leaves=12,
)
EPOCHS = st.lists(
    st.builds(Epoch, BLOCKS, st.lists(BLOCKS, max_size=3), TICKS, st.booleans()), max_size=3
)


class Workload:
    """Runs on a probe of its own by a clock that stands still but for the ticks.

    Every tick is written down with the spans around it: what the probe must say is summed up from
    that list.
    """

    def __init__(self, warmup: int = 0) -> None:
        spec = importlib.util.find_spec("nodewise.probe")
        self.probe: Any = importlib.util.module_from_spec(spec)
        self.folder = tempfile.TemporaryDirectory()
        variables = {"NODEWISE_RUN": self.folder.name, "NODEWISE_WARMUP_STEPS": str(warmup)}
        clean = {k: v for k, v in os.environ.items() if k != "NODEWISE_GATE"}
        with (
            mock.patch.dict(os.environ, {**clean, **variables, "NODEWISE_RANK": "0"}, clear=True),
            mock.patch("atexit.register"),
        ):
            spec.loader.exec_module(self.probe)
        self.probe.perf_counter_ns = lambda: self.now
        self.warmup = warmup
        self.now = 1
        self.around: list[tuple[str, int]] = []  # the open spans, each with its number
        self.ticks: list[tuple[int, int, list[tuple[str, int]]]] = []  # begin, length, around
        self.number = itertools.count()
        self.done = 0
        self.begin = self.end = 0

    def tick(self, length: int) -> None:
        self.ticks.append((self.now, length, list(self.around)))
        self.now += length

    def go(self, block: list) -> None:
        for part in block:
            if isinstance(part, int):
                self.tick(part)
            else:
                with getattr(self.probe, part.stage)():
                    self.around.append((SPANS[part.stage], next(self.number)))
                    self.go(part.inside)
                    self.around.pop()

    def batches(self, epoch: Epoch) -> Iterator[list]:
        """What `steps` waits for, in a span of its own."""
        for step in epoch.steps:
            self.around.append(("io", next(self.number)))
            self.tick(epoch.loading)
            self.around.pop()
            yield step

    def train(self, epochs: list[Epoch]) -> None:
        for epoch in epochs:
            self.go(epoch.before)
            self.begin = self.begin or self.now
            for at, step in enumerate(self.probe.steps(self.batches(epoch)), 1):
                self.go(step)
                if epoch.left and at == len(epoch.steps):
                    break
                self.done += 1
                if self.done == self.warmup:
                    self.begin = self.now
            self.end = self.now

    def told(self) -> tuple[dict, list[int]]:
        self.probe._report.write()
        told = json.loads(Path(self.folder.name, "rank-0.json").read_text())
        calls = array("q")
        with Path(self.folder.name, "rank-0.bin").open("rb") as file:
            calls.fromfile(file, told["comm_calls"])
        self.folder.cleanup()
        return told, list(calls)

    def expected_stages(self) -> dict[str, int]:
        """The ticks between begin and end, each for the innermost span around it."""
        stages: Counter[str] = Counter()
        for begin, length, around in self.ticks:
            if self.begin <= begin and begin + length <= self.end and around:
                stages[around[-1][0]] += length
        return {stage: total for stage, total in stages.items() if total}

    def expected_calls(self) -> list[int]:
        """What each outermost span of communication took itself, by its ticks."""
        calls: dict[int, int] = {}
        for begin, length, around in self.ticks:
            outermost = next((at for stage, at in around if stage == "communication"), None)
            if self.begin <= begin and begin + length <= self.end and outermost is not None:
                calls.setdefault(outermost, 0)
                calls[outermost] += length if around[-1][0] == "communication" else 0
        return [length for length in calls.values() if length]


def nanoseconds(stages: dict[str, float]) -> dict[str, int]:
    return {stage: round(seconds * 1e9) for stage, seconds in stages.items()}


@given(BLOCKS)
def test_time_goes_to_the_innermost_span(block):
    workload = Workload()
    workload.train([Epoch([], [block], 3, False)])
    told, calls = workload.told()
    assert nanoseconds(told["stages"]) == workload.expected_stages()
    assert [call for call in calls if call] == workload.expected_calls()
    assert sum(calls) == workload.expected_stages().get("communication", 0)


def test_a_span_may_stand_inside_itself():
    inner = Span("comm", [1, Span("comm", [])])
    outer = Span("compute", [1000, Span("comm", [100, Span("compute", [10, inner]), 200])])
    workload = Workload()
    workload.train([Epoch([], [[outer, Span("comm", [])]], 0, False)])
    told, calls = workload.told()
    assert nanoseconds(told["stages"]) == {"compute": 1010, "communication": 301}
    assert calls == [301, 0]  # the outermost ones, the empty one too: all ranks make as many


STEP = [Span("compute", [5, Span("comm", [7])]), 2]


@given(EPOCHS, BLOCKS, st.integers(0, 4), st.sampled_from([None, *SPANS]))
@example([Epoch([], [STEP, STEP], 1, False)] * 2, [Span("compute", [99])], 0, None)
@example([Epoch([9], [STEP, STEP], 1, True)] * 2, [Span("comm", [99])], 1, "compute")
@example([Epoch([9], [STEP, STEP], 1, False)] * 2, [], 2, "comm")
def test_all_epochs_are_timed_and_nothing_after_them(epochs, after, warmup, around):
    workload = Workload(warmup)
    if around is None:
        workload.train(epochs)
        workload.go(after)
    else:  # a span that is open at the begin, at the end of the warm-up and at the end
        with getattr(workload.probe, around)():
            workload.around.append((SPANS[around], -1))
            workload.train(epochs)
            workload.go(after)
            workload.around.pop()
    if not epochs:  # then nothing says where to begin or end
        workload.begin, workload.end = 1, workload.now
    told, calls = workload.told()
    expected = workload.expected_stages()
    assert nanoseconds(told["stages"]) == expected
    assert told["steps"] == max(workload.done - warmup, 0)
    assert workload.probe._open == []
    if epochs:
        assert round(told["seconds"] * 1e9) == workload.end - workload.begin
        assert sum(expected.values()) <= workload.end - workload.begin
    if around != "comm":  # else its call is not over when the clock stops
        assert [call for call in calls if call] == workload.expected_calls()
        assert sum(calls) == expected.get("communication", 0)


@pytest.mark.parametrize("failing", ["step", "loader"])
def test_an_exception_stops_the_clock_at_that_moment(failing):
    workload = Workload()

    def batches() -> Iterator[int]:
        yield 0
        workload.tick(10)
        if failing == "loader":
            raise OSError
        yield 1

    with pytest.raises(OSError):
        for batch in workload.probe.steps(batches()):
            with workload.probe.compute():
                workload.tick(100)
                if batch:
                    raise OSError
    workload.tick(1000)
    told, _ = workload.told()
    passed = 210 if failing == "step" else 110
    assert round(told["seconds"] * 1e9) == passed
    assert nanoseconds(told["stages"]) == {"compute": passed - 10, "io": 10}
    assert told["steps"] == 1


def test_without_steps_the_clock_runs_to_the_end():
    workload = Workload()
    with workload.probe.setup():
        workload.tick(10)
    with workload.probe.compute():
        workload.tick(100)
    workload.probe.work(items=1)
    workload.tick(1000)
    told, _ = workload.told()
    assert round(told["seconds"] * 1e9) == 1100
    assert nanoseconds(told["stages"]) == {"compute": 100}


def test_a_generator_may_yield_inside_a_span():
    workload = Workload()

    def batches() -> Iterator[int]:
        for batch in range(2):
            with workload.probe.serial():
                workload.tick(10)
                yield batch

    for _ in workload.probe.steps(batches()):
        workload.tick(100)  # its span is still open
        with workload.probe.compute():
            workload.tick(1000)
    told, _ = workload.told()
    assert nanoseconds(told["stages"]) == {"serial": 220, "compute": 2000}
    assert workload.probe._open == []


def test_steps_that_are_never_finished_end_with_the_process(tmp_path):
    code = """
        from nodewise import probe
        batches = probe.steps(range(3))
        next(batches)
        next(batches)
    """
    assert run(code, tmp_path)["steps"] == 1


def test_ranks_on_several_machines_meet_in_a_shared_folder(tmp_path):
    code = "from nodewise import probe\nfor step in probe.steps(range(2)): pass"
    told = {"NODEWISE_RUN": str(tmp_path), "NODEWISE_GATE": str(tmp_path / "gate")}
    told["NODEWISE_RANKS"] = "2"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, env={**os.environ, **told, "NODEWISE_RANK": "0"}) as first:
        deadline = time.monotonic() + 30
        while not (tmp_path / "gate" / "0").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        alone = time.time()
        subprocess.run(
            command, env={**os.environ, **told, "NODEWISE_RANK": "1"}, check=True, timeout=240
        )
        assert first.wait(timeout=240) == 0
    reports = [json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in range(2)]
    assert all(report["began"] >= alone for report in reports)


# The same CPU time in each step, then a library that spins while it waits, then a sleep.
PACED = """
    import time
    from nodewise import probe
    def spin(seconds):
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass
    with probe.setup():
        spin(0.05)
    for step in probe.steps(range(5)):
        with probe.compute():
            spin(0.01)
        with probe.comm(sent_bytes=1000):
            spin(0.002)
        with probe.io():
            time.sleep(0.02)
    spin(0.01)  # after the clock
    probe.work(items=1)
"""


def test_a_paced_rank_is_as_slow_as_its_node(tmp_path):
    told = run(PACED, tmp_path, NODEWISE_PACE_SHARE="0.1")
    assert 0.05 <= told["cpu_s"] < 0.06  # neither the setup nor the spinning counts
    on_node = told["cpu_s"] / 0.1
    assert told["stages"]["compute"] == pytest.approx(on_node, rel=0.1, abs=told["late_s"] + 0.01)
    assert told["stages"]["io"] >= 5 * 0.02  # what blocks passes as on any node
    assert told["seconds"] >= 0.98 * (on_node + 5 * 0.02)
    assert told["paced_s"] > 0
    assert sum(told["stages"].values()) <= told["seconds"] + 1e-6


def test_half_the_share_takes_twice_the_time(tmp_path):
    found = []
    for share in ("0.1", "0.05"):
        (tmp_path / share).mkdir()
        told = run(PACED, tmp_path / share, NODEWISE_PACE_SHARE=share)
        found.append((told["stages"]["compute"] - told["late_s"]) / told["cpu_s"])
    assert found[1] / found[0] == pytest.approx(2, rel=0.1)


def test_a_modelled_link_takes_its_latency_and_its_bytes(tmp_path):
    link = {"NODEWISE_PACE_LATENCY": "0.01", "NODEWISE_PACE_BANDWIDTH": "50000"}
    told = run(PACED, tmp_path, NODEWISE_PACE_SHARE="0.5", NODEWISE_RANKS="2", **link)
    assert told["stages"]["communication"] >= 5 * (0.01 + 0.02)
    assert told["calls_without_bytes"] == 0
    silent = run(
        PACED.replace("sent_bytes=1000", ""), tmp_path, NODEWISE_PACE_SHARE="0.5",
        NODEWISE_RANKS="2", **link,
    )  # fmt: skip
    assert silent["calls_without_bytes"] == 5


def test_a_timer_that_rings_late_makes_the_next_call_shorter(monkeypatch):
    """The core is waited for in the third call, which is not the timer's."""
    now, waited, slept = 0, 0, []

    def sleep(seconds):
        nonlocal now, waited
        slept.append(round(seconds * 1e9))
        late = 3_000_000 if len(slept) == 3 else 0
        waited += late
        now += slept[-1] + 500_000 + late

    link = {"NODEWISE_PACE_BANDWIDTH": "50000", "NODEWISE_RANKS": "2"}
    pace = probe._Pace({"NODEWISE_PACE_SHARE": "0.5", **link})
    pace.running = True
    monkeypatch.setattr(probe, "sleep", sleep)
    monkeypatch.setattr(probe, "perf_counter_ns", lambda: now)
    monkeypatch.setattr(pace, "_scheduled", lambda: (0, waited, 0))
    for _ in range(4):
        pace.send(1000, messages=0)
        pace.use_link()
    assert slept == [20_000_000, 19_500_000, 19_500_000, 19_500_000]


def test_a_machine_that_stood_still_does_not_make_the_link_free(monkeypatch):
    """A timer is late by milliseconds; what two seconds took is not taken off the next calls."""
    now, slept = 0, []

    def sleep(seconds):
        nonlocal now
        slept.append(seconds)
        now += round(seconds * 1e9) + (2_000_000_000 if len(slept) == 1 else 0)

    link = {"NODEWISE_PACE_LATENCY": "0.01", "NODEWISE_PACE_BANDWIDTH": "1e6"}
    pace = probe._Pace({"NODEWISE_PACE_SHARE": "0.5", "NODEWISE_RANKS": "2", **link})
    pace.running = True
    monkeypatch.setattr(probe, "sleep", sleep)
    monkeypatch.setattr(probe, "perf_counter_ns", lambda: now)
    monkeypatch.setattr(pace, "_scheduled", lambda: (0, 0, 0))
    for _ in range(100):
        pace.use_link()
    assert sum(seconds == 0 for seconds in slept) == 10  # the 0.1 s that a timer may be late


def test_a_ring_sends_what_its_arithmetic_says(tmp_path):
    code = """
        from nodewise import probe
        probe.comm(all_reduce_bytes=1000)
        probe.fact(seconds=probe._report.pace.transfer)
    """
    link = {"NODEWISE_PACE_LATENCY": "0.001", "NODEWISE_PACE_BANDWIDTH": "50000"}
    told = run(code, tmp_path, NODEWISE_PACE_SHARE="0.5", NODEWISE_RANKS="4", **link)
    assert told["facts"]["seconds"] == pytest.approx(6 * 0.001 + 2 * 3 / 4 * 1000 / 50000)


def test_where_the_mpi_library_is_paced_the_probe_is_not(tmp_path):
    told = run(PACED, tmp_path, NODEWISE_PACE_SHARE="0.01", NODEWISE_MPI_INTERPOSED="1")
    assert "paced_s" not in told
    assert told["seconds"] < 3


def test_the_clock_of_an_ended_thread_keeps_its_last_value(monkeypatch):
    clocks = {-6: 3_000, -14: 4_000}
    pace = probe._Pace({"NODEWISE_PACE_SHARE": "0.5"})
    pace.other_clocks = [-6, -14]

    def read(clock):
        if clock not in clocks:
            raise OSError(22, "Invalid argument")
        return clocks[clock]

    monkeypatch.setattr(probe, "clock_gettime_ns", read)
    monkeypatch.setattr(probe, "process_time_ns", lambda: 10_000)
    assert pace._cpu() == 3_000
    del clocks[-6]
    clocks[-14] = 5_000
    assert pace._cpu() == 2_000
    assert pace.other_clocks == [-14]


def launched(folder: Path, text: str) -> dict:
    """A script that was started as a rank of torchrun; its report."""
    script = folder / "script.py"
    script.write_text(text)
    code = "from nodewise.measure.launch import main\nmain()"
    rank = {"TORCHELASTIC_RUN_ID": "1", "RANK": "0", "LOCAL_RANK": "0", "NODEWISE_RUN": str(folder)}
    command = [sys.executable, "-c", code, str(script)]
    subprocess.run(command, env={**os.environ, **rank}, check=True, timeout=240)
    return json.loads((folder / "rank-0.json").read_text())


def test_a_rank_of_torchrun_that_never_imports_torch_made_no_step(tmp_path):
    told = launched(tmp_path, "print('done')")
    assert told["counts_steps"]
    assert told["steps"] == 0


def test_a_rank_of_torchrun_that_tells_its_work_need_not_count_steps(tmp_path):
    text = "from nodewise import probe\nwith probe.compute():\n    probe.work(items=4)"
    assert not launched(tmp_path, text)["counts_steps"]


def test_a_process_that_a_rank_leaves_behind_does_not_replace_its_report(tmp_path):
    child = """
import atexit, pathlib, time
atexit.register(pathlib.Path("done").touch)
while not pathlib.Path("rank-0.json").exists():
    time.sleep(0.01)
import nodewise.probe
"""
    text = f"""
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", {child!r}], cwd=os.environ["NODEWISE_RUN"])
from nodewise import probe
for step in probe.steps(range(3)):
    pass
"""
    launched(tmp_path, text)
    wait_until((tmp_path / "done").exists)
    assert json.loads((tmp_path / "rank-0.json").read_text())["steps"] == 3
