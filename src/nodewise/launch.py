"""`python -m nodewise.launch module:function` calls a function as a workload."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path


def main() -> None:
    """Import the module from the current folder and call the function."""
    module, _, name = sys.argv[1].partition(":")
    sys.path.insert(0, str(Path.cwd()))
    function: Callable[[], object] = getattr(importlib.import_module(module), name)
    function()


if __name__ == "__main__":
    main()
