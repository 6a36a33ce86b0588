"""Time a torch training from outside: its collectives, its loader and its steps.

Nothing is changed in the script; `nodewise.launch` calls `install` once torch is imported. Counted:

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
"""

import atexit
import functools
import importlib
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter_ns
from typing import Any, TypeVar

from nodewise import probe

Item = TypeVar("Item")

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
_USAGE_EVERY_NS = 50_000_000  # reading the usage takes 0.1 ms, too much for every step


class _Recorder:
    """The spans of one training. They are not the probe's: the script may open those inside."""

    def __init__(self, report: probe._Report) -> None:
        self.report = report
        self.began_ns = perf_counter_ns()
        self.thread = threading.get_ident()
        self.communication = probe._Span(report.comm_calls)
        self.compute, self.io, self.serial = probe._Span(), probe._Span(), probe._Span()
        # Among the report's own until the end, so that they restart with the clock.
        report.spans |= {
            "torch communication": self.communication,
            "torch compute": self.compute,
            "torch io": self.io,
            "torch serial": self.serial,
        }
        self.under: probe._Span | None = None  # what counts while nothing else does
        self.script_counts = False
        self.last: tuple[int, list[int], int] | None = None  # the end of the last step
        self.usage: dict[str, float] = {}  # near the end of the last step
        self.usage_ns = 0

    def timed(self, span: probe._Span, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, its time counted."""

        @functools.wraps(call)
        def timed_call(*arguments: Any, **options: Any) -> Any:
            if threading.get_ident() != self.thread or _is_open(span):
                return call(*arguments, **options)
            with span:
                return call(*arguments, **options)

        return timed_call

    def counted(
        self, steps: Callable[[Iterable[Item]], Iterator[Item]]
    ) -> Callable[[Iterable[Item]], Iterator[Item]]:
        """The probe's `steps`; once called, steps are not counted here."""

        @functools.wraps(steps)
        def counted_steps(batches: Iterable[Item]) -> Iterator[Item]:
            self.script_counts = True
            try:
                yield from steps(batches)
            finally:
                self.switch(None)
                self.report.close_region()
                self.remember_end(self.report.end_ns)

        return counted_steps

    def switch(self, span: probe._Span | None) -> None:
        """Let the time under all other spans count for this one, unless the script has its own."""
        if probe._current is not self.under:
            return
        if self.under is not None:
            self.under.__exit__(None, None, None)
        self.under = span
        if span is not None:
            span.__enter__()

    def step_begins(self) -> None:
        """The first forward of a training step."""
        if self.report.begin_ns and not self.report.end_ns:
            self.switch(self.compute)

    def step_ends(self) -> None:
        """The optimizer made its step."""
        report = self.report
        self.switch(None)
        if not self.script_counts:
            first = not report.begin_ns
            if first:
                report.setup_ns += perf_counter_ns() - self.began_ns
                report.open_region()
            if report.warmup or not first:
                report.step_done()
            now = perf_counter_ns()
            if len(report.step_ends) < 2 or now - self.usage_ns > _USAGE_EVERY_NS:
                self.usage, self.usage_ns = probe._usage(), now
            self.remember_end(now)
        if report.begin_ns and not report.end_ns:
            self.switch(self.serial)

    def remember_end(self, now: int) -> None:
        """What is measured so far, in case that this was the last step."""
        totals = [span.total for span in self.report.spans.values()]
        self.last = now, totals, len(self.report.comm_calls)

    def finish(self) -> None:
        """Forget what followed the last step, and hand the spans over to the report."""
        self.switch(None)
        report = self.report
        report.close_region()
        spans = report.spans
        for name in self.usage.keys() - {"memory_bytes"}:
            report.usage[name] = self.usage[name] - report.usage_at_begin[name]
        if self.last is not None:
            report.end_ns, totals, calls = self.last
            del report.comm_calls[calls:]
            for span, total in zip(spans.values(), totals, strict=True):
                span.total = total
        for name in [name for name in spans if name.startswith("torch ")]:
            spans[name.removeprefix("torch ")].total += spans.pop(name).total


def _is_open(span: probe._Span) -> bool:
    """Whether we are inside this span; it cannot be entered twice."""
    at = probe._current
    while at is not None and at is not span:
        at = at.outer
    return at is span


def install() -> None:
    """Watch torch from here on; it must be imported."""
    recorder = _recorder
    if recorder is None:
        return
    loader = importlib.import_module("torch.utils.data.dataloader")
    in_io = functools.partial(recorder.timed, recorder.io)
    _replace(loader.DataLoader, "__iter__", in_io)
    _replace(loader._BaseDataLoaderIter, "__next__", in_io)
    distributed = importlib.import_module("torch.distributed")
    if distributed.is_available():
        in_communication = functools.partial(recorder.timed, recorder.communication)
        for name in _COLLECTIVES:
            _replace(distributed, name, in_communication)
        _replace(distributed.Work, "wait", in_communication)
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
    span = recorder.communication

    def begin() -> None:
        if not _is_open(span):
            span.__enter__()
            queue(lambda: span.__exit__(None, None, None))

    def before_backward(*arguments: Any, **options: Any) -> None:
        exchanged = any(getattr(one, "require_backward_grad_sync", False) for one in models)
        if exchanged and threading.get_ident() == recorder.thread:
            results = arguments[0] if arguments else options["tensors"]
            for result in results if isinstance(results, list | tuple) else [results]:
                if result.requires_grad:
                    result.register_hook(lambda gradient: queue(begin))

    _replace(autograd, "backward", functools.partial(_after, before_backward))
    _replace(
        parallel, "__init__", functools.partial(_after, lambda model, *_, **__: models.add(model))
    )
    # Sent by C++ at the begin of a forward, for example the averages of a batch normalisation.
    _replace(parallel, "_sync_buffers", functools.partial(recorder.timed, span))


def _after(first: Callable[..., object], call: Callable[..., Any]) -> Callable[..., Any]:
    """The same call, after another one with the same arguments."""

    @functools.wraps(call)
    def both(*arguments: Any, **options: Any) -> Any:
        first(*arguments, **options)
        return call(*arguments, **options)

    return both


def _replace(owner: Any, name: str, wrap: Callable[..., Any]) -> None:
    """Put a wrapped version in the place of what has this name; torch may be without it."""
    if hasattr(owner, name):
        setattr(owner, name, wrap(getattr(owner, name)))


_recorder: _Recorder | None = None
if probe._report is not None:
    _recorder = _Recorder(probe._report)
    _replace(probe, "steps", _recorder.counted)
    atexit.register(_recorder.finish)  # registered after the probe's, called before it
