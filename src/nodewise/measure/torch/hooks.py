"""Time a torch training from outside: its collectives, its loader and its steps.

The script is not changed: `nodewise.measure.launch` calls `install` once torch is imported.
Counted:

- communication: a call in `torch.distributed`, a wait for one that was started asynchronously, and
  a wait in functional collectives (DTensor, tensor parallelism, FSDP2). Of the gradient exchange of
  DistributedDataParallel only what is exposed: from the end of the local backward pass until the
  last bucket is there. What overlaps with the backward pass costs nothing and is not seen. No
  communication hook is registered, so the result stays the same bit by bit and the script's own
  hook keeps working. Of a collective in a thread of the script, what the main thread waited.
- io: waiting for the next batch of a DataLoader, and starting its workers.
- compute: from the batch of a training step, or the first forward where no DataLoader is used, to
  the end of the optimizer's step, less the communication and io inside.
- serial: the rest, from the end of a step to the next one: logging, checkpoints, evaluations. More
  ranks do not make that shorter.

A step is a step of the first optimizer that made one after a backward pass; the step with which a
checkpoint fills an optimizer does not count. All ranks meet at the gate when that first step is
done, where none depends on another any more; so the first step is always warm-up. The clock stops
at the last step. A script that calls `probe.steps` counts its steps itself, and a span that the
script opens takes its time from these.

On a GPU these clocks see only what the host waits for. There the stages come from a few steps that
`nodewise.measure.torch.window` records before the clock starts.

torch.compile sees the same program: from its first call on no global hook is registered, and
what is wrapped calls the original while a graph is traced.
"""

import functools
import importlib
import threading
import time
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from types import ModuleType
from typing import Any

from nodewise import probe
from nodewise.measure.torch.after_import import after_import
from nodewise.measure.torch.communication import watch_collectives, watch_gradients
from nodewise.measure.torch.forward import Forward
from nodewise.measure.torch.pacing import leave_out_byte_movers, tell_bytes
from nodewise.measure.torch.training import (
    watch_backward,
    watch_loaders,
    watch_meshes,
    watch_precision,
    watch_sleep,
)
from nodewise.measure.torch.window import Window
from nodewise.measure.torch.workload import Workload
from nodewise.measure.torch.wrap import replace

# Steps that torch's own hook does not see as one: an engine around several optimizers.
_OTHER_STEPS = (
    ("deepspeed.runtime.engine", "DeepSpeedEngine", "global_steps"),
    ("deepspeed.runtime.pipe.engine", "PipelineEngine", "global_steps"),
    ("megatron.core.optimizer.optimizer", "MixedPrecisionOptimizer", None),
    ("megatron.core.optimizer.optimizer", "FP32Optimizer", None),
    ("megatron.core.optimizer.optimizer", "ChainedOptimizer", None),
)
_STEPS_WITHOUT_BACKWARD = 3  # so many in a row are a training that differentiates in another way
# Reading the usage takes 20 us, too much for every step: it may be older than the last step by this
_USAGE_OLDEST_SHARE = 0.05  # share of the run


class Recorder:
    """What is timed of one training."""

    def __init__(self, report: probe._Report) -> None:
        """Nothing is watched before `install`."""
        self.report = report
        self.began_ns = perf_counter_ns()
        self.thread = threading.get_ident()
        self.cpu_clock = time.pthread_getcpuclockid(self.thread)
        self.under: probe._Span | None = None  # what counts while no other span is open
        self.usage_ns = 0  # when the usage was read
        self.workload = Workload()
        self.window: Window | None = None  # of steps that are recorded before the clock starts
        self.in_backward = 0  # how deep the timed thread is in backward passes
        self.differentiated = False  # since the last step
        self.undifferentiated = 0  # steps without that, in a row
        self.arm: Callable[[], None] = lambda: None  # look for the next forward
        self.before_backward: Callable[[Sequence[Any]], None] = lambda results: None
        self.lock = threading.Lock()
        self.beside = threading.local()  # whether a collective of another thread is counted
        self.optimizer: object = None  # the first that made a step
        self.in_step = 0  # of an engine around optimizers
        self.world = 1
        report.seen = self.seen

    def is_timed(self) -> bool:
        """Whether this thread is the timed one, or works while that one waits in backward."""
        if threading.get_ident() == self.thread:
            return True
        # The engine's threads are not Python's own; user threads go on beside a backward pass.
        known = threading._active.get(threading.get_ident())  # type: ignore[attr-defined]
        return bool(self.in_backward) and isinstance(known, threading._DummyThread | None)

    def timed(
        self, stage: str, call: Callable[..., Any], pairwise: bool = False
    ) -> Callable[..., Any]:
        """The same call, its time counted."""
        span = self.report.pairwise if pairwise else self.report.spans[stage]
        is_tracing = importlib.import_module("torch").compiler.is_dynamo_compiling
        tells = stage == "communication" and self.report.pace is not None

        @functools.wraps(call)
        def timed_call(*arguments: Any, **options: Any) -> Any:
            if is_tracing():
                return call(*arguments, **options)
            if self.is_timed():
                if tells:
                    tell_bytes(call.__name__, arguments)
                with span:
                    return call(*arguments, **options)
            if stage != "communication":
                return call(*arguments, **options)
            return self._beside(call, arguments, options)

        return timed_call

    def _beside(self, call: Callable[..., Any], arguments: Any, options: Any) -> Any:
        """A collective in another thread: what the timed thread waited meanwhile is exposed."""
        if getattr(self.beside, "is_open", False):  # a wait inside of a collective
            return call(*arguments, **options)
        begin, cpu = perf_counter_ns(), time.clock_gettime_ns(self.cpu_clock)
        self.beside.is_open = True
        try:
            return call(*arguments, **options)
        finally:
            self.beside.is_open = False
            length = perf_counter_ns() - begin
            busy = time.clock_gettime_ns(self.cpu_clock) - cpu
            with self.lock:
                self.report.note_beside(max(length - busy, 0))

    def switch(self, stage: str | None) -> None:
        """Count the time outside all other spans for this, unless the script has one open."""
        under = self.under
        if len(probe._open) > (under is not None):
            return
        self.under = wanted = None if stage is None else self.report.spans[stage]
        if under is not None and wanted is not None and self.report.pace is None:
            probe.turn(wanted)  # all that `__exit__` and `__enter__` do to such spans
            return
        if under is not None:
            under.__exit__()
        if wanted is not None:
            wanted.__enter__()

    def step_begins(self) -> None:
        """A batch to train on is there, or the model is called in training."""
        if self.report.begin_ns and self.under is not self.report.spans["compute"]:
            self.switch("compute")

    def evaluation_begins(self) -> None:
        """The model is called without gradients."""
        idle = not self.differentiated and self.under is self.report.spans["compute"]
        if self.report.begin_ns and idle:
            self.switch("serial")

    def step_ends(self) -> None:
        """The optimizer made its step."""
        report = self.report
        if report.pace is not None:
            self.switch(None)
        self.workload.step()
        if self.window is not None and not self.window.step_ended():
            return
        if not report.steps_are_told:
            first = not report.begin_ns
            if first:
                report.setup_ns += perf_counter_ns() - self.began_ns
                leave_out_byte_movers()
                report.open_region()
            if report.warmup or not first:
                report.step_done()
            report.note_end()  # this may have been the last step
            oldest = _USAGE_OLDEST_SHARE * (report.end_ns - report.begin_ns)
            if len(report.step_ends) < 2 or report.end_ns - self.usage_ns > oldest:
                report.usage_at_end, self.usage_ns = probe._read_usage(), report.end_ns
        if report.begin_ns:
            self.switch("serial")

    def optimizer_stepped(self, optimizer: object) -> None:
        """Some optimizer made a step: of the training, or to fill it before a checkpoint loads."""
        if threading.get_ident() != self.thread or self.in_step:
            return
        self.undifferentiated += 1
        if not self.differentiated and self.undifferentiated < _STEPS_WITHOUT_BACKWARD:
            return
        if self.optimizer is None:
            self.optimizer = optimizer
            self.training_found(optimizer)
        if optimizer is self.optimizer:
            self.differentiated, self.undifferentiated = False, 0
            self.step_ends()

    def training_found(self, optimizer: object) -> None:
        """The first step: who takes part, what is trained, and where."""
        distributed = importlib.import_module("torch.distributed")
        if distributed.is_available() and distributed.is_initialized():
            self.report.rank, self.report.has_rank = distributed.get_rank(), True
            self.world = distributed.get_world_size()
        self.workload.look_at(optimizer)
        self.window = Window.of(self.report.folder, self.report.rank, self.workload.device)

    def seen(self) -> dict[str, object]:
        """What the report says of the training."""
        timed = max(self.report.steps - self.report.warmup, 0)
        found = self.workload.report(min(timed, len(self.workload.rows)), self.world)
        window = {} if self.window is None else self.window.report()
        return {**found, **window, "blocked_share": self.blocked_share()} if found else {}

    def blocked_share(self) -> float | None:
        """Share of the time in which the timed thread waited for something unknown.

        It did not run, was not kept from its core, did not sleep, read or communicate: it may have
        waited for a device. None if the system does not say.
        """
        report = self.report
        usage, totals = report.usage(), report.totals
        seconds = (report.end_ns - report.begin_ns) / 1e9
        if not usage or seconds <= 0:
            return None
        known = usage["main_cpu_seconds"] + usage["run_delay_seconds"]
        known += (totals["communication"] + totals["io"] + totals["idle"]) / 1e9
        paced = 0 if report.pace is None else report.pace.paced_ns  # to the share of a node
        share = (seconds - known - (report.slept_ns + paced) / 1e9) / seconds
        return max(share, 0.0) if share == share else None


def install() -> None:
    """Watch torch from here on; it must be imported."""
    recorder = _recorder
    if recorder is None:
        return
    recorder.report.watches = True
    watch_loaders(recorder)
    watch_sleep(recorder)
    distributed = importlib.import_module("torch.distributed")
    if distributed.is_available():
        watch_collectives(recorder, distributed)
        watch_gradients(recorder)
        watch_meshes(recorder)
    watch_backward(recorder)
    watch_precision(recorder)
    recorder.arm = Forward(recorder).arm
    _watch_steps(recorder)


def _watch_steps(recorder: Recorder) -> None:
    """A step ends with that of the optimizer, or of an engine that has several."""
    optimizers = importlib.import_module("torch.optim.optimizer")
    optimizers.register_optimizer_step_post_hook(
        lambda optimizer, *_: recorder.optimizer_stepped(optimizer)
    )

    def stepping(counter: str | None, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def step(self: Any, *arguments: Any, **options: Any) -> Any:
            before = getattr(self, counter, 0) if counter else None
            recorder.in_step += 1
            try:
                result = call(self, *arguments, **options)
            finally:
                recorder.in_step -= 1
            if counter is None or getattr(self, counter, 0) != before:
                recorder.differentiated = True  # it may call the engine of autograd itself
                recorder.optimizer_stepped(self)
            return result

        return step

    for module, name, counter in _OTHER_STEPS:

        def watch(found: ModuleType, name: str = name, counter: str | None = counter) -> None:
            owner = getattr(found, name, None)
            method = "_exec_schedule" if name == "PipelineEngine" else "step"
            if owner is not None and method in vars(owner):
                replace(owner, method, functools.partial(stepping, counter))

        after_import(module, watch)


_recorder = None if probe._report is None else Recorder(probe._report)
