"""Start a workload so that it is timed without any change to it.

python -m nodewise.measure.launch module:function
python -m nodewise.measure.launch script.py argument...
python -m nodewise.measure.launch -m module argument...
"""

import importlib
import os
import runpy
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

from nodewise.measure.torch.after_import import AfterImport

_CARRIED = "NODEWISE_CARRIED"
_OF_TORCHRUN = "TORCHELASTIC_RUN_ID"  # torchrun gives it to every rank


def _hooks() -> ModuleType:
    return importlib.import_module("nodewise.measure.torch.hooks")


def watch() -> None:
    """Watch torch in this process as soon as it is imported; more than once changes nothing."""
    if not any(isinstance(finder, AfterImport) for finder in sys.meta_path):
        sys.meta_path[:0] = [
            AfterImport("nodewise.probe", _hooks),
            AfterImport("torch", lambda: _hooks().install()),
        ]
    if _OF_TORCHRUN in os.environ:  # a rank that never imports torch reports that it made no step
        importlib.import_module("nodewise.probe")


def carried(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables by which every Python of a job that launches its own workers is watched."""
    carrier = str(Path(__file__).parent / "torch" / "carrier")
    path = environment.get("PYTHONPATH")
    return {"PYTHONPATH": f"{carrier}{os.pathsep}{path}" if path else carrier, _CARRIED: "1"}


def main() -> None:
    """Run what the arguments name, as if it had been started itself."""
    if "NODEWISE_RUN" in os.environ:
        watch()
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
