"""A torch script, run so that its steps are timed by stage and some of them counted.

`count` starts this module as a program with REPORT SECONDS script.py argument..., which
runs the script as if it had been started itself. A step ends where the script's own probe says so,
else with a step of its first optimizer, else with the next batch of a loader, else with the next
call of its first model. Steps are timed without the counter; a few others are counted.
"""

import contextlib
import functools
import importlib
import os
import resource
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from nodewise import probe
from nodewise.base.errors import RunError, SpecError
from nodewise.diagnose.machine.torch_counting import Counting
from nodewise.diagnose.machine.windows import run_delay
from nodewise.measure import launch
from nodewise.study.observed import CountedOperation, CountedRun, CountedStage

_KINDS = ("call of the model", "batch", "step of the optimizer", "step of the probe")
_COUNTED = (0, 2, 4)  # of the steps; the first warms up, the others are between timed ones
_ENOUGH_STEPS = 100
_GRACE_SECONDS = 30.0  # to load torch, and to end
_BETWEEN = "other"
_ORDER = ("loader", "forward", "backward", "optimizer")
_DISTURBED = 0.02  # of a step's CPU time spent waiting for a core
_LEAST_CLEAN = 5
_FIELDS = 4  # of what a stage takes: wall, CPU, system, faults


class _Enough(BaseException):
    """The time is up; nothing that the script catches."""


class _TimedStep(NamedTuple):
    """What each stage of a step took, and how long its threads waited for a core."""

    stages: dict[str, list[float]]
    waited: float


class _Steps:
    """Where the program is, and what each of its steps took by stage."""

    def __init__(self, until: float, delay: Callable[[], int]) -> None:
        self.until = until
        self.delay = delay
        self.thread = threading.get_ident()
        self.base = _BETWEEN  # what the time counts for outside of every stage
        self.stage = _BETWEEN
        self.kind = 0
        self.number = -1  # of the step; before the first there is the set-up
        self.first_model: object = None
        self.seen_batch = False
        self.counting = Counting(lambda: self.stage)
        self.counted: list[dict[tuple[str, str], Any]] = []
        self.timed: list[_TimedStep] = []
        self.waited = _waited_seconds()
        self.now: dict[str, list[float]] = defaultdict(lambda: [0.0] * _FIELDS)
        self.began = False
        self.mark = self._clock()

    def _clock(self) -> list[float]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        wall = time.perf_counter() - self.delay() / 1e9  # another process had the core
        return [wall, usage.ru_utime + usage.ru_stime, usage.ru_stime, float(usage.ru_minflt)]

    def switch(self, stage: str) -> str:
        """The time from here on counts for this stage; gives the one before."""
        if threading.get_ident() != self.thread:
            return self.stage
        before, self.stage = self.stage, stage
        clock = self._clock()
        sums = self.now[before]
        for at in range(_FIELDS):
            sums[at] += clock[at] - self.mark[at]
        self.mark = clock
        return before

    def begin(self) -> None:
        """Something that belongs to a step happens for the first time: count from here."""
        if not self.began:
            self.began = True
            self.switch(self.stage)
            self.now.clear()
            self.counting.switch(True)

    def end(self, kind: int) -> None:
        """A step of this kind is over."""
        if kind < self.kind or threading.get_ident() != self.thread:
            return
        self.switch(self.stage)
        if kind > self.kind:  # what was taken for steps were parts of them
            self.kind, self.number = kind, -1
            self.counted.clear()
            self.timed.clear()
        self._keep()
        self.number += 1
        self.counting.switch(self.number in _COUNTED)
        self.waited = _waited_seconds()
        self.switch(self.stage)
        self.now.clear()
        if time.monotonic() > self.until or len(self.timed) >= _ENOUGH_STEPS:
            raise _Enough

    def _keep(self) -> None:
        if self.number in _COUNTED:
            self.counted.append(self.counting.found)
        elif self.number > 0:
            self.timed.append(self._step())
        self.counting.found = {}

    def _step(self) -> _TimedStep:
        return _TimedStep(dict(self.now), max(_waited_seconds() - self.waited, 0.0))

    def close(self) -> tuple[bool, bool]:
        """Take the unfinished step where it is the only one: for the times, and for the counts."""
        self.counting.switch(False)
        self.switch(self.stage)
        only = not self.counted
        if only:
            self.counted.append(self.counting.found)
        while_counting = not self.timed
        if while_counting:
            self.timed.append(self._step())
        return while_counting, only

    @contextlib.contextmanager
    def span(self, name: str) -> Iterator[None]:
        """A stretch that the script names itself."""
        self.begin()
        base, self.base = self.base, name
        before = self.switch(name)
        try:
            yield
        finally:
            self.base = base
            self.switch(before)

    def within(self, stage: str, call: Callable[..., Any], ends: bool = False) -> Any:
        """The same call, as a stage; one that fetches a batch ends the step before."""

        @functools.wraps(call)
        def staged(*arguments: Any, **options: Any) -> Any:
            if threading.get_ident() != self.thread:
                return call(*arguments, **options)
            if ends and self.seen_batch:
                self.end(1)
            self.begin()
            before = self.switch(stage)
            try:
                return call(*arguments, **options)
            finally:
                self.seen_batch = self.seen_batch or ends
                self.switch(self.base if before == "forward" else before)

        return staged

    def forward(self, module: object, _: object) -> None:
        """A model is called."""
        if self.stage != self.base or threading.get_ident() != self.thread:
            return
        if self.kind == 0:
            if self.first_model is module:
                self.end(0)
            self.first_model = self.first_model or module
        self.begin()
        self.switch("forward")


def _waited_seconds() -> float:
    """How long all threads of this process have waited for a core so far."""
    total = 0
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/task"):  # noqa: PTH208 - at every step
            with contextlib.suppress(OSError, ValueError, IndexError):
                total += int(Path(f"/proc/self/task/{name}/schedstat").read_text().split()[1])
    return total / 1e9


def _undisturbed(timed: list[_TimedStep]) -> tuple[list[_TimedStep], float]:
    """The steps in which the threads hardly waited for cores, else the quarter that waited least;
    and the share of their time that they waited.

    A thread that waits for a core makes all others spin at the end of every operation.
    """

    def share(step: _TimedStep) -> float:
        cpu = sum(stage[1] for stage in step.stages.values())
        return step.waited / max(step.waited + cpu, 1e-9)

    ordered = sorted(timed, key=share)
    clean = [step for step in ordered if share(step) < _DISTURBED]
    if len(clean) < _LEAST_CLEAN:
        clean = ordered[: max(_LEAST_CLEAN, len(ordered) // 4)]
    return clean, statistics.median(map(share, clean))


def _install(steps: _Steps) -> None:
    """Watch torch, and the script's own probe."""
    torch = importlib.import_module("torch")
    loader = importlib.import_module("torch.utils.data.dataloader")
    modules = importlib.import_module("torch.nn.modules.module")
    optimizers = importlib.import_module("torch.optim.optimizer")
    iterator = loader._BaseDataLoaderIter
    loader.DataLoader.__iter__ = steps.within("loader", loader.DataLoader.__iter__)
    iterator.__next__ = steps.within("loader", iterator.__next__, ends=True)
    for name in ("backward", "grad"):
        setattr(torch.autograd, name, steps.within("backward", getattr(torch.autograd, name)))
    modules.register_module_forward_pre_hook(steps.forward)
    leading: list[object] = []

    def before(optimizer: object, *_: object) -> None:
        steps.begin()
        steps.switch("optimizer")

    def after(optimizer: object, *_: object) -> None:
        steps.switch(steps.base)
        leading[:] = leading or [optimizer]
        if optimizer is leading[0]:
            steps.end(2)

    optimizers.register_optimizer_step_pre_hook(before)
    optimizers.register_optimizer_step_post_hook(after)

    def told(batches: Iterable[Any]) -> Iterator[Any]:
        """As `probe.steps`."""
        source = iter(batches)
        while True:
            steps.begin()
            before = steps.switch("loader")
            try:
                batch = next(source)
            except StopIteration:
                return
            finally:
                steps.switch(before)
            yield batch
            steps.switch(steps.base)
            steps.end(3)

    probe.steps = told
    for name in ("compute", "comm", "wait", "io", "serial"):
        setattr(probe, name, functools.partial(steps.span, name))


def _report(steps: _Steps, command: list[str], stopped: bool, exit_code: int) -> CountedRun:
    while_counting, only = steps.close()
    torch = importlib.import_module("torch")
    many = len(steps.counted)
    timed, waited = _undisturbed(steps.timed)
    operations: dict[str, CountedOperation] = {}
    by_stage: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for found in steps.counted:
        for (stage, name), counts in found.items():
            by_stage[stage][0] += counts.flops / many
            by_stage[stage][1] += counts.memory_bytes / many
            nothing = CountedOperation(name=name, calls=0, seconds=0, flops=0, memory_bytes=0)
            old = operations.get(name, nothing)
            flops = counts.flops / many + (old.flops or 0.0)
            operations[name] = CountedOperation(
                name=name,
                calls=counts.calls / many + old.calls,
                seconds=counts.seconds / many + old.seconds,
                flops=flops if counts.formula else None,
                memory_bytes=counts.memory_bytes / many + old.memory_bytes,
            )
    return CountedRun(
        command=tuple(command),
        step=_KINDS[steps.kind],
        steps=len(timed),
        all_steps=len(steps.timed),
        waited_share=waited,
        counted_steps=many,
        stages=_stages([step.stages for step in timed], by_stage),
        operations=tuple(sorted(operations.values(), key=lambda one: -one.seconds)),
        dtype=steps.counting.dtype,
        device=steps.counting.devices.most_common(1)[0][0] if steps.counting.devices else "cpu",
        threads=torch.get_num_threads(),
        torch=str(torch.__version__),
        timed_while_counting=while_counting,
        with_setup=only,
        stopped=stopped,
        exit_code=exit_code,
    )


def _stages(
    timed: list[dict[str, list[float]]], counts: dict[str, list[float]]
) -> tuple[CountedStage, ...]:
    found = {name for one in timed for name in one} | set(counts)
    names = [name for name in _ORDER if name in found]
    names += sorted(found - {*_ORDER, _BETWEEN}) + [_BETWEEN] * (_BETWEEN in found)
    stages = []
    for name in names:
        runs = [one.get(name, [0.0] * _FIELDS) for one in timed]
        middle = [statistics.median(run[at] for run in runs) for at in range(1, _FIELDS)]
        stages.append(
            CountedStage(
                name=name,
                seconds=tuple(max(run[0], 0.0) for run in runs),
                cpu_seconds=middle[0],
                system_seconds=middle[1],
                faults=middle[2],
                flops=counts[name][0] if name in counts else 0.0,
                memory_bytes=counts[name][1] if name in counts else 0.0,
            )
        )
    return tuple(stages)


def main() -> None:
    """Run what the arguments name, and leave the report."""
    report, seconds, *target = sys.argv[1:]
    signal.signal(signal.SIGTERM, _stop)
    with run_delay() as delay:
        steps = _Steps(time.monotonic() + float(seconds), delay)
        _install(steps)
        sys.argv[1:] = target
        stopped, code = False, 0
        try:
            launch.main()
        except _Enough:
            stopped = True
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:  # whatever it was: what was seen until then is reported first
            _write(Path(report), _report(steps, target, stopped, 1))
            raise
        _write(Path(report), _report(steps, target, stopped, code))
    sys.stdout.flush()
    os._exit(code)  # loaders' workers and threads of the script need not be waited for


def _stop(*_: object) -> None:
    raise _Enough


def _write(path: Path, run: CountedRun) -> None:
    path.write_bytes(msgspec.json.encode(run))


def count(command: tuple[str, ...], most_seconds: float) -> CountedRun:
    """Run a torch script and count a step of it; end it when the time is up."""
    # not needed in the script's own process
    from nodewise.diagnose.machine.watching import beside_output
    from nodewise.measure.engines.base import SCRATCH_MARK, die_with_parent, end
    from nodewise.measure.scratch import scratch_folder

    if importlib.util.find_spec("torch") is None:
        raise SpecError(
            "torch is not installed where nodewise is.", "Install it: pip install 'nodewise[torch]'"
        )
    with scratch_folder() as folder:
        report = folder / "counted.json"
        words = ["-m", "nodewise.diagnose.machine.torch_script", str(report), str(most_seconds)]
        program = subprocess.Popen(
            [sys.executable, *words, *command],
            stdout=beside_output(),
            start_new_session=True,
            env={**os.environ, SCRATCH_MARK: str(folder)},
            preexec_fn=die_with_parent,
        )
        try:
            program.wait(timeout=most_seconds + _GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:
            end(program, grace_seconds=5)  # it writes down what it has counted
        try:
            return msgspec.json.decode(report.read_bytes(), type=CountedRun)
        except (OSError, msgspec.MsgspecError):
            raise RunError(
                f"{' '.join(command)} ended with code {program.returncode} before a step was seen.",
                "Run it by itself first: python " + " ".join(command),
            ) from None


if __name__ == "__main__":
    main()
