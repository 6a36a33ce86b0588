"""Time a torch training from outside: its collectives, its loader and its steps.

The script is not changed: `nodewise.measure.launch` calls `install` once torch is imported.
Counted:

- communication: a call in `torch.distributed`, and waiting for one that was started asynchronously.
  Of the gradient exchange of DistributedDataParallel only what is exposed: from the end of the
  local backward pass until the last bucket is there. What overlaps with the backward pass costs
  nothing and is not seen. No communication hook is registered, so the result stays the same bit by
  bit and the script's own hook keeps working. On a GPU only what the host waits for is seen.
- io: waiting for the next batch of a DataLoader, and starting its workers.
- compute: from the first forward of a training step to the end of the optimizer's step, less the
  communication and io inside.
- serial: the rest, from the end of a step to the next forward: logging, checkpoints, evaluations.
  More ranks do not make that shorter.

A step is a step of the first optimizer that made one. All ranks meet at the gate when that first
step is done, where none depends on another any more; so the first step is always warm-up. The clock
stops at the last step. A script that calls `probe.steps` counts its steps itself, and whatever span
the script opens takes its time from these. One thread is timed: the one that imported torch.

On emulated nodes the probe paces the rank before each collective and at the end of a step, and here
before each gradient is handed to DistributedDataParallel: a bucket leaves when it would on such a
node.
"""

import contextlib
import functools
import importlib
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from nodewise import probe

_COLLECTIVES = (
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "monitored_barrier",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
)
_LAST_WORK_SECONDS = 0.1
_BYTE_MOVERS = ("gloo", "pt_gloo")  # how the threads begin that a network card would replace
_USAGE_EVERY_NS = 50_000_000  # reading the usage takes 0.1 ms, too much for every step


class _Recorder:
    """What is timed of one training."""

    def __init__(self, report: probe._Report) -> None:
        self.report = report
        self.began_ns = perf_counter_ns()
        self.thread = threading.get_ident()
        self.under: probe._Span | None = None  # what counts while nothing else does
        self.usage: dict[str, float] = {}  # near the end of the last step
        self.usage_ns = 0

    def timed(self, stage: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, its time counted."""
        span = self.report.spans[stage]

        @functools.wraps(call)
        def timed_call(*arguments: Any, **options: Any) -> Any:
            if threading.get_ident() != self.thread:
                return call(*arguments, **options)
            if stage == "communication":
                _tell_bytes(call.__name__, arguments)
            with span:
                return call(*arguments, **options)

        return timed_call

    def switch(self, stage: str | None) -> None:
        """Let the time under all other spans count for this, unless the script has one open."""
        if len(probe._open) > (self.under is not None):
            return
        if self.under is not None:
            self.under.__exit__()
        self.under = None if stage is None else self.report.spans[stage]
        if self.under is not None:
            self.under.__enter__()

    def step_begins(self) -> None:
        """The first forward of a training step."""
        if self.report.begin_ns:
            self.switch("compute")

    def step_ends(self) -> None:
        """The optimizer made its step."""
        report = self.report
        self.switch(None)
        if not report.steps_are_told:
            first = not report.begin_ns
            if first:
                report.setup_ns += perf_counter_ns() - self.began_ns
                _leave_out_byte_movers()
                report.open_region()
            if report.warmup or not first:
                report.step_done()
            report.note_end()  # this may have been the last step
            if len(report.step_ends) < 2 or report.end_ns - self.usage_ns > _USAGE_EVERY_NS:
                self.usage, self.usage_ns = probe._usage(), report.end_ns
            report.usage_at_end = self.usage
        if report.begin_ns:
            self.switch("serial")


def install() -> None:
    """Watch torch from here on; it must be imported."""
    recorder = _recorder
    if recorder is None:
        return
    loader = importlib.import_module("torch.utils.data.dataloader")
    in_io = functools.partial(recorder.timed, "io")
    _replace(loader.DataLoader, "__iter__", in_io)
    _replace(loader._BaseDataLoaderIter, "__next__", in_io)
    distributed = importlib.import_module("torch.distributed")
    if distributed.is_available():
        in_communication = functools.partial(recorder.timed, "communication")
        for name in _COLLECTIVES:
            _replace(distributed, name, in_communication)
        _replace(distributed.Work, "wait", in_communication)
        _replace(distributed, "destroy_process_group", functools.partial(_after, _let_gloo_finish))
        _watch_gradients(recorder)
    _watch_steps(recorder)


def _watch_steps(recorder: _Recorder) -> None:
    """A step begins with a forward that is to be differentiated, and ends with the optimizer's."""
    torch = importlib.import_module("torch")
    on_forward = importlib.import_module("torch.nn.modules.module").register_module_forward_pre_hook
    after_step = importlib.import_module("torch.optim.optimizer").register_optimizer_step_post_hook
    leading: list[object] = []  # the first optimizer that made a step
    hook: Any = None

    def forward(module: Any, arguments: object) -> None:
        if module.training and torch.is_grad_enabled() and mine():
            hook.remove()  # the modules inside need not call it
            recorder.step_begins()

    def step(optimizer: object, arguments: object, options: object) -> None:
        nonlocal hook
        leading[:] = leading or [optimizer]
        if optimizer is leading[0] and mine():
            recorder.step_ends()
            hook.remove()
            hook = on_forward(forward)

    def mine() -> bool:
        return threading.get_ident() == recorder.thread

    hook = on_forward(forward)
    after_step(step)


def _watch_gradients(recorder: _Recorder) -> None:
    """Time what DistributedDataParallel waits for at the end of a backward pass.

    The engine calls what was queued in a backward pass when its gradients are there, in order. A
    hook on the result of the forward pass runs first of all, so what it queues comes before the
    wait that the reducer queues with its last bucket; what is queued then comes after it. It may be
    another thread that runs these, but the one that is timed waits for it.
    """
    autograd = importlib.import_module("torch.autograd")
    parallel = importlib.import_module("torch.nn.parallel").DistributedDataParallel
    queue = autograd.Variable._execution_engine.queue_callback
    models: weakref.WeakSet[Any] = weakref.WeakSet()
    span = recorder.report.spans["communication"]

    def begin() -> None:
        for model in models:
            _tell_bytes("all_reduce", [one for one in model.parameters() if one.requires_grad])
        span.__enter__()
        queue(span.__exit__)

    def made(model: Any, *_: Any, **__: Any) -> None:
        models.add(model)
        _pace_gradients(model)

    def before_backward(*arguments: Any, **options: Any) -> None:
        exchanged = any(getattr(one, "require_backward_grad_sync", False) for one in models)
        if exchanged and threading.get_ident() == recorder.thread:
            results = arguments[0] if arguments else options["tensors"]
            for result in results if isinstance(results, list | tuple) else [results]:
                if result.requires_grad:
                    result.register_hook(lambda gradient: queue(begin))

    _replace(autograd, "backward", functools.partial(_after, before_backward))
    _replace(parallel, "__init__", functools.partial(_before, made))
    # Sent by C++ at the begin of a forward, for example the averages of a batch normalisation.
    _replace(parallel, "_sync_buffers", functools.partial(recorder.timed, "communication"))


def _pace_gradients(model: Any) -> None:
    """Pace the backward pass: a gradient is there when the node has had the time to compute it."""
    pace = probe._report.pace if probe._report is not None else None
    if pace is not None:
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.register_hook(lambda _: pace.point())


def _tell_bytes(name: str, tensors: Any) -> None:
    """Tell the pace what a collective sends, where the link is modelled: all of it at its start."""
    pace = probe._report.pace if probe._report is not None else None
    if pace is None or not pace.bandwidth:
        return
    sizes = [one.numel() * one.element_size() for one in tensors if hasattr(one, "element_size")]
    if name == "all_reduce":
        probe.comm(all_reduce_bytes=sum(sizes))
    elif sizes or name == "wait":
        probe.comm(sent_bytes=max(sizes, default=0))


def _leave_out_byte_movers() -> None:
    """Keep the threads that only move bytes out of the CPU time that is paced."""
    pace = probe._report.pace if probe._report is not None else None
    if pace is None:
        return
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            if (task / "comm").read_text().startswith(_BYTE_MOVERS):
                clock = ~int(task.name) << 3 | 6  # as the kernel numbers the clock of a thread
                pace.other_clocks.append(clock)


def _let_gloo_finish(*_: Any, **__: Any) -> None:
    """Wait a moment before process groups are destroyed, which is after the last step.

    A thread of gloo that has just ended its work wants the interpreter to drop a Python object; the
    destructor waits for that thread with the interpreter in its hands. A script that ends within
    milliseconds of its last exchange hangs forever (seen with torch 2.13).
    """
    time.sleep(_LAST_WORK_SECONDS)


def _after(first: Callable[..., object], call: Callable[..., Any]) -> Callable[..., Any]:
    """The same call, after another one with the same arguments."""

    @functools.wraps(call)
    def both(*arguments: Any, **options: Any) -> Any:
        first(*arguments, **options)
        return call(*arguments, **options)

    return both


def _before(then: Callable[..., object], call: Callable[..., Any]) -> Callable[..., Any]:
    """The same call, and another one with the same arguments after it."""

    @functools.wraps(call)
    def both(*arguments: Any, **options: Any) -> Any:
        result = call(*arguments, **options)
        then(*arguments, **options)
        return result

    return both


def _replace(owner: Any, name: str, wrap: Callable[..., Any]) -> None:
    """Put a wrapped version in the place of what has this name; torch may be without it."""
    if hasattr(owner, name):
        setattr(owner, name, wrap(getattr(owner, name)))


_recorder = None if probe._report is None else _Recorder(probe._report)
