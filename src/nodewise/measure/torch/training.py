"""See what a training works on: its batches, backward passes, precision and parallelism."""

import functools
import importlib
import threading
import time
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from nodewise.measure.torch.after_import import after_import
from nodewise.measure.torch.wrap import after, argument, replace, then_with

if TYPE_CHECKING:
    from nodewise.measure.torch.hooks import Recorder


def watch_loaders(recorder: "Recorder") -> None:
    """Time the wait for a batch, and see its rows."""
    loader = importlib.import_module("torch.utils.data.dataloader")
    workload = recorder.workload

    def starting(call: Callable[..., Any]) -> Callable[..., Any]:
        timed = recorder.timed("io", call)

        @functools.wraps(call)
        def start(self: Any) -> Any:
            workload.loader_starts(self.dataset)
            return timed(self)

        return start

    def reading(call: Callable[..., Any]) -> Callable[..., Any]:
        timed = recorder.timed("io", call)

        @functools.wraps(call)
        def read(self: Any) -> Any:
            batch = timed(self)
            if workload.batch_read(self._dataset, batch) and recorder.is_timed():
                recorder.step_begins()
            return batch

        return read

    replace(loader.DataLoader, "__iter__", starting)
    replace(loader._BaseDataLoaderIter, "__next__", reading)


def watch_sleep(recorder: "Recorder") -> None:
    """Count the sleep of the timed thread, so that it is not taken for a wait for a device."""

    def sleeping(call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def sleep(seconds: float, /) -> None:
            call(seconds)
            if threading.get_ident() == recorder.thread and recorder.report.begin_ns:
                recorder.report.slept_ns += int(1e9 * seconds)

        return sleep

    replace(time, "sleep", sleeping)


def watch_backward(recorder: "Recorder") -> None:
    """Count the batch of every backward pass; a step without one does not count."""
    autograd = importlib.import_module("torch.autograd")

    def passing(call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def backward(*arguments: Any, **options: Any) -> Any:
            if threading.get_ident() != recorder.thread:
                return call(*arguments, **options)
            given = arguments[0] if arguments else options.get("tensors")
            results = given if isinstance(given, list | tuple) else [given]
            recorder.before_backward(results)
            if not recorder.in_backward:
                recorder.workload.backward(results[0] if results else None)
                recorder.differentiated = True
            recorder.in_backward += 1
            try:
                return call(*arguments, **options)
            finally:
                recorder.in_backward -= 1
                if not recorder.in_backward:
                    recorder.arm()

        return backward

    def differentiating(*_: Any, **__: Any) -> None:
        recorder.differentiated = True

    replace(autograd, "backward", passing)
    replace(autograd, "grad", functools.partial(after, differentiating))


def watch_precision(recorder: "Recorder") -> None:
    """See the type in which a training computes, and the loss before it is scaled."""
    torch = importlib.import_module("torch")
    workload = recorder.workload

    def entered(context: Any, *_: Any) -> None:
        if getattr(context, "_enabled", False):
            workload.precision = str(context.fast_dtype).removeprefix("torch.")

    def scaling(call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def scale(*arguments: Any, **options: Any) -> Any:
            scaled = call(*arguments, **options)
            workload.loss_scaled(argument(arguments, options, 1, "outputs"), scaled)
            return scaled

        return scale

    replace(torch.autocast, "__enter__", functools.partial(after, entered))
    replace(torch.amp.GradScaler, "scale", scaling)


def watch_meshes(recorder: "Recorder") -> None:
    """See which ranks share their rows: tensor, pipeline and context parallelism."""
    workload = recorder.workload

    def of_mesh(module: ModuleType) -> None:
        def made(*arguments: Any, **options: Any) -> None:
            sizes = argument(arguments, options, 1, "mesh_shape")
            if isinstance(sizes, list | tuple):
                workload.mesh(tuple(sizes), options.get("mesh_dim_names"))

        for owner in (module, importlib.import_module("torch.distributed")):
            replace(owner, "init_device_mesh", functools.partial(after, made))

    def of_tensors(module: ModuleType) -> None:
        def divided(*arguments: Any, **options: Any) -> None:
            mesh = argument(arguments, options, 1, "device_mesh")
            if mesh is not None and not mesh.mesh_dim_names:
                workload.shares_rows("tp", mesh.size())

        replace(module, "parallelize_module", functools.partial(after, divided))

    after_import("torch.distributed.device_mesh", of_mesh)
    after_import("torch.distributed.tensor.parallel", of_tensors)
    after_import("torch.distributed.pipelining.stage", functools.partial(_watch_stages, recorder))


def _watch_stages(recorder: "Recorder", module: ModuleType) -> None:
    """See which ranks are stages of one pipeline, and the parts of a batch that they work on."""
    workload = recorder.workload
    torch = importlib.import_module("torch")

    def made(stage: Any, *_: Any, **__: Any) -> None:
        workload.is_pipelined = True
        workload.shares_rows("pp", stage.group_size)

    def called(stage: Any, *arguments: Any, **options: Any) -> None:
        if not torch.is_grad_enabled() or threading.get_ident() != recorder.thread:
            return
        if workload.stage is None:
            workload.stage = weakref.ref(stage)
        if workload.stage() is stage:
            workload.chunk(arguments, options)

    replace(module._PipelineStageBase, "__init__", functools.partial(then_with, made))
    replace(
        module._PipelineStageBase, "forward_maybe_with_nosync", functools.partial(after, called)
    )
