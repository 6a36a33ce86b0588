"""Time what a rank waits for others: collectives, messages, the exchange of gradients."""

import functools
import importlib
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from nodewise.measure.torch.pacing import pace_gradients, tell_bytes
from nodewise.measure.torch.wrap import after, replace, then, then_with

if TYPE_CHECKING:
    from nodewise.measure.torch.hooks import Recorder

_COLLECTIVES = (
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "monitored_barrier",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
)
# Between two ranks: such calls have no counterpart on every rank.
_PAIRWISE = ("send", "recv", "send_object_list", "recv_object_list")
_PAIRWISE_STARTED = ("isend", "irecv", "batch_isend_irecv")
_LAST_WORK_SECONDS = 0.1


def watch_collectives(recorder: "Recorder", distributed: Any) -> None:
    """Time every call that waits for another rank."""
    in_communication = functools.partial(recorder.timed, "communication")
    between_two = functools.partial(recorder.timed, "communication", pairwise=True)
    wraps: list[tuple[str, Callable[..., Any]]] = []
    wraps += [(name, in_communication) for name in _COLLECTIVES]
    wraps += [(name, between_two) for name in _PAIRWISE]
    works: weakref.WeakSet[Any] = weakref.WeakSet()  # of messages between two ranks

    def noting(call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def start(*arguments: Any, **options: Any) -> Any:
            started = call(*arguments, **options)
            for work in started if isinstance(started, list) else [started]:
                if work is not None:
                    works.add(work)
            return started

        return start

    wraps += [(name, noting) for name in _PAIRWISE_STARTED]
    for name, wrap in wraps:
        replace(distributed, name, wrap)
        if hasattr(distributed, name):
            setattr(distributed.distributed_c10d, name, getattr(distributed, name))

    def waiting(call: Callable[..., Any]) -> Callable[..., Any]:
        for_all, for_one = in_communication(call), between_two(call)

        @functools.wraps(call)
        def wait(self: Any, *arguments: Any, **options: Any) -> Any:
            return (for_one if self in works else for_all)(self, *arguments, **options)

        return wait

    replace(distributed.Work, "wait", waiting)
    replace(distributed, "destroy_process_group", functools.partial(after, _let_gloo_finish))
    replace(distributed, "init_process_group", functools.partial(then, recorder.report.expect))
    watch_functional_waits(recorder)


def watch_functional_waits(recorder: "Recorder") -> None:
    """Time the operator in which functional collectives wait, for every caller.

    A kernel of the processor is put before the one for all devices, so that compiled graphs and
    DTensor's dispatch go through it and a traced graph is the same.
    """
    torch = importlib.import_module("torch")
    operator = torch.ops._c10d_functional.wait_tensor.default
    general = torch._C.DispatchKey.CompositeExplicitAutograd
    library = torch.library.Library("_c10d_functional", "IMPL")

    def wait(tensor: Any) -> Any:
        return operator._op_dk(general, tensor)

    library.impl("wait_tensor", recorder.timed("communication", wait), "CPU")
    _kept.append(library)


def watch_gradients(recorder: "Recorder") -> None:
    """Time what DistributedDataParallel waits for at the end of a backward pass.

    The engine calls what was queued in a backward pass when its gradients are there, in order. A
    hook on the result of the forward pass runs first of all, so what it queues comes before the
    wait that the reducer queues with its last bucket; what is queued then comes after it. It may be
    another thread that runs these, but the one that is timed waits for it.
    """
    autograd = importlib.import_module("torch.autograd")
    parallel = importlib.import_module("torch.nn.parallel").DistributedDataParallel
    queue = autograd.Variable._execution_engine.queue_callback
    models: list[weakref.ref[Any]] = []
    span = recorder.report.spans["communication"]
    paced = recorder.report.pace is not None

    def begin() -> None:
        for reference in models if paced else ():
            if (model := reference()) is not None:
                tell_bytes("all_reduce", (one for one in model.parameters() if one.requires_grad))
        span.__enter__()
        queue(span.__exit__)

    def made(model: Any, *_: Any, **__: Any) -> None:
        models.append(weakref.ref(model))
        pace_gradients(model)

    def before_backward(results: Sequence[Any]) -> None:
        for model in models:
            if getattr(model(), "require_backward_grad_sync", False):
                break
        else:
            return
        for result in results:
            node = getattr(result, "grad_fn", None)  # not of the edge of a graph
            if node is not None:  # a hook of the tensor takes twice as long to register
                node.register_prehook(lambda gradients: queue(begin))

    recorder.before_backward = before_backward
    replace(parallel, "__init__", functools.partial(then_with, made))
    # Sent by C++ at the start of a forward, for example the averages of a batch normalisation.
    replace(parallel, "_sync_buffers", functools.partial(recorder.timed, "communication"))


def _let_gloo_finish(*_: Any, **__: Any) -> None:
    """Wait a moment before process groups are destroyed, which is after the last step.

    A thread of gloo that has just ended its work wants the interpreter to drop a Python object; the
    destructor waits for that thread with the interpreter in its hands. A script that ends within
    milliseconds of its last exchange hangs forever (seen with torch 2.13).
    """
    time.sleep(_LAST_WORK_SECONDS)


_kept: list[object] = []  # registrations that end with their object
