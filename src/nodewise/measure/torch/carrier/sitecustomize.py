"""Python runs this when it starts in a job that launches its own workers; see `carried`.

Every Python of the job has the hooks once it imports torch. A `sitecustomize` that would have been
found without this one runs afterwards.
"""

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path


def _next() -> None:
    """Run the `sitecustomize` that this one hides."""
    here = Path(__file__).resolve().parent
    others = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if "NODEWISE_RUN" in os.environ:
    try:
        from nodewise.measure.launch import watch
    except ImportError:  # another Python than that of nodewise: it runs as it would alone
        pass
    else:
        watch()
_next()
