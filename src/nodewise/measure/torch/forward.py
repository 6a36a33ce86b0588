"""See where the forward pass of a training step begins, without disturbing torch.compile.

Where nothing is compiled a hook of all modules sees it, once for each backward pass. From the first
call of torch.compile on, only the call of a compiled model does, outside its graphs.
"""

import functools
import importlib
import threading
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from nodewise.measure.torch.after_import import after_import
from nodewise.measure.torch.wrap import after, replace, then_with

if TYPE_CHECKING:
    from nodewise.measure.torch.hooks import Recorder


class Forward:
    """The beginning of forward passes with gradients."""

    def __init__(self, recorder: "Recorder") -> None:
        """Watch from here on."""
        self._recorder = recorder
        self._torch = importlib.import_module("torch")
        self._hook: Any = None
        self._compiled = False
        replace(self._torch, "compile", self._compiling)
        replace(self._torch.nn.Module, "compile", functools.partial(then_with, self._in_place))
        parallel = importlib.import_module("torch.nn.parallel").DistributedDataParallel
        replace(parallel, "_pre_forward", functools.partial(after, self._begin))
        after_import("torch.distributed.fsdp._fully_shard._fsdp_state", self._watch_shards)
        self.arm()

    def arm(self) -> None:
        """Look for the next forward pass, unless a compiled graph would see the hook.

        Where a DataLoader is trained on, its batches begin the steps.
        """
        read = self._recorder.workload.reads_batches
        if self._hook is None and not self._compiled and not read:
            modules = importlib.import_module("torch.nn.modules.module")
            self._hook = modules.register_module_forward_pre_hook(
                lambda module, arguments: self._begin(module, *arguments)
            )

    def _disarm(self) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _begin(self, module: Any, /, *arguments: Any, **options: Any) -> None:
        """A module is called; the first one in training begins a step."""
        recorder = self._recorder
        if self._torch.compiler.is_dynamo_compiling():
            return
        if threading.get_ident() != recorder.thread or recorder.in_backward:
            return
        if not module.training or not self._torch.is_grad_enabled():
            recorder.evaluation_begins()
            return
        if self._hook is not None:
            self._disarm()  # the modules inside need not call it
        workload = recorder.workload
        if workload.model is None:
            workload.model = weakref.ref(module)
        if not workload.reads_batches:
            workload.forward(arguments, options)
        recorder.step_begins()

    def _compiling(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def compile_(*arguments: Any, **options: Any) -> Any:
            if not self._compiled:
                self._compiled = True
                self._disarm()
                dynamo = importlib.import_module("torch._dynamo.eval_frame")
                replace(dynamo.OptimizedModule, "__call__", functools.partial(after, self._begin))
            return call(*arguments, **options)

        return compile_

    def _in_place(self, module: Any, *_: Any, **__: Any) -> None:
        """`module.compile()`: its calls go past hooks, so the compiled call is wrapped."""
        call = module._compiled_call_impl
        module._compiled_call_impl = after(functools.partial(self._begin, module), call)

    def _watch_shards(self, module: ModuleType) -> None:
        def root(_: Any, model: Any, arguments: Any, options: Any) -> None:
            self._begin(model, *arguments, **options)

        state: Any = vars(module)["FSDPState"]
        replace(state, "_root_pre_forward", functools.partial(after, root))
