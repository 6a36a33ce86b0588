"""The state of GPUs during a run: made-up NVML and AMD SMI, and a clock of our own."""

import sys
from types import SimpleNamespace

import pytest

from nodewise.audit.own_study import _same_place
from nodewise.explain.scaling import scale
from nodewise.measure.gpus import GpuWatch, find_gpus
from nodewise.study.check import validity_of
from nodewise.study.study import Run, Study

HOT, CAPPED = 0x40, 0x04


class NVMLError(Exception):
    pass


def nvml_library(driver=True):
    """Two GPUs: the second one idles. `reasons` is what lowers the clock of the first."""
    library = SimpleNamespace(NVMLError=NVMLError, NVML_CLOCK_SM=1, reasons=0)

    def start():
        if not driver:
            raise NVMLError("Driver Not Loaded")

    def memory(handle):
        raise NVMLError("Not Supported")

    def reasons(handle):
        return 0x1 if handle else library.reasons

    library.nvmlInit = start
    library.nvmlDeviceGetCount = lambda: 2
    library.nvmlDeviceGetHandleByIndex = lambda at: at
    library.nvmlDeviceGetCurrentClocksThrottleReasons = reasons
    library.nvmlDeviceGetUtilizationRates = lambda gpu: SimpleNamespace(gpu=0 if gpu else 90)
    library.nvmlDeviceGetPowerUsage = lambda gpu: 60_000 if gpu else 400_000
    library.nvmlDeviceGetClockInfo = lambda gpu, _: 210 if gpu else 1410
    library.nvmlDeviceGetMaxClockInfo = lambda *_: 1980
    library.nvmlDeviceGetMemoryInfo = memory
    return library


class AmdSmiException(Exception):
    pass


def amd_library(hot):
    violations = {"active_socket_thrm": hot, "active_vr_thrm": "N/A", "active_ppt_pwr": "N/A"}
    return SimpleNamespace(
        AmdSmiException=AmdSmiException,
        AmdSmiClkType=SimpleNamespace(GFX=0),
        amdsmi_init=lambda: None,
        amdsmi_get_processor_handles=lambda: [0],
        amdsmi_get_gpu_activity=lambda _: {"gfx_activity": 80},
        amdsmi_get_gpu_vram_usage=lambda _: {"vram_used": 1024, "vram_total": 2048},
        amdsmi_get_power_info=lambda _: {
            "current_socket_power": "N/A",
            "average_socket_power": 500,
        },
        amdsmi_get_clock_info=lambda *_: {"clk": 2000, "max_clk": 2100},
        amdsmi_get_violation_status=lambda _: violations,
    )


@pytest.fixture
def libraries(monkeypatch):
    """Put libraries in the place of the real ones; those not given are not installed."""

    def put(nvml=None, amd=None):
        monkeypatch.setitem(sys.modules, "pynvml", nvml)
        monkeypatch.setitem(sys.modules, "amdsmi", amd)

    put()
    return put


def watched(looks, library=None, seconds=10.0):
    """The facts of a run of so many seconds; `looks` change the reasons of the first GPU."""
    now = [0.0]
    watch = GpuWatch(find_gpus(), lambda: now[0])
    for reasons in looks:
        if library is not None:
            library.reasons = reasons
        watch.look()
        now[0] += 1.0
    watch.end()
    return watch.facts(seconds)


def study_of(*facts):
    runs = [
        Run(nodes=2**at, round=number, seconds=8.0 / 2**at, provenance={"cpu": "one", **fact})
        for at, fact in enumerate(facts)
        for number in range(5)
    ]
    return Study(name="on GPUs", regime="strong", runs=tuple(runs))


def gpu_check(study):
    found = [check for check in scale(study).checks if check.rule == "GPU clocks"]
    return found[0] if found else None


def test_without_a_library_or_a_driver_nothing_is_known(libraries):
    assert find_gpus() == ()
    assert watched([0, 0]) == {}
    libraries(nvml_library(driver=False))
    assert find_gpus() == ()
    assert gpu_check(study_of({}, {})) is None


def test_only_gpus_that_the_run_used_count_and_what_is_not_said_is_absent(libraries):
    library = nvml_library()
    libraries(library)
    facts = watched([0] * 10, library)
    assert facts == {
        "gpu_used": 1, "gpu_looks": 10, "gpu_utilisation": 0.9, "gpu_clock_mhz": 1410,
        "gpu_highest_clock_mhz": 1980, "gpu_watts": 400,
        "gpu_slowed_by_heat": 0, "gpu_slowed_by_power_limit": 0,
    }  # fmt: skip
    assert gpu_check(study_of(facts, facts)).verdict == "pass"


def test_looks_before_the_timed_part_do_not_count(libraries):
    library = nvml_library()
    libraries(library)
    facts = watched([HOT] * 6 + [0] * 4, library, seconds=4.0)
    assert (facts["gpu_looks"], facts["gpu_slowed_by_heat"]) == (4, 0)


def test_heat_makes_a_study_doubtful(libraries):
    library = nvml_library()
    libraries(library)
    cool, hot = watched([0] * 10, library), watched([0] * 7 + [HOT] * 3, library)
    found = gpu_check(study_of(cool, hot))
    assert (found.verdict, found.makes) == ("warn", "doubtful")
    assert "30 % of samples at K=2" in found.evidence
    assert "slowed a GPU down" in validity_of(scale(study_of(cool, hot)).checks).clause


def test_a_power_limit_matters_where_it_differs_between_scales(libraries):
    library = nvml_library()
    libraries(library)
    free, capped = watched([0] * 10, library), watched([CAPPED] * 10, library)
    assert gpu_check(study_of(capped, capped)).verdict == "pass"
    found = gpu_check(study_of(free, capped))
    assert found.makes == "doubtful"
    assert "100 % of samples at K=2, and in 0.0 % at K=1" in found.evidence


def test_amd_says_the_same_in_its_own_words(libraries):
    libraries(amd=amd_library(hot=True))
    assert watched([0] * 4) == {
        "gpu_used": 1, "gpu_looks": 4, "gpu_utilisation": 0.8, "gpu_clock_mhz": 2000,
        "gpu_highest_clock_mhz": 2100, "gpu_watts": 500, "gpu_memory_bytes": 2**30,
        "gpu_slowed_by_heat": 1,
    }  # fmt: skip


def test_figures_of_a_run_are_not_a_change_of_place():
    study = study_of(
        {"gpu_watts": 300, "energy_samples": 3}, {"gpu_watts": 310, "energy_samples": 9}
    )
    assert _same_place(study).verdict == "pass"


def test_a_gpu_that_does_not_say_how_busy_it_is_counts(libraries):
    library = nvml_library()

    def silent(gpu):
        raise NVMLError("Not Supported")

    library.nvmlDeviceGetUtilizationRates = silent
    libraries(nvml=library)
    assert watched([HOT, HOT], library)["gpu_slowed_by_heat"] == 1.0
