"""Make a call once a module has been imported, or at once if it is imported already."""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class AfterImport(MetaPathFinder):
    """Makes a call when a module has been imported."""

    def __init__(self, module: str, call: Callable[[], object]) -> None:
        """Nothing happens before the finder is put into `sys.meta_path`."""
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


def after_import(module: str, call: Callable[[ModuleType], object]) -> None:
    """Call with the module as soon as it is imported."""
    if module in sys.modules:
        call(sys.modules[module])
    else:
        sys.meta_path.insert(0, AfterImport(module, lambda: call(sys.modules[module])))
