"""Start a workload so that it is timed without any change to it.

python -m nodewise.measure.launch module:function
python -m nodewise.measure.launch script.py argument...
python -m nodewise.measure.launch -m module argument...
"""

import importlib
import importlib.util
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType


class _AfterImport(MetaPathFinder):
    """Makes a call when a module has been imported."""

    def __init__(self, module: str, call: Callable[[], object]) -> None:
        self._module = module
        self._call = call

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module as others find it, with the call after its execution."""
        if fullname != self._module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_call(module: ModuleType) -> None:
            execute(module)
            self._call()

        vars(spec.loader)["exec_module"] = execute_and_call
        return spec


def _hooks() -> ModuleType:
    return importlib.import_module("nodewise.measure.torch_hooks")


def main() -> None:
    """Run what the arguments name, as if it had been started itself."""
    if "NODEWISE_RUN" in os.environ:
        sys.meta_path[:0] = [
            _AfterImport("nodewise.probe", _hooks),
            _AfterImport("torch", lambda: _hooks().install()),
        ]
    target, *arguments = sys.argv[1:]
    if target == "-m":
        sys.argv[:] = arguments  # runpy puts the file's name first
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    elif ":" in target and not Path(target).exists():
        module, _, name = target.partition(":")
        sys.path.insert(0, str(Path.cwd()))
        function: Callable[[], object] = getattr(importlib.import_module(module), name)
        function()
    else:
        sys.argv[:] = [target, *arguments]
        sys.path[0] = str(Path(target).resolve().parent)
        runpy.run_path(target, run_name="__main__")


if __name__ == "__main__":
    main()
