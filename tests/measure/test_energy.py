"""The energy of a run from counters: made-up RAPL files and NVML, and a clock of our own."""

import socket
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from nodewise.decide.energy import energy_check, energy_of_runs
from nodewise.measure import energy
from nodewise.measure.energy import Found, Meter, find_counters, with_energy
from nodewise.study.study import Rank, Run, Study

HERE = socket.gethostname()
RANGE = 262_143_328_850


class Node:
    """A node whose counters and clock move only when told to."""

    def __init__(self, root: Path, joules: float = 0.0) -> None:
        self.now = 0.0
        self.microjoules = round(joules * 1e6)
        self.zones = {}
        for zone, name in {
            "intel-rapl:0": "package-0",
            "intel-rapl:0:0": "core",
            "intel-rapl:0:1": "dram",
            "intel-rapl:1": "psys",
            "intel-rapl-mmio:0": "package-0",
        }.items():
            folder = root / zone
            folder.mkdir()
            (folder / "name").write_text(f"{name}\n")
            (folder / "max_energy_range_uj").write_text(f"{RANGE}\n")
            self.zones[zone] = folder / "energy_uj"
        self.draw(0.0, 0.0)

    def clock(self) -> float:
        return self.now

    def draw(self, watts: float, seconds: float) -> None:
        """A package at these watts, its memory at a tenth of them; the rest must not be counted."""
        self.now = round(self.now + seconds, 6)
        self.microjoules += round(watts * seconds * 1e6)
        for zone, file in self.zones.items():
            share = 10 if zone == "intel-rapl:0:1" else 1
            file.write_text(f"{self.microjoules // share % RANGE}\n")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def meter_of(node: Node, tmp_path: Path) -> Meter:
    return Meter(find_counters(tmp_path), node.clock)


def run_for(meter: Meter, node: Node, watts: float, seconds: float, hertz: float = 10.0) -> None:
    for _ in range(round(seconds * hertz)):
        node.draw(watts, 1 / hertz)
        meter.sample()


def test_packages_and_memory_count_and_nothing_counts_twice(node, tmp_path):
    meter = meter_of(node, tmp_path)
    assert meter.found.names == "RAPL package-0, RAPL dram-0"
    meter.sample()
    run_for(meter, node, watts=50, seconds=3)  # before the timed part: loading
    run_for(meter, node, watts=200, seconds=20)
    meter.end()
    run_for(meter, node, watts=500, seconds=5)  # after it
    reading = meter.reading(20.0)
    assert reading.joules == pytest.approx(1.1 * 200 * 20, rel=1e-6)
    assert (reading.samples, reading.seconds) == (200, pytest.approx(20))
    assert meter.facts(reading) == {
        "energy_basis": "measured",
        "energy_source": "RAPL package-0, RAPL dram-0",
        "energy_samples": 200,
        "energy_hertz": 10.0,
    }


def test_the_part_of_a_sample_is_the_part_of_its_energy(node, tmp_path):
    meter = meter_of(node, tmp_path)
    meter.sample()
    run_for(meter, node, watts=100, seconds=10, hertz=1)
    meter.end()
    assert meter.reading(2.5).joules == pytest.approx(1.1 * 250, rel=1e-6)


def test_a_counter_that_starts_again_from_nothing_goes_on(tmp_path):
    full = RANGE / 1e6
    node = Node(tmp_path, joules=full - 1000)
    meter = meter_of(node, tmp_path)
    meter.sample()
    # 500 W fill the range every nine minutes: it ends three times in half an hour
    run_for(meter, node, watts=500, seconds=1800, hertz=0.1)
    meter.end()
    assert node.microjoules > 4 * RANGE
    assert meter.reading(1800.0).joules == pytest.approx(1.1 * 500 * 1800, rel=1e-6)


def test_a_counter_that_only_root_may_read_says_how_to_allow_it(node, tmp_path, monkeypatch):
    read = Path.read_text

    def refuse(self, *arguments, **options):
        if self.name == "energy_uj":
            raise PermissionError(13, "Permission denied")
        return read(self, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", refuse)
    found = find_counters(tmp_path)
    assert found.counters == ()
    assert "sudo chmod a+r" in found.missing[0]
    with Meter(found, node.clock) as meter:
        pass
    run = with_energy(Run(nodes=1, round=0, seconds=1.0), meter, local=True)
    assert run.energy_joules is None
    assert "root only" in run.provenance["energy_missing"]
    study = Study(name="x", regime="strong", runs=(run,))
    assert energy_of_runs(study).joules is None
    assert "sudo chmod" in energy_of_runs(study).note


def test_a_counter_that_breaks_gives_no_figure(node, tmp_path):
    meter = meter_of(node, tmp_path)
    meter.sample()
    run_for(meter, node, watts=100, seconds=10)
    node.zones["intel-rapl:0"].write_text("gone\n")
    meter.end()
    assert meter.reading(10.0) is None
    assert "energy_uj" in meter.facts(None)["energy_missing"]


def test_a_run_that_is_older_than_the_meter_was_not_metered(node, tmp_path):
    meter = meter_of(node, tmp_path)
    meter.sample()
    run_for(meter, node, watts=100, seconds=10)
    meter.end()
    assert meter.reading(11.0) is None


def study_read(node: Node, tmp_path: Path, seconds: float, hertz: float) -> Study:
    runs = []
    for nodes in (1, 2):
        meter = meter_of(node, tmp_path)
        meter.sample()
        run_for(meter, node, watts=100, seconds=seconds, hertz=hertz)
        meter.end()
        run = Run(nodes=nodes, round=0, seconds=seconds)
        runs.append(with_energy(run, meter, local=True))
    return Study(name="x", regime="strong", runs=tuple(runs))


@pytest.mark.parametrize(
    ("seconds", "hertz", "basis"),
    [(60, 1, "measured"), (6, 10, "measured"), (59, 1, "unknown"), (5, 10, "unknown"),
     (200, 0.5, "unknown")],
)  # fmt: skip
def test_what_may_be_called_measured(node, tmp_path, seconds, hertz, basis):
    study = study_read(node, tmp_path, seconds, hertz)
    assert all(run.energy_joules == pytest.approx(110 * seconds) for run in study.runs)
    known = energy_of_runs(study)
    assert known.basis == basis
    assert f"{round(seconds * hertz)} samples" in known.note
    check = energy_check(known)
    assert check.verdict == ("pass" if basis == "measured" else "fail")
    assert ("too few" in check.evidence) == (basis == "unknown")


def test_one_run_of_too_few_samples_spoils_the_study(node, tmp_path):
    good, bad = study_read(node, tmp_path, 60, 2), study_read(node, tmp_path, 5, 2)
    mixed = Study(name="x", regime="strong", runs=(good.runs[0], bad.runs[1]))
    assert energy_of_runs(mixed).basis == "unknown"


@pytest.mark.parametrize(
    ("hosts", "local", "emulated", "why"),
    [
        ((HERE, HERE), True, False, ""),
        ((HERE, HERE), False, False, ""),
        ((), True, False, ""),
        ((), False, False, "do not say"),
        ((HERE, "elsewhere"), False, False, "1 of 2 hosts"),
        ((HERE,), True, True, "emulated"),
    ],
)
def test_only_a_node_that_is_read_is_counted(node, tmp_path, hosts, local, emulated, why):
    meter = meter_of(node, tmp_path)
    meter.sample()
    run_for(meter, node, watts=100, seconds=10)
    meter.end()
    ranks = tuple(Rank(rank=at, stages={}, host=host) for at, host in enumerate(hosts))
    facts = {"emulated": emulated}
    run = Run(nodes=2, round=0, seconds=10.0, ranks=ranks, provenance=facts)
    run = with_energy(run, meter, local=local)
    assert (run.energy_joules is None) == bool(why)
    assert why in str(run.provenance.get("energy_missing", ""))


class NVMLError(Exception):
    pass


def nvml(gpus: int, energy_of) -> SimpleNamespace:
    return SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: gpus,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetTotalEnergyConsumption=energy_of,
    )


def test_gpus_are_read_beside_the_cpus(node, tmp_path, monkeypatch):
    library = nvml(2, lambda index: 1e3 * 300 * (index + 1) * node.now)
    monkeypatch.setitem(sys.modules, "pynvml", library)
    meter = meter_of(node, tmp_path)
    assert meter.found.names.endswith("NVML GPU 0, NVML GPU 1")
    meter.sample()
    run_for(meter, node, watts=100, seconds=10)
    meter.end()
    assert meter.reading(10.0).joules == pytest.approx(10 * (110 + 300 + 600))


def test_a_gpu_without_the_counter_is_not_passed_over_in_silence(node, tmp_path, monkeypatch):
    def unsupported(index):
        raise NVMLError("Not Supported")

    monkeypatch.setitem(sys.modules, "pynvml", nvml(1, unsupported))
    found = find_counters(tmp_path)
    assert "GPUs cannot be read" in found.missing[0]

    library = nvml(0, unsupported)
    library.nvmlInit = lambda: unsupported(0)  # no driver: there is no GPU to miss
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert find_counters(tmp_path).missing == ()


def test_without_counters_nothing_is_read_and_nothing_is_said(tmp_path):
    with Meter(Found((), ())) as meter:
        meter.end()
    run = Run(nodes=1, round=0, seconds=1.0)
    assert with_energy(run, meter, local=True) == run


SPEC = """
name = "metered"
scales = [1, 2]
rounds = 1
[workload]
command = ["{python}", "-c", "import time; time.sleep(%s)"]
"""


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "every"), [(2.0, 0.01), (0.3, 0.25)])
def test_a_study_is_metered_by_one_thread(nodewise, tmp_path, monkeypatch, seconds, every):
    """A counter that grows with the clock: 100 W and 50 W beside it, whatever K is."""
    zones = tmp_path / "powercap"
    zones.mkdir()
    Node(zones)
    monkeypatch.setattr(energy, "POWERCAP", zones)
    monkeypatch.setattr(energy, "_EVERY_SECONDS", every)  # far from 60 samples, on both sides

    def microjoules(self) -> int:
        return round(energy.time.monotonic() * (1e8 if "package" in self.name else 5e7)) % RANGE

    monkeypatch.setattr(energy.Rapl, "_microjoules", microjoules)
    spec = tmp_path / "study.toml"
    spec.write_text(SPEC % seconds)
    done = nodewise("measure", spec)
    assert done.code == 0, done.err
    assert "energy is read from RAPL package-0, RAPL dram-0" in done.err
    decision = nodewise("decide", tmp_path / "metered.study", "--grid", "FRA", "--json").json
    if seconds < 1:
        assert (decision["energy"]["basis"], decision["greenest"]) == ("unknown", None)
        assert "too few" in decision["energy"]["note"]
        return
    assert decision["energy"]["basis"] == "measured", decision["energy"]
    for row in decision["rows"]:
        # The last reading and the end of the run may lie a turn of another program apart.
        assert row["energy_joules"] == pytest.approx(150 * row["seconds"], rel=0.1)
        assert row["grams"] == pytest.approx(row["energy_joules"] / 3.6e6 * 56.0)
    [check] = [one for one in decision["checks"] if "energy" in one["rule"]]
    assert check["verdict"] == "pass"
    told = nodewise("decide", tmp_path / "metered.study", "--only", "cost").out
    assert "J measured" in told
    assert "energy: measured, RAPL package-0, RAPL dram-0" in " ".join(told.split())
